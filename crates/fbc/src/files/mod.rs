//! All file access of this crate. The other modules work on text and values.

pub(crate) mod members;
mod store;
mod walk;
mod window;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

pub(crate) use store::TextStore;
pub(crate) use walk::{Walked, single, walk};
pub(crate) use window::Window;

/// Makes `open` non-blocking. This is the value of Linux on all but a few old processors.
const O_NONBLOCK: i32 = 0o4000;

/// The state of a file: its size and modification time.
pub(crate) type Stamp = (u64, SystemTime);

/// Returns the current state of a file.
pub(crate) fn stamp(path: &Path) -> io::Result<Stamp> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.len(), metadata.modified()?))
}

/// Opens a regular file. Fails on a pipe instead of waiting for its writer.
fn open_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file")),
    }
}

/// Opens a file for reading in windows, up to `limit` bytes, and returns its state.
pub(crate) fn open(path: &Path, limit: u64) -> io::Result<(Window, Stamp)> {
    let file = open_file(path)?;
    let metadata = file.metadata()?;
    let stamp = (metadata.len(), metadata.modified()?);
    Ok((Window::new(file.take(limit)), stamp))
}

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Reads `length` bytes at `offset` of a file, provided that its state is unchanged.
pub(crate) fn read_at(
    path: &Path,
    seen: Option<Stamp>,
    offset: u64,
    length: usize,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let in_file = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(in_file)?;
    let metadata = file.metadata().map_err(in_file)?;
    if seen != Some((metadata.len(), metadata.modified().map_err(in_file)?)) {
        return Err(in_file(changed()));
    }
    buffer.resize(length, 0);
    file.read_exact_at(buffer, offset).map_err(in_file)
}

/// Returns the error for a file that has changed.
pub(crate) fn changed() -> io::Error {
    io::Error::other("file changed while it was being read")
}

/// Why a referenced file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileReferenceError {
    #[error("ref {0:?} needs a catalog directory")]
    NoDirectory(String),
    #[error("ref {0:?} is an absolute path, expected one relative to its file")]
    Absolute(String),
    #[error("ref {0:?} leads outside the catalog")]
    Outside(String),
    #[error("ref {0:?} leads to a file of version control")]
    VersionControl(String),
    #[error("ref {0:?} is not a file")]
    NotAFile(String),
    #[error("ref {reference:?} is larger than {limit} bytes")]
    TooLarge { reference: String, limit: usize },
    #[error("ref {reference:?}: {source}")]
    File { reference: String, source: io::Error },
}

/// Reads a referenced file at `path` below the catalog `root`, which it must not leave.
pub(crate) fn read_inside(
    root: &Path,
    path: &Path,
    reference: &str,
    limit: usize,
) -> Result<Vec<u8>, FileReferenceError> {
    let named = || reference.to_owned();
    let failed = |source: io::Error| FileReferenceError::File { reference: named(), source };
    let inside = root.canonicalize().map_err(failed)?;
    let real = root.join(path).canonicalize().map_err(failed)?;
    if !real.starts_with(&inside) {
        return Err(FileReferenceError::Outside(named()));
    }
    if real.strip_prefix(&inside).is_ok_and(|path| path.iter().any(members::is_version_control)) {
        return Err(FileReferenceError::VersionControl(named()));
    }
    let metadata = fs::metadata(&real).map_err(failed)?;
    if !metadata.is_file() {
        return Err(FileReferenceError::NotAFile(named()));
    }
    if metadata.len() > limit as u64 {
        return Err(FileReferenceError::TooLarge { reference: named(), limit });
    }
    fs::read(&real).map_err(failed)
}

/// Returns whether `path` is a bundle directory rather than a catalog.
pub(crate) fn is_bundle_dir(path: &Path) -> bool {
    let has = |name: &str| path.join(name).is_dir();
    has("manifests") && has("metadata")
}
