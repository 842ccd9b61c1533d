//! The directory that a cache is kept in.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::store::PrepareError;

/// Our directory inside a cache directory. The file in it says which version of the format it has.
const OURS: &str = "opm.v1";
/// The cache itself.
const FILE: &str = "catalog.cache";
/// How caches start that are not finished yet.
const UNFINISHED: &str = ".building-";
/// Any user of an image may have to read a directory that we make, and its group to renew the cache.
const DIRECTORY_MODE: u32 = 0o775;
/// What can be done to a file at most, if its directory allows it.
const FILE_MODE: u32 = 0o664;

/// What is in a cache directory.
pub(super) enum Found {
    Nothing,
    Ours,
    /// A cache of other tools, by the name of its format.
    Other(&'static str),
}

/// Returns the path of the cache file below a cache directory.
pub fn file_in(cache_dir: &Path) -> PathBuf {
    cache_dir.join(OURS).join(FILE)
}

/// Looks at what is in a cache directory.
pub(super) fn look_into(cache_dir: &Path) -> Result<Found, PrepareError> {
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

/// A cache that is being written, and is gone unless it is finished.
pub(super) struct Unfinished {
    file: NamedTempFile,
    directory: PathBuf,
    mode: u32,
}

impl Unfinished {
    /// Starts a cache in `cache_dir`, which is made if need be.
    ///
    /// # Errors
    /// Fails when nothing can be written there.
    pub(super) fn start(cache_dir: &Path) -> io::Result<Unfinished> {
        let directory = cache_dir.join(OURS);
        let named = |error| in_directory(&directory, error);
        let mode = make(cache_dir, DIRECTORY_MODE).map_err(named)?;
        // Whoever keeps others out of the directory keeps them out of all that is in it.
        let mode = make(&directory, mode).map_err(named)?;
        remove_abandoned(&directory);
        let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&directory).map_err(named)?;
        // Held until the end, so that others can tell this file from one that was abandoned.
        let _ = file.as_file().try_lock();
        Ok(Unfinished { file, directory, mode: mode & FILE_MODE })
    }

    pub(super) fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Puts the cache in its place.
    ///
    /// # Errors
    /// Fails when that is not possible; the one from before stays then.
    pub(super) fn finish(self) -> io::Result<File> {
        let Unfinished { file, directory, mode } = self;
        let named = |error| in_directory(&directory, error);
        file.as_file().set_permissions(Permissions::from_mode(mode)).map_err(named)?;
        file.as_file().sync_all().map_err(named)?;
        let file = file.persist(directory.join(FILE)).map_err(|error| named(error.error))?;
        if let Ok(opened) = File::open(&directory) {
            let _ = opened.sync_all();
        }
        Ok(file)
    }
}

/// Makes a directory unless it is there, and returns its mode; one that is there stays as it is.
fn make(directory: &Path, mode: u32) -> io::Result<u32> {
    if !directory.is_dir() {
        fs::create_dir_all(directory)?;
        // Not what the mask of the process makes of it.
        let _ = fs::set_permissions(directory, Permissions::from_mode(mode));
    }
    Ok(fs::metadata(directory)?.permissions().mode() & 0o777)
}

fn in_directory(directory: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", directory.display()))
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
