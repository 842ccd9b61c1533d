//! The rules for catalogs, with the reason for each.

use crate::rules::{DEPENDENCIES, RULES, Rule, SPELLING, STRICT, WARNINGS};

/// The group of a rule, which determines when opm checks it and how severe a violation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleGroup {
    /// Checked while files are read.
    Reading,
    /// Checked by every validation.
    Meaning,
    /// Checked where a problem was found.
    Spelling,
    /// Checked together with dependencies.
    Dependencies,
    /// Checked by strict validation.
    Strict,
    /// Checked when warnings are requested.
    Warnings,
}

/// All groups, in display order.
pub(crate) const GROUPS: [RuleGroup; 6] = [
    RuleGroup::Reading,
    RuleGroup::Meaning,
    RuleGroup::Spelling,
    RuleGroup::Dependencies,
    RuleGroup::Strict,
    RuleGroup::Warnings,
];

impl RuleGroup {
    /// Returns the heading of the group.
    pub fn title(self) -> &'static str {
        match self {
            RuleGroup::Reading => "Rules for reading",
            RuleGroup::Meaning => "Rules",
            RuleGroup::Spelling => "Spelling",
            RuleGroup::Dependencies => "Rules for dependencies",
            RuleGroup::Strict => "Strict rules",
            RuleGroup::Warnings => "Warnings",
        }
    }

    /// Returns when the rule applies.
    pub(crate) fn summary(self) -> &'static str {
        match self {
            RuleGroup::Reading => "a rule for files, checked whenever they are read",
            RuleGroup::Meaning => "a rule that every catalog must satisfy",
            RuleGroup::Spelling => "reported beside the problems that it explains",
            RuleGroup::Dependencies => "a rule for dependencies, checked by 'opm validate --deps'",
            RuleGroup::Strict => "an error with 'opm validate --strict', a warning with --warnings",
            RuleGroup::Warnings => "a warning, shown by 'opm validate --warnings'",
        }
    }
}

/// The documentation of a rule.
#[derive(Debug, Clone, Copy)]
pub struct RuleDoc {
    pub name: &'static str,
    /// The condition that must hold.
    pub about: &'static str,
    pub group: RuleGroup,
    /// The reason.
    pub why: &'static str,
    pub fix: &'static str,
}

/// Returns all rules, by group.
pub fn all() -> Vec<RuleDoc> {
    let tables = [
        (RuleGroup::Meaning, RULES),
        (RuleGroup::Spelling, SPELLING),
        (RuleGroup::Dependencies, DEPENDENCIES),
        (RuleGroup::Strict, STRICT),
        (RuleGroup::Warnings, WARNINGS),
    ];
    let rules = tables
        .into_iter()
        .flat_map(|(group, rules)| rules.iter().map(move |Rule { name, about, .. }| (group, *name, *about)));
    let mut seen = std::collections::BTreeSet::new();
    let reading = READING.iter().map(|(name, about)| (RuleGroup::Reading, *name, *about));
    reading
        .chain(rules)
        // A rule that is checked in several places is listed once.
        .filter(|(_, name, _)| seen.insert(*name))
        .map(|(group, name, about)| {
            let (_, why, fix) = REASONS.iter().find(|(of, _, _)| *of == name).copied().unwrap_or((name, "", ""));
            RuleDoc { name, about, group, why, fix }
        })
        .collect()
}

/// The conditions for reading a file at all. These rules have no table in the code: each belongs to the place where the
/// reader would otherwise have to guess.
pub const READING: &[(&str, &str)] = &[
    ("file-readable", "every file that is not ignored is readable and within the size limit"),
    ("utf-8", "a file is UTF-8 text"),
    ("json-syntax", "a file that starts with `{` is a sequence of JSON values, or YAML"),
    ("yaml-syntax", "any other file is a sequence of YAML documents that JSON can represent"),
    ("limits", "the size and number of blobs, their nesting and their aliases stay within the limits"),
    ("document-is-object", "a document is an object"),
    ("envelope-types", "`schema`, `package` and `name` are strings"),
    ("keys-differ-by-more-than-case", "no two keys of a blob differ by case only"),
    ("schema-required", "a document has a `schema`"),
    ("repeated-key", "no key of a blob is written twice (a warning; the last one counts)"),
    ("field-types", "the fields of packages, channels, bundles and deprecations have the expected types"),
    ("bundle-objects", "an `olm.bundle.object` contains base64, or names a file inside the catalog"),
    ("migration", "a migrated bundle has a CSV from which `olm.csv.metadata` can be generated"),
    ("old-form-channel", "in a package without channel blobs every bundle names its channels, each once"),
    ("old-form-skips", "an `olm.skips` property of such a bundle names one bundle"),
    ("old-form-skip-range", "such a bundle has at most one `olm.skipRange`, a string"),
];

