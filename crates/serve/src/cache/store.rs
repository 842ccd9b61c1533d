//! Where a cache is kept, and whether the one that is there can be used.

use std::fs::File;
use std::io::{self, Cursor};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::build::{self, Input, WriteError};
use super::data::Source;
use super::format::{self, Digest, Kind};
use super::kept::{self, Found, Unfinished};
use super::sources::Stamp;
use super::{Cache, Unusable};
use crate::load::{Directory, LeftOut, LoadError, Sound};

pub use super::kept::file_in;
pub(crate) use super::reading::{Reading, glance};
pub use super::sources::Glance;

/// How often a catalog is read again that changes while it is read, after a pause that grows.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(10);

/// How much a cache that is there must fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// One that does not fit is rebuilt.
    Rebuild,
    /// It must fit, but nobody asked for that by hand: a cache of other tools is none, and a
    /// catalog that lost some packages still fits.
    Implied,
    /// It must fit to the last byte.
    Enforced,
}

impl Integrity {
    fn writes(self) -> bool {
        self == Integrity::Rebuild
    }
}

/// A catalog that can be asked.
pub struct Prepared {
    /// The answers.
    pub cache: Arc<Cache>,
    /// What is not in it.
    pub left_out: Vec<LeftOut>,
    /// Whether it was made just now.
    pub built: bool,
    /// How its files were read.
    pub(crate) reading: Reading,
}

/// Why there is no catalog that can be asked.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The cache directory holds what no tool put there.
    #[error("cache directory has unexpected contents: {}", .0.join(","))]
    Unexpected(Vec<String>),
    /// Integrity is enforced, and the cache does not allow it.
    #[error("integrity check failed: {0}")]
    Integrity(String),
    /// The catalog is wrong.
    #[error("failed to load or rebuild cache: failed to rebuild cache: {0}")]
    Catalog(#[from] LoadError),
    /// Files could not be read or written.
    #[error("failed to load or rebuild cache: {0}")]
    Io(#[from] io::Error),
}

impl PrepareError {
    /// Returns whether the same files may do another time: nothing is known to be wrong with the catalog itself.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            PrepareError::Unexpected(_) | PrepareError::Integrity(_) | PrepareError::Io(_) => true,
            PrepareError::Catalog(LoadError::Unreadable { .. }) => true,
            PrepareError::Catalog(LoadError::Invalid { problems, .. }) => {
                problems.iter().any(|problem| problem.rule == "file-readable")
            }
            PrepareError::Catalog(LoadError::Package { .. }) => false,
        }
    }
}

