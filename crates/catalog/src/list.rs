//! Lists the content of a catalog: rows for users and programs.

use fbc::blob::Entry;
use fbc::release::cmp_version_release;

use crate::model::{Bundle, Catalog, Package};

/// A package in a list.
#[derive(Debug, PartialEq, Eq)]
pub struct PackageRow<'a> {
    /// Its name.
    pub name: &'a str,
    /// The blob of the head of its default channel, which has the display name of the package.
    pub head_blob: Option<usize>,
    /// The name of its default channel.
    pub default_channel: &'a str,
    /// Its deprecation message.
    pub deprecation: Option<&'a str>,
    /// The number of channels.
    pub channels: usize,
    /// The number of bundles.
    pub bundles: usize,
}

/// A channel in a list.
#[derive(Debug, PartialEq, Eq)]
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
#[derive(Debug, PartialEq, Eq)]
pub struct BundleRow<'a> {
    /// The name of its package.
    pub package: &'a str,
    /// The name of the channel.
    pub channel: &'a str,
    /// Its name.
    pub bundle: &'a str,
    /// Its version, with its release if it has one.
    pub version: String,
    /// The bundle it replaces in this channel, or empty.
    pub replaces: &'a str,
    /// The bundles it skips in this channel.
    pub skips: &'a [Box<str>],
    /// The versions that upgrade to it directly, or empty.
    pub skip_range: &'a str,
    /// The pull spec of its image.
    pub image: &'a str,
    /// Whether it is the head of the channel.
    pub head: bool,
    /// Its deprecation message.
    pub deprecation: Option<&'a str>,
}

/// Lists the packages by name.
pub fn packages(catalog: &Catalog) -> Vec<PackageRow<'_>> {
    let row = |package: &'_ Package| -> Option<usize> {
        package.bundle(&package.default_channel().head().name).map(|bundle| bundle.blob)
    };
    catalog
        .packages()
        .iter()
        .map(|package| PackageRow {
            name: package.name(),
            head_blob: row(package),
            default_channel: package.default_channel().name(),
            deprecation: package.deprecation(),
            channels: package.channels().len(),
            bundles: package.bundles().count(),
        })
        .collect()
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
pub fn bundles<'a>(packages: impl IntoIterator<Item = &'a Package>, order: Order) -> Vec<BundleRow<'a>> {
    let mut rows = Vec::new();
    for package in packages {
        for channel in package.channels() {
            let mut members: Vec<(&Entry, &Bundle)> =
                channel.entries().iter().filter_map(|entry| Some((entry, package.bundle(&entry.name)?))).collect();
            if order == Order::NewestFirst {
                let key = |bundle: &'a Bundle| (&bundle.version, bundle.release.as_ref());
                members.sort_by(|a, b| cmp_version_release(key(b.1), key(a.1)));
            }
            for (entry, bundle) in members {
                let release = bundle.release.as_ref().map(|release| format!("-{release}")).unwrap_or_default();
                rows.push(BundleRow {
                    package: package.name(),
                    channel: channel.name(),
                    bundle: &entry.name,
                    version: format!("{}{release}", bundle.version),
                    replaces: &entry.replaces,
                    skips: &entry.skips,
                    skip_range: &entry.skip_range,
                    image: &bundle.image,
                    head: entry.name == channel.head().name,
                    deprecation: bundle.deprecation.as_deref(),
                });
            }
        }
    }
    rows
}
