//! Differences as values.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use fbc::json::Raw;

use super::Scope;

/// No value of the other reader is deeper.
const DEEPEST: usize = 200;

/// What became of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Only the new catalog has it.
    Added,
    /// Only the old catalog has it.
    Removed,
    /// Both have it.
    Changed,
}

impl What {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            What::Added => "added",
            What::Removed => "removed",
            What::Changed => "changed",
        }
    }

    pub(super) fn of(old: bool, new: bool) -> What {
        match (old, new) {
            (false, _) => What::Added,
            (true, false) => What::Removed,
            (true, true) => What::Changed,
        }
    }
}

/// A value before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change<T> {
    /// In the old catalog.
    pub old: T,
    /// In the new catalog.
    pub new: T,
}

impl<T: PartialEq> Change<T> {
    pub(super) fn of(old: T, new: T) -> Option<Change<T>> {
        (old != new).then_some(Change { old, new })
    }
}

/// What a set gained and lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference<T> {
    /// What only the new catalog has, in order.
    pub added: Vec<T>,
    /// What only the old catalog has, in order.
    pub removed: Vec<T>,
}

impl<T> Default for Difference<T> {
    fn default() -> Difference<T> {
        Difference { added: Vec::new(), removed: Vec::new() }
    }
}

impl<T: Ord + Clone> Difference<T> {
    pub(super) fn of(old: &BTreeSet<T>, new: &BTreeSet<T>) -> Difference<T> {
        Difference { added: new.difference(old).cloned().collect(), removed: old.difference(new).cloned().collect() }
    }
}

impl<T> Difference<T> {
    /// Returns whether there is no difference.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

/// Everything that differs between two catalogs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Packages by name.
    pub packages: Vec<PackageChange>,
    /// Blobs of schemas that only their makers know, by package, schema and name.
    pub others: Vec<OtherChange>,
}

impl Changes {
    /// Returns whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty() && self.others.is_empty()
    }
}

/// What differs in a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageChange {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub what: What,
    /// Its default channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_channel: Option<Change<Option<String>>>,
    /// Other fields that are not what they were: `description`, `icon`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<&'static str>,
    /// Its own properties.
    #[serde(skip_serializing_if = "Difference::is_empty")]
    pub properties: Difference<Property>,
    /// Its channels by name.
    pub channels: Vec<ChannelChange>,
    /// Its bundles by version.
    pub bundles: Vec<BundleChange>,
    /// What is deprecated, and no longer deprecated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deprecations: Vec<DeprecationChange>,
}

impl PackageChange {
    pub(super) fn is_empty(&self) -> bool {
        self.what == What::Changed
            && self.default_channel.is_none()
            && self.details.is_empty()
            && self.properties.is_empty()
            && self.channels.is_empty()
            && self.bundles.is_empty()
            && self.deprecations.is_empty()
    }
}

/// What differs in a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelChange {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub what: What,
    /// Its head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Change<Option<String>>>,
    /// Its entries by name.
    pub entries: Vec<EntryChange>,
    /// Its properties.
    #[serde(skip_serializing_if = "Difference::is_empty")]
    pub properties: Difference<Property>,
}

impl ChannelChange {
    pub(super) fn is_empty(&self) -> bool {
        self.what == What::Changed && self.head.is_none() && self.entries.is_empty() && self.properties.is_empty()
    }
}

/// What differs in the upgrade edges of a bundle in a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryChange {
    /// The bundle.
    pub bundle: String,
    /// What became of its place in the channel.
    pub what: What,
    /// What it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Change<Option<String>>>,
    /// What it skips.
    #[serde(skip_serializing_if = "Difference::is_empty")]
    pub skips: Difference<String>,
    /// The versions that upgrade to it directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_range: Option<Change<Option<String>>>,
}

impl EntryChange {
    pub(super) fn is_empty(&self) -> bool {
        self.what == What::Changed && self.replaces.is_none() && self.skips.is_empty() && self.skip_range.is_none()
    }
}

/// What differs in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleChange {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub what: What,
    /// Its version, the new one if that changed.
    pub version: String,
    /// Of a new bundle: the one before it, which all below is reported against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared_with: Option<String>,
    /// Its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Change<Option<String>>>,
    /// The images that it uses.
    #[serde(skip_serializing_if = "Difference::is_empty")]
    pub related_images: Difference<RelatedImage>,
    /// Its properties, but for manifests.
    #[serde(skip_serializing_if = "Difference::is_empty")]
    pub properties: Difference<Property>,
    /// What it may do in a cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<PermissionChange>,
    /// The versions of its CRDs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crds: Vec<CrdChange>,
    /// The fields of its CRDs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// Whether its manifests, or what is shown of them, are not what they were.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub manifests: bool,
}

/// A property.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Property {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its value, as JSON on one line with sorted keys.
    #[serde(serialize_with = "as_json")]
    pub value: String,
}

impl Property {
    /// Makes a property of a value; the order of its keys does not matter.
    pub fn new(kind: &str, value: &serde_json::Value) -> Property {
        let text = value.to_string();
        let sorted = Raw::parse(&text, DEEPEST).map_or_else(|_| text.clone(), super::canonical);
        Property { kind: kind.to_owned(), value: sorted }
    }
}

/// An image that a bundle uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RelatedImage {
    /// What the bundle calls it, maybe nothing.
    pub name: String,
    /// The pull spec.
    pub image: String,
}

/// What differs in what a service account may do with something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionChange {
    /// Where.
    pub scope: Scope,
    /// Who.
    pub service_account: String,
    /// With what: a resource with its group, as in `deployments.apps`, or a path.
    pub resource: String,
    /// What it may do.
    pub verbs: Difference<String>,
}

/// What differs in the versions of a CRD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CrdChange {
    /// Its name.
    pub name: String,
    /// The versions.
    pub versions: Change<Vec<String>>,
    /// The version that objects are stored in, if that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<Change<Option<String>>>,
}

/// What differs in a field of a CRD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// The name of the CRD.
    pub crd: String,
    /// The field, behind its version: `v1.spec.size`.
    pub path: String,
    /// What became of it.
    pub what: What,
    /// Whether objects that were accepted may be refused, or lose the field.
    pub narrows: bool,
    /// The rest in words, to be read after the path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// What differs in a deprecation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeprecationChange {
    /// The schema of what is deprecated.
    pub schema: &'static str,
    /// Its name; empty for the package.
    pub name: String,
    /// What users see, if it is deprecated.
    pub message: Change<Option<String>>,
}

/// What became of blobs of another schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OtherChange {
    /// Their package, maybe none.
    pub package: String,
    /// Their schema.
    pub schema: String,
    /// Their name, maybe none.
    pub name: String,
    /// What became of them.
    pub what: What,
}

fn as_json<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => value.serialize(serializer),
        // Deeper than that reader goes: the text says the same.
        Err(_) => serializer.serialize_str(text),
    }
}
