//! Helpers of several fuzz targets.

use fbc::json::{Kind, Layout, Path, Raw, write_canonical};
use fbc::yaml;

/// Limits that a small input exceeds, so that fuzzing covers them.
pub const LIMITS: yaml::Limits = yaml::Limits { depth: 40, nodes: 20_000, bytes: 1 << 20 };

/// Returns `value` in canonical form without white space.
pub fn canonical(value: Raw<'_>) -> String {
    let mut out = Vec::new();
    write_canonical(value, Layout::Compact, &mut out);
    String::from_utf8(out).expect("canonical JSON is text")
}

/// Returns the paths of `value` and of the values inside it, at most `maximum`.
pub fn paths(value: Raw<'_>, maximum: usize) -> Vec<Path> {
    let mut paths = Vec::new();
    add_paths(value, &Path::default(), maximum, &mut paths);
    paths
}

fn add_paths(value: Raw<'_>, path: &Path, maximum: usize, paths: &mut Vec<Path>) {
    if paths.len() >= maximum {
        return;
    }
    paths.push(path.clone());
    match value.kind() {
        Kind::Object => {
            for (key, value) in value.members() {
                add_paths(value, &path.then(key.into_owned()), maximum, paths);
            }
        }
        Kind::Array => {
            for (index, value) in value.items().enumerate() {
                add_paths(value, &path.then(index), maximum, paths);
            }
        }
        _ => {}
    }
}
