//! Where a cache is kept, and whether the one that is there can be used.

use std::fs::{self, File, Permissions};
use std::io::{self, Cursor};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::build::{self, Input, WriteError};
use super::data::Source;
use super::format::{self, Digest, Kind};
use super::sources::{self, Stamp};
use super::{Cache, Unusable};
use crate::load::{Directory, LeftOut, LoadError, Sound};

/// Our directory inside a cache directory; its number is that of the format.
const OURS: &str = "opm.v1";
/// The cache itself.
const FILE: &str = "catalog.cache";
/// How caches start that are not finished yet.
const UNFINISHED: &str = ".building-";
/// Any user of an image may have to read the cache, and its group to renew it.
const DIRECTORY_MODE: u32 = 0o775;
const FILE_MODE: u32 = 0o664;
/// How often a catalog is read again that changes while it is read.
const ATTEMPTS: usize = 3;

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

/// What is in a cache directory.
enum Found {
    Nothing,
    Ours,
    /// A cache of other tools, by the name of its format.
    Other(&'static str),
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
        return build_new(directory, None, None);
    };
    let found = look_into(cache_dir)?;
    let path = cache_dir.join(OURS).join(FILE);
    if let (Found::Other(name), Integrity::Implied) = (&found, integrity) {
        tracing::warn!(format = name, "cache was built by another tool, building one in memory");
        return build_new(directory, None, None);
    }
    let stamps = stamps(directory)?;
    match open(&path, integrity) {
        Ok(cache) => use_or_rebuild(directory, cache_dir, integrity, cache, &stamps),
        Err(reason) if integrity.writes() => {
            if !matches!(reason, Unusable::Missing) {
                tracing::warn!(cache = %path.display(), %reason, "cache cannot be used");
            }
            build_new(directory, Some(cache_dir), None)
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
    build(directory, &directory.load()?, Some(cache_dir), None, Stamps::LeftOut)
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
    stamps: &[Stamp],
) -> Result<Prepared, PrepareError> {
    let usable = cache.about().left_out == 0;
    if usable && integrity != Integrity::Enforced && cache.has_stamps(stamps) {
        return Ok(as_it_is(cache));
    }
    let digests = sources::digests(&directory.root, stamps)?;
    let total = sources::total(stamps, &digests);
    if usable && cache.about().sources == total {
        return Ok(as_it_is(cache));
    }
    // Files differ, but their meaning may not: white space, ignored files, other names.
    let content = directory.load()?;
    if usable && cache.has_all_of(&content) && cache.about().homeless == content.homeless {
        let same = cache.table::<format::Package>(Kind::Packages).len() == content.packages.len();
        if same {
            return Ok(as_it_is(cache));
        }
        if integrity == Integrity::Implied {
            tracing::warn!("catalog has fewer packages than its cache, leaving those out");
            return build(directory, &content, None, Some(&cache), Stamps::Kept);
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
    build_new(directory, Some(cache_dir), Some((content, &cache)))
}

fn as_it_is(cache: Cache) -> Prepared {
    Prepared { cache: Arc::new(cache), left_out: Vec::new(), built: false }
}

fn stamps(directory: &Directory) -> Result<Vec<Stamp>, PrepareError> {
    let unreadable = |error| LoadError::Unreadable { path: directory.root.clone(), error };
    Ok(sources::stamps(&directory.root).map_err(unreadable)?)
}

/// Looks at what is in a cache directory.
fn look_into(cache_dir: &Path) -> Result<Found, PrepareError> {
    let entries = match fs::read_dir(cache_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", cache_dir.display())).into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let has = |name: &str| names.iter().any(|found| found == name);
    // Volumes of their own have a directory for lost files.
    let unexpected: Vec<String> = names
        .iter()
        .filter(|name| !matches!(name.as_str(), OURS | "pogreb.v1" | "cache" | "digest" | "lost+found"))
        .cloned()
        .collect();
    if !unexpected.is_empty() || (!has(OURS) && has("cache") != has("digest")) {
        return Err(PrepareError::Unexpected(if unexpected.is_empty() { names } else { unexpected }));
    }
    Ok(match () {
        () if has(OURS) => Found::Ours,
        () if has("pogreb.v1") => Found::Other("pogreb.v1"),
        () if has("cache") => Found::Other("json"),
        () => Found::Nothing,
    })
}

/// Reads the catalog, unless that is done, and builds a cache of it.
fn build_new(
    directory: &Directory,
    cache_dir: Option<&Path>,
    known: Option<(Sound, &Cache)>,
) -> Result<Prepared, PrepareError> {
    tracing::info!(configs = %directory.root.display(), "building cache");
    match known {
        Some((content, old)) => build(directory, &content, cache_dir, Some(old), Stamps::Kept),
        None => {
            stamps(directory)?;
            build(directory, &directory.load()?, cache_dir, None, Stamps::Kept)
        }
    }
}

fn build(
    directory: &Directory,
    content: &Sound,
    cache_dir: Option<&Path>,
    old: Option<&Cache>,
    keep: Stamps,
) -> Result<Prepared, PrepareError> {
    let mut reread = None;
    for _ in 0..ATTEMPTS {
        let content = reread.as_ref().unwrap_or(content);
        let before = stamps(directory)?;
        let digests = sources::digests(&directory.root, &before)?;
        // The digests must be of what was loaded, or a later start would take it for current.
        if !content.fbc.is_current() || stamps(directory)? != before {
            reread = Some(directory.load()?);
            continue;
        }
        let stamps = match keep {
            Stamps::Kept => before,
            Stamps::LeftOut => before.into_iter().map(Stamp::portable).collect(),
        };
        let sources = sources::total(&stamps, &digests);
        let input = Input { content, limits: &directory.limits, stamps: &stamps, digests: &digests, sources, old };
        let cache = write(&input, cache_dir)?;
        return Ok(Prepared { cache: Arc::new(cache), left_out: content.left_out.clone(), built: true });
    }
    Err(io::Error::other(format!("{}: catalog keeps changing while it is read", directory.root.display())).into())
}

/// Writes a cache: into its directory, else into a nameless file, else into memory.
fn write(input: &Input<'_>, cache_dir: Option<&Path>) -> Result<Cache, PrepareError> {
    let failed = |error: WriteError| match error {
        WriteError::Load(error) => PrepareError::Catalog(error),
        WriteError::Io(error) => PrepareError::Io(error),
    };
    let unusable = |reason: Unusable| PrepareError::Io(io::Error::other(format!("cache just built: {reason}")));
    if let Some(cache_dir) = cache_dir {
        return write_named(input, cache_dir).map_err(failed);
    }
    if let Ok(mut file) = tempfile::tempfile() {
        match build::write(input, &mut file) {
            Ok(reused) => {
                told(reused, input);
                return Cache::from_file(&file).map_err(unusable);
            }
            Err(WriteError::Load(error)) => return Err(error.into()),
            Err(WriteError::Io(error)) => tracing::warn!(%error, "no room for a temporary file, building in memory"),
        }
    }
    let mut memory = Cursor::new(Vec::new());
    let reused = build::write(input, &mut memory).map_err(failed)?;
    told(reused, input);
    Cache::from_source(Source::Memory(memory.into_inner())).map_err(unusable)
}

fn write_named(input: &Input<'_>, cache_dir: &Path) -> Result<Cache, WriteError> {
    let directory = cache_dir.join(OURS);
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
    fs::create_dir_all(&directory).map_err(named)?;
    for made in [cache_dir, &directory] {
        // Not ours to change if somebody else made it; then it is as they want it.
        let _ = fs::set_permissions(made, Permissions::from_mode(DIRECTORY_MODE));
    }
    remove_abandoned(&directory);
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&directory).map_err(named)?;
    // Held until the end, so that others can tell this file from one that was abandoned.
    let _ = file.as_file().try_lock();
    let reused = build::write(input, file.as_file_mut())?;
    told(reused, input);
    file.as_file().set_permissions(Permissions::from_mode(FILE_MODE)).map_err(named)?;
    file.as_file().sync_all().map_err(named)?;
    let file = file.persist(directory.join(FILE)).map_err(|error| named(error.error))?;
    if let Ok(opened) = File::open(&directory) {
        let _ = opened.sync_all();
    }
    Cache::from_file(&file).map_err(|reason| io::Error::other(format!("cache just built: {reason}")).into())
}

fn told(reused: usize, input: &Input<'_>) {
    if input.old.is_some() {
        tracing::info!(unchanged = reused, packages = input.content.packages.len(), "took over packages");
    }
}

/// Removes caches that nobody is building any more.
fn remove_abandoned(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED)
            && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok())
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A quick look at a directory: what changes when anything in it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance(Vec<Stamp>);

impl Glance {
    /// Looks at the directory `root`.
    ///
    /// # Errors
    /// Fails when it cannot be read.
    pub fn at(root: &Path) -> io::Result<Glance> {
        sources::stamps(root).map(Glance)
    }
}

/// Returns the path of the cache file below a cache directory.
pub fn file_in(cache_dir: &Path) -> PathBuf {
    cache_dir.join(OURS).join(FILE)
}

impl Cache {
    /// Tells whether the files this was made from look as they did.
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

    /// Tells whether every package of a catalog is here, unchanged.
    fn has_all_of(&self, content: &Sound) -> bool {
        content.packages.iter().all(|(name, digest): (&String, &Digest)| {
            self.find_package(name).is_some_and(|(_, package)| package.content == *digest)
        })
    }
}