/// The reason for each rule, and the fix.
const REASONS: &[(&str, &str, &str)] = &[
    // Reading
    (
        "file-readable",
        "opm treats every file of the directory as part of the catalog, and an unreadable file may contain anything",
        "fix its permissions, or name it in .indexignore if it is not part of the catalog",
    ),
    ("utf-8", "JSON and YAML are UTF-8", "save the file as UTF-8"),
    ("json-syntax", "a file that cannot be parsed has no meaning", "fix the syntax at the reported position"),
    ("yaml-syntax", "a file that cannot be parsed has no meaning", "fix the syntax at the reported position"),
    (
        "limits",
        "opm bounds its input, so that no file can exhaust memory or time",
        "split the file or blob; docs/limits.md lists the limits and how to raise them",
    ),
    (
        "document-is-object",
        "a blob is an object with a schema; a list or a string is not",
        "write one blob per document, or name the file in .indexignore",
    ),
    ("envelope-types", "YAML reads 1.0 as a number, yes as a boolean and ~ as null", "quote the value"),
    (
        "keys-differ-by-more-than-case",
        "keys are case-insensitive, so one of the two values would be dropped",
        "keep one of them",
    ),
    (
        "repeated-key",
        "only the last of equal keys counts, and nothing else tells that the others are lost",
        "keep one of them",
    ),
    (
        "schema-required",
        "the schema determines the type of a document",
        "add `schema: olm.package`, olm.channel, olm.bundle or olm.deprecations, or a schema of your own domain",
    ),
    ("field-types", "a value of another type would be dropped", "use the type that 'opm explain' shows for the field"),
    (
        "bundle-objects",
        "servers send the objects to clusters, which must be able to read them",
        "encode the manifest as base64, or set `ref` to a file inside the catalog",
    ),
    (
        "migration",
        "the metadata for consoles comes from the ClusterServiceVersion among the objects of the bundle",
        "fix the ClusterServiceVersion, or render the bundle from its image",
    ),
    (
        "old-form-channel",
        "in the legacy format, bundles list their channels",
        "give each bundle an olm.channel property for each channel, or write olm.channel blobs",
    ),
    ("old-form-skips", "a skip refers to one bundle by name", "set each olm.skips property to the name of one bundle"),
    ("old-form-skip-range", "two ranges would be ambiguous", "join them with ` || ` in one olm.skipRange"),
    // Meaning
    ("package-named", "channels and bundles refer to a package by name", "set its `name`"),
    ("package-unique", "two blobs could specify different default channels", "remove one of them"),
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
    ("channel-named", "users subscribe to a channel by name", "set its `name`"),
    ("channel-unique", "two blobs could disagree on the entries", "merge their entries into one of them"),
    ("channel-entry-unique", "two entries for one bundle could specify different `replaces`", "keep one of them"),
    (
        "bundle-package-known",
        "a bundle without a package cannot be installed",
        "correct `package`, or add the olm.package blob",
    ),
    ("bundle-unique", "two blobs could specify different images", "remove one of them, or rename it"),
    (
        "property-values",
        "clusters resolve dependencies with these values",
        "give the property a value of the type that 'opm explain property/TYPE' shows",
    ),
    (
        "bundle-package-property",
        "the property holds the version of the bundle, and clusters compare its package",
        "add one olm.package property with the package of the bundle and its version",
    ),
    (
        "bundle-image-pull-spec",
        "clusters install the bundle from this image",
        "write it as registry/name:tag or name@sha256:...",
    ),
    (
        "related-image-pull-spec",
        "mirrors of the operator copy these images",
        "write it as registry/name:tag or name@sha256:...",
    ),
    ("bundle-version", "upgrades and ranges compare versions", "write three numbers, such as 1.2.3 or 1.2.3-rc.1"),
    ("bundle-release", "releases compare like pre-releases", "write dot-separated identifiers, such as 1 or 2.hotfix"),
    (
        "bundle-in-channel",
        "a bundle that no channel lists cannot be installed",
        "add an entry for it to a channel, or remove the bundle",
    ),
    (
        "entry-has-bundle",
        "an entry without a bundle cannot be installed, and a cluster that chooses it fails",
        "correct the name, add the bundle, or remove the entry; `skips` may still list a removed bundle",
    ),
    ("deprecation-package-known", "nobody sees the deprecations of a package that does not exist", "correct `package`"),
    ("deprecations-unique", "two blobs could disagree", "merge their entries into one of them"),
    (
        "deprecation-reference",
        "nobody sees a deprecation without a target",
        "correct the schema and name; omit the name for the package itself",
    ),
    (
        "default-channel-set",
        "subscriptions without a channel follow this one",
        "set `defaultChannel` to one of the channels",
    ),
    ("package-has-channels", "a package without channels cannot be installed", "add an olm.channel blob"),
    (
        "channel-has-entries",
        "clusters that follow an empty channel find nothing to install",
        "add entries, or correct the name of the default channel",
    ),
    (
        "channel-single-head",
        "clusters install and upgrade to the head; with two heads the target is ambiguous",
        "make the newest entry replace or skip the others; skipRange alone does not link entries",
    ),
    (
        "channel-chain",
        "clusters upgrade along `replaces`; an entry outside the chain is stranded",
        "make an entry of the chain replace the stranded one, or make the head skip it",
    ),
    ("bundle-named", "channels list bundles by name", "set its `name`"),
    (
        "bundle-release-name",
        "only the names distinguish bundles of one version",
        "rename it to PACKAGE-vVERSION-RELEASE",
    ),
    ("entry-skips", "an empty name skips nothing", "name the skipped bundle, or remove the item"),
    ("entry-skip-range", "clusters compare their version with the range", "write it as \">=1.0.0 <1.2.0\""),
    ("bundle-image-set", "without an image or objects there is nothing to install", "name the image of the bundle"),
    ("deprecation-message", "users see the message", "give the reason and the replacement"),
    (
        "package-versions-unique",
        "clusters select by version and cannot choose between the two",
        "change one of the versions, or add a release to distinguish them",
    ),
    (
        "spelling",
        "a misspelt schema, field or edge is not read, and its absence causes other problems",
        "correct the name; the other problems of the package probably vanish",
    ),
    // Dependencies
    (
        "dependency-met",
        "clusters install a bundle only together with its dependencies",
        "add a bundle that provides it, or pass the catalog that does with --with",
    ),
    ("dependencies-together", "two dependencies can exclude each other", "relax one of the ranges in the message"),
    (
        "dependency-readable",
        "a dependency that a cluster cannot parse blocks every operator in its namespace",
        "correct the constraint at the reported position",
    ),
    // Strict
    (
        "required-package",
        "no bundle satisfies a dependency without a package name or with an invalid range",
        "name the package, and write the range as \">=1.0.0 <2.0.0\"",
    ),
    (
        "gvk-fields",
        "no Kubernetes API can have such a name, so no bundle can require or provide it",
        "write the group as a DNS name, the version like v1, the kind in CamelCase",
    ),
    ("property-shape", "a property without a type or value has no meaning", "set both, or remove the property"),
    ("related-image-empty", "mirrors of the operator have no image to copy", "name the image, or remove the item"),
    (
        "bundle-image-required",
        "OLM v1 installs from images only",
        "set the image that clusters install the bundle from",
    ),
    ("bundle-object-empty", "servers send an object without content as an empty manifest", "add data, or remove it"),
    ("empty-names", "a field with an empty value looks like an unfinished edit", "set a value, or remove the field"),
    (
        "first-form-properties",
        "tools that read the legacy format derive the channels of a bundle from these properties",
        "correct them, or remove them where the package has channel blobs",
    ),
    (
        "first-form-ignored",
        "tools that find channel blobs in a package ignore the channels and edges that bundles declare as properties",
        "move them to the entries of the olm.channel blobs, or remove them",
    ),
    (
        "icon-fields",
        "without data there is no icon, and without a media type consoles cannot show it",
        "set both, or neither",
    ),
    ("null-value", "null reads like a missing field", "set a value, or remove the field"),
    ("properties-list", "tools that read properties expect a list", "write a list of objects with a type and a value"),
    (
        "schema-reserved",
        "a later version may give a meaning to a schema with this prefix",
        "use your own domain, such as example.com/thing",
    ),
    // Warnings
    ("icon-is-image", "consoles show a broken image", "correct the data or the media type"),
    (
        "skips-acyclic",
        "bundles that skip each other can upgrade to each other endlessly",
        "make only the newer one skip the older one",
    ),
    (
        "skip-range-surprise",
        "existing tools silently ignore part of such a range",
        "write it in the plain form, such as \">=1.0.0 <1.2.0\"",
    ),
    (
        "head-metadata",
        "consoles describe a package with the metadata of its heads",
        "render the bundle from its image, which adds olm.csv.metadata",
    ),
    (
        "csv-metadata-once",
        "servers reject a bundle with two of them",
        "keep one olm.csv.metadata and no olm.bundle.object",
    ),
    (
        "unknown-fields",
        "the existing tool drops unknown fields when it renders the catalog",
        "correct the name, or move the value into a property",
    ),
    ("replaces-newer", "an upgrade to a lower version is rarely intended", "swap the two in the channel"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_has_a_reason_and_a_fix() {
        let rules: BTreeSet<&str> = [RULES, SPELLING, DEPENDENCIES, STRICT, WARNINGS]
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
