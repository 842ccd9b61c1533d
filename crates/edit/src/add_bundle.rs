//! A new bundle into a catalog, with its entries.

use fbc::blob::Entry;
use fbc::json::{Raw, Text};
use fbc::limits::MAX_DEPTH;
use fbc::property;
use fbc::release::Release;
use fbc::version::Version;

use crate::changes::described_package_json;
use crate::new_blob::{Attached, NewBlob};
use crate::outline::{Bundle, Channel, Outline, Package};
use crate::promote::{Promotion, promote};
use crate::refusal::Refusal;

/// A bundle that is not in the catalog yet.
#[derive(Debug, Clone)]
pub struct NewBundle {
    /// Its name.
    pub name: String,
    /// Its package.
    pub package: String,
    /// Its blob as JSON.
    pub json: Text,
    /// Its CSV as JSON, which describes a package that is new.
    pub csv: Option<String>,
    /// The files that its blob refers to.
    pub files: Vec<Attached>,
}

/// The place of a new bundle in channels, as the bundle itself names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// The channels.
    pub channels: Vec<String>,
    /// The default channel of a package that is new; empty for the first of `channels`.
    pub default_channel: String,
    /// The entry in each of them.
    pub entry: Entry,
}

/// Adds a bundle and puts it into channels; a package that is new is made.
///
/// Returns what the user should know.
///
/// # Errors
/// Refuses when the bundle is there already, or has no place in one of the channels.
pub fn add_bundle(
    outline: &mut Outline,
    bundle: &NewBundle,
    channels: &[String],
    promotion: &Promotion,
) -> Result<Vec<String>, Refusal> {
    let mut notes = Vec::new();
    let Some(first) = channels.first() else {
        return Err(Refusal::new("a bundle needs a channel").help("name one with --channel"));
    };
    let mut promotion = promotion.clone();
    if insert(outline, bundle, first)? {
        notes.push(format!("package {:?} is new, and {first:?} its default channel", bundle.package));
        promotion.create = true;
    }
    for channel in channels {
        promote(outline, Some(&bundle.package), &bundle.name, channel, &promotion)?;
    }
    Ok(notes)
}

/// Adds a bundle and puts it into channels with the edges that it names itself; what is new is made.
///
/// # Errors
/// Refuses when the bundle is there already.
pub fn add_named(outline: &mut Outline, bundle: &NewBundle, named: &Named) -> Result<(), Refusal> {
    let Some(first) = named.channels.first() else {
        return Err(Refusal::new(format!("bundle {:?} names no channel", bundle.name)).help("name one with --channels"));
    };
    let default = if named.default_channel.is_empty() { first } else { &named.default_channel };
    insert(outline, bundle, default)?;
    let package = outline.package_mut(&bundle.package)?;
    for name in &named.channels {
        let channel: &mut Channel = package.channels.entry(name.clone()).or_default();
        if channel.entry(&bundle.name).is_none() {
            channel.entries.push(Entry { name: bundle.name.as_str().into(), ..named.entry.clone() });
        }
    }
    Ok(())
}

/// Adds a bundle to its package, and returns whether that is new.
fn insert(outline: &mut Outline, bundle: &NewBundle, default_channel: &str) -> Result<bool, Refusal> {
    let is_new = !outline.packages.contains_key(&bundle.package);
    if is_new {
        let csv = bundle.csv.as_deref().and_then(|csv| Raw::parse(csv, MAX_DEPTH).ok());
        let package = Package {
            made: Some(NewBlob::json(described_package_json(&bundle.package, default_channel, csv))),
            default_channel: default_channel.to_owned(),
            ..Package::default()
        };
        outline.packages.insert(bundle.package.clone(), package);
    }
    let package = outline.package_mut(&bundle.package)?;
    if package.bundles.contains_key(&bundle.name) {
        return Err(Refusal::new(format!("bundle {:?} already exists in package {:?}", bundle.name, bundle.package))
            .help("'opm edit promote' puts it into another channel; to have it anew, remove the one there is first"));
    }
    let version = version(bundle.json.raw());
    let text = NewBlob { files: bundle.files.clone(), ..NewBlob::json(bundle.json.clone()) };
    package.bundles.insert(bundle.name.clone(), Bundle { blob: None, made: Some(text), version });
    Ok(is_new)
}

/// Reads the version of a bundle's blob.
pub(crate) fn version(bundle: Raw<'_>) -> Option<(Version, Option<Release>)> {
    let (_, value) = property::of(bundle).find(|(kind, _)| kind == property::PACKAGE)?;
    let text = |name: &str| value.and_then(|value| value.get(name)?.as_str()).unwrap_or_default();
    Some((Version::parse_strict(&text("version")).ok()?, Release::parse(&text("release")).ok().flatten()))
}
