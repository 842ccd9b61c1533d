//! Bounds on what a catalog from outside may cost.

use crate::yaml;

/// How much of everything is accepted before input counts as hostile.
///
/// The defaults are several times what the largest published catalogs need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one file.
    pub file_size: u64,
    /// Bytes of one blob (one JSON value or YAML document), also after aliases are expanded.
    pub blob_size: usize,
    /// Levels of nesting inside a blob.
    pub depth: usize,
    /// Blobs in one file.
    pub documents: usize,
    /// Values in one YAML document after aliases are expanded.
    pub yaml_nodes: usize,
    /// Files in one catalog.
    pub files: usize,
}

/// The deepest nesting that can be asked for: walking a value uses the stack.
pub const MAX_DEPTH: usize = 1_000;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            file_size: 512 << 20,
            blob_size: 64 << 20,
            depth: 200,
            documents: 1_000_000,
            yaml_nodes: 5_000_000,
            files: 1_000_000,
        }
    }
}

impl Limits {
    /// Returns the bounds of one YAML document.
    pub(crate) fn yaml(&self) -> yaml::Limits {
        yaml::Limits { depth: self.depth, nodes: self.yaml_nodes, bytes: self.blob_size }
    }
}