/// Returns a cache of the catalog in `directory`, from `cache_dir` if the one there can be used.
///
/// # Errors
/// Fails when the catalog is wrong, or when the cache is and may not be rebuilt.
pub fn prepare(
    directory: &Directory,
    cache_dir: Option<&Path>,
    integrity: Integrity,
) -> Result<Prepared, PrepareError> {
    let Some(cache_dir) = cache_dir else {
        return build(directory, Reading::start(directory)?, None, None, Stamps::Kept);
    };
    let found = kept::look_into(cache_dir)?;
    let path = file_in(cache_dir);
    if let (Found::Other(name), Integrity::Implied) = (&found, integrity) {
        tracing::warn!(format = name, "cache was built by another tool, building one in memory");
        return build(directory, Reading::start(directory)?, None, None, Stamps::Kept);
    }
    let reading = if integrity.writes() { Reading::at_rest(directory)? } else { Reading::start(directory)? };
    match open(&path, integrity) {
        Ok(cache) => use_or_rebuild(directory, cache_dir, integrity, cache, reading),
        Err(reason) if integrity.writes() => {
            if !matches!(reason, Unusable::Missing) {
                tracing::warn!(cache = %path.display(), %reason, "cache cannot be used");
            }
            build(directory, reading, Some(cache_dir), None, Stamps::Kept)
        }
        Err(reason) => {
            let reason = match (&found, reason) {
                (Found::Other(name), Unusable::Missing) => {
                    format!("the cache there has the format {name} of another tool")
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

/// Builds a cache that is to be used elsewhere, from the catalog's content alone: the same files
/// give the same cache, wherever they are and whenever they were written.
///
/// Where it is used, the files of the catalog are compared by content.
///
/// # Errors
/// Fails when the catalog is wrong, or the cache cannot be written.
pub fn build_portable(directory: &Directory, cache_dir: &Path) -> Result<Prepared, PrepareError> {
    build(directory, Reading::start(directory)?, Some(cache_dir), None, Stamps::LeftOut)
}

/// Whether a cache knows how the files it was made from look from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamps {
    Kept,
    LeftOut,
}

fn open(path: &Path, integrity: Integrity) -> Result<Cache, Unusable> {
    let cache = Cache::open(path)?;
    if integrity == Integrity::Enforced {
        cache.check_data()?;
    }
    Ok(cache)
}

fn use_or_rebuild(
    directory: &Directory,
    cache_dir: &Path,
    integrity: Integrity,
    cache: Cache,
    mut reading: Reading,
) -> Result<Prepared, PrepareError> {
    let usable = cache.about().left_out == 0;
    if usable && integrity != Integrity::Enforced && cache.has_stamps(&reading.glance.stamps) {
        return Ok(as_it_is(cache, reading));
    }
    let total = reading.total(directory)?;
    if usable && cache.about().sources == total {
        return Ok(as_it_is(cache, reading));
    }
    // Files differ, but their meaning may not: white space, ignored files, other names.
    let content = reading.load(directory)?;
    if usable && cache.has_all_of(content) && cache.about().homeless == content.homeless {
        if cache.has_no_more_than(content) {
            return Ok(as_it_is(cache, reading));
        }
        if integrity == Integrity::Implied {
            tracing::warn!("catalog has fewer packages than its cache, leaving those out");
            return build(directory, reading, None, Some(&cache), Stamps::Kept);
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
    tracing::info!("cache is not of this catalog, renewing it");
    build(directory, reading, Some(cache_dir), Some(&cache), Stamps::Kept)
}

fn as_it_is(cache: Cache, reading: Reading) -> Prepared {
    Prepared { cache: Arc::new(cache), left_out: Vec::new(), built: false, reading }
}

/// Reads the catalog, unless that is done, and builds a cache of it: as often as it takes to see all files as they are
/// at one time.
fn build(
    directory: &Directory,
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
            Err(error) if reading.holds(directory) => return Err(error),
            Err(_) => continue,
        };
        // The cache must be of what was loaded, or a later start would take it for current.
        if reading.holds(directory) {
            let cache = Arc::new(written.finish()?);
            let left_out = reading.sound.as_ref().map(|sound| sound.left_out.clone()).unwrap_or_default();
            return Ok(Prepared { cache, left_out, built: true, reading });
        }
    }
    Err(io::Error::other(format!("{}: catalog keeps changing while it is read", directory.root.display())).into())
}

/// A cache that is written but not in use.
enum Written {
    Named(Unfinished),
    Nameless(File),
    Memory(Vec<u8>),
}

impl Written {
    fn finish(self) -> Result<Cache, PrepareError> {
        let cache = match self {
            Written::Named(unfinished) => Cache::from_file(&unfinished.finish()?),
            Written::Nameless(file) => Cache::from_file(&file),
            Written::Memory(bytes) => Cache::from_source(Source::Memory(bytes)),
        };
        cache.map_err(|reason| PrepareError::Io(io::Error::other(format!("cache just built: {reason}"))))
    }
}

/// Writes a cache: into its directory, else into a nameless file, else into memory.
fn write(
    directory: &Directory,
    reading: &mut Reading,
    cache_dir: Option<&Path>,
    old: Option<&Cache>,
    keep: Stamps,
) -> Result<Written, PrepareError> {
    let sources = reading.total(directory)?;
    let digests = reading.digests(directory)?.to_vec();
    let stamps: Vec<Stamp> = match keep {
        Stamps::Kept => reading.glance.to_keep(),
        Stamps::LeftOut => reading.glance.stamps.iter().cloned().map(Stamp::portable).collect(),
    };
    let content = reading.load(directory)?;
    let (limits, shelve) = (&directory.limits, directory.shelve);
    let input = Input { content, limits, stamps: &stamps, digests: &digests, sources, shelve, old };
    let failed = |error: WriteError| match error {
        WriteError::Load(error) => PrepareError::Catalog(error),
        WriteError::Io(error) => PrepareError::Io(error),
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
                return Ok(Written::Nameless(file));
            }
            Err(WriteError::Load(error)) => return Err(error.into()),
            Err(WriteError::Io(error)) => tracing::warn!(%error, "no room for a temporary file, building in memory"),
        }
    }
    let mut memory = Cursor::new(Vec::new());
    log_reuse(build::write(&input, &mut memory).map_err(failed)?, &input);
    Ok(Written::Memory(memory.into_inner()))
}

fn log_reuse(reused: usize, input: &Input<'_>) {
    if input.old.is_some() {
        tracing::info!(unchanged = reused, packages = input.content.packages.len(), "took over packages");
    }
}

impl Cache {
    /// Returns whether the files this was made from look as they did.
    fn has_stamps(&self, stamps: &[Stamp]) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let sources = self.table::<format::Source>(Kind::Sources);
        sources.len() == stamps.len()
            && sources.iter().zip(stamps).all(|(source, stamp)| {
                self.text_bytes(source.path) == Some(stamp.path.as_os_str().as_bytes())
                    && source.size == stamp.size
                    && (source.modified, source.modified_nanos) == stamp.modified
                    && (source.changed, source.changed_nanos) == stamp.changed
                    && source.inode == stamp.inode
            })
    }

    /// Returns whether every package of a catalog is here, unchanged.
    pub(super) fn has_all_of(&self, content: &Sound) -> bool {
        content.packages.iter().all(|(name, digest): (&String, &Digest)| {
            self.find_package(name).is_some_and(|(_, package)| package.content == *digest)
        })
    }

    /// Returns whether there are no packages here besides those of a catalog, nor other blobs without one.
    pub(super) fn has_no_more_than(&self, content: &Sound) -> bool {
        self.about().homeless == content.homeless
            && self.table::<format::Package>(Kind::Packages).len() == content.packages.len()
    }
}
