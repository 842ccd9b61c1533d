//! Compares the upgrades that clusters find in catalogs, with regard to dependencies.

use std::collections::HashSet;
use std::io;
use std::slice;

use catalog::needs::Need;
use fbc::Fbc;
use fbc::blob::{BUNDLE, TextBuffer};
use resolve::dependencies::{self, UnmetBundle};
use resolve::input::{CandidateChannel, CatalogInput, InputReader};
use resolve::pool::Pool;

use super::{ChannelReport, Forbidden, Unmet, UpgradeCatalog, check};
use crate::outline::Outline;

/// The catalogs on clusters.
#[derive(Clone, Copy)]
pub struct Offered<'a> {
    /// The outlines of the catalogs to compare, in the order of their sources.
    pub outlines: &'a [Outline],
    /// What the bundles of these catalogs, and of any further ones, provide and require.
    pub sources: &'a [CatalogInput],
}

impl<'a> Offered<'a> {
    /// Creates the value for a single catalog.
    pub fn catalog(outline: &'a Outline, source: &'a CatalogInput) -> Offered<'a> {
        Offered { outlines: slice::from_ref(outline), sources: slice::from_ref(source) }
    }
}

/// Reports for each catalog how clusters that run a bundle of `old` upgrade with `new`.
///
/// A cluster does not upgrade to a bundle whose dependencies no catalog of `new` satisfies. A dependency that `old` does
/// not satisfy either must come from elsewhere, or no cluster could have installed the bundle.
pub fn compare(old: Offered<'_>, new: Offered<'_>) -> Vec<Vec<ChannelReport>> {
    let [old_pool, new_pool] = [old, new].map(|offered| Pool::new(offered.sources, "operators"));
    let catalogs = old.outlines.iter().zip(new.outlines).enumerate();
    let compared = catalogs.map(|(number, (old_outline, new_outline))| {
        let elsewhere: HashSet<String> = dependencies::check(&old_pool, number).iter().map(subject).collect();
        let mut unmet = Unmet::new();
        for finding in dependencies::check(&new_pool, number) {
            if !elsewhere.contains(&subject(&finding)) {
                let bundle = finding.bundle;
                unmet.entry((bundle.package.clone(), bundle.name.clone())).or_insert_with(|| why(&finding));
            }
        }
        check(
            UpgradeCatalog { outline: old_outline, forbidden: &forbidden(&old.sources[number]), unmet: &Unmet::new() },
            UpgradeCatalog { outline: new_outline, forbidden: &forbidden(&new.sources[number]), unmet: &unmet },
        )
    });
    compared.collect()
}

/// Returns what clusters see of the part `outline` of a catalog that was loaded with its text.
///
/// # Errors
/// Fails if the text can no longer be read.
pub fn source_of(fbc: &Fbc, outline: &Outline) -> io::Result<CatalogInput> {
    let is_part = |package: &str, bundle: &str| {
        outline.packages.get(package).is_some_and(|package| package.bundles.contains_key(bundle))
    };
    let reader = InputReader::default();
    let mut buffer = TextBuffer::default();
    for blob in fbc.blobs().iter().filter(|blob| &*blob.schema == BUNDLE && is_part(&blob.package, &blob.name)) {
        reader.add(blob, fbc.text(blob, &mut buffer)?);
    }
    let mut source = reader.finish(fbc);
    source.packages.retain(|package, _| outline.packages.contains_key(package));
    source.bundles.retain(|bundle| is_part(&bundle.package, &bundle.name));
    source.channels.retain_mut(|channel| follow(channel, outline));
    Ok(source)
}

/// Gives a channel the entries and the default of an outline. Returns whether the outline has the channel.
fn follow(channel: &mut CandidateChannel, outline: &Outline) -> bool {
    let Some(package) = outline.packages.get(&channel.package) else { return false };
    let Some(found) = package.channels.get(&channel.name) else { return false };
    channel.default = package.default_channel == channel.name;
    channel.entries.clone_from(&found.entries);
    true
}

fn forbidden(source: &CatalogInput) -> Forbidden {
    let bundles = source.bundles.iter().filter(|bundle| bundle.facts.forbidden);
    bundles.map(|bundle| (bundle.package.clone(), bundle.name.clone())).collect()
}

/// Returns the subject of a finding, regardless of the version.
fn subject(finding: &UnmetBundle<'_>) -> String {
    match finding.requirement.map(|requirement| &requirement.need) {
        Some(Need::Package(package, _)) => format!("package {package}"),
        Some(need) => need.to_string(),
        None => format!("{} with what it requires", finding.bundle.package),
    }
}

