//! What is to be mirrored: an image set or a lock, and how its content is selected.

use std::path::PathBuf;

use image::{Digest, Hasher, Platform};

use crate::destination::PathLayout;
use crate::imageset::{self, ImageSet, ImageSetKind, ImageSetProblem};
use crate::installed::InstalledBundles;
use crate::lock::{Lock, LockError};
use crate::report::OnMissing;

/// What is to be mirrored.
pub enum MirrorRequest {
    /// An image set.
    Set(Box<SetRequest>),
    /// The lock of an earlier run.
    Lock(Box<Lock>),
}

/// An image set to resolve.
pub struct SetRequest {
    pub(crate) set: ImageSet,
    /// The installed bundles of a cluster, if they restrict the selection.
    pub(crate) installed: Option<InstalledBundles>,
    /// Hashes the file and all that affects the selection.
    hasher: Hasher,
}

/// The program in the image of a filtered catalog, as requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogProgram {
    /// Ours, or that of `--binary`.
    Ours,
    /// The program of the original image.
    Original,
    /// None: the image holds only data.
    Nothing,
}

/// How the content is selected.
#[derive(Debug, Clone)]
pub struct SelectionOptions {
    /// How bundles with missing images are handled.
    pub missing: OnMissing,
    /// Whether the dependencies of bundles are selected, too.
    pub with_dependencies: bool,
    /// Whether another channel becomes the default if the default is not selected.
    pub choose_default: bool,
    /// Whether unknown packages and channels are ignored.
    pub ignore_unknown: bool,
    /// Whether channel heads skip the bundles that the selection strands.
    pub bridge: bool,
    /// How a source path maps to a destination path.
    pub layout: PathLayout,
    /// The directory of the file, which templates are relative to.
    pub base: PathBuf,
    /// Unsupported parts of the file to ignore.
    pub skip: Vec<String>,
    /// Whether signatures and other referrers are mirrored.
    pub referrers: bool,
    /// The program of a filtered catalog; `None` means ours if it can run.
    pub program: Option<CatalogProgram>,
    /// Whether the original image of a filtered catalog is mirrored, too.
    pub keep_original: bool,
    /// Programs for other platforms.
    pub binaries: Vec<(Platform, PathBuf)>,
    /// The running program.
    pub running: PathBuf,
    /// Whether users can give other programs, for advice.
    pub takes_binary: bool,
}

/// Why a file is no request.
#[derive(Debug)]
pub enum MirrorRequestError {
    /// It is an invalid lock.
    Lock(LockError),
    /// It is an invalid image set.
    Set(Vec<ImageSetProblem>),
}

impl SelectionOptions {
    /// Returns the options as part of the request of a lock. Sets of earlier versions have this text, too.
    fn text(&self) -> String {
        let program = match self.program {
            None => "ours",
            Some(CatalogProgram::Ours) => "required",
            Some(CatalogProgram::Original) => "original",
            Some(CatalogProgram::Nothing) => "none",
        };
        let mut text = format!(
            "dependencies={} chooseDefault={} ignoreUnknown={} edges={} layout={:?} referrers={} program={}",
            self.with_dependencies,
            self.choose_default,
            self.ignore_unknown,
            if self.bridge { "bridge" } else { "keep" },
            self.layout,
            self.referrers,
            program,
        );
        if self.keep_original {
            text += " original=true";
        }
        for (platform, _) in &self.binaries {
            text += &format!(" binary={platform}");
        }
        text
    }
}

impl MirrorRequest {
    /// Parses a file.
    ///
    /// # Errors
    /// Fails with all problems of an image set, or the first one of a lock.
    pub fn parse(text: &[u8], options: &SelectionOptions) -> Result<MirrorRequest, MirrorRequestError> {
        if is_lock(text) {
            return Lock::read(text).map(|lock| MirrorRequest::Lock(Box::new(lock))).map_err(MirrorRequestError::Lock);
        }
        let set = SetRequest::parse(text, ImageSetKind::Mirror, options).map_err(MirrorRequestError::Set)?;
        Ok(MirrorRequest::Set(Box::new(set)))
    }

    /// Restricts an image set to what the installed bundles of a cluster need. A lock is selected already.
    pub fn restrict(&mut self, installed: InstalledBundles) {
        if let MirrorRequest::Set(request) = self {
            request.hasher.update(&installed.request());
            request.installed = Some(installed);
        }
    }

    /// Returns the size of archives in bytes, if the file sets it.
    pub fn archive_size(&self) -> Option<u64> {
        match self {
            MirrorRequest::Set(request) => request.set.archive_size.map(|size| size.saturating_mul(1 << 30)),
            MirrorRequest::Lock(_) => None,
        }
    }
}

impl SetRequest {
    /// Parses an image set.
    ///
    /// # Errors
    /// Fails with all problems, or with all parts that are not supported and not skipped.
    pub fn parse(
        text: &[u8],
        kind: ImageSetKind,
        options: &SelectionOptions,
    ) -> Result<SetRequest, Vec<ImageSetProblem>> {
        let set = imageset::read(text, kind)?;
        let kept = set.unsupported.iter().filter(|(part, _)| !options.skip.iter().any(|skip| skip == part));
        let unsupported: Vec<ImageSetProblem> = kept
            .map(|(part, line)| ImageSetProblem {
                line: *line,
                message: format!("{part} is not supported"),
                help: Some(format!("--skip {part} ignores it; mirror it with another tool")),
            })
            .collect();
        if !unsupported.is_empty() {
            return Err(unsupported);
        }
        let mut hasher = Hasher::new();
        hasher.update(text);
        hasher.update(options.text().as_bytes());
        Ok(SetRequest { set, installed: None, hasher })
    }

    /// Returns the digest of the file and of all that affects the selection.
    pub(crate) fn digest(&self) -> Digest {
        self.hasher.clone().finish()
    }
}

/// Returns whether a file is a lock: a JSON object whose first field is one of a lock's, none of which an image set has.
fn is_lock(text: &[u8]) -> bool {
    let Some(fields) = text.trim_ascii_start().strip_prefix(b"{") else { return false };
    let fields = fields.trim_ascii_start();
    let names: [&[u8]; 5] = [b"\"version\"", b"\"request\"", b"\"catalogs\"", b"\"images\"", b"\"leftOut\""];
    names.iter().any(|name| fields.starts_with(name))
}
