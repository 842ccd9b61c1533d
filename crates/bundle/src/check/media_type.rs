//! Detects the media type of a bundle from its manifests.

use std::fmt;
use std::path::Path;

use fbc::Limits;
use serde_json::Value;

use super::{manifest, read};
use crate::error::Error;
use crate::file;
use crate::whole::ParsedBundle;

/// The content type of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaType {
    /// Manifests with a ClusterServiceVersion.
    RegistryV1,
    /// Other manifests.
    Plain,
    /// A Helm chart.
    Helm,
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MediaType::RegistryV1 => "registry+v1",
            MediaType::Plain => "plain",
            MediaType::Helm => "helm",
        })
    }
}

/// Detects the type of the manifests in `dir`.
///
/// # Errors
/// Fails if the directory cannot be read or is empty.
pub fn media_type(dir: &Path, limits: &Limits) -> Result<MediaType, Error> {
    media_type_of(dir, None, limits)
}

/// Returns whether a manifest cannot be parsed: it can be the CSV, so that the type is unknown without one.
pub(super) fn has_broken_manifest(dir: &Path, known: Option<&ParsedBundle>, limits: &Limits) -> bool {
    let is_broken = |name: &std::ffi::OsString| {
        manifest(name).is_none_or(|name| known.is_none_or(|known| known.first_of(&name).is_none()))
            && file::is_plain(&dir.join(name))
            && read(&dir.join(name), limits).is_err()
    };
    file::names(dir, limits).is_ok_and(|names| names.iter().any(is_broken))
}

/// Like [`media_type`], but does not read a file of `known` again.
pub(super) fn media_type_of(dir: &Path, known: Option<&ParsedBundle>, limits: &Limits) -> Result<MediaType, Error> {
    let names = file::names(dir, limits)?;
    let chart = read(&dir.join("Chart.yaml"), limits);
    if chart.is_ok_and(|chart| !crate::pointer::text(&chart, "/name").is_empty()) {
        return Ok(MediaType::Helm);
    }
    let files: Vec<_> = names.iter().filter(|name| file::is_plain(&dir.join(name))).collect();
    if files.is_empty() {
        return Err(Error::NoFiles { path: dir.into() });
    }
    let is_csv = |name: &&std::ffi::OsString| {
        let is_csv = |object: &Value| crate::pointer::text(object, "/kind") == "ClusterServiceVersion";
        match known.and_then(|known| known.first_of(&manifest(name)?)) {
            Some(object) => is_csv(object),
            None => read(&dir.join(name), limits).is_ok_and(|object| is_csv(&object)),
        }
    };
    Ok(if files.iter().any(is_csv) { MediaType::RegistryV1 } else { MediaType::Plain })
}
