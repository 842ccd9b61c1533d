//! Files in directories that other users may write to, such as a shared image cache.
//!
//! Anybody who can write to such a directory can plant a link, a FIFO or a file under a name that we will use. So
//! files are opened without following links, are written only if this user owns them, and are created exclusively.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Opens a regular file for reading. Anything else counts as missing, such as a link or a FIFO.
pub(crate) fn open(path: &Path) -> io::Result<Option<File>> {
    regular(OpenOptions::new().read(true), OFlags::NOFOLLOW, path)
}

/// Opens a regular file for reading, also through a link: for files that the user names, such as those of a layout.
pub(crate) fn open_named(path: &Path) -> io::Result<Option<File>> {
    regular(OpenOptions::new().read(true), OFlags::empty(), path)
}

/// Opens a file to append to it, and creates it if it is missing. Returns `None` if this user may not write to what
/// has the name: a link, another user's file, or a file with a second name somewhere else.
pub(crate) fn resume(path: &Path) -> io::Result<Option<File>> {
    let existing = match regular(OpenOptions::new().read(true).write(true), OFlags::NOFOLLOW, path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
        outcome => outcome?,
    };
    if let Some(file) = existing {
        let about = file.metadata()?;
        return Ok((is_ours(&about) && about.nlink() == 1).then_some(file));
    }
    match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::PermissionDenied) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates an empty file. A file or link of this name, which a killed process may have left behind, is removed, not
/// followed.
///
/// # Errors
/// Fails when the file cannot be created, or another process creates it at the same time.
pub fn create_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Creates a directory unless it exists. A link to a directory is rejected: old files in ours are deleted.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => fs::create_dir_all(path)?,
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if fs::symlink_metadata(path)?.is_dir() {
        return Ok(());
    }
    let text = format!("{} must be a directory, not a link or a file", path.display());
    Err(io::Error::new(ErrorKind::NotADirectory, text))
}

/// Returns whether this user owns a file.
pub(crate) fn is_ours(about: &Metadata) -> bool {
    about.uid() == rustix::process::geteuid().as_raw()
}

fn regular(options: &mut OpenOptions, more: OFlags, path: &Path) -> io::Result<Option<File>> {
    // Without NONBLOCK, opening a FIFO waits for its other end.
    let flags = OFlags::NONBLOCK | more;
    match options.custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => Ok(file.metadata()?.is_file().then_some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // A link, a directory that is opened for writing, a socket, or a FIFO without a reader.
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_others_plant_is_neither_followed_nor_written() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("victim"), "precious").unwrap();
        symlink(at("victim"), at("link")).unwrap();
        symlink(at("missing"), at("dangling")).unwrap();
        fs::hard_link(at("victim"), at("second")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        symlink(at("directory"), at("directory-link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for name in ["link", "dangling", "second", "directory", "directory-link", "fifo"] {
            assert!(resume(&at(name)).unwrap().is_none(), "{name}");
        }
        for name in ["link", "dangling", "directory", "directory-link", "fifo", "nothing"] {
            assert!(open(&at(name)).unwrap().is_none(), "{name}");
        }
        assert!(open_named(&at("link")).unwrap().is_some());
        for name in ["link", "dangling", "second"] {
            create_file(&at(name)).unwrap().write_all(b"new").unwrap();
            assert_eq!(fs::read_to_string(at(name)).unwrap(), "new");
        }
        assert!(create_dir(&at("directory-link")).is_err());
        create_dir(&at("directory")).unwrap();
        create_dir(&at("a/b")).unwrap();
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "precious");
        assert!(!at("missing").exists());
        resume(&at("fresh")).unwrap().unwrap().write_all(b"begun").unwrap();
        assert_eq!(resume(&at("fresh")).unwrap().unwrap().metadata().unwrap().len(), 5);
    }
}
