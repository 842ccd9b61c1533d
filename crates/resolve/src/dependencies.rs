//! Whether what a catalog offers can be installed at all: the dependencies of all of its bundles.

use std::collections::BTreeMap;

use catalog::needs::Requirement;

use crate::explain::{explain, near_misses};
use crate::input::{Bundle, State, Subscription};
use crate::pool::{Node, Pool};
use crate::resolver::{Outcome, resolve, unmet};

/// A bundle that cannot be installed.
#[derive(Debug)]
pub struct Finding<'a> {
    /// The bundle.
    pub bundle: &'a Bundle,
    /// A channel it is in; one whose head it is, if there is one.
    pub channel: &'a str,
    /// Whether it is the head of that channel.
    pub head: bool,
    /// What of its needs cannot be met; nothing when it is not one of them alone.
    pub requirement: Option<&'a Requirement>,
    /// Why.
    pub reason: String,
    /// What comes near.
    pub hints: Vec<String>,
}

/// Finds the bundles of a catalog that clusters would choose, if only their dependencies could be met.
///
/// All catalogs of the pool may meet them. The result is in order of packages and names.
pub fn check<'a>(pool: &Pool<'a>, source: usize) -> Vec<Finding<'a>> {
    // A bundle in several channels is reported once.
    let mut bundles: BTreeMap<(&str, &str), (Node, bool)> = BTreeMap::new();
    for (node, below) in pool.on_chains() {
        let member = pool.member(node);
        if member.source != source || member.bundle.facts.needs.is_empty() || member.bundle.facts.forbidden {
            continue;
        }
        let head = below == 0;
        let known = bundles.entry((&member.bundle.package, &member.bundle.name)).or_insert((node, head));
        if head && !known.1 {
            *known = (node, true);
        }
    }
    let mut findings = Vec::new();
    for (node, head) in bundles.into_values() {
        let (bundle, channel) = (pool.member(node).bundle, pool.member(node).channel);
        let finding = |requirement, reason, hints| Finding { bundle, channel, head, requirement, reason, hints };
        let unmet = unmet(pool, bundle);
        for (requirement, error) in &unmet {
            let need = &requirement.need;
            findings.push(match error {
                Some(error) => finding(Some(*requirement), error.clone(), Vec::new()),
                None => finding(Some(*requirement), format!("it requires {need}"), near_misses(pool, need)),
            });
        }
        if unmet.is_empty()
            && let Some((reason, hints)) = not_alone(pool, node)
        {
            findings.push(finding(None, reason, hints));
        }
    }
    findings
}

/// Says why a bundle can never be installed, if it cannot: what it lacks first of all, and what comes near.
pub fn why_not(pool: &Pool<'_>, node: Node) -> Option<(String, Vec<String>)> {
    let bundle = pool.member(node).bundle;
    if bundle.facts.forbidden {
        return Some(("it has the property olm.deprecated, so that clusters never choose it".to_owned(), Vec::new()));
    }
    match unmet(pool, bundle).into_iter().next() {
        Some((_, Some(error))) => Some((error, Vec::new())),
        Some((requirement, None)) => {
            Some((format!("it requires {}", requirement.need), near_misses(pool, &requirement.need)))
        }
        None => not_alone(pool, node),
    }
}

/// Says why a bundle cannot be installed into an empty namespace, if it cannot.
fn not_alone(pool: &Pool<'_>, node: Node) -> Option<(String, Vec<String>)> {
    let member = pool.member(node);
    let source = &pool.sources[member.source];
    let wish = Subscription {
        name: member.bundle.package.clone(),
        package: member.bundle.package.clone(),
        channel: Some(member.channel.to_owned()),
        starting_csv: Some(member.bundle.name.clone()),
        installed: None,
        source: (source.name.clone(), source.namespace.clone()),
    };
    let state = State { installed: Vec::new(), subscriptions: vec![wish] };
    match resolve(pool, &state) {
        Outcome::Solved(_) => None,
        Outcome::Unsatisfiable(conflict) => {
            let mut lines = explain(pool, &state, &conflict).into_iter();
            // That the bundle itself is wanted is known.
            lines.next();
            Some(("what it requires cannot be installed with it".to_owned(), lines.collect()))
        }
        Outcome::Error(message) => Some((message, Vec::new())),
    }
}
