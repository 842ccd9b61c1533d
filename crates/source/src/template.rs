//! The bundles of templates.

use std::io;
use std::path::{Path, PathBuf};

use bundle::BundleBlob;
use edit::template::{RenderedBundle, SupplyError};
use fbc::Limits;
use fbc::json::Text;
use rayon::prelude::*;

use crate::error::SourceError;
use crate::images::{Fetched, Images};
use crate::progress::SourceStage;
use crate::resolve::{NamedSource, unpack};

/// Why a template cannot refer to something.
#[derive(Debug, thiserror::Error)]
pub enum TemplateReferenceError {
    /// A directory without a prefix could be an image.
    #[error("a directory is not allowed in a template; for a bundle directory, write \"./{0}\"")]
    Directory(String),
    /// A file is neither.
    #[error("a file is not allowed in a template, only an image or a bundle directory")]
    File,
    /// The directory has a catalog.
    #[error(
        "a catalog directory is not allowed in a template, only an image or a bundle directory (with 'manifests' and \
         'metadata')"
    )]
    CatalogDirectory,
    /// The image has a catalog.
    #[error("a catalog is not allowed in a template, only a bundle")]
    Catalog,
    /// The path cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Renders the bundles of a template in parallel; each reference has one.
///
/// Upstream opm accepts only images, so a directory must start with `./`, `../` or `/`.
pub fn template_bundles(
    references: &[&str],
    migrate: bool,
    limits: &Limits,
    images: &Images,
) -> Vec<Result<Vec<RenderedBundle>, SupplyError>> {
    let directories: Vec<Result<Option<PathBuf>, TemplateReferenceError>> =
        references.iter().map(|reference| directory(reference)).collect();
    let pulled = references.iter().zip(&directories).filter(|(_, found)| matches!(found, Ok(None)));
    let pulled: Vec<&str> = pulled.map(|(reference, _)| *reference).collect();
    let mut fetched = if pulled.is_empty() { Vec::new() } else { images.fetch(&pulled) }.into_iter();
    let found: Vec<(&str, Result<BundleLocation, SourceError>)> = references
        .iter()
        .zip(directories)
        .map(|(reference, directory)| {
            let found = match directory {
                Ok(Some(path)) => Ok(BundleLocation::Directory(path)),
                Ok(None) => {
                    let fetched = fetched.next().unwrap_or_else(|| unreachable!("one for each image"));
                    fetched.map(|fetched| BundleLocation::Image(Box::new(fetched)))
                }
                Err(error) => Err(error.into()),
            };
            (*reference, found)
        })
        .collect();
    let running = images.progress().start(SourceStage::Rendering);
    let rendered = found
        .into_par_iter()
        .with_max_len(1)
        .map(|(reference, found)| {
            let (path, image) = match found? {
                BundleLocation::Directory(path) => (path, ""),
                BundleLocation::Image(fetched) => match unpack(&fetched, images)? {
                    NamedSource::Bundle(path, _) => (path, reference),
                    NamedSource::Catalog(_) | NamedSource::Database(_) => {
                        return Err(TemplateReferenceError::Catalog.into());
                    }
                },
            };
            let options = bundle::RenderOptions { image, image_template: None, migrate, limits: limits.clone() };
            let rendered = bundle::render(&path, &options);
            running.advance(1);
            Ok(rendered?)
        })
        .collect::<Vec<Result<BundleBlob, SourceError>>>();
    drop(running);
    let warn = |reference: &str, warning: &String| images.progress().warn(&format!("{reference}: {warning}"));
    let supplied = references.iter().zip(rendered).map(|(reference, rendered)| {
        let rendered = rendered.map_err(SupplyError::new)?;
        rendered.warnings.iter().for_each(|warning| warn(reference, warning));
        let csv = rendered.csv.map(Text::into_string);
        Ok(vec![RenderedBundle { json: rendered.json.into_string(), csv }])
    });
    supplied.collect()
}

/// The location of a template's bundle.
enum BundleLocation {
    Directory(PathBuf),
    Image(Box<Fetched>),
}

/// Returns the bundle directory that a template names; `None` if the reference is an image.
fn directory(reference: &str) -> Result<Option<PathBuf>, TemplateReferenceError> {
    let path = Path::new(reference);
    if ["./", "../", "/"].iter().any(|start| reference.starts_with(start)) {
        return match path.metadata()?.is_dir() {
            false => Err(TemplateReferenceError::File),
            true if !fbc::load::is_bundle_dir(path) => Err(TemplateReferenceError::CatalogDirectory),
            true => Ok(Some(path.to_path_buf())),
        };
    }
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Err(TemplateReferenceError::Directory(reference.to_owned())),
        Ok(_) => Err(TemplateReferenceError::File),
        Err(_) => Ok(None),
    }
}
