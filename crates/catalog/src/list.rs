//! Lists the content of a catalog: rows for users and programs.

mod forms;

use std::borrow::Cow;
use std::io;

use fbc::blob::{ChannelEntry, TextBuffer};
use fbc::fault::{Class, Fault};
use fbc::json::Raw;
use fbc::release::cmp_version_release;
use fbc::{Fbc, Limits, property, similar};
use schemars::JsonSchema;
use serde::Serialize;

use crate::model::{Bundle, Catalog, Package};

pub use forms::{bundle_table, channel_table, csv, package_table, summary, table, yaml};

/// A package in a list.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageRow<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its display name, from the head of its default channel; empty if that has none.
    pub display_name: String,
    /// The name of its default channel.
    pub default_channel: &'a str,
    /// The number of channels.
    pub channels: usize,
    /// The number of bundles.
    pub bundles: usize,
    /// Its deprecation message.
    pub deprecation: Option<&'a str>,
}

/// A channel in a list.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelRow<'a> {
    /// The name of its package.
    pub package: &'a str,
    /// Its name.
    pub channel: &'a str,
    /// The name of its head.
    pub head: &'a str,
    /// Whether it is the default channel.
    pub default: bool,
    /// The number of entries.
    pub entries: usize,
    /// Its deprecation message.
    pub deprecation: Option<&'a str>,
}

/// A bundle in a list, as a member of one channel.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedBundle<'a> {
    /// The name of its package.
    pub package: &'a str,
    /// The name of the channel.
    pub channel: &'a str,
    /// Its name.
    pub bundle: &'a str,
    /// Its version, with its release if it has one.
    pub version: String,
    /// Whether it is the head of the channel.
    pub head: bool,
    /// The bundle it replaces in this channel, or empty.
    pub replaces: &'a str,
    /// The bundles it skips in this channel.
    pub skips: &'a [Box<str>],
    /// The versions that upgrade to it directly, or empty.
    pub skip_range: &'a str,
    /// The pull spec of its image.
    pub image: &'a str,
    /// Its deprecation message.
    pub deprecation: Option<&'a str>,
}

/// No package has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("package \"{name}\" not found")]
pub struct UnknownPackage {
    pub name: String,
    /// A similar name of a package.
    pub nearest: Option<String>,
}

impl Fault for UnknownPackage {
    fn class(&self) -> Class {
        Class::Refused
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        self.nearest.as_ref().map(|near| format!("did you mean \"{near}\"?").into())
    }
}

/// Returns all packages, or only the one with this name.
///
/// # Errors
/// Fails if there is no package of this name.
pub fn named<'a>(catalog: &'a Catalog, name: Option<&str>) -> Result<Vec<&'a Package>, UnknownPackage> {
    let Some(name) = name else { return Ok(catalog.packages().iter().collect()) };
    catalog.package(name).map(|package| vec![package]).ok_or_else(|| UnknownPackage {
        name: name.to_owned(),
        nearest: similar::nearest(name, catalog.packages().iter().map(Package::name)).map(str::to_owned),
    })
}

/// Where display names come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisplayNames {
    /// CSVs in `olm.bundle.object` properties only, like upstream opm.
    OfObjects,
    /// CSVs, or else `olm.csv.metadata`.
    Any,
}

/// Lists the packages of a catalog that was loaded with its text, by name.
///
/// # Errors
/// Fails if the text can no longer be read.
pub fn packages<'a>(
    catalog: &'a Catalog,
    fbc: &Fbc,
    names: DisplayNames,
    limits: &Limits,
) -> io::Result<Vec<PackageRow<'a>>> {
    let row = |package: &'a Package| {
        let head = package.bundle(&package.default_channel().head().name).map(|bundle| bundle.blob);
        let display_name = head.map(|blob| display_name(fbc, blob, names, limits)).transpose()?.flatten();
        Ok(PackageRow {
            name: package.name(),
            display_name: display_name.unwrap_or_default(),
            default_channel: package.default_channel().name(),
            channels: package.channels().len(),
            bundles: package.bundles().count(),
            deprecation: package.deprecation(),
        })
    };
    catalog.packages().iter().map(row).collect()
}

/// Returns the display name that the blob of a bundle sets.
fn display_name(fbc: &Fbc, blob: usize, wanted: DisplayNames, limits: &Limits) -> io::Result<Option<String>> {
    let Some(blob) = fbc.blobs().get(blob) else { return Ok(None) };
    let csv = fbc.csv(blob, limits)?;
    let csv = csv.as_deref().and_then(|text| Raw::parse(text, limits.depth).ok());
    let name = csv.and_then(|csv| csv.get("spec")?.get("displayName")?.as_str()).map(Cow::into_owned);
    if name.is_some() || wanted == DisplayNames::OfObjects {
        return Ok(name);
    }
    let mut buffer = TextBuffer::default();
    let metadata = property::of(fbc.text(blob, &mut buffer)?).find(|(kind, _)| kind == property::CSV_METADATA);
    Ok(metadata.and_then(|(_, value)| value?.get("displayName")?.as_str()).map(Cow::into_owned))
}

/// Lists the channels of the packages given, by name.
pub fn channels<'a>(packages: impl IntoIterator<Item = &'a Package>) -> Vec<ChannelRow<'a>> {
    let mut rows = Vec::new();
    for package in packages {
        rows.extend(package.channels().iter().map(|channel| ChannelRow {
            package: package.name(),
            channel: channel.name(),
            head: &channel.head().name,
            default: channel.name() == package.default_channel().name(),
            entries: channel.entries().len(),
            deprecation: channel.deprecation(),
        }));
    }
    rows
}

/// The order of bundles within a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By name, as older tools list them.
    Name,
    /// The highest version first.
    NewestFirst,
}

/// Lists the bundles of the packages given: once for each channel, by channel and in `order`.
pub fn bundles<'a>(packages: impl IntoIterator<Item = &'a Package>, order: Order) -> Vec<ListedBundle<'a>> {
    let mut rows = Vec::new();
    for package in packages {
        for channel in package.channels() {
            let mut members: Vec<(&ChannelEntry, &Bundle)> =
                channel.entries().iter().filter_map(|entry| Some((entry, package.bundle(&entry.name)?))).collect();
            if order == Order::NewestFirst {
                let key = |bundle: &'a Bundle| (&bundle.version, bundle.release.as_ref());
                members.sort_by(|a, b| cmp_version_release(key(b.1), key(a.1)));
            }
            for (entry, bundle) in members {
                let release = bundle.release.as_ref().map(|release| format!("-{release}")).unwrap_or_default();
                rows.push(ListedBundle {
                    package: package.name(),
                    channel: channel.name(),
                    bundle: &entry.name,
                    version: format!("{}{release}", bundle.version),
                    head: entry.name == channel.head().name,
                    replaces: &entry.replaces,
                    skips: &entry.skips,
                    skip_range: &entry.skip_range,
                    image: &bundle.image,
                    deprecation: bundle.deprecation.as_deref(),
                });
            }
        }
    }
    rows
}
