//! What lists, graphs and menus need of a package, made once when a catalog is loaded and kept beside its answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::csv::Csv;
use crate::icon::Format;

/// The line of a package in the list, and what it is found by.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// The name of the package.
    pub name: String,
    /// What it is called by those who made it; empty if they did not say.
    pub title: String,
    /// Who made it.
    pub provider: String,
    /// What it does, in a line.
    pub summary: String,
    /// The version that is installed unless another is asked for.
    pub version: String,
    /// The name of that version's bundle.
    pub head: String,
    /// The default channel.
    pub channel: String,
    /// When that version was made, as it says itself.
    pub date: String,
    /// Words that it is found by.
    pub keywords: Vec<String>,
    /// The kinds that it offers.
    pub kinds: Vec<String>,
    /// The repositories of all images that its versions name.
    pub images: Vec<String>,
    /// What it is for.
    pub categories: Vec<String>,
    /// How far it takes care of itself: 1 to 5, 0 when it does not say.
    pub capability: u8,
    /// The install modes that it supports.
    pub modes: Vec<String>,
    /// What its infrastructure allows.
    pub features: Vec<String>,
    /// The processors that it runs on.
    pub arches: Vec<String>,
    /// The least version of Kubernetes.
    pub kube: String,
    /// Whether the package, its default channel or the version should not be used any more.
    pub deprecated: bool,
    /// Whether it is only a part of others.
    pub dependency: bool,
    /// How many versions there are.
    pub versions: u32,
    /// How many channels there are.
    pub channels: u32,
    /// How many different heads they have.
    pub heads: u32,
    /// Its picture.
    pub icon: Option<Icon>,
    /// The packages that the head needs, and how.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<(String, String)>,
    /// What the console could not use of it.
    pub problems: Vec<String>,
}

/// A picture, by its bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Icon {
    /// Its digest.
    pub digest: String,
    /// What it is.
    pub format: Format,
}

/// The rest of what is known of a package without reading its bundles.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// Its description in the package blob.
    pub description: String,
    /// The default channel.
    pub default_channel: String,
    /// Why it should not be used any more.
    pub deprecation: Option<String>,
    /// Its channels by name.
    pub channels: Vec<Channel>,
    /// Its bundles, newest first.
    pub bundles: Vec<Bundle>,
    /// All images that its bundles name.
    pub images: Vec<String>,
    /// What people see of the head of the default channel.
    pub head: Csv,
    /// Blobs of other schemas: schema, name, content.
    pub customs: Vec<(String, String, Value)>,
}

/// A channel.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// The name of its head.
    pub head: String,
    /// Why it should not be used any more.
    pub deprecation: Option<String>,
    /// Its entries.
    pub entries: Vec<Entry>,
}

/// A bundle's place in a channel.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
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
pub struct Bundle {
    /// Its name.
    #[serde(rename = "n")]
    pub name: String,
    /// Its version.
    #[serde(rename = "v")]
    pub version: String,
    /// Its release.
    #[serde(rename = "r", skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// When it was made, as it says itself.
    #[serde(rename = "d", skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// The least version of Kubernetes.
    #[serde(rename = "k", skip_serializing_if = "String::is_empty")]
    pub kube: String,
    /// Its image.
    #[serde(rename = "m")]
    pub image: String,
    /// How many bytes its blob has.
    #[serde(rename = "z")]
    pub size: u64,
    /// The digest of its blob.
    #[serde(rename = "h", skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Why it should not be used any more.
    #[serde(rename = "x", skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<String>,
    /// Its properties without manifests and metadata, as a JSON list.
    #[serde(rename = "p")]
    pub properties: String,
    /// Its related images, by place in [`Detail::images`], with their names.
    #[serde(rename = "i", skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<(u32, String)>,
}

/// A package on the shelf.
#[derive(Debug, Clone, Default)]
pub struct Package {
    /// Its line in the list.
    pub row: Row,
    /// The rest.
    pub detail: Detail,
}

impl Package {
    /// Writes it down.
    pub fn write(&self) -> Vec<u8> {
        let row = serde_json::to_vec(&self.row).unwrap_or_default();
        let mut out = u32::try_from(row.len()).unwrap_or_default().to_le_bytes().to_vec();
        out.extend_from_slice(&row);
        serde_json::to_writer(&mut out, &self.detail).unwrap_or_default();
        out
    }

    /// Reads all of it.
    pub fn read(bytes: &[u8]) -> Option<Package> {
        let (row, rest) = split(bytes)?;
        Some(Package { row: serde_json::from_slice(row).ok()?, detail: serde_json::from_slice(rest).ok()? })
    }

    /// Returns a bundle by name.
    pub fn bundle(&self, name: &str) -> Option<&Bundle> {
        self.detail.bundles.iter().find(|bundle| bundle.name == name)
    }

    /// Returns the channels that have a bundle, and whether it is their head.
    pub fn channels_of<'a>(&'a self, bundle: &'a str) -> impl Iterator<Item = (&'a Channel, bool)> {
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

    /// Returns the bundle before another, by version.
    pub fn before(&self, bundle: &str) -> Option<&Bundle> {
        let place = self.detail.bundles.iter().position(|one| one.name == bundle)?;
        self.detail.bundles.get(place + 1)
    }

    /// Returns the bundle after another, by version.
    pub fn after(&self, bundle: &str) -> Option<&Bundle> {
        let place = self.detail.bundles.iter().position(|one| one.name == bundle)?;
        self.detail.bundles.get(place.checked_sub(1)?)
    }

    /// Returns what people call it.
    pub fn title(&self) -> &str {
        self.row.title()
    }
}

impl Row {
    /// Reads the line alone.
    pub fn read(bytes: &[u8]) -> Option<Row> {
        serde_json::from_slice(split(bytes)?.0).ok()
    }

    /// Returns what people call the package.
    pub fn title(&self) -> &str {
        if self.title.is_empty() { &self.name } else { &self.title }
    }
}

impl Bundle {
    /// Returns version and release as people write them.
    pub(crate) fn full_version(&self) -> String {
        if self.release.is_empty() { self.version.clone() } else { format!("{}-{}", self.version, self.release) }
    }

    /// Walks the properties: type and value.
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

/// Returns a short digest of bytes, for names of files.
pub fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", twox_hash::XxHash3_64::oneshot(bytes))
}
