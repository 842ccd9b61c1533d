//! Resolves a namespace as clusters of the first generation do.

use std::collections::{HashMap, HashSet};
use std::fmt;

use catalog::chain::EntryEdge;
use catalog::needs::{Need, Requirement};

use crate::build;
use crate::input::{CandidateBundle, ClusterNamespace};
use crate::pool::{MemberIndex, Pool};
use crate::search::{SearchCondition, SearchProblem, SearchResult, Var};
use crate::words::{and, at_least_one, predicate};

/// A bundle that can be part of a solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SolutionItem {
    /// A member of a channel of a catalog.
    Member(MemberIndex),
    /// An installed CSV, by index.
    Installed(usize),
}

/// The outcome of a resolution.
#[derive(Debug)]
pub enum Resolution {
    /// The bundles of the namespace after the resolution.
    Solved(Vec<Chosen>),
    /// The constraints cannot be satisfied.
    Unsatisfiable(Conflict),
    /// There is no resolution.
    Error(ResolutionRefusal),
}

/// Why there is no resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolutionRefusal {
    /// Clusters refuse, with this message.
    Olm(String),
    /// The query reached a limit of opm; clusters may answer it.
    GaveUp,
}

impl ResolutionRefusal {
    /// Returns the message with who gives it.
    pub fn said(&self) -> String {
        match self {
            ResolutionRefusal::Olm(message) => format!("OLM says: {message}"),
            ResolutionRefusal::GaveUp => format!("opm {self}"),
        }
    }
}

impl fmt::Display for ResolutionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolutionRefusal::Olm(message) => f.write_str(message),
            ResolutionRefusal::GaveUp => f.write_str(
                "gave up: there are too many ways to meet what these bundles require (a limit of opm, not of OLM)",
            ),
        }
    }
}

impl std::error::Error for ResolutionRefusal {}

/// A bundle of a solution.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The bundle.
    pub item: SolutionItem,
    /// Why it is part of the solution.
    pub reasons: Vec<InclusionReason>,
    /// The installed CSV that it replaces.
    pub replaces: Option<usize>,
}

/// The reason why a bundle is part of a solution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InclusionReason {
    /// A Subscription requests it, by index.
    Subscription(usize),
    /// Another bundle requires it.
    Needed {
        /// The other bundle.
        by: SolutionItem,
        /// The requirement.
        need: String,
    },
    /// It is installed without a Subscription.
    Unmanaged,
}

/// Constraints that cannot all hold.
#[derive(Debug, Default)]
pub struct Conflict {
    /// The messages of clusters, sorted.
    pub messages: Vec<String>,
    /// The same as structured data, for explanations.
    pub parts: Vec<ConflictPart>,
}

/// A constraint of a [`Conflict`].
#[derive(Debug, Clone)]
pub enum ConflictPart {
    /// A Subscription requires one of these.
    Subscription {
        /// The index of the Subscription.
        subscription: usize,
        candidates: Vec<SolutionItem>,
    },
    /// A Subscription matches nothing in the catalog.
    NothingFound {
        /// The index of the Subscription.
        subscription: usize,
        /// The message of clusters.
        message: String,
    },
    /// A bundle requires one of these.
    Need {
        /// The bundle.
        by: SolutionItem,
        /// The requirement, with its property.
        requirement: Requirement,
        candidates: Vec<SolutionItem>,
    },
    /// At most one of these can be installed, since all are of one package.
    OnePackage(String, Vec<SolutionItem>),
    /// At most one of these can be installed, since all provide one API.
    OneProvider([String; 3], Vec<SolutionItem>),
    /// The first replaces the second.
    Replaces(SolutionItem, SolutionItem),
    /// It is never chosen (`olm.deprecated`).
    Forbidden(SolutionItem),
    /// It is installed without a Subscription, so it stays.
    Unmanaged(SolutionItem),
}

impl Conflict {
    /// Returns the message in the condition of a Subscription.
    pub fn message(&self) -> String {
        format!("constraints not satisfiable: {}", self.messages.join(", "))
    }
}

/// Resolves a namespace.
pub fn resolve(pool: &Pool<'_>, state: &ClusterNamespace) -> Resolution {
    match build::model(pool, state) {
        Ok(model) => model.solve(pool, state),
        Err(_) if pool.gave_up() => Resolution::Error(ResolutionRefusal::GaveUp),
        Err(errors) => {
            let mut errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            errors.sort();
            errors.dedup();
            Resolution::Error(ResolutionRefusal::Olm(match errors.as_slice() {
                [only] => only.clone(),
                _ => format!("[{}]", errors.join(", ")),
            }))
        }
    }
}