fn why(finding: &UnmetBundle<'_>) -> String {
    let hints: Vec<&str> = finding.hints.iter().map(|hint| hint.trim()).collect();
    if hints.is_empty() { finding.reason.clone() } else { format!("{} ({})", finding.reason, hints.join("; ")) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fbc::LoadOptions;

    use super::*;

    /// `p.v2.0.0` requires `q`.
    const CATALOG: &str = r#"{"schema": "olm.package", "name": "p", "defaultChannel": "c"}
{"schema": "olm.channel", "package": "p", "name": "c", "entries": [{"name": "p.v1.0.0"}, {"name": "p.v2.0.0", "replaces": "p.v1.0.0"}]}
{"schema": "olm.bundle", "package": "p", "name": "p.v1.0.0", "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}}]}
{"schema": "olm.bundle", "package": "p", "name": "p.v2.0.0", "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": "2.0.0"}}, {"type": "olm.package.required", "value": {"packageName": "q", "versionRange": ">=1.0.0"}}]}
"#;
    const DEPENDENCY: &str = r#"{"schema": "olm.package", "name": "q", "defaultChannel": "c"}
{"schema": "olm.channel", "package": "q", "name": "c", "entries": [{"name": "q.v1.0.0"}]}
{"schema": "olm.bundle", "package": "q", "name": "q.v1.0.0", "properties": [{"type": "olm.package", "value": {"packageName": "q", "version": "1.0.0"}}]}
"#;

    fn load(text: &str) -> (Fbc, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("catalog.json"), text).unwrap();
        let mut fbc = Fbc::default();
        let options = LoadOptions { keep_text: true, ..LoadOptions::default() };
        assert!(fbc.load_dir(directory.path(), &options).unwrap().problems.is_empty());
        (fbc, directory)
    }

    fn part(fbc: &Fbc, packages: &[&str]) -> (Outline, CatalogInput) {
        let mut outline = Outline::new(fbc);
        outline.packages.retain(|name, _| packages.contains(&name.as_str()));
        let source = source_of(fbc, &outline).unwrap();
        (outline, source)
    }

    /// Returns what `p.v1.0.0` meets.
    fn words(old: &(Outline, CatalogInput), new: &(Outline, CatalogInput), others: &[CatalogInput]) -> String {
        let sources = |own: &CatalogInput| [slice::from_ref(own), others].concat();
        let (old_sources, new_sources) = (sources(&old.1), sources(&new.1));
        let reports = compare(
            Offered { outlines: slice::from_ref(&old.0), sources: &old_sources },
            Offered { outlines: slice::from_ref(&new.0), sources: &new_sources },
        );
        reports[0][0].outcomes[0].words()
    }

    #[test]
    fn a_selection_without_a_dependency_strands_versions_unless_another_catalog_has_it() {
        let (fbc, _directory) = load(&format!("{CATALOG}{DEPENDENCY}"));
        let (whole, selected) = (part(&fbc, &["p", "q"]), part(&fbc, &["p"]));
        insta::assert_snapshot!(words(&whole, &selected, &[]), @r#"stays: p.v2.0.0 comes next, but cannot be installed: it requires package q >=1.0.0 (no catalog here has package "q"); so far it is upgraded to p.v2.0.0"#);
        insta::assert_snapshot!(words(&whole, &whole, &[]), @"is upgraded to p.v2.0.0");
        let (_, other) = part(&fbc, &["q"]);
        insta::assert_snapshot!(words(&whole, &selected, &[other]), @"is upgraded to p.v2.0.0");
    }

    #[test]
    fn a_dependency_that_was_missing_before_comes_from_elsewhere() {
        let (fbc, _directory) = load(CATALOG);
        let whole = part(&fbc, &["p"]);
        insta::assert_snapshot!(words(&whole, &whole, &[]), @"is upgraded to p.v2.0.0");
    }

    #[test]
    fn the_source_of_a_part_has_its_entries_and_no_others() {
        let (fbc, _directory) = load(&format!("{CATALOG}{DEPENDENCY}"));
        let mut outline = Outline::new(&fbc);
        outline.packages.retain(|name, _| name == "p");
        let package = outline.packages.get_mut("p").unwrap();
        package.bundles.remove("p.v1.0.0");
        package.channels.get_mut("c").unwrap().entries.remove(0);
        let source = source_of(&fbc, &outline).unwrap();
        assert_eq!(source.packages.keys().collect::<Vec<_>>(), ["p"]);
        let bundles: Vec<&str> = source.bundles.iter().map(|bundle| bundle.name.as_str()).collect();
        assert_eq!(bundles, ["p.v2.0.0"]);
        let entries: Vec<&str> = source.channels.iter().flat_map(|it| &it.entries).map(|entry| &*entry.name).collect();
        assert_eq!(entries, ["p.v2.0.0"]);
    }
}
