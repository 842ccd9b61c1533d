//! Checks the bundles of one operator against each other, in the layout of operator repositories.

use std::collections::{BTreeMap, BTreeSet};

use fbc::version::Version;
use serde_json::Value;

use crate::finding::{Finding, Severity};
use crate::pointer::{list, text};
use crate::whole::ParsedBundle;

/// A bundle of an operator, and its directory.
#[derive(Debug, Clone)]
pub(super) struct Sibling<'a> {
    /// The name of its directory.
    pub(super) directory: &'a str,
    pub(super) whole: &'a ParsedBundle,
}

/// The facts about a bundle that its siblings depend on.
struct SiblingFacts<'a> {
    directory: &'a str,
    package: &'a str,
    name: &'a str,
    file: &'a str,
    document: usize,
    version: &'a str,
    replaces: &'a str,
    skips: Vec<&'a str>,
    skip_range: &'a str,
    channels: Vec<&'a str>,
}

impl<'a> SiblingFacts<'a> {
    fn of(sibling: &Sibling<'a>) -> Option<SiblingFacts<'a>> {
        let csv = sibling.whole.csv()?;
        let value = &csv.value;
        let annotation = |wanted: &str| {
            let annotations = sibling.whole.annotations.iter().find(|(key, _)| key == wanted);
            annotations.map_or("", |(_, value)| value.as_str())
        };
        let channels = annotation("operators.operatorframework.io.bundle.channels.v1").split(',').map(str::trim);
        let annotations = value.pointer("/metadata/annotations");
        Some(SiblingFacts {
            directory: sibling.directory,
            package: &sibling.whole.package,
            name: csv.name(),
            file: &csv.file,
            document: csv.document,
            version: text(value, "/spec/version"),
            replaces: text(value, "/spec/replaces"),
            skips: list(value, "/spec/skips").iter().filter_map(Value::as_str).collect(),
            skip_range: annotations.and_then(|all| all.get("olm.skipRange")?.as_str()).unwrap_or_default(),
            channels: channels.filter(|channel| !channel.is_empty()).collect(),
        })
    }

    fn found(&self, id: &'static str, severity: Severity, pointer: &str, message: String) -> Finding {
        Finding::new(id, severity, message).of(self.name).at(self.file, self.document, pointer)
    }
}

/// Checks the bundles of the operator whose directory is called `operator`.
pub(super) fn check_siblings(operator: &str, siblings: &[Sibling<'_>]) -> Vec<Finding> {
    let mut all: Vec<SiblingFacts<'_>> = siblings.iter().filter_map(SiblingFacts::of).collect();
    let parsed = |facts: &SiblingFacts<'_>| Version::parse_tolerant(facts.version).ok();
    all.sort_by(|a, b| match (parsed(a), parsed(b)) {
        (Some(one), Some(other)) => one.cmp_precedence(&other).then_with(|| a.name.cmp(b.name)),
        _ => a.name.cmp(b.name),
    });
    let mut found = Vec::new();
    names(operator, &all, &mut found);
    for facts in &all {
        if facts.version != facts.directory {
            let text = format!("spec.version is {:?}, but the directory is named {:?}", facts.version, facts.directory);
            found.push(facts.found("version-directory", Severity::Error, "/spec/version", text));
        }
        let other = |name: &str| all.iter().any(|one| one.name == name && one.name != facts.name);
        if !facts.replaces.is_empty() && !other(facts.replaces) {
            let text = format!("it replaces {:?}, which is not another version of the operator", facts.replaces);
            found.push(facts.found("replaces-exists", Severity::Error, "/spec/replaces", text));
        }
    }
    let channels: BTreeSet<&str> = all.iter().flat_map(|facts| facts.channels.iter().copied()).collect();
    for channel in channels {
        let members: Vec<&SiblingFacts<'_>> = all.iter().filter(|facts| facts.channels.contains(&channel)).collect();
        graph(channel, &members, &mut found);
    }
    found
}

/// Checks that package, CSV and directory have the same name.
fn names(operator: &str, all: &[SiblingFacts<'_>], found: &mut Vec<Finding>) {
    for (at, facts) in all.iter().enumerate() {
        let before = facts.name.split_once(".v").map_or(facts.name, |(before, _)| before);
        let severity = if at == 0 { Severity::Error } else { Severity::Warning };
        for (what, name) in [("the package", facts.package), ("the CSV before its version", before)] {
            if name != operator {
                let text = format!("{what} is named {name:?}, but the directory of the operator {operator:?}");
                found.push(facts.found("operator-name", severity, "/metadata/name", text));
            }
        }
    }
}

/// Checks the upgrade graph of a channel.
fn graph(channel: &str, members: &[&SiblingFacts<'_>], found: &mut Vec<Finding>) {
    let replaced: BTreeSet<&str> = members.iter().map(|facts| facts.replaces).collect();
    let skipped: BTreeSet<&str> = members.iter().flat_map(|facts| facts.skips.iter().copied()).collect();
    let next: BTreeMap<&str, &str> = members.iter().map(|facts| (facts.name, facts.replaces)).collect();
    for (at, facts) in members.iter().enumerate() {
        let head = at + 1 == members.len();
        let ranged = members.iter().any(|one| !one.skip_range.is_empty() && one.name != facts.name);
        if !head && !replaced.contains(facts.name) && !skipped.contains(facts.name) && !ranged {
            let text = format!("nothing replaces or skips it in channel {channel:?}, and it is not the head");
            found.push(facts.found("dangling-bundle", Severity::Error, "/metadata/name", text));
        }
        if members.len() > 1 && !facts.skip_range.is_empty() && facts.replaces.is_empty() {
            let text = format!("olm.skipRange without replaces cuts channel {channel:?} off before it");
            found.push(facts.found("pruned-graph", Severity::Warning, "/metadata/annotations", text));
        }
        // A walk along the edges that does not end is a cycle.
        let (mut name, mut steps) = (facts.replaces, 0);
        while let Some(before) = next.get(name).filter(|_| steps <= members.len()) {
            (name, steps) = (before, steps + 1);
        }
        if steps > members.len() {
            let text = format!("the upgrades of channel {channel:?} form a cycle");
            found.push(facts.found("graph-loop", Severity::Error, "/spec/replaces", text));
        }
    }
}

#[cfg(test)]
mod tests {
    use fbc::Limits;
    use testkit::BundleDir;

    use super::*;
    use crate::whole::read_whole;

    fn whole(package: &str, name: &str, version: &str, more: &str, annotation: &str) -> ParsedBundle {
        let csv = format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: {name}\n  annotations: {{{annotation}}}\nspec:\n  version: {version}\n{more}"
        );
        let annotations = format!(
            "annotations:\n  operators.operatorframework.io.bundle.package.v1: {package}\n  operators.operatorframework.io.bundle.channels.v1: stable\n"
        );
        let bundle = BundleDir::new().manifest("csv.yaml", csv).metadata("annotations.yaml", annotations);
        read_whole(bundle.path(), &Limits::default()).unwrap()
    }

    fn ids(bundles: &[(&str, ParsedBundle)]) -> Vec<String> {
        let siblings: Vec<Sibling<'_>> =
            bundles.iter().map(|(directory, whole)| Sibling { directory, whole }).collect();
        let found = check_siblings("foo", &siblings);
        found.iter().map(|finding| format!("{} {} {}", finding.severity, finding.id, finding.bundle)).collect()
    }

    #[test]
    fn consecutive_siblings_have_no_findings() {
        let first = whole("foo", "foo.v1.0.0", "1.0.0", "", "");
        let second = whole("foo", "foo.v1.1.0", "1.1.0", "  replaces: foo.v1.0.0\n", "");
        assert_eq!(ids(&[("1.0.0", first), ("1.1.0", second)]), Vec::<String>::new());
    }

    #[test]
    fn each_rule_of_siblings_has_bundles_that_violate_it() {
        let first = || ("1.0.0", whole("foo", "foo.v1.0.0", "1.0.0", "", ""));
        assert_eq!(
            ids(&[("1.0.0", whole("bar", "bar.v1.0.0", "1.0.0", "", ""))]),
            ["error operator-name bar.v1.0.0"; 2]
        );
        assert_eq!(ids(&[("v1", whole("foo", "foo.v1.0.0", "1.0.0", "", ""))]), ["error version-directory foo.v1.0.0"]);
        let second = |more: &str, annotation: &str| ("1.1.0", whole("foo", "foo.v1.1.0", "1.1.0", more, annotation));
        assert_eq!(
            ids(&[first(), second("  replaces: foo.v0.9.0\n", "")]),
            ["error replaces-exists foo.v1.1.0", "error dangling-bundle foo.v1.0.0"]
        );
        assert_eq!(ids(&[first(), second("  skips: [foo.v1.0.0]\n", "")]), Vec::<String>::new());
        assert_eq!(ids(&[first(), second("", "olm.skipRange: '<1.1.0'")]), ["warning pruned-graph foo.v1.1.0"]);
        let round = ("1.0.0", whole("foo", "foo.v1.0.0", "1.0.0", "  replaces: foo.v1.1.0\n", ""));
        assert_eq!(
            ids(&[round, second("  replaces: foo.v1.0.0\n", "")]),
            ["error graph-loop foo.v1.0.0", "error graph-loop foo.v1.1.0"]
        );
    }
}
