//! Catalogs for tests.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serve::load::{Empty, OnInvalid, ServedDirectory};

/// Writes a package with a channel of `versions` bundles into its own file.
pub(crate) fn write_package(root: &Path, name: &str, versions: usize, mark: &str) {
    let mut yaml =
        format!("---\nschema: olm.package\nname: {name}\ndefaultChannel: stable\ndescription: about {mark}\n");
    write!(yaml, "---\nschema: olm.channel\nname: stable\npackage: {name}\nentries:\n").unwrap();
    for version in 0..versions {
        writeln!(yaml, "- name: {name}.v{version}.0.0").unwrap();
        if version > 0 {
            writeln!(yaml, "  replaces: {name}.v{}.0.0", version - 1).unwrap();
        }
    }
    for version in 0..versions {
        write!(
            yaml,
            "---\nschema: olm.bundle\nname: {name}.v{version}.0.0\npackage: {name}\nimage: registry.test/{name}:v{version}\n\
             properties:\n- type: olm.package\n  value: {{packageName: {name}, version: {version}.0.0}}\n\
             - type: olm.gvk\n  value: {{group: {name}.test, version: v1, kind: Thing}}\n\
             - type: olm.csv.metadata\n  value:\n    displayName: {name} {mark}\n    description: |\n"
        )
        .unwrap();
        for line in 0..30 {
            writeln!(yaml, "      line {line} of {mark} in version {version}").unwrap();
        }
    }
    writeln!(yaml, "---\nschema: custom.note\npackage: {name}\nname: note\nmark: {mark}").unwrap();
    fs::create_dir_all(root.join(name)).unwrap();
    fs::write(root.join(name).join("catalog.yaml"), yaml).unwrap();
}

/// Writes a catalog of a few packages.
pub(crate) fn write_catalog(root: &Path, mark: &str) {
    for (name, versions) in [("alpha", 3), ("beta", 20), ("gamma", 1)] {
        write_package(root, name, versions, mark);
    }
}

pub(crate) fn directory(root: &Path) -> ServedDirectory {
    ServedDirectory {
        root: root.to_path_buf(),
        limits: fbc::Limits::default(),
        on_invalid: OnInvalid::Fail,
        empty: Empty::Accepted,
        summarize: false,
    }
}

/// Writes a package whose `GetBundle` replies have more than `size` bytes each.
pub(crate) fn write_large_package(root: &Path, name: &str, versions: usize, size: usize) {
    write_package(root, name, versions, "large");
    let path = root.join(name).join("catalog.yaml");
    let yaml = fs::read_to_string(&path).unwrap();
    let mut out = String::new();
    for line in yaml.lines() {
        writeln!(out, "{line}").unwrap();
        if line.trim_start().starts_with("line 29 of") {
            for number in 0..size / 64 {
                writeln!(out, "      {number:08} more of the same that makes this reply a large one........").unwrap();
            }
        }
    }
    fs::write(&path, out).unwrap();
}
