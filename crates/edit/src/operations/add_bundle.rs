//! Adds a bundle directory to a catalog and its channels.

use std::path::{Path, PathBuf};

use bundle::{BundleBlob, BundleSummary};
use fbc::{BlobContent, Fbc, Limits};

use crate::add_bundle::NewBundle;
use crate::edited::Edited;
use crate::error::EditError;
use crate::promote::{EdgePolicy, Promotion};
use crate::transaction::{EditOptions, NewPackageLayout, NoNotices, Notices, Transaction};
use crate::verify::Purpose;

/// A request to add a bundle. What it leaves open, the bundle says.
#[derive(Debug, Clone)]
pub struct AddBundle {
    /// The catalog and the destination.
    pub options: EditOptions,
    /// The bundle, as the user calls it.
    pub name: String,
    /// The directory of the bundle.
    pub directory: PathBuf,
    /// The image of the bundle; empty if it has none.
    pub image: String,
    /// Whether to store `olm.csv.metadata` instead of all objects; `None` to do what the catalog does.
    pub migrate: Option<bool>,
    /// The channels; if empty, those that the bundle names.
    pub channels: Vec<String>,
    /// The position among other entries; `None` if the request does not choose one.
    pub policy: Option<EdgePolicy>,
    /// The bundle that it replaces, empty for none; `None` for the one that the policy or the bundle selects.
    pub replaces: Option<String>,
    /// Bundles that it skips; if empty, those that the bundle names.
    pub skips: Vec<String>,
    /// The versions that upgrade to it directly; `None` for those that the bundle names.
    pub skip_range: Option<String>,
    /// Whether to create missing channels.
    pub create: bool,
}

/// Adds a bundle to a catalog and its channels.
///
/// # Errors
/// Fails as [`EditError`] says; the catalog is then as it was.
pub fn add_bundle(request: &AddBundle, notices: &dyn Notices) -> Result<Edited, EditError> {
    let AddBundle { name, directory, image, migrate, options, .. } = request;
    let transaction = Transaction::open(options, false, notices)?;
    let migrate = match migrate {
        Some(migrate) => *migrate,
        None => {
            let (rendered, _) = render_bundle(name, directory, image, false, &options.limits, &NoNotices)?;
            !image.is_empty() && stores_metadata(&transaction.catalog().fbc, &rendered.package)
        }
    };
    let (rendered, contents) = render_bundle(name, directory, image, migrate, &options.limits, notices)?;
    let csv = match rendered.csv {
        Some(csv) => Some(csv.into_string()),
        None => {
            let fbc = Fbc::default();
            let blob = fbc.generated_blob(&rendered.json, &options.limits)?;
            fbc.csv(&blob, &options.limits)?
        }
    };
    if image.is_empty() {
        notices.warn(&format!("{name}: the bundle has no image, which clusters need: set it with --image"));
    }
    let new = NewBundle { name: rendered.name, package: rendered.package, json: rendered.json, csv, files: Vec::new() };
    let mut promotion = Promotion {
        policy: request.policy.unwrap_or_default(),
        replaces: request.replaces.clone(),
        skips: request.skips.clone(),
        skip_range: request.skip_range.clone(),
        create: request.create,
    };
    let mut channels = request.channels.clone();
    let mut notes = take_from_bundle(request, contents, &mut channels, &mut promotion);
    let mut outline = transaction.outline();
    notes.extend(crate::add_bundle::add_bundle(&mut outline, &new, &channels, &promotion)?);
    transaction.commit(&outline, notes, Purpose::Keep, NewPackageLayout::Usual)
}

/// Returns whether most bundles of a package store `olm.csv.metadata`; those of the catalog decide for a new package.
fn stores_metadata(fbc: &Fbc, package: &str) -> bool {
    let count = |all: bool| {
        let blobs = fbc.blobs().iter().filter(|blob| all || &*blob.package == package);
        let bundles = blobs.filter_map(|blob| match &blob.content {
            BlobContent::Bundle(bundle) => Some(bundle),
            _ => None,
        });
        bundles.fold((0, 0), |(metadata, objects), bundle| {
            (metadata + usize::from(bundle.csv_metadata > 0), objects + usize::from(bundle.objects > 0))
        })
    };
    let (metadata, objects) = match count(false) {
        (0, 0) => count(true),
        found => found,
    };
    metadata > objects
}

/// Renders a bundle directory as a blob, reads what it declares, and passes the warnings on.
pub(crate) fn render_bundle(
    name: &str,
    directory: &Path,
    image: &str,
    migrate: bool,
    limits: &Limits,
    notices: &dyn Notices,
) -> Result<(BundleBlob, BundleSummary), EditError> {
    let options = bundle::RenderOptions { image, image_template: None, migrate, limits: limits.clone() };
    let (rendered, contents) = bundle::render_and_read(directory, &options)
        .map_err(|source| EditError::Bundle { name: name.to_owned(), source: Box::new(source) })?;
    rendered.warnings.iter().for_each(|warning| notices.warn(&format!("{name}: {warning}")));
    Ok((rendered, contents))
}

/// Fills channels and edges that the request leaves open from the bundle. Returns a note about them.
fn take_from_bundle(
    request: &AddBundle,
    contents: BundleSummary,
    channels: &mut Vec<String>,
    promotion: &mut Promotion,
) -> Vec<String> {
    let mut taken = Vec::new();
    let of_bundle: Vec<String> = contents.channels.into_iter().filter(|channel| !channel.is_empty()).collect();
    if channels.is_empty() && !of_bundle.is_empty() {
        let what = if of_bundle.len() == 1 { "channel" } else { "channels" };
        taken.push(format!("{what} {}", of_bundle.join(", ")));
        *channels = of_bundle;
        promotion.create = true;
    }
    if request.policy.is_none() && request.replaces.is_none() && !contents.replaces.is_empty() {
        taken.push(format!("replaces {}", contents.replaces));
        promotion.replaces = Some(contents.replaces);
    }
    if request.skips.is_empty() && !contents.skips.is_empty() {
        taken.push(format!("skips {}", contents.skips.join(", ")));
        promotion.skips = contents.skips;
    }
    if request.skip_range.is_none() && !contents.skip_range.is_empty() {
        taken.push(format!("skipRange {}", contents.skip_range));
        promotion.skip_range = Some(contents.skip_range);
    }
    if taken.is_empty() { Vec::new() } else { vec![format!("from the bundle: {}", taken.join("; "))] }
}
