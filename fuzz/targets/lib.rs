//! What several fuzz targets share.

use fbc::json::{Kind, Layout, Path, Raw, write_canonical};
use fbc::yaml;

/// Bounds that a small input reaches, so that what guards them is tried too.
pub const LIMITS: yaml::Limits = yaml::Limits { depth: 40, nodes: 20_000, bytes: 1 << 20 };

/// Returns `value` in canonical form without white space.
pub fn canonical(value: Raw<'_>) -> String {
    let mut out = Vec::new();
    write_canonical(value, Layout::Compact, &mut out);
    String::from_utf8(out).expect("canonical JSON is text")
}

/// Returns the ways to the values inside `value`, itself included, at most `most` of them.
pub fn paths(value: Raw<'_>, most: usize) -> Vec<Path> {
    let mut paths = Vec::new();
    add_paths(value, &Path::default(), most, &mut paths);
    paths
}

fn add_paths(value: Raw<'_>, path: &Path, most: usize, paths: &mut Vec<Path>) {
    if paths.len() >= most {
        return;
    }
    paths.push(path.clone());
    match value.kind() {
        Kind::Object => {
            for (key, value) in value.members() {
                add_paths(value, &path.then(key.into_owned()), most, paths);
            }
        }
        Kind::Array => {
            for (index, value) in value.items().enumerate() {
                add_paths(value, &path.then(index), most, paths);
            }
        }
        _ => {}
    }
}
