//! The page data of a package for lists, graphs and menus, extracted once when a catalog is loaded and stored in its
//! cache.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::csv::CsvDescription;
use crate::icon::IconFormat;

/// The list row of a package, and what searches match.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// The name of the package.
    pub name: String,
    /// Its display name; empty if it has none.
    pub title: String,
    pub provider: String,
    /// Its one-line summary.
    pub summary: String,
    /// The version of the head of the default channel.
    pub version: String,
    /// The name of that version's bundle.
    pub head: String,
    /// The default channel.
    pub channel: String,
    /// The creation date of that version, as given by its author.
    pub date: String,
    /// Its keywords.
    pub keywords: Vec<String>,
    /// The kinds it provides.
    pub kinds: Vec<String>,
    /// The repositories of all images in its versions.
    pub images: Vec<String>,
    /// Its categories.
    pub categories: Vec<String>,
    /// Its capability level: 1 to 5, 0 if it has none.
    pub capability: u8,
    /// The install modes that it supports.
    pub modes: Vec<String>,
    /// Its infrastructure features.
    pub features: Vec<String>,
    /// Its supported architectures.
    pub arches: Vec<String>,
    /// The minimum version of Kubernetes.
    pub kube: String,
    /// Whether the package, its default channel or the version is deprecated.
    pub deprecated: bool,
    /// Whether it is only a dependency of others.
    pub dependency: bool,
    /// The number of versions.
    pub versions: u32,
    /// The number of channels.
    pub channels: u32,
    /// The number of distinct heads.
    pub heads: u32,
    /// Its icon.
    pub icon: Option<Icon>,
    /// The packages that the head requires, with the requirement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<(String, String)>,
    /// Content that the console could not use.
    pub problems: Vec<String>,
}

/// An icon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Icon {
    /// Its digest.
    pub digest: String,
    /// Its format.
    pub format: IconFormat,
}

/// The rest of the page data of a package.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// Its description in the package blob.
    pub description: String,
    pub default_channel: String,
    /// Its deprecation message.
    pub deprecation: Option<String>,
    /// Its channels by name.
    pub channels: Vec<ChannelSummary>,
    /// Its bundles, newest first.
    pub bundles: Vec<VersionSummary>,
    /// All images in its bundles.
    pub images: Vec<String>,
    /// The description of the head of the default channel.
    pub head: CsvDescription,
    /// Blobs of other schemas: schema, name, content.
    pub customs: Vec<(String, String, Value)>,
}

/// A channel.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ChannelSummary {
    /// Its name.
    pub name: String,
    /// The name of its head.
    pub head: String,
    /// Its deprecation message.
    pub deprecation: Option<String>,
    /// Its entries.
    pub entries: Vec<EntrySummary>,
}

/// A channel entry.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EntrySummary {
    /// The name of the bundle.
    #[serde(rename = "n")]
    pub name: String,
    /// The bundle it replaces.
    #[serde(rename = "r", skip_serializing_if = "String::is_empty")]
    pub replaces: String,
    /// The bundles it skips.
    #[serde(rename = "s", skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<String>,
    /// The versions that upgrade to it.
    #[serde(rename = "g", skip_serializing_if = "String::is_empty")]
    pub skip_range: String,
}

/// A bundle.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VersionSummary {
    /// Its name.
    #[serde(rename = "n")]
    pub name: String,
    /// Its version.
    #[serde(rename = "v")]
    pub version: String,
    /// Its release.
    #[serde(rename = "r", skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// The creation date, as given by its author.
    #[serde(rename = "d", skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// The minimum version of Kubernetes.
    #[serde(rename = "k", skip_serializing_if = "String::is_empty")]
    pub kube: String,
    /// Its image.
    #[serde(rename = "m")]
    pub image: String,
    /// The size of its blob, in bytes.
    #[serde(rename = "z")]
    pub size: u64,
    /// The digest of its blob.
    #[serde(rename = "h", skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Its deprecation message.
    #[serde(rename = "x", skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<String>,
    /// Its properties without manifests and metadata, as a JSON list.
    #[serde(rename = "p")]
    pub properties: String,
    /// Its related images, as indexes into [`Detail::images`], with their names.
    #[serde(rename = "i", skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<(u32, String)>,
}

