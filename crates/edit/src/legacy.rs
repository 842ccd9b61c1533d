//! Adds bundles in the layout of the first file-based catalogs: a JSON file per package, with the objects of bundles in
//! files next to it, and channels and edges as the bundles declare them.

mod split;

use std::path::{Path, PathBuf};

use bundle::BundleSummary;
use fbc::Limits;
use fbc::blob::ChannelEntry;
use fbc::json::Text;

use crate::add_bundle::{DeclaredChannels, NewBundle, add_declared};
use crate::edited::Edited;
use crate::error::EditError;
use crate::new_blob::{AttachedContent, AttachedFile};
use crate::operations::render_bundle;
use crate::refusal::EditRefusal;
use crate::transaction::{EditOptions, NewPackageLayout, Notices, Transaction, Write};
use crate::verify::Purpose;

pub use crate::transaction::{IGNORE_FILE, OBJECTS_IGNORED};
pub use split::{InvalidObject, split};

/// What to add a bundle with, instead of what it declares.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The channels; those of the bundle if empty.
    pub channels: Vec<String>,
    /// The default channel of a new package.
    pub default_channel: Option<String>,
    /// The bundle that it replaces; empty for none.
    pub replaces: Option<String>,
    /// The bundles that it skips.
    pub skips: Option<Vec<String>>,
    /// The versions that upgrade to it directly.
    pub skip_range: Option<String>,
}

/// A bundle to add, with the channels and edges that it declares.
#[derive(Debug)]
pub struct LegacyBundle {
    new: NewBundle,
    declared: DeclaredChannels,
}

impl LegacyBundle {
    /// Reads a bundle directory; `name` is what the user calls it, and `image` is empty if it has none.
    ///
    /// # Errors
    /// Fails if the bundle cannot be read or does not fit into a catalog.
    pub fn read(
        name: &str,
        directory: &Path,
        image: &str,
        overrides: &Overrides,
        limits: &Limits,
        notices: &dyn Notices,
    ) -> Result<LegacyBundle, EditError> {
        let (rendered, contents) = render_bundle(name, directory, image, false, limits, notices)?;
        LegacyBundle::new(contents, &rendered.json, overrides)
    }

    fn new(contents: BundleSummary, json: &Text, overrides: &Overrides) -> Result<LegacyBundle, EditError> {
        let BundleSummary {
            name,
            package,
            mut channels,
            default_channel,
            mut replaces,
            mut skips,
            mut skip_range,
            csv,
            ..
        } = contents;
        for (what, text) in [("package", &package), ("bundle", &name)] {
            if matches!(text.as_str(), "" | "." | "..") || text.contains(['/', '\0']) || text.len() > 200 {
                return Err(
                    EditRefusal::new(format!("invalid {what} name {text:?}: it must be a valid file name")).into()
                );
            }
        }
        if !overrides.channels.is_empty() {
            channels.clone_from(&overrides.channels);
        }
        channels.retain(|channel| !channel.is_empty());
        if channels.is_empty() {
            let message = format!("bundle \"{name}\" has no channels: set them with --channels");
            return Err(EditRefusal::new(message).into());
        }
        if let Some(given) = &overrides.replaces {
            replaces.clone_from(given);
        }
        if let Some(given) = &overrides.skips {
            skips = given.iter().filter(|skip| !skip.is_empty()).cloned().collect();
        }
        if let Some(given) = &overrides.skip_range {
            skip_range.clone_from(given);
        }
        let entry = ChannelEntry {
            name: name.as_str().into(),
            replaces: replaces.into(),
            skips: skips.into_iter().map(Into::into).collect(),
            skip_range: skip_range.into(),
        };
        let default_channel = overrides.default_channel.clone().unwrap_or(default_channel);
        let (json, objects) = split(json.raw(), &name).map_err(|error| EditRefusal::new(error.to_string()))?;
        let attached = |(file, content): (String, Vec<u8>)| AttachedFile {
            reference: format!("objects/{name}/{file}"),
            content: AttachedContent::Bytes(content),
        };
        let files = objects.into_iter().map(attached).collect();
        let new = NewBundle { name, package, json, csv: Some(csv), files };
        Ok(LegacyBundle { new, declared: DeclaredChannels { channels, default_channel, entry } })
    }

    /// Returns the name of the bundle.
    pub fn name(&self) -> &str {
        &self.new.name
    }

    /// Returns its package.
    pub fn package(&self) -> &str {
        &self.new.package
    }

    /// Returns the channels to add it to.
    pub fn channels(&self) -> &[String] {
        &self.declared.channels
    }
}

/// A request to add bundles to a catalog directory, in place.
#[derive(Debug)]
pub struct Add {
    /// The directory of the catalog.
    pub catalog: PathBuf,
    pub bundles: Vec<LegacyBundle>,
    /// Whether installed versions may lose their path to the channel head.
    pub allow_stranded: bool,
    /// The limits for what is read.
    pub limits: Limits,
}

/// Adds bundles to a catalog directory, in place.
///
/// # Errors
/// Fails as [`EditError`] says; the catalog is then as it was.
pub fn add(request: &Add, notices: &dyn Notices) -> Result<Edited, EditError> {
    let options = EditOptions {
        catalog: request.catalog.clone(),
        write: Write::InPlace,
        dry_run: false,
        allow_stranded: request.allow_stranded,
        limits: request.limits.clone(),
    };
    let transaction = Transaction::open(&options, false, notices)?;
    let mut outline = transaction.outline();
    for LegacyBundle { new, declared } in &request.bundles {
        add_declared(&mut outline, new, declared)?;
    }
    transaction.commit(&outline, Vec::new(), Purpose::Keep, NewPackageLayout::Legacy)
}
