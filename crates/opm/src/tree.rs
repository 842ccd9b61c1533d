//! Output directories: what a command writes never replaces what is there.

use std::io;
use std::path::{Path, PathBuf};

use fbc::Unportable;

use crate::printer::Printer;

/// Writes a file that the user names, atomically.
pub(crate) fn write_file(path: &Path, text: &str) -> io::Result<()> {
    fbc::scratch::write_file(path, text.as_bytes()).map_err(|error| in_path(path, &error))
}

/// Warns of files that cannot leave an image.
pub(crate) fn warn_of_unportable(files: &[(PathBuf, Unportable)], printer: &Printer) {
    for (path, reason) in files {
        printer.warning(&format!("{}: left out: {reason}", path.display()));
    }
}

pub(crate) fn in_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
