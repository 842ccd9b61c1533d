//! A new bundle into a catalog, with its entries.

use fbc::json::Raw;
use fbc::limits::MAX_DEPTH;
use fbc::property;
use fbc::release::Release;
use fbc::version::Version;

use crate::changes::described_package_json;
use crate::outline::{Bundle, Made, Outline, Package};
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
    pub json: String,
    /// Its CSV as JSON, which describes a package that is new.
    pub csv: Option<String>,
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
    if !outline.packages.contains_key(&bundle.package) {
        notes.push(format!("package {:?} is new, and {first:?} its default channel", bundle.package));
        promotion.create = true;
        let csv = bundle.csv.as_deref().and_then(|csv| Raw::parse(csv, MAX_DEPTH).ok());
        let package = Package {
            made: Some(Made::json(described_package_json(&bundle.package, first, csv))),
            default_channel: first.clone(),
            ..Package::default()
        };
        outline.packages.insert(bundle.package.clone(), package);
    }
    let package = outline.package_mut(&bundle.package)?;
    if package.bundles.contains_key(&bundle.name) {
        return Err(Refusal::new(format!("package {:?} has a bundle {:?} already", bundle.package, bundle.name))
            .help("'opm edit promote' puts it into another channel; to have it anew, remove the one there is first"));
    }
    let version = version(Raw::from_checked(&bundle.json));
    let made = Bundle { blob: None, made: Some(Made::json(bundle.json.clone())), version };
    package.bundles.insert(bundle.name.clone(), made);
    for channel in channels {
        promote(outline, Some(&bundle.package), &bundle.name, channel, &promotion)?;
    }
    Ok(notes)
}

/// Reads the version of a bundle's blob.
pub(crate) fn version(bundle: Raw<'_>) -> Option<(Version, Option<Release>)> {
    let (_, value) = property::of(bundle).find(|(kind, _)| kind == property::PACKAGE)?;
    let text = |name: &str| value.and_then(|value| value.get(name)?.as_str()).unwrap_or_default();
    Some((Version::parse_strict(&text("version")).ok()?, Release::parse(&text("release")).ok().flatten()))
}
