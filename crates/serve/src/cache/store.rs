//! Decides whether an existing cache can be used, and builds one otherwise.

use std::fs::File;
use std::io::{self, Cursor};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::build::{self, Input, WriteError};
use super::cache_dir::{self, CacheDirState, Unfinished};
use super::data::DataSource;
use super::format::{self, ContentDigest, SectionKind};
use super::sources::Stamp;
use super::{Cache, Unusable};
use crate::load::{CheckedCatalog, LoadError, Quarantined, ServedDirectory};

pub use super::cache_dir::file_in;
pub(crate) use super::reading::{Reading, fingerprint};
pub use super::sources::Fingerprint;

/// Attempts to read a catalog that changes while it is read, with growing pauses between them.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(10);

/// How strictly an existing cache must match the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// A stale cache is rebuilt.
    Rebuild,
    /// The cache must match, but the user did not ask for that explicitly: a cache of other tools counts as none, and a
    /// catalog that lost some packages still matches.
    Implied,
    /// The cache must match exactly.
    Enforced,
}

impl Integrity {
    fn writes(self) -> bool {
        self == Integrity::Rebuild
    }
}

/// A catalog that is ready to answer queries.
pub struct Prepared {
    /// Its cache.
    pub cache: Arc<Cache>,
    /// The packages that are quarantined.
    pub quarantined: Vec<Quarantined>,
    /// Whether the cache was built just now.
    pub built: bool,
    /// The state of its files when they were read.
    pub(crate) reading: Reading,
}

/// The reason why a catalog is not ready to answer queries.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The cache directory has files of unknown origin.
    #[error("cache directory has unexpected contents: {}", .0.join(","))]
    Unexpected(Vec<String>),
    /// The cache does not match, and may not be rebuilt.
    #[error("integrity check failed: {0}")]
    Integrity(String),
    /// The catalog is invalid.
    #[error("failed to load or rebuild cache: failed to rebuild cache: {0}")]
    Catalog(#[from] LoadError),
    /// A file could not be read or written.
    #[error("failed to load or rebuild cache: {0}")]
    Io(#[from] io::Error),
}

impl PrepareError {
    /// Returns whether the failure is transient, so that the same files can load later: the catalog itself is not known
    /// to be invalid.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            PrepareError::Unexpected(_) | PrepareError::Integrity(_) | PrepareError::Io(_) => true,
            PrepareError::Catalog(LoadError::Unreadable { .. }) => true,
            PrepareError::Catalog(LoadError::Invalid { problems, .. }) => {
                problems.iter().any(|problem| problem.rule == "file-readable")
            }
            PrepareError::Catalog(LoadError::Empty(_) | LoadError::Package { .. }) => false,
        }
    }
}

/// Returns a cache of the catalog in `directory`, from `cache_dir` if the one there can be used.
///
/// # Errors
/// Fails when the catalog is invalid, or the cache is and may not be rebuilt.
pub fn prepare(
    directory: &ServedDirectory,
    cache_dir: Option<&Path>,
    integrity: Integrity,
) -> Result<Prepared, PrepareError> {
    let Some(cache_dir) = cache_dir else {
        return build(directory, Reading::start(directory)?, None, None, Stamps::Stored);
    };
    let found = cache_dir::inspect(cache_dir)?;
    let path = file_in(cache_dir);
    if let (CacheDirState::Other(name), Integrity::Implied) = (&found, integrity) {
        tracing::warn!(format = name, "cache was built by another tool, building one in memory");
        return build(directory, Reading::start(directory)?, None, None, Stamps::Stored);
    }
    let reading = if integrity.writes() { Reading::when_stable(directory)? } else { Reading::start(directory)? };
    match open(&path, integrity) {
        Ok(cache) => use_or_rebuild(directory, cache_dir, integrity, cache, reading),
        Err(reason) if integrity.writes() => {
            if !matches!(reason, Unusable::Missing) {
                tracing::warn!(cache = %path.display(), %reason, "cannot use the cache");
            }
            build(directory, reading, Some(cache_dir), None, Stamps::Stored)
        }
        Err(reason) => {
            let reason = match (&found, reason) {
                (CacheDirState::Other(name), Unusable::Missing) => {
                    format!("the cache has the format {name} of another tool")
                }
                (_, reason) => reason.to_string(),
            };
            Err(PrepareError::Integrity(format!(
                "{reason} ({}); build it with: opm serve {} --cache-dir={} --cache-only",
                path.display(),
                directory.root.display(),
                cache_dir.display()
            )))
        }
    }
}

