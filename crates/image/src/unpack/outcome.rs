//! Inputs, limits, results and errors of unpacking.

use std::io;
use std::path::PathBuf;

use crate::{BlobError, StoredBlob};

/// A layer to unpack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerFile {
    /// Its content.
    pub blob: StoredBlob,
    /// Its media type in the manifest. The compression is detected from the first bytes.
    pub media_type: String,
}

/// Limits on the unpacked size of an image. Exceeding one is an error; nothing is truncated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Maximum size of all layers, uncompressed, in bytes.
    pub total_size: u64,
    /// Maximum size of a file, in bytes.
    pub file_size: u64,
    /// Maximum number of entries of all layers, including implied directories.
    pub entries: u64,
    /// Maximum length of the path of an entry or a link, in bytes.
    pub path_length: usize,
    /// Maximum nesting depth of directories.
    pub depth: usize,
    /// Maximum ratio of uncompressed to compressed size of a layer...
    pub ratio: u64,
    /// ...once it has this many uncompressed bytes.
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

/// The result of unpacking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnpackedImage {
    /// Files, directories and links created.
    pub made: u64,
    /// Total size of the files, in bytes.
    pub bytes: u64,
    /// Devices and pipes skipped.
    pub skipped: u64,
}

/// Why an image could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The target exists.
    #[error("{} exists and is not an empty directory", .0.display())]
    Occupied(PathBuf),
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// NodeKind happened.
        error: io::Error,
    },
    /// A layer is malformed, hostile or too large.
    #[error("layer {layer}{}: {problem}", entry.as_ref().map(|entry| format!(", entry {entry:?}")).unwrap_or_default())]
    Layer {
        /// The number of the layer, starting with 1 at the base.
        layer: usize,
        /// The name of the entry.
        entry: Option<String>,
        problem: LayerProblem,
    },
}

impl UnpackError {
    /// Returns whether the failure is local and may be transient, rather than caused by the image.
    pub fn is_transient(&self) -> bool {
        use io::ErrorKind::{AlreadyExists, InvalidFilename, InvalidInput, IsADirectory, NotADirectory};
        let (UnpackError::Io { error, .. }
        | UnpackError::Layer { problem: LayerProblem::Read(error) | LayerProblem::Write { error, .. }, .. }) = self
        else {
            return false;
        };
        if matches!(BlobError::of(error), Some(BlobError::Damaged { .. })) {
            return false;
        }
        // These result from names in the image.
        !matches!(error.kind(), AlreadyExists | InvalidFilename | InvalidInput | IsADirectory | NotADirectory)
    }
}

/// NodeKind is wrong with a layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerProblem {
    /// It ends in the middle of an entry.
    #[error("the archive is truncated")]
    Truncated,
    /// It cannot be decompressed.
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
    /// An entry is a sparse file, a format that layers do not use.
    #[error("it is a sparse file, which is not allowed in layers")]
    Sparse,
    /// The type of an entry is unknown.
    #[error("it is of unknown type {:?}", char::from(*.0))]
    UnknownType(u8),
    /// A name is invalid.
    #[error("invalid name: {0}")]
    Name(&'static str),
    /// A link is invalid.
    #[error("invalid link: {0}")]
    Link(&'static str),
    /// A link resolves to itself.
    #[error("too many levels of symbolic links")]
    Loop,
    /// A parent of an entry is not a directory.
    #[error("its parent is not a directory")]
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
    /// Directories are nested too deeply.
    #[error("it is nested deeper than the limit of {0} directories")]
    Depth(usize),
    /// The compression ratio of the layer is too high.
    #[error("the layer is more than {0} times larger than its compressed form")]
    Ratio(u64),
    /// Resolving links and paths takes too many steps.
    #[error("resolving its links takes too many steps")]
    TooComplex,
    /// Its content could not be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// NodeKind happened.
        error: io::Error,
    },
}
