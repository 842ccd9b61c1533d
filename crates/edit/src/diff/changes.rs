//! Compares two catalogs and reports the differences for users.

mod bundles;
mod formats;
mod lines;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use catalog::{Channel, Package};
use fbc::blob::ChannelEntry;
use fbc::blob::{BUNDLE, CHANNEL, PACKAGE, TextBuffer};
use fbc::json::{JsonLayout, Raw, Text, write_canonical};
use fbc::{Blob, BlobContent, Fbc, Limits};
use rayon::prelude::*;

use super::DiffSide;
pub use super::facts::{ComparedBundle, PermissionScope};
pub use formats::{markdown, text};
pub use lines::{LinePart, ReportLine, lines, package_lines, summary};
pub use report::{
    BundleChange, CatalogChanges, ChangeKind, ChannelChange, CrdChange, DeprecationChange, Difference, EntryChange,
    FieldDifference, ImageDifference, OtherChange, PackageChange, PermissionChange, PropertyDifference, ValueChange,
};

/// The level of detail.
#[derive(Debug, Default)]
pub struct CompareOptions {
    /// Whether to compare each new version with its predecessor.
    pub changelog: bool,
    /// Limits for manifests.
    pub limits: Limits,
}

/// Finds all differences between two catalogs.
///
/// All lists are sorted by name, so that equal catalogs give equal results regardless of their source text.
///
/// # Errors
/// Fails if files have changed since they were read.
pub fn changes(old: DiffSide<'_, '_>, new: DiffSide<'_, '_>, options: &CompareOptions) -> io::Result<CatalogChanges> {
    let (old_blobs, new_blobs) = (Blobs::of(old.fbc), Blobs::of(new.fbc));
    let mut packages: BTreeMap<&str, (Option<&Package>, Option<&Package>)> = BTreeMap::new();
    for package in old.catalog.packages() {
        packages.entry(package.name()).or_default().0 = Some(package);
    }
    for package in new.catalog.packages() {
        packages.entry(package.name()).or_default().1 = Some(package);
    }
    let packages: Vec<_> = packages.into_iter().collect();
    let packages: Vec<Option<PackageChange>> = packages
        .into_par_iter()
        .with_max_len(1)
        .map(|(name, (before, after))| {
            let old = PackageSide { fbc: old.fbc, blobs: &old_blobs, package: before };
            let new = PackageSide { fbc: new.fbc, blobs: &new_blobs, package: after };
            package_change(name, old, new, options)
        })
        .collect::<io::Result<_>>()?;
    let packages = packages.into_iter().flatten().collect();
    Ok(CatalogChanges { packages, others: others(old.fbc, new.fbc)? })
}

/// The blobs that declare packages and channels.
struct Blobs<'a>(BTreeMap<(&'a str, Option<&'a str>), &'a Blob>);

impl<'a> Blobs<'a> {
    fn of(fbc: &'a Fbc) -> Blobs<'a> {
        let mut blobs = BTreeMap::new();
        for blob in fbc.blobs() {
            match &*blob.schema {
                PACKAGE => blobs.entry((&*blob.package, None)).or_insert(blob),
                CHANNEL => blobs.entry((&*blob.package, Some(&*blob.name))).or_insert(blob),
                _ => continue,
            };
        }
        Blobs(blobs)
    }
}

/// A package in one of the two catalogs, if it exists there.
#[derive(Clone, Copy)]
struct PackageSide<'a> {
    fbc: &'a Fbc,
    blobs: &'a Blobs<'a>,
    package: Option<&'a Package>,
}

impl<'a> PackageSide<'a> {
    fn channel(&self, name: &str) -> Option<&'a Channel> {
        self.package?.channels().iter().find(|channel| channel.name() == name)
    }

    fn bundle(&self, name: &str) -> Option<&'a Blob> {
        self.fbc.blobs().get(self.package?.bundle(name)?.blob)
    }

    fn version(&self, name: &str) -> Option<String> {
        let bundle = self.package?.bundle(name)?;
        Some(match &bundle.release {
            Some(release) => format!("{}-{release}", bundle.version),
            None => bundle.version.to_string(),
        })
    }

    /// Passes the text of a package or channel to `read`, or `null` if it does not exist.
    fn with_text<T>(&self, channel: Option<&str>, read: impl Fn(Raw<'_>) -> T) -> io::Result<T> {
        let blob = self.package.and_then(|package| self.blobs.0.get(&(package.name(), channel)));
        let mut buffer = TextBuffer::default();
        match blob {
            Some(blob) => Ok(read(self.fbc.text(blob, &mut buffer)?)),
            None => Ok(read(Text::null().raw())),
        }
    }
}

fn package_change(
    name: &str,
    old: PackageSide<'_>,
    new: PackageSide<'_>,
    options: &CompareOptions,
) -> io::Result<Option<PackageChange>> {
    let default = |half: &PackageSide<'_>| half.package.map(|package| package.default_channel().name().to_owned());
    let mut details = Vec::new();
    let description = |text: Raw<'_>| text.get_str("description").into_owned();
    let icon = |text: Raw<'_>| {
        let field = |name| text.get("icon").and_then(|icon| icon.get(name)?.as_str()).unwrap_or_default().into_owned();
        (field("base64data").replace(['\n', '\r'], ""), field("mediatype"))
    };
    if old.package.is_some() && new.package.is_some() {
        if old.with_text(None, description)? != new.with_text(None, description)? {
            details.push("description");
        }
        if old.with_text(None, icon)? != new.with_text(None, icon)? {
            details.push("icon");
        }
    }
    let mut channels = Vec::new();
    for channel in union(old.package, new.package, |package| package.channels().iter().map(Channel::name).collect()) {
        channels.extend(channel_change(channel, old, new)?);
    }
    let change = PackageChange {
        name: name.to_owned(),
        what: ChangeKind::of(old.package.is_some(), new.package.is_some()),
        default_channel: ValueChange::of(default(&old), default(&new)),
        details,
        properties: Difference::of(&old.with_text(None, properties)?, &new.with_text(None, properties)?),
        channels,
        bundles: bundles::changes(old, new, options)?,
        deprecations: deprecations(old.package, new.package),
    };
    Ok((!change.is_empty()).then_some(change))
}

