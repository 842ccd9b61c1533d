//! Bundles of a package have different versions.

use std::collections::{BTreeMap, BTreeSet};

use fbc::{Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::{Draft, DraftPackage};

pub(super) const RULE: Rule = Rule {
    name: "package-versions-unique",
    about: "no two bundles of a package have the same version and release",
    check: Check::PackageAfter(check),
};

fn check(_: &Draft<'_>, package: &DraftPackage<'_>, problems: &mut Vec<Problem>) {
    let members: BTreeSet<&str> =
        package.channels.values().flat_map(|channel| channel.entries.iter().map(|entry| &*entry.name)).collect();
    let mut versions: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for bundle in package.bundles.values().filter(|bundle| members.contains(bundle.name)) {
        let Some(version) = bundle.version() else { continue };
        let text = match bundle.release() {
            Some(release) => format!("{version}-{release}"),
            None => version.to_string(),
        };
        versions.entry(text).or_default().push(bundle.name);
    }
    versions.retain(|_, bundles| bundles.len() > 1);
    let Some(first) = versions.values().next() else { return };
    let shown: Vec<String> =
        versions.iter().map(|(version, bundles)| format!("{{{version}: [{}]}}", bundles.join(", "))).collect();
    let second = package.bundles.get(first[1]);
    let place = second.and_then(|bundle| {
        let property = bundle.package_property()?;
        bundle.blob.place(path!["properties", property.index as usize, "value", "version"])
    });
    let message = format!("duplicate versions found in bundles: [{}]", shown.join(" "));
    let problem = Problem::new(RULE.name, ProblemStage::Model, message)
        .about(package.name, "", "")
        .label(format!("bundle \"{}\" has this version too", first[0]))
        .help("give each bundle its own version; rebuilds can carry build metadata (1.0.0+1) or a release");
    problems.report(problem, place);
}
