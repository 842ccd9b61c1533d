//! Checks whether the bundles of a catalog can be installed: the dependencies of all of them.

use std::collections::BTreeMap;

use catalog::needs::Requirement;
use fbc::{Fbc, Problem, ProblemStage, path};

use crate::explain::{explain, near_misses};
use crate::input::{CandidateBundle, CatalogInput, ClusterNamespace, NamespaceSubscription};
use crate::pool::{MemberIndex, Pool};
use crate::resolver::{Resolution, resolve, unmet};

/// A bundle that cannot be installed.
#[derive(Debug)]
pub struct UnmetBundle<'a> {
    pub bundle: &'a CandidateBundle,
    /// A channel of the bundle; preferably one whose head it is.
    pub channel: &'a str,
    /// Whether it is the head of that channel.
    pub head: bool,
    /// The requirement that cannot be met; `None` if several conflict.
    pub requirement: Option<&'a Requirement>,
    pub reason: String,
    /// Near misses.
    pub hints: Vec<String>,
}

/// Finds the bundles of a catalog that clusters would choose, but whose dependencies cannot be met.
///
/// All catalogs of the pool may meet them. The result is sorted by package and name.
pub fn check<'a>(pool: &Pool<'a>, source: usize) -> Vec<UnmetBundle<'a>> {
    // A bundle in several channels is reported once.
    let mut bundles: BTreeMap<(&str, &str), (MemberIndex, bool)> = BTreeMap::new();
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
        let finding = |requirement, reason, hints| UnmetBundle { bundle, channel, head, requirement, reason, hints };
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

/// Reports the bundles of the first source, which comes from `fbc`, that cannot be installed. The other sources may
/// satisfy their dependencies.
pub fn problems(fbc: &Fbc, sources: &[CatalogInput]) -> Vec<Problem> {
    let pool = Pool::new(sources, "operators");
    let mut problems = Vec::new();
    for finding in check(&pool, 0) {
        let (bundle, blob) = (finding.bundle, &fbc.blobs()[finding.bundle.blob]);
        let is_readable = |it: &Requirement| pool.check(&it.need).is_ok() && pool.candidates(&it.need, None).is_ok();
        let (rule, place, label) = match finding.requirement {
            None => ("dependencies-together", path!["name"], "cannot be installed"),
            Some(it) => {
                let place = path!["properties", it.property, "value"];
                match is_readable(it) {
                    true => ("dependency-met", place, "nothing that clusters can choose offers this"),
                    false => ("dependency-readable", place, "stops everything in a namespace"),
                }
            }
        };
        let head = if finding.head { format!(", the head of channel \"{}\",", finding.channel) } else { String::new() };
        let message = format!("\"{}\"{head} cannot be installed: {}", bundle.name, finding.reason);
        let mut help = finding.hints.join("\n      ");
        if rule == "dependency-met" && sources.len() == 1 {
            help += "\n      if another catalog of the cluster offers it, name that by --with";
        }
        let mut problem = Problem::new(rule, ProblemStage::Model, message)
            .about(&bundle.package, finding.channel, &bundle.name)
            .label(label);
        problem.help = Some(help).filter(|help| !help.is_empty());
        problem.place = blob.place(place);
        problems.push(problem);
    }
    problems
}

/// Explains why a bundle can never be installed, if it cannot: the first missing requirement, and near misses.
pub fn why_not(pool: &Pool<'_>, node: MemberIndex) -> Option<(String, Vec<String>)> {
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

/// Explains why a bundle cannot be installed into an empty namespace, if it cannot.
fn not_alone(pool: &Pool<'_>, node: MemberIndex) -> Option<(String, Vec<String>)> {
    let member = pool.member(node);
    let source = &pool.sources[member.source];
    let request = NamespaceSubscription {
        name: member.bundle.package.clone(),
        package: member.bundle.package.clone(),
        channel: Some(member.channel.to_owned()),
        starting_csv: Some(member.bundle.name.clone()),
        installed: None,
        source: (source.name.clone(), source.namespace.clone()),
    };
    let state = ClusterNamespace { installed: Vec::new(), subscriptions: vec![request] };
    match resolve(pool, &state) {
        Resolution::Solved(_) => None,
        Resolution::Unsatisfiable(conflict) => {
            let mut lines = explain(pool, &state, &conflict).into_iter();
            // The reader knows that the bundle itself is requested.
            lines.next();
            Some(("what it requires cannot be installed with it".to_owned(), lines.collect()))
        }
        Resolution::Error(refusal) => Some((refusal.to_string(), Vec::new())),
    }
}
