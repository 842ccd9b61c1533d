//! The termination log of a container.

use std::fs::{File, OpenOptions};
use std::io::Write as _;

/// Kubernetes keeps this many bytes of a termination log; longer messages are truncated.
const MAX_SIZE: usize = 4096;

/// The file from which Kubernetes reads why a container failed.
pub struct TerminationLog(Option<File>);

impl TerminationLog {
    /// Opens the file; without a path, or if that fails, nothing is written later.
    pub fn open(path: &str) -> TerminationLog {
        if path.is_empty() {
            return TerminationLog(None);
        }
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let warn = |error| tracing::warn!(path, %error, "unable to set termination log path");
        TerminationLog(opened.map_err(warn).ok())
    }

    /// Writes the cause of a failure, in one line.
    pub fn write(self, text: &str) {
        let Some(mut file) = self.0 else { return };
        let line = text.replace('\n', " ");
        let _ = file.set_len(0);
        let _ = file.write_all(&line.as_bytes()[..line.floor_char_boundary(MAX_SIZE)]);
    }
}
