//! The cache directory.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fbc::scratch::TempFile;

use super::store::PrepareError;

/// Our directory inside a cache directory. The file in it carries the version of its format.
const OURS: &str = "opm.v1";
/// The cache file.
const FILE: &str = "catalog.cache";
/// The prefix of unfinished caches.
const UNFINISHED: &str = ".building-";
/// Any user of an image may need to read a directory that opm creates, and its group to rebuild the cache.
const DIRECTORY_MODE: u32 = 0o775;
/// The maximum mode of a file; the mode of its directory can reduce it.
const FILE_MODE: u32 = 0o664;

/// The content of a cache directory.
pub(super) enum CacheDirState {
    Nothing,
    Ours,
    /// A cache of other tools, with the name of its format.
    Other(&'static str),
}

/// Returns the path of the cache file below a cache directory.
pub fn file_in(cache_dir: &Path) -> PathBuf {
    cache_dir.join(OURS).join(FILE)
}

/// Inspects a cache directory.
pub(super) fn inspect(cache_dir: &Path) -> Result<CacheDirState, PrepareError> {
    let entries = match fs::read_dir(cache_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CacheDirState::Nothing),
        Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", cache_dir.display())).into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let has = |name: &str| names.iter().any(|found| found == name);
    // A dedicated volume has a `lost+found` directory.
    let unexpected: Vec<String> = names
        .iter()
        .filter(|name| !matches!(name.as_str(), OURS | "pogreb.v1" | "cache" | "digest" | "lost+found"))
        .cloned()
        .collect();
    if !unexpected.is_empty() || (!has(OURS) && has("cache") != has("digest")) {
        return Err(PrepareError::Unexpected(if unexpected.is_empty() { names } else { unexpected }));
    }
    Ok(match () {
        () if has(OURS) => CacheDirState::Ours,
        () if has("pogreb.v1") => CacheDirState::Other("pogreb.v1"),
        () if has("cache") => CacheDirState::Other("json"),
        () => CacheDirState::Nothing,
    })
}

/// A cache that is being written; removed on drop unless it is finished.
pub(super) struct Unfinished {
    file: TempFile,
    directory: PathBuf,
    mode: u32,
}

impl Unfinished {
    /// Starts a cache in `cache_dir`, which is created if needed.
    ///
    /// # Errors
    /// Fails when the directory cannot be written.
    pub(super) fn start(cache_dir: &Path) -> io::Result<Unfinished> {
        let directory = cache_dir.join(OURS);
        let named = |error| in_directory(&directory, error);
        let mode = create_dir(cache_dir, DIRECTORY_MODE).map_err(named)?;
        // A directory that is closed to others keeps its files closed too.
        let mode = create_dir(&directory, mode).map_err(named)?;
        remove_abandoned(&directory);
        let mut file = TempFile::create(&directory, UNFINISHED).map_err(named)?;
        // The lock is held until the end, so that other processes can distinguish this file from an abandoned one.
        let _ = file.file().try_lock();
        Ok(Unfinished { file, directory, mode: mode & FILE_MODE })
    }

    pub(super) fn file(&mut self) -> &mut File {
        self.file.file()
    }

    /// Syncs the cache and renames it into place.
    ///
    /// # Errors
    /// Fails when that is not possible; the previous cache stays then.
    pub(super) fn finish(self) -> io::Result<File> {
        let Unfinished { mut file, directory, mode } = self;
        let named = |error| in_directory(&directory, error);
        file.file().set_permissions(Permissions::from_mode(mode)).map_err(named)?;
        file.file().sync_all().map_err(named)?;
        let file = file.finish(&directory.join(FILE), mode).map_err(named)?;
        if let Ok(opened) = File::open(&directory) {
            let _ = opened.sync_all();
        }
        Ok(file)
    }
}

/// Creates a directory unless it exists, and returns its mode; an existing one is not changed.
fn create_dir(directory: &Path, mode: u32) -> io::Result<u32> {
    if !directory.is_dir() {
        fs::create_dir_all(directory)?;
        // Independent of the umask.
        let _ = fs::set_permissions(directory, Permissions::from_mode(mode));
    }
    Ok(fs::metadata(directory)?.permissions().mode() & 0o777)
}

fn in_directory(directory: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", directory.display()))
}

/// Removes unfinished caches that no process is building.
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
