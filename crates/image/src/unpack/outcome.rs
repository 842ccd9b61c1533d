//! What is unpacked, within which bounds, and why it is not.

use std::io;
use std::path::PathBuf;

/// A layer of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerFile {
    /// The file that holds it, in a [`Store`](crate::Store) or elsewhere.
    pub path: PathBuf,
    /// What its manifest says it is. How it is compressed is seen from its first bytes.
    pub media_type: String,
}

/// Bounds on what an image may unpack to. All of them are refusals, not cuts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackLimits {
    /// How many bytes all layers together may have, uncompressed.
    pub total_size: u64,
    /// How many bytes a file may have.
    pub file_size: u64,
    /// How many entries all layers together may have, directories that are only implied included.
    pub entries: u64,
    /// How many bytes the path of an entry or of a link may have.
    pub path_length: usize,
    /// How many directories may lie in each other.
    pub depth: usize,
    /// How many times larger than its compressed form a layer may be...
    pub ratio: u64,
    /// ...once it has this many bytes.
    pub ratio_from: u64,
}

impl Default for UnpackLimits {
    fn default() -> UnpackLimits {
        UnpackLimits {
            total_size: 16 << 30,
            file_size: 4 << 30,
            entries: 300_000,
            path_length: 4096,
            depth: 200,
            ratio: 500,
            ratio_from: 64 << 20,
        }
    }
}

/// What was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unpacked {
    /// How many files, directories and links were made.
    pub made: u64,
    /// How many bytes the files have.
    pub bytes: u64,
    /// How many devices and pipes were passed over.
    pub skipped: u64,
}

/// Why an image could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// There is something at the target already.
    #[error("{} exists and is not an empty directory", .0.display())]
    Occupied(PathBuf),
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// A layer is malformed, hostile or too large.
    #[error("layer {layer}{}: {problem}", entry.as_ref().map(|entry| format!(", entry {entry:?}")).unwrap_or_default())]
    Layer {
        /// The number of the layer, the lowest being 1.
        layer: usize,
        /// The entry, as it names itself.
        entry: Option<String>,
        /// What is wrong.
        problem: LayerProblem,
    },
}

impl UnpackError {
    /// Returns whether this machine failed, not the image, so that it may work the next time.
    pub fn is_transient(&self) -> bool {
        use io::ErrorKind::{AlreadyExists, InvalidFilename, InvalidInput, IsADirectory, NotADirectory};
        let (UnpackError::Io { error, .. }
        | UnpackError::Layer { problem: LayerProblem::Read(error) | LayerProblem::Write { error, .. }, .. }) = self
        else {
            return false;
        };
        // These come of names in the image.
        !matches!(error.kind(), AlreadyExists | InvalidFilename | InvalidInput | IsADirectory | NotADirectory)
    }
}

/// What is wrong with a layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerProblem {
    /// It ends in the middle of an entry.
    #[error("the archive is cut off")]
    Truncated,
    /// It cannot be uncompressed.
    #[error("the archive cannot be read: {0}")]
    Unreadable(String),
    /// Its file cannot be read.
    #[error("the archive cannot be read: {0}")]
    Read(io::Error),
    /// It is encrypted.
    #[error("the layer is encrypted")]
    Encrypted,
    /// A header is malformed.
    #[error("a header is malformed: {0}")]
    Header(&'static str),
    /// An entry is a file with holes, written in a form that layers do not use.
    #[error("it is a sparse file, which layers may not hold")]
    Sparse,
    /// An entry is of a type that nobody knows.
    #[error("it is of unknown type {:?}", char::from(*.0))]
    UnknownType(u8),
    /// A name cannot be used.
    #[error("its name is refused: {0}")]
    Name(&'static str),
    /// A link cannot be made.
    #[error("the link is refused: {0}")]
    Link(&'static str),
    /// A link leads to itself.
    #[error("too many links lead to each other")]
    Loop,
    /// Something lies below what is no directory.
    #[error("it lies in something that is not a directory")]
    NotADirectory,
    /// All layers together are too large.
    #[error("the image is larger than the limit of {0} bytes")]
    TotalSize(u64),
    /// A file is too large.
    #[error("the file is larger than the limit of {0} bytes")]
    FileSize(u64),
    /// There are too many entries.
    #[error("the image has more than the limit of {0} entries")]
    Entries(u64),
    /// A path is too long.
    #[error("its path is longer than the limit of {0} bytes")]
    PathLength(usize),
    /// Directories lie too deep.
    #[error("it lies deeper than the limit of {0} directories")]
    Depth(usize),
    /// The layer grows beyond measure when it is uncompressed.
    #[error("the layer is more than {0} times larger than its compressed form")]
    Ratio(u64),
    /// Links and paths take too long to follow.
    #[error("its links are too many to follow")]
    TooComplex,
    /// Its content could not be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
}
