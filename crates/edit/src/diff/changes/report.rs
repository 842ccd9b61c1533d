//! Differences as serializable values.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use bundle::review::crd::FieldChangeKind;
use fbc::json::Raw;

use super::PermissionScope;

/// A parse limit above the depth of any `serde_json` value.
const MAX_DEPTH: usize = 200;

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// Only the new catalog contains it.
    Added,
    /// Only the old catalog contains it.
    Removed,
    /// Both catalogs contain it.
    Changed,
}

impl ChangeKind {
    /// Returns the word for it in reports.
    pub fn word(self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Removed => "removed",
            ChangeKind::Changed => "changed",
        }
    }

    pub(super) fn of(old: bool, new: bool) -> ChangeKind {
        match (old, new) {
            (false, _) => ChangeKind::Added,
            (true, false) => ChangeKind::Removed,
            (true, true) => ChangeKind::Changed,
        }
    }
}

/// A value before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ValueChange<T> {
    /// In the old catalog.
    pub old: T,
    /// In the new catalog.
    pub new: T,
}

impl<T: PartialEq> ValueChange<T> {
    pub(super) fn of(old: T, new: T) -> Option<ValueChange<T>> {
        (old != new).then_some(ValueChange { old, new })
    }
}

/// The difference between two sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference<T> {
    /// The items only in the new catalog, sorted.
    pub added: Vec<T>,
    /// The items only in the old catalog, sorted.
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
    /// Returns whether the sets are equal.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

/// All differences between two catalogs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CatalogChanges {
    /// Packages by name.
    pub packages: Vec<PackageChange>,
    /// Blobs with custom schemas, by package, schema and name.
    pub others: Vec<OtherChange>,
}

impl CatalogChanges {
    /// Returns whether the catalogs are equal.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty() && self.others.is_empty()
    }
}

/// The differences in a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageChange {
    pub name: String,
    pub what: ChangeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_channel: Option<ValueChange<Option<String>>>,
    /// Other changed fields: `description`, `icon`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<&'static str>,
    /// The properties of the package itself.
    #[serde(skip_serializing_if = "Difference::is_empty")]
    pub properties: Difference<PropertyDifference>,
    /// The channels by name.
    pub channels: Vec<ChannelChange>,
    /// The bundles by version.
    pub bundles: Vec<BundleChange>,
    /// Added, changed and removed deprecations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deprecations: Vec<DeprecationChange>,
}

impl PackageChange {
    pub(super) fn is_empty(&self) -> bool {
        self.what == ChangeKind::Changed
            && self.default_channel.is_none()
            && self.details.is_empty()
            && self.properties.is_empty()
            && self.channels.is_empty()
            && self.bundles.is_empty()
            && self.deprecations.is_empty()
    }
}

/// The differences in a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChannelChange {
    pub name: String,
    pub what: ChangeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<ValueChange<Option<String>>>,
    /// The entries by name.
    pub entries: Vec<EntryChange>,
    #[serde(skip_serializing_if = "Difference::is_empty")]
    pub properties: Difference<PropertyDifference>,
}

impl ChannelChange {
    pub(super) fn is_empty(&self) -> bool {
        self.what == ChangeKind::Changed && self.head.is_none() && self.entries.is_empty() && self.properties.is_empty()
    }
}

/// The differences in the upgrade edges of a channel entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryChange {
    pub bundle: String,
    pub what: ChangeKind,
    /// The replaced bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ValueChange<Option<String>>>,
    /// The skipped bundles.
    #[serde(skip_serializing_if = "Difference::is_empty")]
    pub skips: Difference<String>,
    /// The versions that upgrade to it directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_range: Option<ValueChange<Option<String>>>,
}

impl EntryChange {
    pub(super) fn is_empty(&self) -> bool {
        self.what == ChangeKind::Changed
            && self.replaces.is_none()
            && self.skips.is_empty()
            && self.skip_range.is_none()
    }
}

/// The differences in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleChange {
    pub name: String,
    pub what: ChangeKind,
    /// The version; the new one if it changed.
    pub version: String,
    /// For a new bundle: the predecessor that the differences below refer to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared_with: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ValueChange<Option<String>>>,
    #[serde(skip_serializing_if = "Difference::is_empty")]
    pub related_images: Difference<ImageDifference>,
    /// The properties, except manifests.
    #[serde(skip_serializing_if = "Difference::is_empty")]
    pub properties: Difference<PropertyDifference>,
    /// The permissions on the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<PermissionChange>,
    /// The versions of its CRDs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crds: Vec<CrdChange>,
    /// The fields of its CRDs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldDifference>,
    /// The verdicts on its CRDs: what OLM v1 does, and what a change means for custom resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crd_verdicts: Vec<bundle::review::crd::CrdDifference>,
    /// Whether the manifests, or the metadata derived from them, changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub manifests: bool,
}

/// A property.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct PropertyDifference {
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The value, as JSON on one line with sorted keys.
    #[serde(serialize_with = "as_json")]
    #[schemars(with = "serde_json::Value")]
    pub value: String,
}

impl PropertyDifference {
    /// Builds a property from a value; the order of its keys does not matter.
    pub fn new(kind: &str, value: &serde_json::Value) -> PropertyDifference {
        let text = value.to_string();
        let sorted = Raw::parse(&text, MAX_DEPTH).map_or_else(|_| text.clone(), super::canonical);
        PropertyDifference { kind: kind.to_owned(), value: sorted }
    }
}

/// A related image of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct ImageDifference {
    /// The name in the bundle, possibly empty.
    pub name: String,
    /// The pull spec.
    pub image: String,
}

/// The differences in the permissions of a service account on a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionChange {
    pub scope: PermissionScope,
    pub service_account: String,
    /// A resource with its group, such as `deployments.apps`, or a URL path.
    pub resource: String,
    pub verbs: Difference<String>,
}

/// The differences in the versions of a CRD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CrdChange {
    pub name: String,
    pub versions: ValueChange<Vec<String>>,
    /// The storage version, if it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<ValueChange<Option<String>>>,
}

/// The difference in a field of a CRD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FieldDifference {
    /// The name of the CRD.
    pub crd: String,
    /// The field, prefixed with its version: `v1.spec.size`.
    pub path: String,
    pub what: ChangeKind,
    /// Whether objects that were valid may be rejected or lose the field: the verdict of [`bundle::review::crd`].
    pub narrows: bool,
    /// Further details, to follow the path in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl From<bundle::review::crd::CrdFieldChange> for FieldDifference {
    fn from(change: bundle::review::crd::CrdFieldChange) -> FieldDifference {
        let bundle::review::crd::CrdFieldChange { crd, path, what, narrows, detail } = change;
        let what = match what {
            FieldChangeKind::Added => ChangeKind::Added,
            FieldChangeKind::Removed => ChangeKind::Removed,
            FieldChangeKind::Changed => ChangeKind::Changed,
        };
        FieldDifference { crd, path, what, narrows, detail }
    }
}

/// The difference in a deprecation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeprecationChange {
    /// The schema of the deprecated blob.
    pub schema: &'static str,
    /// The name; empty for the package.
    pub name: String,
    /// The message, if it is deprecated.
    pub message: ValueChange<Option<String>>,
}

/// The difference in blobs with a custom schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OtherChange {
    /// The package, possibly empty.
    pub package: String,
    pub schema: String,
    /// The name, possibly empty.
    pub name: String,
    pub what: ChangeKind,
}

fn as_json<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => value.serialize(serializer),
        // The value is nested too deeply to parse; its text is equivalent.
        Err(_) => serializer.serialize_str(text),
    }
}