/// A variable of the problem.
#[derive(Debug, Clone)]
pub(crate) enum Variable {
    Subscription(usize),
    Bundle(SolutionItem),
}

/// The meaning of a clause.
#[derive(Debug, Clone)]
pub(crate) enum Clause {
    Subscription(usize),
    NothingFound(usize, String),
    Need(SolutionItem, Requirement),
}

/// The meaning of an exclusive group.
#[derive(Debug, Clone)]
pub(crate) enum ExclusiveGroup {
    Package(String),
    Provider([String; 3]),
    Replaces,
}

/// The problem, with the meaning of its parts.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) problem: SearchProblem,
    pub(crate) variables: Vec<Variable>,
    pub(crate) clauses: Vec<Clause>,
    pub(crate) groups: Vec<ExclusiveGroup>,
    /// The CSV that a candidate replaces.
    pub(crate) replaces: HashMap<Var, usize>,
}

/// Returns the bundle of an item.
pub fn bundle<'a>(pool: &Pool<'a>, state: &'a ClusterNamespace, item: SolutionItem) -> &'a CandidateBundle {
    match item {
        SolutionItem::Member(node) => pool.member(node).bundle,
        SolutionItem::Installed(place) => &state.installed[place],
    }
}

/// Returns the name that clusters give an item.
pub fn id(pool: &Pool<'_>, state: &ClusterNamespace, item: SolutionItem) -> String {
    match item {
        SolutionItem::Member(node) => pool.id(node),
        SolutionItem::Installed(place) => format!("@existing/{}//{}", pool.namespace, state.installed[place].name),
    }
}

impl Model {
    fn solve(self, pool: &Pool<'_>, state: &ClusterNamespace) -> Resolution {
        let mut work = pool.work_left();
        let found = self.problem.solve(&mut work);
        let _ = pool.charge(pool.work_left() - work);
        match found {
            SearchResult::Solution(chosen) => Resolution::Solved(self.chosen(&chosen)),
            SearchResult::Conflict(conditions) => Resolution::Unsatisfiable(self.conflict(pool, state, &conditions)),
            SearchResult::GaveUp => Resolution::Error(ResolutionRefusal::GaveUp),
        }
    }

    fn item(&self, variable: Var) -> Option<SolutionItem> {
        match self.variables[variable] {
            Variable::Bundle(item) => Some(item),
            Variable::Subscription(_) => None,
        }
    }

    fn chosen(&self, solution: &[Var]) -> Vec<Chosen> {
        let mut reasons: HashMap<Var, Vec<InclusionReason>> = HashMap::new();
        let held: HashSet<Var> = solution.iter().copied().collect();
        for ((owner, candidates), meaning) in self.problem.clauses.iter().zip(&self.clauses) {
            if !held.contains(owner) {
                continue;
            }
            for candidate in candidates.iter().filter(|candidate| held.contains(candidate)) {
                let reason = match meaning {
                    Clause::Subscription(place) => InclusionReason::Subscription(*place),
                    Clause::NothingFound(..) => continue,
                    // A bundle that meets its own requirement is no reason.
                    Clause::Need(..) if candidate == owner => continue,
                    Clause::Need(by, requirement) => {
                        InclusionReason::Needed { by: *by, need: requirement.need.to_string() }
                    }
                };
                reasons.entry(*candidate).or_default().push(reason);
            }
        }
        let mut chosen = Vec::new();
        for variable in solution {
            let Some(item) = self.item(*variable) else { continue };
            let mut reasons = reasons.remove(variable).unwrap_or_default();
            if self.problem.mandatory.contains(variable) {
                reasons.insert(0, InclusionReason::Unmanaged);
            }
            let replaces = self.replaces.get(variable).copied();
            chosen.push(Chosen { item, reasons, replaces });
        }
        chosen
    }

