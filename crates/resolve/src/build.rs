//! Builds the constraint problem of a namespace: the candidates, and their requirements.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::error::PoolError;
use crate::input::{ClusterNamespace, NamespaceSubscription};
use crate::pool::{MemberIndex, Pool};
use crate::resolver::{Clause, ExclusiveGroup, Model, SolutionItem, Variable, bundle, id};
use crate::search::Var;

/// The maximum number of candidates in total.
const MAX_LITERALS: usize = 2_000_000;

/// Builds the problem of a namespace.
///
/// # Errors
/// Fails when a requirement cannot be read or a channel has no order.
pub(crate) fn model(pool: &Pool<'_>, state: &ClusterNamespace) -> Result<Model, Vec<PoolError>> {
    let mut builder =
        Builder { pool, state, model: Model::default(), items: HashMap::new(), todo: Vec::new(), literals: 0 };
    builder.build()?;
    Ok(builder.model)
}

struct Builder<'p, 'a> {
    pool: &'p Pool<'a>,
    state: &'p ClusterNamespace,
    model: Model,
    items: HashMap<SolutionItem, Var>,
    /// Variables whose requirements are not added yet.
    todo: Vec<Var>,
    /// The number of candidates in all clauses.
    literals: usize,
}

impl Builder<'_, '_> {
    fn build(&mut self) -> Result<(), Vec<PoolError>> {
        let mut errors = Vec::new();
        for place in 0..self.state.installed.len() {
            self.variable(SolutionItem::Installed(place));
        }
        let mut mandatory: Vec<(String, Var)> = Vec::new();
        for (place, csv) in self.state.installed.iter().enumerate() {
            let known = |it: &&NamespaceSubscription| it.installed.as_deref() == Some(csv.name.as_str());
            if self.state.subscriptions.iter().find(known).is_none() {
                let variable = self.variable(SolutionItem::Installed(place));
                mandatory.push((id(self.pool, self.state, SolutionItem::Installed(place)), variable));
            }
        }
        for (place, subscription) in self.state.subscriptions.iter().enumerate() {
            let variable = self.model.variables.len();
            self.model.variables.push(Variable::Subscription(place));
            mandatory.push((format!("subscription:{}", subscription.name), variable));
            if let Err(error) = self.subscription(place, subscription, variable) {
                errors.push(error);
            }
        }
        while let Some(variable) = self.todo.pop() {
            if let Err(error) = self.needs_of(variable) {
                errors.push(error);
                if self.pool.gave_up() {
                    break;
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        mandatory.sort();
        self.model.problem.mandatory = mandatory.into_iter().map(|(_, variable)| variable).collect();
        self.model.problem.variables = self.model.variables.len();
        self.invariants();
        Ok(())
    }

    fn variable(&mut self, item: SolutionItem) -> Var {
        *self.items.entry(item).or_insert_with(|| {
            let variable = self.model.variables.len();
            self.model.variables.push(Variable::Bundle(item));
            self.todo.push(variable);
            variable
        })
    }

    /// Adds a clause: if `owner` holds, one of `candidates` must hold.
    fn clause(&mut self, owner: Var, candidates: Vec<Var>, meaning: Clause) -> Result<(), PoolError> {
        self.pool.charge(candidates.len() as u64 + 1)?;
        self.literals += candidates.len();
        if self.literals > MAX_LITERALS {
            return Err(self.pool.give_up());
        }
        self.model.problem.clauses.push((owner, candidates));
        self.model.clauses.push(meaning);
        Ok(())
    }

    /// Adds the candidates of a Subscription.
    fn subscription(&mut self, place: usize, request: &NamespaceSubscription, variable: Var) -> Result<(), PoolError> {
        let pool = self.pool;
        let installed = request.installed.as_deref();
        let current = self.state.installed.iter().position(|csv| Some(csv.name.as_str()) == installed);
        let source = pool.sources.iter().position(|it| it.name == request.source.0 && it.namespace == request.source.1);
        let channel = request.channel.as_deref().filter(|channel| !channel.is_empty());
        let starting = request.starting_csv.as_deref().filter(|name| !name.is_empty() && current.is_none());
        if let (Some(current), Some(source)) = (current, source) {
            let channels = pool.channels_of(source, &request.package, channel);
            if !channels.is_empty() {
                return self.upgrades(place, current, &channels, variable);
            }
        }
        let mut groups = source.map_or_else(Vec::new, |source| pool.of_subscription(source, &request.package, channel));
        if let Some(name) = starting {
            groups.iter_mut().for_each(|group| group.retain(|&node| pool.member(node).bundle.name == name));
            groups.retain(|group| !group.is_empty());
        }
        if groups.is_empty() {
            let message = self.nothing_found(request, source, channel, starting);
            return self.clause(variable, Vec::new(), Clause::NothingFound(place, message));
        }
        let mut candidates = Vec::new();
        for group in groups {
            // `startingCSV` needs no order, so the channel need not have one.
            let in_order = match (starting, group.first()) {
                (None, Some(&first)) => match &*pool.chain_of(first) {
                    Ok(chain) => chain.clone(),
                    Err(error) => return Err(error.clone()),
                },
                _ => group,
            };
            pool.charge(in_order.len() as u64)?;
            candidates.extend(in_order);
        }
        let variables = self.members(candidates);
        self.clause(variable, variables, Clause::Subscription(place))
    }

    /// Adds the candidates of a Subscription that has an installed CSV: its upgrades, or the CSV itself.
    fn upgrades(&mut self, place: usize, current: usize, channels: &[usize], variable: Var) -> Result<(), PoolError> {
        let csv = &self.state.installed[current];
        let mut candidates = Vec::new();
        for &channel in channels {
            candidates.extend(self.pool.upgrades(channel, &csv.name, csv.version.as_ref())?);
        }
        let mut variables = self.members(candidates);
        let old = self.variable(SolutionItem::Installed(current));
        for &candidate in &variables {
            self.model.problem.exclusive.push(vec![candidate, old]);
            self.model.groups.push(ExclusiveGroup::Replaces);
            self.model.replaces.insert(candidate, current);
        }
        variables.push(old);
        self.clause(variable, variables, Clause::Subscription(place))
    }

    /// Returns the variables of members, without duplicates.
    fn members(&mut self, nodes: Vec<MemberIndex>) -> Vec<Var> {
        let mut variables: Vec<Var> = nodes.into_iter().map(|node| self.variable(SolutionItem::Member(node))).collect();
        let mut seen = HashSet::new();
        variables.retain(|variable| seen.insert(*variable));
        variables
    }

    fn nothing_found(
        &self,
        request: &NamespaceSubscription,
        source: Option<usize>,
        channel: Option<&str>,
        starting: Option<&str>,
    ) -> String {
        let (pool, name, package) = (self.pool, &request.name, &request.package);
        let (source_name, namespace) = &request.source;
        let is_empty = |channel: Option<&str>| {
            source.is_none_or(|source| pool.of_subscription(source, package, channel).is_empty())
        };
        let nothing = source.is_none_or(|source| !pool.members().any(|(_, member)| member.source == source));
        if nothing {
            format!(
                "no operators found from catalog {source_name} in namespace {namespace} referenced by subscription {name}"
            )
        } else if is_empty(None) {
            format!("no operators found in package {package} in the catalog referenced by subscription {name}")
        } else if is_empty(channel) {
            let channel = channel.unwrap_or_default();
            format!(
                "no operators found in channel {channel} of package {package} in the catalog referenced by \
                 subscription {name}"
            )
        } else {
            let (starting, channel) = (starting.unwrap_or_default(), channel.unwrap_or_default());
            format!(
                "no operators found with name {starting} in channel {channel} of package {package} in the catalog \
                 referenced by subscription {name}"
            )
        }
    }

    /// Adds the requirements of a bundle.
    fn needs_of(&mut self, variable: Var) -> Result<(), PoolError> {
        let Variable::Bundle(item) = self.model.variables[variable] else { return Ok(()) };
        let (pool, state) = (self.pool, self.state);
        let bundle = bundle(pool, state, item);
        if bundle.facts.forbidden {
            self.model.problem.forbidden.push(variable);
        }
        let mut seen: HashSet<String> = HashSet::new();
        for requirement in &bundle.facts.needs {
            // Servers send dependencies twice, as properties and in the older form.
            if !seen.insert(format!("{:?}", requirement.need)) {
                continue;
            }
            let mut candidates = Vec::new();
            for (place, csv) in state.installed.iter().enumerate() {
                if pool.meets(csv, &requirement.need)? {
                    candidates.push((&csv.name, self.variable(SolutionItem::Installed(place))));
                }
            }
            candidates.sort();
            let mut candidates: Vec<Var> = candidates.into_iter().map(|(_, variable)| variable).collect();
            let preferred = match item {
                SolutionItem::Member(node) => Some(pool.member(node).source),
                SolutionItem::Installed(_) => None,
            };
            match &*pool.candidates(&requirement.need, preferred) {
                Ok(nodes) => candidates.extend(nodes.iter().map(|&node| self.variable(SolutionItem::Member(node)))),
                Err(error) => return Err(error.clone()),
            }
            self.clause(variable, candidates, Clause::Need(item, requirement.clone()))?;
        }
        Ok(())
    }

    /// Adds that at most one bundle of a package and one provider of an API can be installed.
    fn invariants(&mut self) {
        let mut packages: BTreeMap<String, Vec<Var>> = BTreeMap::new();
        let mut apis: BTreeMap<[String; 3], Vec<Var>> = BTreeMap::new();
        for (variable, what) in self.model.variables.iter().enumerate() {
            let Variable::Bundle(item) = *what else { continue };
            let bundle = bundle(self.pool, self.state, item);
            let mut names: Vec<&str> = bundle.facts.packages.iter().map(|(package, _)| package.as_str()).collect();
            // Clusters add the property to catalog members that lack it.
            if names.is_empty() && matches!(item, SolutionItem::Member(_)) {
                names.push(&bundle.package);
            }
            names.sort_unstable();
            names.dedup();
            for name in names {
                packages.entry(name.to_owned()).or_default().push(variable);
            }
            let mut provided = bundle.facts.provides.clone();
            provided.sort();
            provided.dedup();
            for api in provided {
                apis.entry(api).or_default().push(variable);
            }
        }
        let packages = packages.into_iter().map(|(name, members)| (ExclusiveGroup::Package(name), members));
        let apis = apis.into_iter().map(|(api, members)| (ExclusiveGroup::Provider(api), members));
        for (group, members) in packages.chain(apis).filter(|(_, members)| members.len() > 1) {
            self.model.problem.exclusive.push(members);
            self.model.groups.push(group);
        }
    }
}
