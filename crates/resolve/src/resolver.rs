//! Resolves a namespace as clusters of the first generation do.

use std::collections::{HashMap, HashSet};
use std::fmt;

use catalog::chain::Edge;
use catalog::needs::{Need, Requirement};

use crate::build;
use crate::input::{Bundle, State};
use crate::pool::{Node, Pool};
use crate::search::{Condition, Found, Problem, Var};
use crate::words::{and, at_least_one, predicate};

/// A bundle that can be part of a solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Item {
    /// A member of a channel of a catalog.
    Member(Node),
    /// An installed CSV, by index.
    Installed(usize),
}

/// The outcome of a resolution.
#[derive(Debug)]
pub enum Outcome {
    /// The bundles of the namespace after the resolution.
    Solved(Vec<Chosen>),
    /// The constraints cannot be satisfied.
    Unsatisfiable(Conflict),
    /// There is no resolution.
    Error(Refusal),
}

/// Why there is no resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Clusters refuse, with this message.
    Olm(String),
    /// The query reached a limit of opm; clusters may answer it.
    GaveUp,
}

impl Refusal {
    /// Returns the message with who gives it.
    pub fn said(&self) -> String {
        match self {
            Refusal::Olm(message) => format!("OLM says: {message}"),
            Refusal::GaveUp => format!("opm {self}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Olm(message) => f.write_str(message),
            Refusal::GaveUp => f.write_str(
                "gave up: there are too many ways to meet what these bundles require (a limit of opm, not of OLM)",
            ),
        }
    }
}

impl std::error::Error for Refusal {}

/// A bundle of a solution.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The bundle.
    pub item: Item,
    /// Why it is part of the solution.
    pub reasons: Vec<Reason>,
    /// The installed CSV that it replaces.
    pub replaces: Option<usize>,
}

/// The reason why a bundle is part of a solution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A Subscription requests it, by index.
    Subscription(usize),
    /// Another bundle requires it.
    Needed {
        /// The other bundle.
        by: Item,
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
    pub parts: Vec<Part>,
}

/// A constraint of a [`Conflict`].
#[derive(Debug, Clone)]
pub enum Part {
    /// A Subscription requires one of these.
    Subscription {
        /// The index of the Subscription.
        subscription: usize,
        /// The candidates.
        candidates: Vec<Item>,
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
        by: Item,
        /// The requirement, with its property.
        requirement: Requirement,
        /// The candidates.
        candidates: Vec<Item>,
    },
    /// At most one of these can be installed, since all are of one package.
    OnePackage(String, Vec<Item>),
    /// At most one of these can be installed, since all provide one API.
    OneProvider([String; 3], Vec<Item>),
    /// The first replaces the second.
    Replaces(Item, Item),
    /// It is never chosen (`olm.deprecated`).
    Forbidden(Item),
    /// It is installed without a Subscription, so it stays.
    Unmanaged(Item),
}

impl Conflict {
    /// Returns the message in the condition of a Subscription.
    pub fn message(&self) -> String {
        format!("constraints not satisfiable: {}", self.messages.join(", "))
    }
}

