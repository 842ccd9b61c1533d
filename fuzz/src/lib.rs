//! Fuzz targets: one for each parser of foreign bytes. The program `opm-fuzz` runs one of them with libFuzzer.

use std::sync::LazyLock;

use fbc::json::{JsonKind, JsonLayout, JsonPath, Raw, write_canonical};

pub mod auth_file;
pub mod cache;
pub mod challenge;
pub mod database;
pub mod graphql;
pub mod http;
pub mod image_set;
pub mod indexignore;
pub mod json;
pub mod load;
pub mod lock;
pub mod manifest;
pub mod markdown;
pub mod names;
pub mod pull_spec;
pub mod range;
pub mod reference;
pub mod registries_conf;
pub mod rule;
pub mod signature;
pub mod svg;
pub mod unpack;
pub mod volume;
pub mod yaml;

/// A target: its name, and the function that runs it with one input.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[FuzzTarget] = &[
    ("auth_file", auth_file::run),
    ("cache", cache::run),
    ("challenge", challenge::run),
    ("database", database::run),
    ("graphql", graphql::run),
    ("http", http::run),
    ("image_set", image_set::run),
    ("indexignore", indexignore::run),
    ("json", json::run),
    ("load", load::run),
    ("lock", lock::run),
    ("manifest", manifest::run),
    ("markdown", markdown::run),
    ("names", names::run),
    ("pull_spec", pull_spec::run),
    ("range", range::run),
    ("reference", reference::run),
    ("registries_conf", registries_conf::run),
    ("rule", rule::run),
    ("signature", signature::run),
    ("svg", svg::run),
    ("unpack", unpack::run),
    ("volume", volume::run),
    ("yaml", yaml::run),
];

/// Returns the target that the variable `FUZZ_TARGET` names.
///
/// # Panics
/// Panics if it names none: libFuzzer has no other way to report that.
pub fn selected() -> fn(&[u8]) {
    static SELECTED: LazyLock<fn(&[u8])> = LazyLock::new(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let target = TARGETS.iter().find(|(known, _)| *known == name);
        target.unwrap_or_else(|| panic!("FUZZ_TARGET must name a target, not {name:?}")).1
    });
    *SELECTED
}

/// Limits that a small input exceeds, so that fuzzing covers them.
const LIMITS: fbc::yaml::YamlLimits = fbc::yaml::YamlLimits { depth: 40, nodes: 20_000, bytes: 1 << 20 };

/// Returns `value` in canonical form without white space.
fn canonical(value: Raw<'_>) -> String {
    let mut out = Vec::new();
    write_canonical(value, JsonLayout::Compact, &mut out);
    String::from_utf8(out).expect("canonical JSON is text")
}

/// Returns the paths of `value` and of the values inside it, at most `maximum`.
fn paths(value: Raw<'_>, maximum: usize) -> Vec<JsonPath> {
    let mut paths = Vec::new();
    add_paths(value, &JsonPath::default(), maximum, &mut paths);
    paths
}

fn add_paths(value: Raw<'_>, path: &JsonPath, maximum: usize, paths: &mut Vec<JsonPath>) {
    if paths.len() >= maximum {
        return;
    }
    paths.push(path.clone());
    match value.kind() {
        JsonKind::Object => {
            for (key, value) in value.members() {
                add_paths(value, &path.then(key.into_owned()), maximum, paths);
            }
        }
        JsonKind::Array => {
            for (index, value) in value.items().enumerate() {
                add_paths(value, &path.then(index), maximum, paths);
            }
        }
        _ => {}
    }
}
