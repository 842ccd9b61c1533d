//! What the command lines of oc-mirror v2 mean: the operation, the files in its directory, the exit codes.

pub mod refused;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use crate::MirrorError;
use crate::destination::MirrorDestination;
use crate::imageset::{ImageSetKind, ImageSetProblem};
use crate::listed::{self, ListedImage};
use crate::lock::Role;
use crate::report::MissingImage;
use crate::request::{MirrorRequest, SelectionOptions, SetRequest};
use crate::selection::MirrorSelection;
use crate::session::MirrorSession;
use crate::set::write_whole;

/// The default size of an archive in bytes.
pub const ARCHIVE_SIZE: u64 = 500 << 30;

/// Why a command line of oc-mirror has no meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OcMirrorError {
    #[error("{0:?}: expected file://DIR or docker://REGISTRY[/PATH]")]
    Place(String),
    #[error("{0:?}: expected file://DIR")]
    Directory(String),
    #[error("expected docker://REGISTRY[/PATH]")]
    Registry,
    #[error("--from and --workspace require a destination docker://REGISTRY")]
    ToDisk,
    #[error("--from and --workspace cannot be combined")]
    TwoSources,
    #[error("docker://REGISTRY requires --from file://DIR or --workspace file://DIR")]
    NoSource,
}

/// The destination argument.
enum OcPlace {
    Disk(Workspace),
    Registry(String),
}

impl OcPlace {
    fn parse(text: &str) -> Result<OcPlace, OcMirrorError> {
        match (text.strip_prefix("file://"), text.strip_prefix("docker://")) {
            (Some(path), _) if !path.is_empty() => Ok(OcPlace::Disk(Workspace(path.into()))),
            (_, Some(registry)) if !registry.is_empty() => Ok(OcPlace::Registry(registry.to_owned())),
            _ => Err(OcMirrorError::Place(text.to_owned())),
        }
    }
}

/// Parses a registry.
///
/// # Errors
/// Fails when the text is something else.
pub fn registry(text: &str) -> Result<String, OcMirrorError> {
    match OcPlace::parse(text)? {
        OcPlace::Registry(registry) => Ok(registry),
        OcPlace::Disk(_) => Err(OcMirrorError::Registry),
    }
}

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OcOperation {
    /// From registries to a directory.
    ToDisk(Workspace),
    /// From a directory to a registry.
    FromDisk(Workspace, String),
    /// From registries to a registry, with a directory for records.
    Between(Workspace, String),
}

impl OcOperation {
    /// Parses the destination, and the values of `--from` and `--workspace`.
    ///
    /// # Errors
    /// Fails when they do not fit together.
    pub fn parse(destination: &str, from: Option<&str>, workspace: Option<&str>) -> Result<OcOperation, OcMirrorError> {
        match (OcPlace::parse(destination)?, from, workspace) {
            (OcPlace::Disk(directory), None, None) => Ok(OcOperation::ToDisk(directory)),
            (OcPlace::Disk(_), _, _) => Err(OcMirrorError::ToDisk),
            (OcPlace::Registry(_), Some(_), Some(_)) => Err(OcMirrorError::TwoSources),
            (OcPlace::Registry(_), None, None) => Err(OcMirrorError::NoSource),
            (OcPlace::Registry(registry), Some(from), None) => {
                Ok(OcOperation::FromDisk(Workspace::parse(from)?, registry))
            }
            (OcPlace::Registry(registry), None, Some(workspace)) => {
                Ok(OcOperation::Between(Workspace::parse(workspace)?, registry))
            }
        }
    }

    /// Returns the directory.
    pub fn workspace(&self) -> &Workspace {
        match self {
            OcOperation::ToDisk(workspace)
            | OcOperation::FromDisk(workspace, _)
            | OcOperation::Between(workspace, _) => workspace,
        }
    }
}

/// The directory of oc-mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace(PathBuf);