/// The page data of a package.
#[derive(Debug, Clone, Default)]
pub struct PackageSummary {
    /// Its list row.
    pub row: Row,
    /// The rest.
    pub detail: Detail,
}

impl PackageSummary {
    /// Encodes it.
    pub fn write(&self) -> Vec<u8> {
        let row = serde_json::to_vec(&self.row).unwrap_or_default();
        let mut out = u32::try_from(row.len()).unwrap_or_default().to_le_bytes().to_vec();
        out.extend_from_slice(&row);
        serde_json::to_writer(&mut out, &self.detail).unwrap_or_default();
        out
    }

    /// Decodes it.
    pub fn read(bytes: &[u8]) -> Option<PackageSummary> {
        let (row, rest) = split(bytes)?;
        Some(PackageSummary { row: serde_json::from_slice(row).ok()?, detail: serde_json::from_slice(rest).ok()? })
    }

    /// Returns a bundle by name.
    pub fn bundle(&self, name: &str) -> Option<&VersionSummary> {
        self.detail.bundles.iter().find(|bundle| bundle.name == name)
    }

    /// Returns the channels that contain a bundle, and whether it is their head.
    pub fn channels_of<'a>(&'a self, bundle: &'a str) -> impl Iterator<Item = (&'a ChannelSummary, bool)> {
        self.detail.channels.iter().filter_map(move |channel| {
            channel.entries.iter().any(|entry| entry.name == bundle).then_some((channel, channel.head == bundle))
        })
    }

    /// Returns whether an entry skips a bundle.
    pub fn is_skipped(&self, bundle: &str) -> bool {
        self.detail
            .channels
            .iter()
            .flat_map(|channel| &channel.entries)
            .any(|e| e.skips.iter().any(|skip| skip == bundle))
    }

    /// Returns the previous bundle, by version.
    pub fn before(&self, bundle: &str) -> Option<&VersionSummary> {
        let place = self.detail.bundles.iter().position(|one| one.name == bundle)?;
        self.detail.bundles.get(place + 1)
    }

    /// Returns the next bundle, by version.
    pub fn after(&self, bundle: &str) -> Option<&VersionSummary> {
        let place = self.detail.bundles.iter().position(|one| one.name == bundle)?;
        self.detail.bundles.get(place.checked_sub(1)?)
    }

    /// Returns its display name.
    pub fn title(&self) -> &str {
        self.row.title()
    }
}

impl Row {
    /// Decodes the list row only.
    pub fn read(bytes: &[u8]) -> Option<Row> {
        serde_json::from_slice(split(bytes)?.0).ok()
    }

    /// Returns the display name of the package.
    pub fn title(&self) -> &str {
        if self.title.is_empty() { &self.name } else { &self.title }
    }
}

impl VersionSummary {
    /// Returns version and release as shown to users.
    pub(crate) fn full_version(&self) -> String {
        if self.release.is_empty() { self.version.clone() } else { format!("{}-{}", self.version, self.release) }
    }

    /// Returns the properties: type and value.
    pub fn properties(&self) -> Vec<(String, Value)> {
        let Ok(Value::Array(list)) = serde_json::from_str::<Value>(&self.properties) else { return Vec::new() };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        list.into_iter().map(|property| (text(&property["type"]), property["value"].clone())).collect()
    }

    /// Returns the values of all properties of a type.
    pub fn values(&self, kind: &str) -> Vec<Value> {
        self.properties().into_iter().filter(|(found, _)| found == kind).map(|(_, value)| value).collect()
    }
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// Returns a short digest of bytes, for file names.
pub fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", twox_hash::XxHash3_64::oneshot(bytes))
}