/// Returns the union of the names in both packages, sorted.
fn union<'a>(
    old: Option<&'a Package>,
    new: Option<&'a Package>,
    names: impl Fn(&'a Package) -> Vec<&'a str>,
) -> BTreeSet<&'a str> {
    old.into_iter().chain(new).flat_map(names).collect()
}

fn properties(text: Raw<'_>) -> BTreeSet<PropertyDifference> {
    let properties = text.get_items("properties");
    let property = |property: Raw<'_>| PropertyDifference {
        kind: property.get_str("type").into_owned(),
        value: property.get("value").map_or_else(|| "null".to_owned(), canonical),
    };
    properties.map(property).collect()
}

pub(super) fn canonical(value: Raw<'_>) -> String {
    let mut out = Vec::new();
    write_canonical(value, JsonLayout::Compact, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn channel_change(name: &str, old: PackageSide<'_>, new: PackageSide<'_>) -> io::Result<Option<ChannelChange>> {
    let (before, after) = (old.channel(name), new.channel(name));
    let head = |channel: Option<&Channel>| channel.map(|channel| channel.head().name.to_string());
    let mut entries: BTreeMap<&str, (Option<&ChannelEntry>, Option<&ChannelEntry>)> = BTreeMap::new();
    for entry in before.into_iter().flat_map(Channel::entries) {
        entries.entry(&entry.name).or_default().0 = Some(entry);
    }
    for entry in after.into_iter().flat_map(Channel::entries) {
        entries.entry(&entry.name).or_default().1 = Some(entry);
    }
    let entries = entries.into_iter().filter_map(|(name, (old, new))| entry_change(name, old, new));
    let change = ChannelChange {
        name: name.to_owned(),
        what: ChangeKind::of(before.is_some(), after.is_some()),
        head: ValueChange::of(head(before), head(after)),
        entries: entries.collect(),
        properties: Difference::of(&old.with_text(Some(name), properties)?, &new.with_text(Some(name), properties)?),
    };
    Ok((!change.is_empty()).then_some(change))
}

fn entry_change(name: &str, old: Option<&ChannelEntry>, new: Option<&ChannelEntry>) -> Option<EntryChange> {
    let text = |entry: Option<&ChannelEntry>, field: fn(&ChannelEntry) -> &str| {
        entry.map(field).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let skips = |entry: Option<&ChannelEntry>| {
        entry.map(|entry| entry.skips.iter().map(|skip| skip.to_string()).collect()).unwrap_or_default()
    };
    let change = EntryChange {
        bundle: name.to_owned(),
        what: ChangeKind::of(old.is_some(), new.is_some()),
        replaces: ValueChange::of(text(old, |entry| &entry.replaces), text(new, |entry| &entry.replaces)),
        skips: Difference::of(&skips(old), &skips(new)),
        skip_range: ValueChange::of(text(old, |entry| &entry.skip_range), text(new, |entry| &entry.skip_range)),
    };
    (!change.is_empty()).then_some(change)
}

/// Compares the deprecations of packages, channels and bundles.
fn deprecations(old: Option<&Package>, new: Option<&Package>) -> Vec<DeprecationChange> {
    let messages = |package: Option<&Package>| {
        let mut messages: BTreeMap<(&'static str, String), String> = BTreeMap::new();
        let Some(package) = package else { return messages };
        let mut add = |schema, name: &str, message: Option<&str>| {
            if let Some(message) = message {
                messages.insert((schema, name.to_owned()), message.to_owned());
            }
        };
        add(PACKAGE, "", package.deprecation());
        package.channels().iter().for_each(|channel| add(CHANNEL, channel.name(), channel.deprecation()));
        package.bundles().for_each(|(name, bundle)| add(BUNDLE, name, bundle.deprecation.as_deref()));
        messages
    };
    let (old, new) = (messages(old), messages(new));
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let change = |key: &(&'static str, String)| {
        let message = ValueChange::of(old.get(key).cloned(), new.get(key).cloned())?;
        Some(DeprecationChange { schema: key.0, name: key.1.clone(), message })
    };
    keys.into_iter().filter_map(change).collect()
}

/// Compares blobs with custom schemas.
fn others(old: &Fbc, new: &Fbc) -> io::Result<Vec<OtherChange>> {
    type Texts<'a> = BTreeMap<(&'a str, &'a str, &'a str), Vec<String>>;
    fn texts(fbc: &Fbc) -> io::Result<Texts<'_>> {
        let mut texts = Texts::new();
        let mut buffer = TextBuffer::default();
        for blob in fbc.blobs().iter().filter(|blob| matches!(blob.content, BlobContent::Other)) {
            let text = canonical(fbc.text(blob, &mut buffer)?);
            texts.entry((&blob.package, &blob.schema, &blob.name)).or_default().push(text);
        }
        texts.values_mut().for_each(|texts| texts.sort());
        Ok(texts)
    }
    let (old, new) = (texts(old)?, texts(new)?);
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let changed = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    let change = |key: &(&str, &str, &str)| OtherChange {
        package: key.0.to_owned(),
        schema: key.1.to_owned(),
        name: key.2.to_owned(),
        what: ChangeKind::of(old.contains_key(key), new.contains_key(key)),
    };
    Ok(changed.map(change).collect())
}

#[cfg(test)]
mod tests;
