//! Unpacks bundle images.

use std::path::Path;

use bundle::{BundleCheck, BundleDirectory, CheckError, Finding, Severity};
use fbc::fault::{Class, Fault};
use fbc::{Limits, Members};
use image::Digest;
use serde::Serialize;

use crate::error::SourceError;
use crate::images::Images;
use crate::new_files::NewFiles;

/// A bundle image to unpack.
pub struct UnpackBundle<'a> {
    /// The image.
    pub image: &'a str,
    /// The directory to write to, next to other files.
    pub target: &'a Path,
    /// The checks that the bundle must pass, if any.
    pub check: Option<BundleCheck<'a>>,
    /// Limits for untrusted input.
    pub limits: &'a Limits,
}

/// The result of unpacking.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnpackedBundle {
    /// The digest of the image.
    pub digest: Digest,
    /// What is not wrong, but should be better.
    pub warnings: Vec<String>,
}

/// Why a bundle was not unpacked; no file was written then.
#[derive(Debug, thiserror::Error)]
pub enum UnpackBundleError {
    /// The bundle cannot be checked.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// OLM could not install the bundle.
    #[error("bundle {what} validation failed: Bundle validation errors: {}", errors.join(","))]
    Invalid {
        /// The format or the content.
        what: &'static str,
        /// The errors.
        errors: Vec<String>,
    },
    /// The image cannot be used, or a file cannot be written.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Fault for UnpackBundleError {
    fn class(&self) -> Class {
        match self {
            UnpackBundleError::Check(error) => error.class(),
            UnpackBundleError::Invalid { .. } => Class::Refused,
            UnpackBundleError::Source(error) => error.class(),
        }
    }
}

/// Unpacks the directories of a bundle image, without hidden files and links, of which it warns. Writes all files or
/// none.
///
/// # Errors
/// Fails if the image cannot be pulled, the bundle does not pass its checks, or one of the files exists.
pub fn unpack_bundle(request: &UnpackBundle<'_>, images: &Images) -> Result<UnpackedBundle, UnpackBundleError> {
    let fetched = images.fetch_one(request.image)?;
    let root = images.unpack_to_temp(&fetched.image)?;
    let mut warnings = Vec::new();
    if let Some(check) = &request.check {
        let bundle = BundleDirectory::read(root.clone(), None, request.limits);
        let findings = bundle::check(bundle, check, None)?.findings;
        refuse_invalid(&findings)?;
        let is_warning = |finding: &&Finding| (Severity::Warning..Severity::Error).contains(&finding.severity);
        warnings.extend(findings.iter().filter(is_warning).map(|finding| finding.message.clone()));
    }
    let directories = bundle::directories(&fetched.image.labels());
    let mut members = Members::below(&root, &directories, request.limits.files).map_err(SourceError::from)?;
    for (path, reason) in members.remove_unportable(&root).map_err(SourceError::from)? {
        images.progress().warn(&format!("{}: left out: {reason}", path.display()));
    }
    let new = NewFiles::start(request.target)?;
    members.copy_to(new.path()).map_err(SourceError::from)?;
    new.finish()?;
    Ok(UnpackedBundle { digest: fetched.image.digest, warnings })
}

/// Fails if findings prevent the installation of a bundle, with those about its format if there are any.
fn refuse_invalid(findings: &[Finding]) -> Result<(), UnpackBundleError> {
    let is_format = |finding: &&Finding| matches!(finding.id, "bundle-format" | "dependency-rule");
    let (format, content): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().filter(|finding| finding.severity >= Severity::Error).partition(is_format);
    let (what, errors) = if format.is_empty() { ("content", content) } else { ("format", format) };
    match errors.is_empty() {
        true => Ok(()),
        false => {
            let errors = errors.iter().map(|finding| finding.message.clone()).collect();
            Err(UnpackBundleError::Invalid { what, errors })
        }
    }
}
