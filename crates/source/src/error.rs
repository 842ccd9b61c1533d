//! Why a source cannot be used.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use catalog::{DATABASE_LABEL, Problems};
use fbc::Fbc;
use fbc::fault::{Class, Fault};
use image::{CONFIGS_LABEL, ImageReferenceError, UnpackError};

use crate::container::ToolError;
use crate::images::BUNDLE_LABEL;
use crate::template::TemplateReferenceError;

/// Why a source cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// New files would replace others.
    #[error(
        "opm does not overwrite existing files:\n  {}",
        .0.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("\n  ")
    )]
    Exist(Vec<PathBuf>),
    /// The name is empty.
    #[error("the name is empty")]
    EmptyName,
    /// The path exists, but is no directory.
    #[error("the path is not a directory")]
    NotADirectory,
    /// The path does not exist.
    #[error("the path does not exist")]
    NoPath,
    /// The name is neither a path nor an image reference.
    #[error("the path does not exist, and it is not an image reference: {0}")]
    Neither(ImageReferenceError),
    /// The command accepts no single files, or it is a pipe or a device.
    #[error("ref \"{0}\" has unsupported file type: a catalog must be a directory")]
    FileType(String),
    /// A bundle was given instead of a catalog.
    #[error("\"{0}\" is a bundle, not a catalog")]
    Bundle(String),
    /// A bundle was given to a command that renders catalogs.
    #[error("cannot render reference: type not allowed: it is a bundle, not a catalog")]
    BundleNotAllowed(String),
    /// A bundle was given to a command that lists catalogs.
    #[error("cannot list non-index \"{0}\": it is a bundle")]
    NotAnIndex(String),
    /// An error with the name of its source.
    #[error("\"{name}\": {source}")]
    Named { name: String, source: Box<SourceError> },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        source: io::Error,
    },
    /// A file cannot be read or written; the error names it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// An error that several sources have.
    #[error(transparent)]
    Shared(Arc<SourceError>),
    /// Several sources have errors.
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<SourceError>),
    /// The catalog breaks rules.
    #[error(transparent)]
    Invalid(#[from] Box<Invalid>),
    /// A package cannot become a directory.
    #[error("invalid package name {0:?}: must be a single local path element")]
    PackageName(String),
    /// A package or bundle cannot become a file.
    #[error("invalid name {0:?}: must be a single local path element")]
    FileName(String),
    /// An object of a bundle cannot become a file.
    #[error("bundle {bundle:?}: {source}")]
    Object {
        bundle: String,
        /// The error.
        source: edit::legacy::InvalidObject,
    },

    /// The temporary directory for images cannot be created.
    #[error("{}: failed to create a directory for images: {source}", path.display())]
    Scratch {
        /// The directory for temporary files.
        path: PathBuf,
        source: io::Error,
    },
    /// There is no network access, and nothing to use instead.
    #[error("--offline requires an image cache: set OLM_CACHE_DIR or --image-cache")]
    NoCache,
    /// The credentials file cannot be named in a variable.
    #[error("{}: the path is not valid UTF-8", .0.display())]
    AuthFile(PathBuf),
    /// An operation on images failed.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// The name is not an image reference.
    #[error(transparent)]
    Reference(#[from] ImageReferenceError),
    /// An image cannot be pulled.
    #[error("failed to pull image {reference:?}: {source}{}", help(source))]
    Pull {
        /// The image.
        reference: String,
        source: image::Error,
    },
    /// An image cannot be unpacked.
    #[error("failed to unpack image {reference:?}: {source}")]
    Unpack {
        /// The image.
        reference: String,
        source: UnpackError,
    },
    /// A base image cannot be used.
    #[error("base image \"{reference}\": {source}")]
    Base {
        /// The image.
        reference: String,
        /// The error.
        source: Box<SourceError>,
    },
    /// A built image cannot be written or pushed.
    #[error("{source}{}", help(source))]
    Delivery {
        /// The error.
        source: image::Error,
    },
    /// The content of an image cannot be used.
    #[error("image \"{reference}\": {source}")]
    Content {
        /// The image.
        reference: String,
        source: Box<SourceError>,
    },
    /// An image does not have a path.
    #[error("{path} is not in the image: {source}")]
    NotInside {
        /// The path in the image.
        path: String,
        source: io::Error,
    },
    /// A database in an image has changes that only its program can apply.
    #[error(
        "{0} has changes that are not in the database: build the image again after a program that uses the database has \
         closed it"
    )]
    UnfinishedLog(String),
    /// The image is not in a registry.
    #[error("{0} is not in a registry")]
    NotInRegistry(String),
    /// The image has no labels.
    #[error("render \"{0}\": image has no labels")]
    NoLabels(String),
    /// The image has other labels.
    #[error(
        "render \"{reference}\": image type could not be determined, found labels{}",
        labels.iter().map(|(name, value)| format!("\n  {name}={value}")).collect::<String>()
    )]
    OtherLabels {
        /// The image.
        reference: String,
        /// Its labels.
        labels: Vec<(String, String)>,
    },
    /// The image has a bundle instead of a catalog.
    #[error("image {0:?} is a bundle, not a catalog")]
    BundleImage(String),
    /// The image has no catalog.
    #[error("image {0:?} has no label {CONFIGS_LABEL}")]
    NoCatalogLabel(String),
    /// The image has a catalog instead of a database.
    #[error(
        "`opm index` commands only support sqlite-based catalogs, but {0} is a file-based catalog: unpack it and edit \
         its files"
    )]
    NotADatabaseImage(String),
    /// The image has no database.
    #[error("index image {0} missing label {DATABASE_LABEL}")]
    NoDatabaseLabel(String),
    /// A container tool failed.
    #[error(transparent)]
    Tool(#[from] ToolError),

    /// A database cannot be read.
    #[error("{}", legacy::bounded(.0.to_string()))]
    Sqlite(#[from] legacy::Error),

    /// A bundle cannot be read or rendered.
    #[error(transparent)]
    BundleError(#[from] bundle::Error),
    /// The source is no bundle.
    #[error("\"{0}\" is not a bundle: it has no directory 'manifests'")]
    NotABundle(String),
    /// A template cannot refer to this.
    #[error(transparent)]
    Template(#[from] TemplateReferenceError),
    /// A catalog does not have the package.
    #[error("{catalog} has no package \"{name}\"; its packages are {}", some(known))]
    UnknownPackage {
        catalog: String,
        /// The unknown name.
        name: String,
        /// Its packages.
        known: Vec<String>,
    },
    /// A package does not have the channel.
    #[error("package \"{package}\" has no channel \"{name}\"; its channels are {}", some(known))]
    UnknownChannel {
        package: String,
        /// The unknown name.
        name: String,
        /// Its channels.
        known: Vec<String>,
    },
    /// A package does not have the version.
    #[error("package \"{package}\" has no version \"{version}\"; its versions are {}", some(known))]
    UnknownVersion {
        package: String,
        /// The unknown version.
        version: String,
        /// Its versions.
        known: Vec<String>,
    },
    /// A package does not have the bundle.
    #[error("unknown bundle \"{0}\"")]
    UnknownBundle(String),
    /// A bundle of a catalog has no content.
    #[error("bundle \"{0}\" has neither objects nor an image")]
    EmptyBundle(String),
    /// The metadata of a bundle in a catalog is not JSON.
    #[error("the metadata of bundle \"{name}\": {source}")]
    Metadata {
        /// The bundle.
        name: String,
        source: serde_json::Error,
    },
    /// One catalog was given without a package.
    #[error("{0} is a catalog: give --package, or a second catalog")]
    PackageNeeded(String),
    /// One catalog was given without the installed version.
    #[error("--from is required: the installed version")]
    FromNeeded,
    /// Only one side of a comparison was given.
    #[error("NEW is required: the bundle, catalog or file to compare OLD with")]
    NewNeeded,
    /// A catalog was given with a file of definitions.
    #[error("compare a catalog with another catalog, or use --package, --from and --to")]
    CatalogAndFile,
    /// A file is no list of Kubernetes objects.
    #[error("{name}: {source}")]
    Objects {
        /// The file.
        name: String,
        source: Box<bundle::ObjectListError>,
    },
    /// A file has no definitions.
    #[error("{0}: contains no CustomResourceDefinition")]
    NoDefinitions(String),
    /// A catalog and a bundle were given.
    #[error("cannot compare a catalog with a bundle: name the catalog's bundle by its image")]
    CatalogAndBundle,
}

impl SourceError {
    /// Returns whether the failure is local, such as a full disk, so that a retry can succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            SourceError::Unpack { source, .. } => source.is_transient(),
            SourceError::Shared(error) => error.is_transient(),
            SourceError::File { .. }
            | SourceError::Scratch { .. }
            | SourceError::NoCache
            | SourceError::AuthFile(_)
            | SourceError::Image(_) => true,
            _ => false,
        }
    }

    /// Adds the name of the source.
    #[must_use]
    pub fn named(self, name: &str) -> SourceError {
        SourceError::Named { name: name.to_owned(), source: Box::new(self) }
    }

    /// Adds the image.
    pub(crate) fn of_image(self, reference: &str) -> SourceError {
        SourceError::Content { reference: reference.to_owned(), source: Box::new(self) }
    }
}

impl Fault for SourceError {
    fn class(&self) -> Class {
        match self {
            SourceError::PackageNeeded(_)
            | SourceError::FromNeeded
            | SourceError::NewNeeded
            | SourceError::CatalogAndFile
            | SourceError::CatalogAndBundle
            | SourceError::NoCache => Class::Usage,
            SourceError::Named { source, .. }
            | SourceError::Content { source, .. }
            | SourceError::Base { source, .. } => source.class(),
            SourceError::Shared(error) => error.class(),
            SourceError::Pull { source, .. } | SourceError::Image(source) | SourceError::Delivery { source } => {
                source.class()
            }
            SourceError::Io(_) | SourceError::Tool(_) => Class::World,
            error if error.is_transient() => Class::World,
            _ => Class::Refused,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            SourceError::Exist(_) => Some("remove them, or choose another directory".into()),
            SourceError::Bundle(name)
            | SourceError::BundleNotAllowed(name)
            | SourceError::NotAnIndex(name)
            | SourceError::BundleImage(name) => Some(
                format!("'opm bundle validate {name}' checks it, and 'opm render {name}' renders it as a catalog").into(),
            ),
            SourceError::NoLabels(_) | SourceError::OtherLabels { .. } | SourceError::NoCatalogLabel(_) => {
                Some(format!(
                    "the image is neither a catalog nor a bundle: it has none of the labels {CONFIGS_LABEL} (catalog), \
                     {DATABASE_LABEL} (database) and {BUNDLE_LABEL} (bundle); check its name, or build it with 'opm build' \
                     or 'opm bundle build'"
                ).into())
            }
            SourceError::Named { source, .. }
            | SourceError::Content { source, .. }
            | SourceError::Base { source, .. } => source.hint(),
            SourceError::Shared(error) => error.hint(),
            _ => None,
        }
    }
}

/// Returns a function that adds a path to an I/O error.
pub(crate) fn at(path: &std::path::Path) -> impl Fn(io::Error) -> SourceError {
    move |source| SourceError::File { path: path.to_path_buf(), source }
}

/// A catalog that breaks rules.
pub struct Invalid {
    /// Its blobs.
    pub fbc: Fbc,
    /// The broken rules.
    pub problems: Problems,
}

impl fmt::Debug for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Invalid").field(&self.problems).finish()
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.errors().next() {
            Some(first) => write!(f, "the catalog is not valid: {}", first.message),
            None => f.write_str("the catalog is not valid"),
        }
    }
}

impl std::error::Error for Invalid {}

fn help(error: &image::Error) -> String {
    error.help().map(|help| format!("\n  help: {help}")).unwrap_or_default()
}

/// Lists the first names.
fn some(names: &[String]) -> String {
    const MOST: usize = 5;
    let shown = names.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
