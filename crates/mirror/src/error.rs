//! Why a mirror cannot be planned, written, sent or read.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use fbc::fault::{Class, Fault};
use fbc::spelling::size::bytes;
use fbc::stream::StreamError;
use image::{Digest, ImageReferenceError};
use resolve::NamespaceError;
use source::{Invalid, SourceError};

use crate::catalog_image::ProgramRefusal;
use crate::lock::LockError;
use crate::preflight::InsufficientSpace;
use crate::set::MissingManifests;
use crate::volume::VolumeError;

/// Why an operation on a mirror failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// A file or directory cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        source: io::Error,
    },
    /// A file cannot be read or written; the error names it, if it matters.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// An error, with the file or image that has it.
    #[error("{name}: {source}")]
    Named {
        /// The file or image.
        name: String,
        source: Box<MirrorError>,
    },
    /// An operation on images failed.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// A catalog cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A catalog breaks rules; the problems have positions.
    #[error(transparent)]
    Rules(Box<Invalid>),
    /// A catalog breaks rules, so that no cluster could have installed anything from it.
    #[error("catalog {catalog} is invalid and no cluster would accept it")]
    InvalidCatalog {
        catalog: String,
        /// The broken rules.
        invalid: Box<Invalid>,
    },
    /// The objects of a cluster cannot be parsed.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The objects of a cluster are damaged.
    #[error(transparent)]
    Objects(#[from] NamespaceError),
    /// A cluster has installed nothing from a catalog.
    #[error("no package of catalog {0} is installed")]
    NothingInstalled(String),
    /// A filtered catalog cannot have the requested program.
    #[error("{refusal}\n  help: use {remedies}, or --catalog-program none")]
    Program {
        /// The reason.
        refusal: ProgramRefusal,
        /// The flags that help.
        remedies: Cow<'static, str>,
    },
    /// The image of a catalog cannot be built.
    #[error("{0}")]
    Build(Box<dyn Fault>),
    /// Manifests of images are not in the store.
    #[error(transparent)]
    Manifests(#[from] MissingManifests),
    /// Volumes lack manifests.
    #[error("manifests missing in the volumes:\n{0}")]
    ManifestsInVolumes(MissingManifests),
    /// A text is not an image reference.
    #[error(transparent)]
    Reference(#[from] ImageReferenceError),
    /// A lock is invalid.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A volume is invalid, or cannot be written.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// A registry or a repository in it has an invalid name.
    #[error(transparent)]
    Target(#[from] DestinationError),
    /// The objects for clusters cannot be named, or their template is invalid.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// A file is too large to be what it should be.
    #[error("larger than {0} bytes")]
    TooLarge(u64),
    /// A line of a list of blobs is invalid.
    #[error("line {line}: expected a digest and a size, found {text:?}")]
    BlobLine {
        /// The line, starting at 1.
        line: usize,
        /// Its text.
        text: String,
    },
    /// A file is not YAML.
    #[error(transparent)]
    Yaml(#[from] fbc::yaml::YamlError),
    /// A document does not have the expected form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A file has another kind.
    #[error("expected a list of kind {0}")]
    ListKind(&'static str),

    /// The directory belongs to someone else.
    #[error("{}: the directory holds images, but no set of 'opm mirror pull'", .0.display())]
    ForeignDirectory(PathBuf),
    /// The directory has no set.
    #[error("{}: no set of 'opm mirror pull' found", .0.display())]
    NoSet(PathBuf),
    /// Another process writes to the set.
    #[error("{}: another 'opm mirror' is writing to it{}", path.display(), process(holder.as_deref()))]
    Busy {
        /// The directory of the set.
        path: PathBuf,
        /// The other process, if the system reports it.
        holder: Option<String>,
    },

    /// A catalog cannot be loaded; the message of a problem.
    #[error("{0}")]
    Problem(String),
    /// Several problems, which users fix together.
    #[error("{}", lines(.0, "\n"))]
    Several(Vec<MirrorError>),
    /// An edit of the catalog is refused.
    #[error(transparent)]
    Refused(#[from] edit::EditRefusal),
    /// Nothing of the catalog is left.
    #[error("the catalog would be empty: every bundle lacks an image")]
    EmptyCatalog,
    /// A package cannot become a directory.
    #[error("{0:?} is not a valid directory name")]
    PackageName(String),
    /// The selection broke the catalog.
    #[error("the selected part is not a valid catalog:\n  {}", .0.join("\n  "))]
    InvalidPart(Vec<String>),
    /// Different images have the same destination.
    #[error("different images have the same destination:\n  {}\nhelp: --layout host separates them", .0.join("\n  "))]
    Clashes(Vec<String>),

    /// The availability of some images is unknown.
    #[error("some images could not be checked, so there is no plan\nhelp: run the command again")]
    Unchecked,
    /// A disk has too little space.
    #[error(transparent)]
    Space(#[from] InsufficientSpace),
    /// The disk became full.
    #[error("{source}\n{} remain to fetch\nhelp: free disk space and run the command again to resume", bytes(*left))]
    Stopped {
        source: image::Error,
        /// The remaining bytes.
        left: u64,
    },
    /// A layer of a catalog's image cannot be fetched.
    #[error("{0}\nhelp: run the command again to resume")]
    Resumable(image::Error),
    /// The directory has no lock.
    #[error("{0}\nhelp: the set is incomplete: 'opm mirror pull' completes it")]
    IncompleteSet(Box<MirrorError>),
    /// The set is another one.
    #[error("the lock has digest {found}, expected {expected}")]
    OtherSet {
        /// The digest of the lock.
        found: Digest,
        /// The expected digest.
        expected: String,
    },
    /// The policy rejects images of the set.
    #[error(
        "the policy does not accept the set, so nothing was sent\nhelp: signatures must be in the set: pull it without \
         --without-referrers"
    )]
    PolicyRefused,
    /// Neither the set nor the registry has some blobs.
    #[error(
        "{blobs} blobs are missing{}, so nothing was sent{}\nhelp: 'opm mirror verify {target} --lock LOCK --have LIST' \
         lists the blobs of the registry; 'opm mirror pull --have LIST' fetches the rest",
        if volumes.is_empty() { String::new() } else { format!(" (missing volumes {volumes:?})") },
        if since.is_empty() { String::new() } else { format!("\nthe volumes are a delta to lock {}", since.join(", ")) }
    )]
    MissingBlobs {
        /// The number of blobs.
        blobs: usize,
        /// The missing volumes.
        volumes: Vec<usize>,
        /// The locks that the volumes build on.
        since: Vec<String>,
        /// The destination.
        target: String,
    },
    /// A blob cannot be sent.
    #[error("{digest}: {source}")]
    Blob {
        /// The blob.
        digest: Digest,
        source: image::Error,
    },

    /// Repositories at the destination would have invalid names.
    #[error("{target}: invalid repositories:\n  {}\nhelp: use a shorter path after the registry", invalid.join("\n  "))]
    InvalidRepositories {
        /// The destination.
        target: String,
        /// The reason for each.
        invalid: Vec<String>,
    },
    /// Two images would overwrite each other.
    #[error("{one} and {two} have the same destination {name}:{tag}")]
    SameDestination {
        /// The first image.
        one: String,
        /// The second image.
        two: String,
        /// The repository.
        name: String,
        tag: String,
    },
    /// The registry has blobs that the set lacks, but cannot mount them.
    #[error(
        "nothing was sent: {blobs} blobs are in other repositories of {host}, which does not mount blobs across repositories\n\
         help: push a set or volumes that contain all blobs"
    )]
    NoMounts {
        /// The number of blobs.
        blobs: usize,
        /// The registry.
        host: String,
    },
    /// The registry could not use blobs that arrive without their images.
    #[error(
        "nothing was sent: {0} does not mount blobs across repositories, which --part requires\n\
         help: pass all volumes to one 'opm mirror push'"
    )]
    NoMountsForParts(String),
    /// The registry accepts no uploads to the repository of records.
    #[error("nothing was sent, because the registry accepts no uploads:\n  {repository}: {source}")]
    NoUploads { repository: String, source: image::Error },
    /// The registry accepts no uploads to some repositories.
    #[error(
        "nothing was sent, because the registry accepts {}:\n  {}{}",
        refused_paths(*depth),
        failed.join("\n  "),
        depth.map(|depth| format!("\nhelp: --max-nested-paths {depth} joins excess path components")).unwrap_or_default()
    )]
    Unwritable {
        /// The maximum number of path components, if that seems to be the reason.
        depth: Option<usize>,
        /// Each repository with the reason.
        failed: Vec<String>,
    },
    /// The registry accepts no index that lacks images.
    #[error(
        "{host} rejects indexes without all their images, and 'platforms' excludes some: {source}\n\
         help: remove 'platforms' from the file to mirror all of them, or configure the registry to accept sparse indexes: \
         'validation.manifests.indexes.platforms: none' of distribution 3, 'FEATURE_SPARSE_INDEX: true' of Quay"
    )]
    Sparse {
        /// The registry.
        host: String,
        source: image::Error,
    },
    /// The set arrived, but cannot be recorded.
    #[error("recording the set: {0}")]
    Recording(image::Error),
    /// A tag is invalid.
    #[error("{0:?} is not a valid tag")]
    Tag(String),
    /// The record of a set is damaged.
    #[error("it contains no lock")]
    NoLockInRecord,
    /// The record of a set is too large.
    #[error("the lock is too large")]
    LargeRecord,
    /// A request has no result.
    #[error("no response")]
    NoResponse,
}

