//! Names and predicates in the words of cluster messages.

use catalog::needs::Need;
use fbc::quote::quote;

/// Describes a requirement, in the words of clusters.
pub fn predicate(need: &Need) -> String {
    let list = |parts: &[Need], joint: &str| parts.iter().map(predicate).collect::<Vec<_>>().join(joint);
    match need {
        Need::Package(name, range) => format!("with package: {name} and with version in range: {range}"),
        Need::Api([group, version, kind]) => {
            format!("providing an API with group: {group}, version: {version}, kind: {kind}")
        }
        Need::Label(label) => format!("with label: {label}"),
        Need::All(parts) => list(parts, " and "),
        Need::Any(parts) => list(parts, " or "),
        Need::Not(parts) => list(parts, " and not "),
        Need::Rule { rule, message } => format!("with constraint: {} and message: {}", quote(rule), quote(message)),
        Need::Broken(reason) => reason.to_string(),
    }
}

/// Joins names as clusters do: `A`, or `at least one of A, B or C`.
pub(crate) fn at_least_one(names: &[String]) -> String {
    match names {
        [only] => only.clone(),
        [first @ .., last] => format!("at least one of {} or {last}", first.join(", ")),
        [] => String::new(),
    }
}

/// Joins names: `A`, `A and B`, `A, B and C`.
pub(crate) fn and(names: &[String]) -> String {
    match names {
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
        [] => String::new(),
    }
}