impl Workspace {
    /// Parses `file://DIR`.
    ///
    /// # Errors
    /// Fails when the text is something else.
    pub fn parse(text: &str) -> Result<Workspace, OcMirrorError> {
        match OcPlace::parse(text)? {
            OcPlace::Disk(workspace) => Ok(workspace),
            OcPlace::Registry(_) => Err(OcMirrorError::Directory(text.to_owned())),
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the directory of the set.
    pub fn set(&self) -> PathBuf {
        self.0.join("working-dir/set")
    }

    /// Returns the directory of the cluster objects.
    pub fn resources(&self) -> PathBuf {
        self.0.join("working-dir/cluster-resources")
    }

    /// Returns the directory of mappings.
    pub fn mappings(&self) -> PathBuf {
        self.0.join("working-dir/dry-run")
    }

    /// Returns the file of the lock.
    pub fn lock(&self) -> PathBuf {
        self.0.join("working-dir/lock.json")
    }

    fn delete(&self, name: &str, id: &str) -> PathBuf {
        self.0.join(format!("working-dir/delete/{name}{id}.yaml"))
    }

    /// Returns what to read the mirrored set from: the archives of the newest set, or else the directory of the set.
    ///
    /// # Errors
    /// Fails when the state of an archive cannot be read.
    pub fn sources(&self) -> io::Result<Vec<PathBuf>> {
        let mut archives: Vec<(SystemTime, String, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let series = name.strip_suffix(".tar").and_then(|name| name.rsplit_once('-')).map(|(series, _)| series);
            if let Some(series) = series.filter(|series| series.starts_with("mirror-")) {
                archives.push((entry.metadata()?.modified()?, series.to_owned(), entry.path()));
            }
        }
        let Some(newest) = archives.iter().max().map(|(_, series, _)| series.clone()) else {
            return Ok(vec![self.set()]);
        };
        Ok(archives.into_iter().filter(|(_, series, _)| *series == newest).map(|(_, _, path)| path).collect())
    }
}

/// Returns the exit code for missing images: 4 for operators, 8 for additional images, or their sum.
pub fn exit_code(missing: &[MissingImage]) -> Option<u8> {
    let has = |wanted: fn(Role) -> bool| missing.iter().any(|one| wanted(one.role));
    let operators = has(|role| role != Role::Additional);
    let additional = has(|role| role == Role::Additional);
    (operators || additional).then(|| u8::from(operators) * 4 + u8::from(additional) * 8)
}

/// A list of images to delete.
#[derive(Debug)]
pub struct GeneratedList {
    /// Images that the registries do not have, or whose registry failed.
    pub missing: Vec<MissingImage>,
    /// The number of listed images, and the file; `None` if a registry failed, because a list without its images would
    /// not be what the file requests.
    pub written: Option<(usize, PathBuf)>,
}

/// A request for a list of images to delete.
pub struct GenerateList<'a> {
    /// The file.
    pub text: &'a [u8],
    /// How its content is selected.
    pub options: SelectionOptions,
    /// The directory to write to.
    pub workspace: &'a Workspace,
    /// The suffix for the names of files.
    pub id: Option<&'a str>,
}

impl GenerateList<'_> {
    /// Parses the file.
    ///
    /// # Errors
    /// Fails with all problems of the file.
    pub fn request(&self) -> Result<MirrorRequest, Vec<ImageSetProblem>> {
        let request = SetRequest::parse(self.text, ImageSetKind::Delete, &self.options)?;
        Ok(MirrorRequest::Set(Box::new(request)))
    }

    /// Resolves the request, and writes the list and a copy of the file.
    ///
    /// # Errors
    /// Fails when the request cannot be resolved, or a file cannot be written.
    pub fn run(
        &self,
        request: MirrorRequest,
        target: &MirrorDestination,
        session: &MirrorSession<'_>,
    ) -> Result<GeneratedList, MirrorError> {
        let selection = MirrorSelection::resolve(request, &self.options, session)?;
        let missing = selection.missing().to_vec();
        if missing.iter().any(|one| one.failed) {
            return Ok(GeneratedList { missing, written: None });
        }
        let mut images: BTreeMap<String, ListedImage> = BTreeMap::new();
        // Catalogs are never removed.
        for image in selection.images().iter().filter(|image| image.role != Role::Catalog) {
            let name = format!("{}/{}:{}", target.host, target.path(&image.path), image.tag);
            images.entry(name).or_insert(ListedImage { source: image.source.clone(), role: image.role });
        }
        let id = self.id.map(|id| format!("-{id}")).unwrap_or_default();
        let place = self.workspace.delete("delete-images", &id);
        write_whole(&place, listed::write(&images).as_bytes())?;
        write_whole(&self.workspace.delete("delete-imageset-config", &id), self.text)?;
        Ok(GeneratedList { missing, written: Some((images.len(), place)) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn places_decide_the_operation() {
        let parse = |to, from, workspace| OcOperation::parse(to, from, workspace);
        let here = || Workspace("/d".into());
        assert_eq!(parse("file:///d", None, None), Ok(OcOperation::ToDisk(here())));
        let registry = "docker://r.test/a";
        assert_eq!(parse(registry, Some("file:///d"), None), Ok(OcOperation::FromDisk(here(), "r.test/a".into())));
        assert_eq!(parse(registry, None, Some("file:///d")), Ok(OcOperation::Between(here(), "r.test/a".into())));
        assert_eq!(parse("r.test", None, None), Err(OcMirrorError::Place("r.test".into())));
        assert_eq!(parse("file://", None, None), Err(OcMirrorError::Place("file://".into())));
        assert_eq!(parse("file:///d", Some("file:///e"), None), Err(OcMirrorError::ToDisk));
        assert_eq!(parse(registry, Some("file:///d"), Some("file:///d")), Err(OcMirrorError::TwoSources));
        assert_eq!(parse(registry, None, None), Err(OcMirrorError::NoSource));
        assert_eq!(parse(registry, Some(registry), None), Err(OcMirrorError::Directory(registry.into())));
        assert_eq!(super::registry("file:///d"), Err(OcMirrorError::Registry));
    }

    #[test]
    fn the_archives_of_the_newest_set_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace(directory.path().to_owned());
        assert_eq!(workspace.sources().unwrap(), [workspace.set()]);
        let archive = |name: &str, age: u64| {
            let path = directory.path().join(name);
            let file = fs::File::create(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age)).unwrap();
            path
        };
        archive("mirror-old-1.tar", 9);
        archive("notes.tar", 0);
        let mut newest = vec![archive("mirror-new-1.tar", 2), archive("mirror-new-2.tar", 1)];
        let mut found = workspace.sources().unwrap();
        newest.sort();
        found.sort();
        assert_eq!(found, newest);
    }
}
