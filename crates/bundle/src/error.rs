//! Errors of reading bundle directories.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;

use fbc::csv::CsvReleaseError;
use fbc::csv::metadata::MetadataError;
use fbc::fault::{Class, Fault};
use fbc::json::{self, JsonKind};
use fbc::shape::Mismatch;

use crate::apis::{self, ApiKey};
use crate::document::DocumentError;
use crate::file::Unreadable;

/// The reason why a bundle cannot be rendered, with the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory or file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A file, or all files of a directory together, exceed the size limit.
    #[error("{}: larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file or directory.
        path: PathBuf,
        limit: u64,
    },
    /// A directory has too many entries.
    #[error("{}: directory holds more than {limit} files", path.display())]
    TooMany {
        /// The directory.
        path: PathBuf,
        limit: usize,
    },
    /// The manifests directory contains no files.
    #[error("The directory {} contains no yaml files", path.display())]
    NoFiles {
        /// The directory.
        path: PathBuf,
    },
    /// No manifest is a Kubernetes object.
    #[error("no bundle objects found{}", because(skipped))]
    NoObjects {
        /// The reasons why files were skipped.
        skipped: Vec<String>,
    },
    /// No manifest is a ClusterServiceVersion.
    #[error("no csv in bundle{}", because(skipped))]
    NoCsv {
        /// The reasons why files were skipped.
        skipped: Vec<String>,
    },
    /// No file in `metadata/` declares a package or channels.
    #[error("Could not find annotations file{}", because(skipped))]
    NoAnnotations {
        /// The reasons why files were skipped.
        skipped: Vec<String>,
    },
    /// The annotations declare no package.
    #[error("package name must be set for bundle \"{bundle}\" (annotation {} in {file})", crate::metadata::PACKAGE)]
    NoPackage {
        bundle: String,
        /// The annotations file.
        file: String,
    },
    /// A field of the CSV has the wrong type.
    #[error("error decoding CSV: {mismatch} ({file})")]
    Csv {
        /// The file of the CSV.
        file: String,
        /// The field and the type error.
        mismatch: Mismatch,
    },
    /// A field of a CRD has the wrong type.
    #[error("error decoding {version} CRD: {mismatch} ({file})")]
    Crd {
        /// The API version of the CRD itself.
        version: &'static str,
        /// The file of the CRD.
        file: String,
        /// The field and the type error.
        mismatch: Mismatch,
    },
    /// The CSV owns an API that the bundle does not contain.
    #[error("error checking provided apis in bundle {bundle}: {source} ({file})")]
    ProvidedApis {
        bundle: String,
        /// The file of the CSV.
        file: String,
        source: ApiError,
    },
    /// The version or release of the CSV is invalid.
    #[error("failed to derive properties: {source} ({file})")]
    Derive {
        /// The file of the CSV.
        file: String,
        source: DeriveError,
    },
    /// A property or dependency is invalid.
    #[error("get properties for bundle \"{bundle}\": {source} ({file})")]
    Properties {
        bundle: String,
        /// The file that contains it.
        file: String,
        source: Box<PropertyError>,
    },
    /// The images of the CSV are invalid.
    #[error("get related images for bundle \"{bundle}\": {mismatch} ({file})")]
    RelatedImages {
        bundle: String,
        /// The file of the CSV.
        file: String,
        /// The field and the type error.
        mismatch: Mismatch,
    },
    /// The CSV cannot be converted to metadata for consoles.
    #[error("migrate: {source} ({file})")]
    Migrate {
        /// The file of the CSV.
        file: String,
        source: MetadataError,
    },
}

impl Fault for Error {
    fn class(&self) -> Class {
        match self {
            Error::Io { .. } => Class::World,
            _ => Class::Refused,
        }
    }
}

/// Why the APIs of a bundle are unknown or inconsistent.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// A field has the wrong type.
    #[error(transparent)]
    Field(#[from] Mismatch),
    /// The name of a CRD has no group.
    #[error("couldn't parse plural.group from crd name: {0}")]
    CrdName(String),
    /// The CSV owns an API that the bundle does not contain.
    #[error(
        "couldn't find {}/{}/{} ({}) in bundle. found: {}",
        owned.group, owned.version, owned.kind, owned.plural, apis::shown(found)
    )]
    NotFound {
        owned: Box<ApiKey>,
        /// The APIs that the bundle contains.
        found: BTreeSet<ApiKey>,
    },
}

/// Why a version or release cannot be derived from a CSV.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum DeriveError {
    /// The version has the wrong type.
    Version(#[from] Mismatch),
    /// The release has the wrong type.
    Release(#[from] CsvReleaseError),
}

/// Why a property or dependency is invalid.
#[derive(Debug, thiserror::Error)]
pub enum PropertyError {
    /// The APIs that the bundle requires are invalid.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The annotation with further properties is invalid.
    #[error("annotation {annotation} cannot be read: {0}", annotation = crate::render::PROPERTIES)]
    Annotation(#[from] AnnotationError),
    /// A property has no value.
    #[error("parse property[{index}] of type \"{kind}\": value is missing")]
    NoValue {
        /// The index of the property.
        index: usize,
        /// Its type.
        kind: String,
    },
    /// A value does not fit the type of its property.
    #[error("parse property[{index}] of type \"{kind}\": {source}")]
    Value {
        /// The index of the property.
        index: usize,
        /// Its type.
        kind: String,
        /// The error.
        source: Mismatch,
    },
}

/// Why a file has no readable document.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It exceeds a limit.
    #[error(transparent)]
    Limit(#[from] Box<Error>),
    /// It is a directory.
    #[error("it is a directory")]
    Directory,
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Its first document cannot be parsed.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// This annotation is not a string.
    #[error("annotation {0} must be a string")]
    Annotation(String),
}

impl From<Error> for ReadError {
    fn from(error: Error) -> ReadError {
        ReadError::Limit(Box::new(error))
    }
}

/// Why an annotation with properties cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AnnotationError {
    /// It is not JSON.
    #[error(transparent)]
    Json(#[from] json::JsonSyntaxError),
    /// A value is of another kind.
    #[error("expected {expected}, found {found}")]
    Kind {
        /// The expected value.
        expected: &'static str,
        found: JsonKind,
    },
}

/// The maximum number of reasons in one message.
const MAX_REASONS: usize = 3;

/// Lists why files were skipped, since one of them may be the missing one.
fn because(skipped: &[String]) -> impl fmt::Display {
    struct Because<'a>(&'a [String]);
    impl fmt::Display for Because<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for (i, reason) in self.0.iter().take(MAX_REASONS).enumerate() {
                write!(f, "{} {reason}", if i == 0 { ":" } else { ";" })?;
            }
            match self.0.len().saturating_sub(MAX_REASONS) {
                0 => Ok(()),
                more => write!(f, "; and {more} more"),
            }
        }
    }
    Because(skipped)
}