    fn conflict(&self, pool: &Pool<'_>, state: &ClusterNamespace, conditions: &[SearchCondition]) -> Conflict {
        let mut conflict = Conflict::default();
        let items =
            |variables: &[Var]| variables.iter().filter_map(|&variable| self.item(variable)).collect::<Vec<_>>();
        let ids = |items: &[SolutionItem]| items.iter().map(|&item| id(pool, state, item)).collect::<Vec<_>>();
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        for condition in conditions {
            match *condition {
                SearchCondition::Mandatory(number) => {
                    let variable = self.problem.mandatory[number];
                    match self.variables[variable] {
                        Variable::Subscription(place) => {
                            let name = &state.subscriptions[place].name;
                            conflict.messages.push(format!("subscription {name} exists"));
                        }
                        Variable::Bundle(item) => {
                            let name = &bundle(pool, state, item).name;
                            conflict.messages.push(format!(
                                "clusterserviceversion {name} exists and is not referenced by a subscription"
                            ));
                            conflict.parts.push(ConflictPart::Unmanaged(item));
                        }
                    }
                }
                SearchCondition::Forbidden(number) => {
                    let Some(item) = self.item(self.problem.forbidden[number]) else { continue };
                    conflict.messages.push(format!("bundle {} is deprecated", id(pool, state, item)));
                    conflict.parts.push(ConflictPart::Forbidden(item));
                }
                SearchCondition::Clause(number) => {
                    let candidates = items(&self.problem.clauses[number].1);
                    match &self.clauses[number] {
                        Clause::NothingFound(place, message) => {
                            conflict.messages.push(message.clone());
                            let (subscription, message) = (*place, message.clone());
                            conflict.parts.push(ConflictPart::NothingFound { subscription, message });
                        }
                        Clause::Subscription(place) => {
                            let name = &state.subscriptions[*place].name;
                            conflict.messages.push(if candidates.is_empty() {
                                format!("no operators found matching the criteria of subscription {name}")
                            } else {
                                format!("subscription {name} requires {}", at_least_one(&ids(&candidates)))
                            });
                            conflict.parts.push(ConflictPart::Subscription { subscription: *place, candidates });
                        }
                        Clause::Need(by, requirement) => {
                            let name = &bundle(pool, state, *by).name;
                            let predicate = predicate(&requirement.need);
                            conflict.messages.push(format!("bundle {name} requires an operator {predicate}"));
                            let (by, requirement) = (*by, requirement.clone());
                            conflict.parts.push(ConflictPart::Need { by, requirement, candidates });
                        }
                    }
                }
                SearchCondition::Exclusive(number) => {
                    let members = items(&self.problem.exclusive[number]);
                    let names = and(&sorted(ids(&members)));
                    match &self.groups[number] {
                        ExclusiveGroup::Package(package) => {
                            conflict.messages.push(format!("there can be only one operator from package {package}"));
                            conflict.messages.push(format!("{names} originate from package {package}"));
                            conflict.parts.push(ConflictPart::OnePackage(package.clone(), members));
                        }
                        ExclusiveGroup::Provider(api) => {
                            let [group, version, kind] = api;
                            let what = format!("{kind} ({group}/{version})");
                            conflict.messages.push(format!("there can be only one provider of {what}"));
                            conflict.messages.push(format!("{names} provide {what}"));
                            conflict.parts.push(ConflictPart::OneProvider(api.clone(), members));
                        }
                        ExclusiveGroup::Replaces => {
                            if let [new, old] = members[..] {
                                let (new_id, old_id) = (id(pool, state, new), id(pool, state, old));
                                conflict.messages.push(format!("{new_id} conflicts with {old_id}"));
                                conflict.parts.push(ConflictPart::Replaces(new, old));
                            }
                        }
                    }
                }
            }
        }
        conflict.messages.sort();
        conflict.messages.dedup();
        conflict
    }
}

/// Returns the edge by which a chosen bundle replaces an installed one.
pub fn edge(pool: &Pool<'_>, state: &ClusterNamespace, chosen: &Chosen) -> Option<EntryEdge> {
    let (SolutionItem::Member(node), Some(place)) = (chosen.item, chosen.replaces) else { return None };
    let old = state.installed.get(place)?;
    EntryEdge::between(pool.member(node).entry, &old.name, old.version.as_ref())
}

/// Returns the requirements of a bundle that no catalog meets, with the error of those that cannot be read.
pub fn unmet<'b>(pool: &Pool<'_>, bundle: &'b CandidateBundle) -> Vec<(&'b Requirement, Option<String>)> {
    let mut unmet = Vec::new();
    for requirement in &bundle.facts.needs {
        // A bundle meets a requirement that excludes only others.
        if matches!(requirement.need, Need::Not(_)) {
            continue;
        }
        match &*pool.candidates(&requirement.need, None) {
            Ok(found) if found.is_empty() => unmet.push((requirement, None)),
            Ok(_) => {}
            Err(error) => unmet.push((requirement, Some(error.to_string()))),
        }
    }
    unmet
}