impl MirrorError {
    /// Adds the file or image that has the error; each of several gets it.
    #[must_use]
    pub fn named(self, name: impl ToString) -> MirrorError {
        match self {
            MirrorError::Several(errors) => {
                MirrorError::Several(errors.into_iter().map(|error| error.named(name.to_string())).collect())
            }
            error => MirrorError::Named { name: name.to_string(), source: Box::new(error) },
        }
    }
}

/// The exit codes of mirror commands are a contract with scripts: 1 for every failure that a report or a message
/// explains, and the world's for a disk that fails without one.
impl Fault for MirrorError {
    fn class(&self) -> Class {
        match self {
            MirrorError::Io(_) => Class::World,
            MirrorError::Source(error) => error.class(),
            MirrorError::Build(fault) => fault.class(),
            // What a name is added to is explained.
            MirrorError::Named { source, .. } if matches!(**source, MirrorError::Build(_)) => source.class(),
            _ => Class::Refused,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            MirrorError::Named { source, .. } => source.hint(),
            MirrorError::Build(fault) => fault.hint(),
            _ => None,
        }
    }
}

/// Why a destination is invalid.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    /// The text is no registry.
    #[error("{0:?}: expected REGISTRY or REGISTRY/PATH, such as registry.example.com:5000/mirror")]
    Form(String),
    /// The repository of an image would have an invalid name.
    #[error("{name:?}: {source}")]
    Repository { name: String, source: ImageReferenceError },
}

