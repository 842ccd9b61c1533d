//! Adds a new bundle and its channel entries to a catalog.

use fbc::blob::ChannelEntry;
use fbc::json::{Raw, Text};
use fbc::limits::MAX_DEPTH;
use fbc::property;
use fbc::release::Release;
use fbc::version::Version;

use crate::changes::described_package_json;
use crate::new_blob::{AttachedFile, NewBlob};
use crate::outline::{Outline, OutlineBundle, OutlineChannel, OutlinePackage};
use crate::promote::{Promotion, promote};
use crate::refusal::EditRefusal;

/// A bundle to add to the catalog.
#[derive(Debug, Clone)]
pub struct NewBundle {
    pub name: String,
    pub package: String,
    /// The blob, as JSON.
    pub json: Text,
    /// The CSV as JSON, which supplies the description of a new package.
    pub csv: Option<String>,
    /// The files that the blob refers to.
    pub files: Vec<AttachedFile>,
}

/// The channels of a new bundle, as its own metadata declares them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeclaredChannels {
    pub channels: Vec<String>,
    /// The default channel of a package that is new; empty for the first of `channels`.
    pub default_channel: String,
    /// The entry for each of these channels.
    pub entry: ChannelEntry,
}

/// Adds a bundle and promotes it into channels, creating the package if it is new.
///
/// Returns notes for the user.
///
/// # Errors
/// Refuses if the bundle exists already, or if a channel has no position for it.
pub fn add_bundle(
    outline: &mut Outline,
    bundle: &NewBundle,
    channels: &[String],
    promotion: &Promotion,
) -> Result<Vec<String>, EditRefusal> {
    let mut notes = Vec::new();
    let Some(first) = channels.first() else {
        return Err(EditRefusal::new("a bundle needs a channel").help("set one with --channel"));
    };
    let mut promotion = promotion.clone();
    if insert(outline, bundle, first)? {
        notes.push(format!("created package {:?} with default channel {first:?}", bundle.package));
        promotion.create = true;
    }
    for channel in channels {
        promote(outline, Some(&bundle.package), &bundle.name, channel, &promotion)?;
    }
    Ok(notes)
}

/// Adds a bundle and its entries with the edges that it declares, creating the package and channels that are missing.
///
/// # Errors
/// Refuses if the bundle exists already.
pub fn add_declared(outline: &mut Outline, bundle: &NewBundle, declared: &DeclaredChannels) -> Result<(), EditRefusal> {
    let Some(first) = declared.channels.first() else {
        return Err(
            EditRefusal::new(format!("bundle {:?} declares no channel", bundle.name)).help("set one with --channels")
        );
    };
    let default = if declared.default_channel.is_empty() { first } else { &declared.default_channel };
    insert(outline, bundle, default)?;
    let package = outline.package_mut(&bundle.package)?;
    for name in &declared.channels {
        let channel: &mut OutlineChannel = package.channels.entry(name.clone()).or_default();
        if channel.entry(&bundle.name).is_none() {
            channel.entries.push(ChannelEntry { name: bundle.name.as_str().into(), ..declared.entry.clone() });
        }
    }
    Ok(())
}

/// Adds a bundle to its package and returns whether the package is new.
fn insert(outline: &mut Outline, bundle: &NewBundle, default_channel: &str) -> Result<bool, EditRefusal> {
    let is_new = !outline.packages.contains_key(&bundle.package);
    if is_new {
        let csv = bundle.csv.as_deref().and_then(|csv| Raw::parse(csv, MAX_DEPTH).ok());
        let package = OutlinePackage {
            new_blob: Some(NewBlob::json(described_package_json(&bundle.package, default_channel, csv))),
            default_channel: default_channel.to_owned(),
            ..OutlinePackage::default()
        };
        outline.packages.insert(bundle.package.clone(), package);
    }
    let package = outline.package_mut(&bundle.package)?;
    if package.bundles.contains_key(&bundle.name) {
        return Err(EditRefusal::new(format!(
            "bundle {:?} already exists in package {:?}",
            bundle.name, bundle.package
        ))
        .help("add it to another channel with 'opm edit promote'; to replace it, remove the existing bundle first"));
    }
    let version = version(bundle.json.raw());
    let text = NewBlob { files: bundle.files.clone(), ..NewBlob::json(bundle.json.clone()) };
    package.bundles.insert(bundle.name.clone(), OutlineBundle { blob: None, new_blob: Some(text), version });
    Ok(is_new)
}

/// Reads the version from the blob of a bundle.
pub(crate) fn version(bundle: Raw<'_>) -> Option<(Version, Option<Release>)> {
    let (_, value) = property::of(bundle).find(|(kind, _)| kind == property::PACKAGE)?;
    let text = |name: &str| value.and_then(|value| value.get(name)?.as_str()).unwrap_or_default();
    Some((Version::parse_strict(&text("version")).ok()?, Release::parse(&text("release")).ok().flatten()))
}
