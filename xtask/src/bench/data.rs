//! Benchmark data: published catalogs if available, otherwise generated ones of the same shape.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::generate;
use crate::workspace::{self, Workspace};

/// The variable with the directory of the archives; defaults to a directory next to the workspace.
const DIRECTORY_VARIABLE: &str = "OPM_PERF_DIR";
const CATALOG_ARCHIVE: &str = "operatorhub-catalog.tar.zst";
const BUNDLES_ARCHIVE: &str = "operatorhub-bundles.tar.zst";

/// A catalog, and a set of bundle directories.
pub(crate) struct Data {
    pub(crate) catalog: Directory,
    pub(crate) bundles: Directory,
    /// Its description.
    pub(crate) about: String,
}

/// A directory of files.
pub(crate) struct Directory {
    pub(crate) root: PathBuf,
}

impl Data {
    /// Unpacks the archives into `scratch`, or generates similar data there, unless that was done before.
    pub(crate) fn find(workspace: &Workspace, scratch: &Path, quick: bool) -> Result<Data> {
        let archives =
            std::env::var_os(DIRECTORY_VARIABLE).map_or_else(|| workspace.root.join("../shared/perf"), PathBuf::from);
        let (catalog, bundles) = (archives.join(CATALOG_ARCHIVE), archives.join(BUNDLES_ARCHIVE));
        let (catalog, bundles, source) = if catalog.is_file() && bundles.is_file() {
            (unpacked(&catalog, scratch)?, unpacked(&bundles, scratch)?, "published operators")
        } else {
            let scale = if quick { generate::Scale::TENTH } else { generate::Scale::FULL };
            let catalog =
                create_once(scratch, &format!("made-catalog-{}", scale.bundles), |at| generate::catalog(at, scale))?;
            let name = format!("made-bundles-{}", scale.bundle_directories);
            let bundles = create_once(scratch, &name, |at| generate::bundles(at, scale))?;
            (catalog, bundles, "made-up operators")
        };
        let about = format!(
            "On {source}: a catalog of {} files, {:.0} MB, and bundle directories of {} files, {:.0} MB",
            catalog.files()?.len(),
            catalog.bytes()? as f64 / 1e6,
            bundles.files()?.len(),
            bundles.bytes()? as f64 / 1e6,
        );
        Ok(Data { catalog, bundles, about })
    }
}

/// Unpacks an archive; its size identifies it.
fn unpacked(archive: &Path, scratch: &Path) -> Result<Directory> {
    let size = fs::metadata(archive)?.len();
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{}-{size}", name.trim_end_matches(".tar.zst"));
    create_once(scratch, &name, |at| {
        let mut tar = Command::new("tar");
        workspace::run(tar.args(["--use-compress-program=zstd", "-xf"]).arg(archive).arg("-C").arg(at))
            .context("unpacking needs tar and zstd")
    })
}

/// Creates a directory with `make` atomically, unless it exists.
fn create_once(scratch: &Path, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<Directory> {
    let root = scratch.join(name);
    if !root.is_dir() {
        let unfinished = scratch.join(format!("{name}.unfinished"));
        if unfinished.is_dir() {
            fs::remove_dir_all(&unfinished)?;
        }
        fs::create_dir_all(&unfinished).with_context(|| format!("creating {}", unfinished.display()))?;
        make(&unfinished)?;
        fs::rename(&unfinished, &root)?;
    }
    Ok(Directory { root })
}

impl Directory {
    /// Returns all files, relative to the directory.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        self.walk(&mut |path, is_directory| {
            if !is_directory {
                files.push(path.to_path_buf());
            }
        })?;
        Ok(files)
    }

    /// Returns the bundle directories, relative to this one.
    pub(crate) fn bundle_directories(&self) -> Result<Vec<PathBuf>> {
        let mut directories = Vec::new();
        self.walk(&mut |path, is_directory| {
            let has = |part| self.root.join(path).join(part).is_dir();
            if is_directory && has("manifests") && has("metadata") {
                directories.push(path.to_path_buf());
            }
        })?;
        Ok(directories)
    }

    fn bytes(&self) -> Result<u64> {
        let sizes = self.files()?.into_iter().map(|path| Ok(fs::metadata(self.root.join(path))?.len()));
        sizes.sum()
    }

    fn walk(&self, visit: &mut dyn FnMut(&Path, bool)) -> Result<()> {
        let mut open = vec![PathBuf::new()];
        while let Some(directory) = open.pop() {
            let mut entries = fs::read_dir(self.root.join(&directory))?.collect::<Result<Vec<_>, _>>()?;
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let path = directory.join(entry.file_name());
                let is_directory = entry.file_type()?.is_dir();
                visit(&path, is_directory);
                if is_directory {
                    open.push(path);
                }
            }
        }
        Ok(())
    }
}