/// Builds a cache for use elsewhere, from the content of the catalog alone: the same files produce the same cache,
/// wherever they are and whenever they were written.
///
/// A server that uses it compares the files of the catalog by content.
///
/// # Errors
/// Fails when the catalog is invalid, or the cache cannot be written.
pub fn build_portable(directory: &ServedDirectory, cache_dir: &Path) -> Result<Prepared, PrepareError> {
    build(directory, Reading::start(directory)?, Some(cache_dir), None, Stamps::Omitted)
}

/// Whether a cache stores the stamps of the files it was built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamps {
    Stored,
    Omitted,
}

fn open(path: &Path, integrity: Integrity) -> Result<Cache, Unusable> {
    let cache = Cache::open(path)?;
    if integrity == Integrity::Enforced {
        cache.check_data()?;
    }
    Ok(cache)
}

fn use_or_rebuild(
    directory: &ServedDirectory,
    cache_dir: &Path,
    integrity: Integrity,
    cache: Cache,
    mut reading: Reading,
) -> Result<Prepared, PrepareError> {
    let bare = directory.summarize && !cache.has_summaries();
    if bare && integrity == Integrity::Implied {
        tracing::warn!("the cache has no data for web pages, building one with them");
        return build(directory, reading, None, Some(&cache), Stamps::Stored);
    }
    if bare && integrity == Integrity::Enforced {
        return Err(PrepareError::Integrity(format!(
            "the cache has no data for web pages: serve without them, with --no-console, or build it with: \
             opm serve {} --cache-dir={} --cache-only",
            directory.root.display(),
            cache_dir.display()
        )));
    }
    let usable = !bare && cache.about().quarantined == 0;
    if usable && integrity != Integrity::Enforced && cache.has_stamps(&reading.fingerprint.stamps) {
        return Ok(reuse(cache, reading));
    }
    let total = reading.total(directory)?;
    if usable && cache.about().sources == total {
        return Ok(reuse(cache, reading));
    }
    // Files differ, but the catalog may not: white space, ignored files, renamed files.
    let content = reading.load(directory)?;
    if usable && cache.has_all_of(content) && cache.about().unowned == content.unowned {
        if cache.has_only(content) {
            return Ok(reuse(cache, reading));
        }
        if integrity == Integrity::Implied {
            tracing::warn!("the catalog has fewer packages than its cache, hiding the others");
            return build(directory, reading, None, Some(&cache), Stamps::Stored);
        }
    }
    if !integrity.writes() {
        tracing::warn!("cache requires rebuild");
        return Err(PrepareError::Integrity(format!(
            "cache requires rebuild: cache reports digest as \"{}\", but computed digest is \"{total}\"; \
             build it with: opm serve {} --cache-dir={} --cache-only",
            cache.about().sources,
            directory.root.display(),
            cache_dir.display()
        )));
    }
    tracing::info!("cache is stale, rebuilding it");
    build(directory, reading, Some(cache_dir), Some(&cache), Stamps::Stored)
}

fn reuse(cache: Cache, reading: Reading) -> Prepared {
    Prepared { cache: Arc::new(cache), quarantined: Vec::new(), built: false, reading }
}

/// Loads the catalog, unless it is loaded, and builds a cache of it; retries until all files are unchanged from start
/// to end.
fn build(
    directory: &ServedDirectory,
    mut reading: Reading,
    cache_dir: Option<&Path>,
    old: Option<&Cache>,
    keep: Stamps,
) -> Result<Prepared, PrepareError> {
    tracing::info!(configs = %directory.root.display(), "building cache");
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(PAUSE * (1 << attempt));
            reading = Reading::start(directory)?;
        }
        let written = match write(directory, &mut reading, cache_dir, old, keep) {
            Ok(written) => written,
            Err(error) if reading.is_current(directory) => return Err(error),
            Err(_) => continue,
        };
        // The cache must match the loaded files, or a later start would take it for current.
        if reading.is_current(directory) {
            let cache = Arc::new(written.finish()?);
            let quarantined = reading.checked.as_ref().map(|checked| checked.quarantined.clone()).unwrap_or_default();
            return Ok(Prepared { cache, quarantined, built: true, reading });
        }
    }
    Err(io::Error::other(format!("{}: the catalog keeps changing while opm reads it", directory.root.display())).into())
}

