//! The rules that catalogs are checked by, with the reason for each.

use catalog::rules::{DEPENDENCIES, RULES, Rule, STRICT, WARNINGS};

/// When a rule is checked, and what becomes of a catalog that breaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// While files are read.
    Reading,
    /// In every check.
    Meaning,
    /// When dependencies are checked.
    Dependencies,
    /// In strict checks.
    Strict,
    /// When warnings are asked for.
    Warnings,
}

/// All groups, in the order they are listed in.
pub(crate) const GROUPS: [Group; 5] =
    [Group::Reading, Group::Meaning, Group::Dependencies, Group::Strict, Group::Warnings];

impl Group {
    /// Returns the heading of the group.
    pub fn title(self) -> &'static str {
        match self {
            Group::Reading => "Rules for reading",
            Group::Meaning => "Rules",
            Group::Dependencies => "Rules for dependencies",
            Group::Strict => "Strict rules",
            Group::Warnings => "Warnings",
        }
    }

    /// Says when the rule counts.
    pub(crate) fn says(self) -> &'static str {
        match self {
            Group::Reading => "a rule for files, checked whenever they are read",
            Group::Meaning => "a rule that every catalog must satisfy",
            Group::Dependencies => "a rule for dependencies, checked by 'opm validate --deps'",
            Group::Strict => "an error with 'opm validate --strict', a warning with --warnings",
            Group::Warnings => "a warning, shown by 'opm validate --warnings'",
        }
    }
}

/// A rule with its reason.
#[derive(Debug, Clone, Copy)]
pub struct Explained {
    /// Its name.
    pub name: &'static str,
    /// What must hold.
    pub about: &'static str,
    /// When it counts.
    pub group: Group,
    /// Why it must hold.
    pub why: &'static str,
    /// What to do.
    pub fix: &'static str,
}

/// Returns all rules, by group.
pub fn all() -> Vec<Explained> {
    let tables = [
        (Group::Meaning, RULES),
        (Group::Dependencies, DEPENDENCIES),
        (Group::Strict, STRICT),
        (Group::Warnings, WARNINGS),
    ];
    let rules = tables
        .into_iter()
        .flat_map(|(group, rules)| rules.iter().map(move |Rule { name, about, .. }| (group, *name, *about)));
    let mut seen = std::collections::BTreeSet::new();
    let reading = READING.iter().map(|(name, about)| (Group::Reading, *name, *about));
    reading
        .chain(rules)
        // A rule that is checked in several places is one rule.
        .filter(|(_, name, _)| seen.insert(*name))
        .map(|(group, name, about)| {
            let (_, why, fix) = REASONS.iter().find(|(of, _, _)| *of == name).copied().unwrap_or((name, "", ""));
            Explained { name, about, group, why, fix }
        })
        .collect()
}

/// What must hold for a file to be read at all. These rules have no table in the code: each is
/// where the reader would have to guess.
pub const READING: &[(&str, &str)] = &[
    ("file-readable", "every file that is not ignored can be read and is not too large"),
    ("utf-8", "a file is UTF-8 text"),
    ("json-syntax", "a file that starts with `{` is a sequence of JSON values, or YAML"),
    ("yaml-syntax", "any other file is a sequence of YAML documents that JSON can express"),
    ("limits", "blobs and their number, nesting and aliases stay within the limits"),
    ("document-is-object", "a document is an object"),
    ("envelope-types", "`schema`, `package` and `name` are strings"),
    ("keys-differ-by-more-than-case", "no two keys of a blob differ by case only"),
    ("schema-required", "a document has a `schema`"),
    ("field-types", "the fields of packages, channels, bundles and deprecations have the types they should have"),
    ("bundle-objects", "an `olm.bundle.object` holds base64, or names a file inside the catalog"),
    ("migration", "a bundle that is migrated has a CSV that `olm.csv.metadata` can be made of"),
    ("old-form-channel", "in a package without channel blobs every bundle names its channels, each once"),
    ("old-form-skips", "an `olm.skips` property of such a bundle names one bundle"),
    ("old-form-skip-range", "such a bundle has at most one `olm.skipRange`, a string"),
];