impl Fault for DestinationError {
    fn class(&self) -> Class {
        Class::Refused
    }
}

/// Why the objects for clusters cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// Two catalogs were given the same name.
    #[error("two catalogs have the name {0:?}")]
    Taken(String),
    /// All names of a catalog belong to others.
    #[error("{0}: no free name for its objects; set one with --catalog-name")]
    NoFreeName(String),
    /// A name is not one for objects.
    #[error("clusters reject the name {0:?}; set another with --catalog-name")]
    Name(String),
    /// A template has another kind.
    #[error("expected a CatalogSource, found {0:?}")]
    TemplateKind(String),
    /// A template has another type of source.
    #[error("sourceType {0:?} is not supported, expected grpc")]
    TemplateSource(String),
    /// A template has a ConfigMap.
    #[error("configMap is not supported, expected an image")]
    TemplateConfigMap,
}

/// Returns a function that adds a path to an I/O error.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> MirrorError {
    move |source| MirrorError::File { path: path.to_owned(), source }
}

/// Parses a digest of a lock.
pub(crate) fn parse_digest(text: &str) -> Result<Digest, LockError> {
    text.parse().map_err(|_| LockError::NotADigest(text.to_owned()))
}

fn process(holder: Option<&str>) -> Cow<'static, str> {
    holder.map_or(Cow::Borrowed(""), |process| format!(", process {process}").into())
}

fn refused_paths(depth: Option<usize>) -> Cow<'static, str> {
    depth.map_or(Cow::Borrowed("no uploads"), |most| format!("no paths with more than {most} components").into())
}

fn lines(errors: &[MirrorError], separator: &str) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}
