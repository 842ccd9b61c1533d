//! Reads the files of a directory. Only this module of the crate accesses files.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fbc::Limits;

use crate::error::Error;

/// Returns the names of a directory's entries in byte order.
pub(crate) fn names(dir: &Path, limits: &Limits) -> Result<Vec<OsString>, Error> {
    let failed = |source| Error::Io { path: dir.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        if names.len() == limits.files {
            return Err(Error::TooMany { path: dir.to_owned(), limit: limits.files });
        }
        names.push(entry.map_err(failed)?.file_name());
    }
    names.sort();
    Ok(names)
}

/// Returns whether `path` is a directory, or a link to one.
pub(crate) fn is_directory(path: &Path) -> bool {
    path.is_dir()
}

/// Returns whether `path` itself is a directory.
pub(crate) fn is_real_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|about| about.is_dir())
}

/// Returns whether `path` is a regular file, or a link to one.
pub(crate) fn is_plain(path: &Path) -> bool {
    path.is_file()
}

/// Returns whether `path` exists.
pub(crate) fn exists(path: &Path) -> bool {
    path.exists()
}

/// Returns a path without links and dot components.
pub(crate) fn canonical(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// Returns the names of a directory's entries in any order.
pub(crate) fn entries(dir: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect()
}

/// Reads a text file that the user names.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}

/// Reads a file; stops after one byte more than `max`.
pub(crate) fn read_up_to(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take((max as u64).saturating_add(1)).read_to_end(&mut text)?;
    Ok(text)
}

/// The result of reading a file.
pub(crate) enum ReadOutcome {
    /// The content is in the buffer.
    Read,
    /// It is a directory.
    Directory,
    /// It cannot be read.
    Unreadable(Unreadable),
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is a pipe, a socket or a device.
    #[error("not a regular file")]
    NotRegular,
    /// An I/O error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads the file at `path` into `buffer`, replacing its content.
///
/// Links are followed. Only regular files are opened, since opening a pipe blocks until its other end is open.
pub(crate) fn read(path: &Path, limits: &Limits, buffer: &mut Vec<u8>) -> Result<ReadOutcome, Error> {
    buffer.clear();
    let mut content = || -> io::Result<ReadOutcome> {
        let metadata = fs::metadata(path)?;
        if metadata.is_dir() {
            return Ok(ReadOutcome::Directory);
        }
        if !metadata.is_file() {
            return Ok(ReadOutcome::Unreadable(Unreadable::NotRegular));
        }
        buffer.reserve(metadata.len().min(limits.file_size) as usize + 1);
        File::open(path)?.take(limits.file_size.saturating_add(1)).read_to_end(buffer)?;
        Ok(ReadOutcome::Read)
    };
    match content() {
        Ok(ReadOutcome::Read) if buffer.len() as u64 > limits.file_size => {
            Err(Error::TooLarge { path: path.to_owned(), limit: limits.file_size })
        }
        Ok(outcome) => Ok(outcome),
        Err(error) => Ok(ReadOutcome::Unreadable(error.into())),
    }
}
