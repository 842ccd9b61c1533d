//! Limits on the cost of untrusted catalogs.

use crate::yaml;

/// The amounts that are accepted before input counts as hostile.
///
/// The defaults are several times what the largest published catalogs need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The size of one file in bytes.
    pub file_size: u64,
    /// The size of one blob (one JSON value or YAML document) in bytes, also after alias expansion.
    pub blob_size: usize,
    /// The nesting depth inside a blob.
    pub depth: usize,
    /// The number of blobs in one file.
    pub documents: usize,
    /// The number of values in one YAML document after alias expansion.
    pub yaml_nodes: usize,
    /// The number of files in one catalog.
    pub files: usize,
}

/// The maximum depth that can be configured: walking a value uses the stack.
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
    /// Returns the limits for one YAML document.
    pub(crate) fn yaml(&self) -> yaml::YamlLimits {
        yaml::YamlLimits { depth: self.depth, nodes: self.yaml_nodes, bytes: self.blob_size }
    }
}