/// Why each rule is one, and what to do about it.
const REASONS: &[(&str, &str, &str)] = &[
    // Reading
    (
        "file-readable",
        "every file of the directory is taken for a part of the catalog, and one that cannot be read may hold anything",
        "fix its permissions, or name it in .indexignore if it is no part of the catalog",
    ),
    ("utf-8", "JSON and YAML are UTF-8", "save the file as UTF-8"),
    ("json-syntax", "a file that cannot be parsed has no meaning", "fix the syntax at the place that is shown"),
    ("yaml-syntax", "a file that cannot be parsed has no meaning", "fix the syntax at the place that is shown"),
    (
        "limits",
        "input is bounded before it is used, so that no file can use up memory or time",
        "split what is too large; docs/limits.md names the limits and how to raise them",
    ),
    (
        "document-is-object",
        "a blob is an object with a schema; a list or a text is none",
        "put the fields of one blob in each document, or name the file in .indexignore",
    ),
    (
        "envelope-types",
        "YAML reads 1.0, yes and ~ as a number, a truth value and nothing",
        "put quotes around the value",
    ),
    (
        "keys-differ-by-more-than-case",
        "keys are read without regard to case, so that one of the two would be lost",
        "keep one of them",
    ),
    (
        "schema-required",
        "the schema says what a document is, and without one nobody knows",
        "add `schema: olm.package`, olm.channel, olm.bundle or olm.deprecations, or one of your own domain",
    ),
    ("field-types", "a value of another type would be lost", "give it the type that 'opm explain' names for the field"),
    (
        "bundle-objects",
        "servers hand the objects to clusters, which must be able to read them",
        "encode the manifest as base64, or let `ref` name a file beside the catalog",
    ),
    (
        "migration",
        "what consoles show is taken from the ClusterServiceVersion among the objects of the bundle",
        "fix the ClusterServiceVersion, or render the bundle from its image",
    ),
    (
        "old-form-channel",
        "in the first format, bundles say which channels they are in",
        "give each bundle an olm.channel property for each channel, or write olm.channel blobs",
    ),
    ("old-form-skips", "a skip names a bundle", "give each olm.skips property the name of one bundle"),
    (
        "old-form-skip-range",
        "two ranges would leave open which one counts",
        "join them with ` || ` in one olm.skipRange",
    ),
    // Meaning
    ("package-named", "channels and bundles belong to a package by its name", "give it a `name`"),
    ("package-unique", "two blobs could disagree on the default channel", "remove one of them"),
    (
        "package-name-label",
        "clusters name objects after the package",
        "use at most 63 lower-case letters, digits and inner dashes",
    ),
    (
        "channel-package-known",
        "a channel without a package cannot be subscribed to",
        "correct `package`, or add the olm.package blob",
    ),
    ("channel-named", "users subscribe to a channel by its name", "give it a `name`"),
    ("channel-unique", "two blobs could disagree on the entries", "join their entries in one of them"),
    ("channel-entry-unique", "two entries for a bundle could disagree on what it replaces", "keep one of them"),
    (
        "bundle-package-known",
        "a bundle without a package cannot be installed",
        "correct `package`, or add the olm.package blob",
    ),
    ("bundle-unique", "two blobs could disagree on the image", "remove one of them, or rename it"),
    (
        "property-values",
        "clusters decide by these values what can be installed together",
        "give the property a value of the type that 'opm explain property/TYPE' names",
    ),
    (
        "bundle-package-property",
        "the version of a bundle is in that property, and clusters compare its package",
        "add one olm.package property with the package of the bundle and its version",
    ),
    (
        "bundle-image-pull-spec",
        "the bundle is installed from this image",
        "write it as registry/name:tag or name@sha256:...",
    ),
    (
        "related-image-pull-spec",
        "those who mirror the operator copy these images",
        "write it as registry/name:tag or name@sha256:...",
    ),
    ("bundle-version", "upgrades and ranges compare versions", "write three numbers, as 1.2.3 or 1.2.3-rc.1"),
    ("bundle-release", "releases are compared like pre-releases", "write identifiers with dots, as 1 or 2.hotfix"),
    (
        "bundle-in-channel",
        "a bundle that no channel lists cannot be installed",
        "add an entry for it to a channel, or remove the bundle",
    ),
    (
        "entry-has-bundle",
        "an entry without a bundle cannot be installed, and a cluster that chooses it fails",
        "correct the name, add the bundle, or remove the entry; a bundle that is gone may still stand in skips",
    ),
    (
        "deprecation-package-known",
        "deprecations of a package that is not there are shown to nobody",
        "correct `package`",
    ),
    ("deprecations-unique", "two blobs could disagree", "join their entries in one of them"),
    (
        "deprecation-reference",
        "a deprecation that refers to nothing is shown to nobody",
        "correct the schema and name; for the package itself leave the name out",
    ),
    ("default-channel-set", "users who name no channel follow this one", "set `defaultChannel` to one of the channels"),
    ("package-has-channels", "a package without channels cannot be installed", "add an olm.channel blob"),
    (
        "channel-has-entries",
        "clusters that follow an empty channel find nothing to install",
        "add entries, or correct the name of the default channel",
    ),
    (
        "channel-single-head",
        "the head is what clusters install and upgrade to; with two of them nobody knows which one is newer",
        "let the newest entry replace or skip the others; skipRange alone does not link entries",
    ),
    (
        "channel-chain",
        "clusters upgrade along `replaces`; an entry that the chain does not reach is stranded for ever",
        "let an entry of the chain replace the stranded one, or let the head skip it",
    ),
    ("bundle-named", "channels list bundles by their names", "give it a `name`"),
    (
        "bundle-release-name",
        "bundles of one version are distinguished by their names",
        "call it PACKAGE-vVERSION-RELEASE",
    ),
    ("entry-skips", "an empty name skips nothing", "name the bundle that is skipped, or remove the item"),
    ("entry-skip-range", "clusters compare their version with the range", "write it like \">=1.0.0 <1.2.0\""),
    ("bundle-image-set", "without an image or objects there is nothing to install", "name the image of the bundle"),
    ("deprecation-message", "the message is what users are shown", "say why, and what to use instead"),
    (
        "package-versions-unique",
        "clusters choose by version, and could not choose between the two",
        "give one of them another version, or distinguish them by a release",
    ),
    // Dependencies
    (
        "dependency-met",
        "clusters install a bundle only together with what it requires",
        "add a bundle that offers it, or name the catalog that does by --with",
    ),
    (
        "dependencies-together",
        "two requirements may exclude each other",
        "loosen one of the ranges that the message names",
    ),
    (
        "dependency-readable",
        "a requirement that a cluster cannot read stops everything in its namespace",
        "correct the condition at the place that is shown",
    ),
    // Strict
    (
        "required-package",
        "a requirement without a name or with a range that is none can never be met",
        "name the package, and write the range like \">=1.0.0 <2.0.0\"",
    ),
    (
        "gvk-fields",
        "Kubernetes has no API with such a name, so that nothing can require or provide it",
        "write the group as a DNS name, the version as v1, the kind in CamelCase",
    ),
    ("property-shape", "a property without a type or value says nothing", "give it both, or remove it"),
    ("related-image-empty", "those who mirror the operator would copy nothing", "name the image, or remove the item"),
    (
        "bundle-image-required",
        "clusters of the next generation install from images alone",
        "name the image that the bundle is installed from",
    ),
    ("bundle-object-empty", "an object without content is served as an empty manifest", "give it data, or remove it"),
    (
        "empty-names",
        "a field that is there but empty looks like an edit that was not finished",
        "give it a value, or remove the field",
    ),
    (
        "first-form-properties",
        "tools that read the first format take these properties for the channels of a bundle",
        "correct them, or remove them where the package has channel blobs",
    ),
    ("icon-fields", "without data there is no picture, and without a type nobody can show it", "give both, or none"),
    ("null-value", "null is read as if the field was not there", "give it a value, or remove the field"),
    ("properties-list", "tools that read properties expect a list", "write a list of objects with a type and a value"),
    (
        "schema-reserved",
        "a schema of this prefix may get a meaning of its own in a later version",
        "use a domain of your own, as example.com/thing",
    ),
    // Warnings
    ("icon-is-image", "consoles show a broken picture", "correct the data or the media type"),
    (
        "skips-acyclic",
        "bundles that skip each other can replace each other for ever",
        "let only the newer one skip the older one",
    ),
    (
        "skip-range-surprise",
        "existing tools drop a part of such a range without a word",
        "write it in the plain form, as \">=1.0.0 <1.2.0\"",
    ),
    (
        "head-metadata",
        "consoles describe a package by the metadata of its heads",
        "render the bundle from its image, which adds olm.csv.metadata",
    ),
    (
        "csv-metadata-once",
        "servers refuse a bundle with two of them",
        "keep one olm.csv.metadata, and no olm.bundle.object beside it",
    ),
    (
        "unknown-fields",
        "the existing tool drops a field that it does not know when it renders the catalog",
        "correct the name, or put the fact into a property",
    ),
    ("replaces-newer", "an upgrade to a lower version is rarely meant", "exchange the two in the channel"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_has_a_reason_and_a_way_to_mend_it() {
        let rules: BTreeSet<&str> = [RULES, DEPENDENCIES, STRICT, WARNINGS]
            .concat_names()
            .chain(READING.iter().map(|(name, _)| *name))
            .collect();
        let explained: BTreeSet<&str> = REASONS.iter().map(|(name, _, _)| *name).collect();
        assert_eq!(rules, explained);
        assert_eq!(explained.len(), REASONS.len(), "a rule is explained twice");
        for rule in all() {
            assert!(!rule.why.is_empty() && !rule.fix.is_empty(), "{}", rule.name);
        }
        assert_eq!(all().len(), rules.len());
        assert_eq!(RULES.len(), 34);
    }

    trait Names {
        fn concat_names(&self) -> impl Iterator<Item = &'static str>;
    }

    impl Names for [&'static [Rule]] {
        fn concat_names(&self) -> impl Iterator<Item = &'static str> {
            self.iter().flat_map(|rules| rules.iter().map(|rule| rule.name))
        }
    }
}
