//! Errors of reading bundle directories.

use std::fmt;
use std::io;
use std::path::PathBuf;

use fbc::shape::Mismatch;

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
        /// The limit.
        limit: u64,
    },
    /// A directory has too many entries.
    #[error("{}: directory holds more than {limit} files", path.display())]
    TooMany {
        /// The directory.
        path: PathBuf,
        /// The limit.
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
        /// The bundle.
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
    #[error("error checking provided apis in bundle {bundle}: {message} ({file})")]
    ProvidedApis {
        /// The bundle.
        bundle: String,
        /// The file of the CSV.
        file: String,
        /// The missing API.
        message: String,
    },
    /// The version or release of the CSV is invalid.
    #[error("failed to derive properties: {message} ({file})")]
    Derive {
        /// The file of the CSV.
        file: String,
        /// The error.
        message: String,
    },
    /// A property or dependency is invalid.
    #[error("get properties for bundle \"{bundle}\": {message} ({file})")]
    Properties {
        /// The bundle.
        bundle: String,
        /// The file that contains it.
        file: String,
        /// The error.
        message: String,
    },
    /// The images of the CSV are invalid.
    #[error("get related images for bundle \"{bundle}\": {mismatch} ({file})")]
    RelatedImages {
        /// The bundle.
        bundle: String,
        /// The file of the CSV.
        file: String,
        /// The field and the type error.
        mismatch: Mismatch,
    },
    /// The CSV cannot be converted to metadata for consoles.
    #[error("migrate: {message} ({file})")]
    Migrate {
        /// The file of the CSV.
        file: String,
        /// The error.
        message: String,
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
