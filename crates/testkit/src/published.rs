//! Published bundles and recordings, if available.
//!
//! They are not part of this repository. Archives are expected in the folder that a variable names, or next to the
//! checkout; without them a test reports that it was skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Bundles of many operators: `operators/OPERATOR/VERSION`.
pub const BUNDLES: Archive =
    Archive { variable: "OPM_PERF_DIR", folder: "shared/perf", file: "operatorhub-bundles.tar.zst" };
/// A catalog of all of them, with one directory per package.
pub const CATALOG: Archive =
    Archive { variable: "OPM_PERF_DIR", folder: "shared/perf", file: "operatorhub-catalog.tar.zst" };
/// The results of OLM v1 for them, with one JSON file per operator.
pub const RELEASES: Archive =
    Archive { variable: "OPM_REHEARSE_DIR", folder: "shared/rehearse", file: "releases.tar.zst" };

/// An archive outside of this repository.
pub struct Archive {
    variable: &'static str,
    folder: &'static str,
    file: &'static str,
}

impl Archive {
    /// Unpacks the archive into a temporary directory; `None` if it is not available.
    #[expect(clippy::print_stderr, reason = "a skipped test is reported")]
    pub fn unpack(&self) -> Option<TempDir> {
        let next_to_checkout = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(self.folder);
        let archive = std::env::var_os(self.variable).map_or_else(next_to_checkout, PathBuf::from).join(self.file);
        if !archive.is_file() {
            eprintln!("skipped: there is no {}", archive.display());
            return None;
        }
        let target = tempfile::tempdir().expect("a directory");
        let unpacked = Command::new("tar")
            .args(["--use-compress-program", "zstd -d --long=27", "-xf"])
            .arg(&archive)
            .arg("-C")
            .arg(target.path())
            .status()
            .is_ok_and(|status| status.success());
        if !unpacked {
            eprintln!("skipped: {} cannot be unpacked with tar and zstd", archive.display());
            return None;
        }
        Some(target)
    }
}