/// A written cache that is not in use yet.
enum Written {
    Named(Unfinished),
    Unnamed(File),
    Memory(Vec<u8>),
}

impl Written {
    fn finish(self) -> Result<Cache, PrepareError> {
        let cache = match self {
            Written::Named(unfinished) => Cache::from_file(&unfinished.finish()?),
            Written::Unnamed(file) => Cache::from_file(&file),
            Written::Memory(bytes) => Cache::from_source(DataSource::Memory(bytes)),
        };
        cache.map_err(|reason| PrepareError::Io(io::Error::other(format!("cache just built: {reason}"))))
    }
}

/// Writes a cache: into its directory, else into an unnamed temporary file, else into memory.
fn write(
    directory: &ServedDirectory,
    reading: &mut Reading,
    cache_dir: Option<&Path>,
    old: Option<&Cache>,
    keep: Stamps,
) -> Result<Written, PrepareError> {
    let sources = reading.total(directory)?;
    let digests = reading.digests(directory)?.to_vec();
    let stamps: Vec<Stamp> = match keep {
        Stamps::Stored => reading.fingerprint.stamps_to_store(),
        Stamps::Omitted => reading.fingerprint.stamps.iter().cloned().map(Stamp::portable).collect(),
    };
    let content = reading.load(directory)?;
    let (limits, summarize) = (&directory.limits, directory.summarize);
    let input = Input { content, limits, stamps: &stamps, digests: &digests, sources, summarize, old };
    let failed = |error: WriteError| match (error, cache_dir) {
        (WriteError::Load(error), _) => PrepareError::Catalog(error),
        // The system does not name the disk that is full.
        (WriteError::Io(error), Some(cache_dir)) if error.kind() == io::ErrorKind::StorageFull => {
            PrepareError::Io(io::Error::new(error.kind(), format!("{}: {error}", cache_dir.display())))
        }
        (WriteError::Io(error), _) => PrepareError::Io(error),
    };
    if let Some(cache_dir) = cache_dir {
        let mut unfinished = Unfinished::start(cache_dir)?;
        log_reuse(build::write(&input, unfinished.file()).map_err(failed)?, &input);
        return Ok(Written::Named(unfinished));
    }
    if let Ok(mut file) = tempfile::tempfile() {
        match build::write(&input, &mut file) {
            Ok(reused) => {
                log_reuse(reused, &input);
                return Ok(Written::Unnamed(file));
            }
            Err(WriteError::Load(error)) => return Err(error.into()),
            Err(WriteError::Io(error)) => {
                let folder = std::env::temp_dir();
                let folder = folder.display();
                tracing::warn!(%error, %folder, "cannot write a temporary file, building the cache in memory")
            }
        }
    }
    let mut memory = Cursor::new(Vec::new());
    log_reuse(build::write(&input, &mut memory).map_err(failed)?, &input);
    Ok(Written::Memory(memory.into_inner()))
}

fn log_reuse(reused: usize, input: &Input<'_>) {
    if input.old.is_some() {
        tracing::info!(unchanged = reused, packages = input.content.packages.len(), "reused unchanged packages");
    }
}

impl Cache {
    /// Returns whether the stamps of the files match those in the cache.
    fn has_stamps(&self, stamps: &[Stamp]) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let sources = self.table::<format::Source>(SectionKind::Sources);
        sources.len() == stamps.len()
            && sources.iter().zip(stamps).all(|(source, stamp)| {
                self.text_bytes(source.path) == Some(stamp.path.as_os_str().as_bytes())
                    && source.size == stamp.size
                    && (source.modified, source.modified_nanos) == stamp.modified
                    && (source.changed, source.changed_nanos) == stamp.changed
                    && source.inode == stamp.inode
            })
    }

    /// Returns whether the cache contains every package of a catalog, unchanged.
    pub(super) fn has_all_of(&self, content: &CheckedCatalog) -> bool {
        content.packages.iter().all(|(name, digest): (&String, &ContentDigest)| {
            self.find_package(name).is_some_and(|(_, package)| package.content == *digest)
        })
    }

    /// Returns whether the cache contains no other packages than those of a catalog, and the same blobs without a
    /// package.
    pub(super) fn has_only(&self, content: &CheckedCatalog) -> bool {
        self.about().unowned == content.unowned
            && self.table::<format::Package>(SectionKind::Packages).len() == content.packages.len()
    }
}
