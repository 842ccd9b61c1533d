//! Why a directory is no bundle that a catalog can hold.

use std::fmt;
use std::io;
use std::path::PathBuf;

use fbc::shape::Mismatch;

/// Says what keeps a bundle from being rendered, and in which file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory or file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was to be read.
        path: PathBuf,
        /// Why it was not.
        source: io::Error,
    },
    /// A file, or what all files of a directory hold, is larger than allowed.
    #[error("{}: larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file or directory.
        path: PathBuf,
        /// The limit it exceeds.
        limit: u64,
    },
    /// A directory has more entries than allowed.
    #[error("{}: directory holds more than {limit} files", path.display())]
    TooMany {
        /// The directory.
        path: PathBuf,
        /// The limit it exceeds.
        limit: usize,
    },
    /// A directory that should hold manifests holds no files.
    #[error("The directory {} contains no yaml files", path.display())]
    NoFiles {
        /// The directory.
        path: PathBuf,
    },
    /// No manifest is a Kubernetes object.
    #[error("no bundle objects found{}", because(skipped))]
    NoObjects {
        /// Why files were passed over.
        skipped: Vec<String>,
    },
    /// No manifest is a ClusterServiceVersion.
    #[error("no csv in bundle{}", because(skipped))]
    NoCsv {
        /// Why files were passed over.
        skipped: Vec<String>,
    },
    /// No file in `metadata/` names a package or channels.
    #[error("Could not find annotations file{}", because(skipped))]
    NoAnnotations {
        /// Why files were passed over.
        skipped: Vec<String>,
    },
    /// The annotations do not name a package.
    #[error("package name must be set for bundle \"{bundle}\" (annotation {} in {file})", crate::metadata::PACKAGE)]
    NoPackage {
        /// The bundle.
        bundle: String,
        /// The annotations file.
        file: String,
    },
    /// The CSV does not have the types it must.
    #[error("error decoding CSV: {mismatch} ({file})")]
    Csv {
        /// The file of the CSV.
        file: String,
        /// The field, and what is wrong with it.
        mismatch: Mismatch,
    },
    /// A CRD does not have the types it must.
    #[error("error decoding {version} CRD: {mismatch} ({file})")]
    Crd {
        /// The version of the CRD's own API.
        version: &'static str,
        /// The file of the CRD.
        file: String,
        /// The field, and what is wrong with it.
        mismatch: Mismatch,
    },
    /// The CSV owns what the bundle does not hold.
    #[error("error checking provided apis in bundle {bundle}: {message} ({file})")]
    ProvidedApis {
        /// The bundle.
        bundle: String,
        /// The file of the CSV.
        file: String,
        /// What is missing.
        message: String,
    },
    /// The CSV's version or release cannot be read.
    #[error("failed to derive properties: {message} ({file})")]
    Derive {
        /// The file of the CSV.
        file: String,
        /// What is wrong.
        message: String,
    },
    /// A property or dependency cannot be read.
    #[error("get properties for bundle \"{bundle}\": {message} ({file})")]
    Properties {
        /// The bundle.
        bundle: String,
        /// The file that has it.
        file: String,
        /// What is wrong.
        message: String,
    },
    /// The images of the CSV cannot be read.
    #[error("get related images for bundle \"{bundle}\": {mismatch} ({file})")]
    RelatedImages {
        /// The bundle.
        bundle: String,
        /// The file of the CSV.
        file: String,
        /// The field, and what is wrong with it.
        mismatch: Mismatch,
    },
    /// The CSV cannot be turned into metadata for consoles.
    #[error("migrate: {message} ({file})")]
    Migrate {
        /// The file of the CSV.
        file: String,
        /// What is wrong.
        message: String,
    },
}

/// So many reasons are worth telling in one message.
const REASONS: usize = 3;

/// Reports why files were passed over, since one of them may be the one that is missed.
fn because(skipped: &[String]) -> impl fmt::Display {
    struct Because<'a>(&'a [String]);
    impl fmt::Display for Because<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for (i, reason) in self.0.iter().take(REASONS).enumerate() {
                write!(f, "{} {reason}", if i == 0 { ":" } else { ";" })?;
            }
            match self.0.len().saturating_sub(REASONS) {
                0 => Ok(()),
                more => write!(f, "; and {more} more"),
            }
        }
    }
    Because(skipped)
}