/// Resolves a namespace.
pub fn resolve(pool: &Pool<'_>, state: &State) -> Outcome {
    match build::model(pool, state) {
        Ok(model) => model.solve(pool, state),
        Err(_) if pool.gave_up() => Outcome::Error(Refusal::GaveUp),
        Err(errors) => {
            let mut errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            errors.sort();
            errors.dedup();
            Outcome::Error(Refusal::Olm(match errors.as_slice() {
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
    Bundle(Item),
}

/// The meaning of a clause.
#[derive(Debug, Clone)]
pub(crate) enum Clause {
    Subscription(usize),
    NothingFound(usize, String),
    Need(Item, Requirement),
}

/// The meaning of an exclusive group.
#[derive(Debug, Clone)]
pub(crate) enum Group {
    Package(String),
    Provider([String; 3]),
    Replaces,
}

/// The problem, with the meaning of its parts.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) problem: Problem,
    pub(crate) variables: Vec<Variable>,
    pub(crate) clauses: Vec<Clause>,
    pub(crate) groups: Vec<Group>,
    /// The CSV that a candidate replaces.
    pub(crate) replaces: HashMap<Var, usize>,
}

/// Returns the bundle of an item.
pub fn bundle<'a>(pool: &Pool<'a>, state: &'a State, item: Item) -> &'a Bundle {
    match item {
        Item::Member(node) => pool.member(node).bundle,
        Item::Installed(place) => &state.installed[place],
    }
}

/// Returns the name that clusters give an item.
pub fn id(pool: &Pool<'_>, state: &State, item: Item) -> String {
    match item {
        Item::Member(node) => pool.id(node),
        Item::Installed(place) => format!("@existing/{}//{}", pool.namespace, state.installed[place].name),
    }
}

impl Model {
    fn solve(self, pool: &Pool<'_>, state: &State) -> Outcome {
        let mut work = pool.work_left();
        let found = self.problem.solve(&mut work);
        let _ = pool.charge(pool.work_left() - work);
        match found {
            Found::Solution(chosen) => Outcome::Solved(self.chosen(&chosen)),
            Found::Conflict(conditions) => Outcome::Unsatisfiable(self.conflict(pool, state, &conditions)),
            Found::GaveUp => Outcome::Error(Refusal::GaveUp),
        }
    }

    fn item(&self, variable: Var) -> Option<Item> {
        match self.variables[variable] {
            Variable::Bundle(item) => Some(item),
            Variable::Subscription(_) => None,
        }
    }

    fn chosen(&self, solution: &[Var]) -> Vec<Chosen> {
        let mut reasons: HashMap<Var, Vec<Reason>> = HashMap::new();
        let held: HashSet<Var> = solution.iter().copied().collect();
        for ((owner, candidates), meaning) in self.problem.clauses.iter().zip(&self.clauses) {
            if !held.contains(owner) {
                continue;
            }
            for candidate in candidates.iter().filter(|candidate| held.contains(candidate)) {
                let reason = match meaning {
                    Clause::Subscription(place) => Reason::Subscription(*place),
                    Clause::NothingFound(..) => continue,
                    // A bundle that meets its own requirement is no reason.
                    Clause::Need(..) if candidate == owner => continue,
                    Clause::Need(by, requirement) => Reason::Needed { by: *by, need: requirement.need.to_string() },
                };
                reasons.entry(*candidate).or_default().push(reason);
            }
        }
        let mut chosen = Vec::new();
        for variable in solution {
            let Some(item) = self.item(*variable) else { continue };
            let mut reasons = reasons.remove(variable).unwrap_or_default();
            if self.problem.mandatory.contains(variable) {
                reasons.insert(0, Reason::Unmanaged);
            }
            let replaces = self.replaces.get(variable).copied();
            chosen.push(Chosen { item, reasons, replaces });
        }
        chosen
    }

    fn conflict(&self, pool: &Pool<'_>, state: &State, conditions: &[Condition]) -> Conflict {
        let mut conflict = Conflict::default();
        let items =
            |variables: &[Var]| variables.iter().filter_map(|&variable| self.item(variable)).collect::<Vec<_>>();
        let ids = |items: &[Item]| items.iter().map(|&item| id(pool, state, item)).collect::<Vec<_>>();
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        for condition in conditions {
            match *condition {
                Condition::Mandatory(number) => {
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
                            conflict.parts.push(Part::Unmanaged(item));
                        }
                    }
                }
                Condition::Forbidden(number) => {
                    let Some(item) = self.item(self.problem.forbidden[number]) else { continue };
                    conflict.messages.push(format!("bundle {} is deprecated", id(pool, state, item)));
                    conflict.parts.push(Part::Forbidden(item));
                }
                Condition::Clause(number) => {
                    let candidates = items(&self.problem.clauses[number].1);
                    match &self.clauses[number] {
                        Clause::NothingFound(place, message) => {
                            conflict.messages.push(message.clone());
                            let (subscription, message) = (*place, message.clone());
                            conflict.parts.push(Part::NothingFound { subscription, message });
                        }
                        Clause::Subscription(place) => {
                            let name = &state.subscriptions[*place].name;
                            conflict.messages.push(if candidates.is_empty() {
                                format!("no operators found matching the criteria of subscription {name}")
                            } else {
                                format!("subscription {name} requires {}", at_least_one(&ids(&candidates)))
                            });
                            conflict.parts.push(Part::Subscription { subscription: *place, candidates });
                        }
                        Clause::Need(by, requirement) => {
                            let name = &bundle(pool, state, *by).name;
                            let predicate = predicate(&requirement.need);
                            conflict.messages.push(format!("bundle {name} requires an operator {predicate}"));
                            let (by, requirement) = (*by, requirement.clone());
                            conflict.parts.push(Part::Need { by, requirement, candidates });
                        }
                    }
                }
                Condition::Exclusive(number) => {
                    let members = items(&self.problem.exclusive[number]);
                    let names = and(&sorted(ids(&members)));
                    match &self.groups[number] {
                        Group::Package(package) => {
                            conflict.messages.push(format!("there can be only one operator from package {package}"));
                            conflict.messages.push(format!("{names} originate from package {package}"));
                            conflict.parts.push(Part::OnePackage(package.clone(), members));
                        }
                        Group::Provider(api) => {
                            let [group, version, kind] = api;
                            let what = format!("{kind} ({group}/{version})");
                            conflict.messages.push(format!("there can be only one provider of {what}"));
                            conflict.messages.push(format!("{names} provide {what}"));
                            conflict.parts.push(Part::OneProvider(api.clone(), members));
                        }
                        Group::Replaces => {
                            if let [new, old] = members[..] {
                                let (new_id, old_id) = (id(pool, state, new), id(pool, state, old));
                                conflict.messages.push(format!("{new_id} conflicts with {old_id}"));
                                conflict.parts.push(Part::Replaces(new, old));
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
pub fn edge(pool: &Pool<'_>, state: &State, chosen: &Chosen) -> Option<Edge> {
    let (Item::Member(node), Some(place)) = (chosen.item, chosen.replaces) else { return None };
    let old = state.installed.get(place)?;
    Edge::between(pool.member(node).entry, &old.name, old.version.as_ref())
}

/// Returns the requirements of a bundle that no catalog meets, with the error of those that cannot be read.
pub fn unmet<'b>(pool: &Pool<'_>, bundle: &'b Bundle) -> Vec<(&'b Requirement, Option<String>)> {
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
