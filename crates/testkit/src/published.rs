//! Published bundles and recordings, where they are at hand.
//!
//! They are not part of this repository. Archives are searched for in the folder that a variable names, else next
//! to the checkout; without them a test says that it was skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Bundles of many operators: `operators/OPERATOR/VERSION`.
pub const BUNDLES: Archive =
    Archive { variable: "OPM_PERF_DIR", folder: "shared/perf", file: "operatorhub-bundles.tar.zst" };
/// A catalog of all of them: a directory for each package.
pub const CATALOG: Archive =
    Archive { variable: "OPM_PERF_DIR", folder: "shared/perf", file: "operatorhub-catalog.tar.zst" };
/// What OLM v1 made of them: a JSON file for each operator.
pub const RELEASES: Archive =
    Archive { variable: "OPM_REHEARSE_DIR", folder: "shared/rehearse", file: "releases.tar.zst" };

/// An archive outside of this repository.
pub struct Archive {
    variable: &'static str,
    folder: &'static str,
    file: &'static str,
}

impl Archive {
    /// Unpacks the archive into a directory that vanishes with what is returned; nothing if it is not at hand.
    #[expect(clippy::print_stderr, reason = "a test that cannot run says so")]
    pub fn unpack(&self) -> Option<TempDir> {
        let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(self.folder);
        let archive = std::env::var_os(self.variable).map_or_else(beside, PathBuf::from).join(self.file);
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
