//! Catalogs for tests.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use catalog::Query;
use catalog::query::Api;
use serve::load::{Directory, OnInvalid};

/// Writes a package with a channel of `versions` bundles into its own file.
pub fn write_package(root: &Path, name: &str, versions: usize, mark: &str) {
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
pub fn write_catalog(root: &Path, mark: &str) {
    for (name, versions) in [("alpha", 3), ("beta", 20), ("gamma", 1)] {
        write_package(root, name, versions, mark);
    }
}

pub fn directory(root: &Path) -> Directory {
    Directory { root: root.to_path_buf(), limits: fbc::Limits::default(), on_invalid: OnInvalid::Fail }
}

/// Asks everything there is to ask; an answer that cannot be read is told as such.
pub fn ask_everything(catalog: &Arc<impl Query>) -> Vec<Result<Vec<u8>, String>> {
    let mut answers: Vec<Result<Vec<u8>, String>> = Vec::new();
    let text = |error: catalog::QueryError| error.to_string();
    let mut rows = |rows: catalog::query::Rows| rows.take(10_000).for_each(|row| answers.push(row.map_err(text)));
    rows(Arc::clone(catalog).packages());
    rows(Arc::clone(catalog).bundles());
    for package in ["alpha", "beta", "gamma"] {
        rows(Arc::clone(catalog).custom("custom.note", package));
        let api = Api { group: format!("{package}.test"), version: "v1".into(), kind: "Thing".into() };
        for found in [Arc::clone(catalog).providers(&api), Arc::clone(catalog).latest_providers(&api)] {
            found.into_iter().for_each(&mut rows);
        }
        Arc::clone(catalog).replacements(&format!("{package}.v0.0.0")).into_iter().for_each(&mut rows);
    }
    for package in ["alpha", "beta", "gamma"] {
        let api = Api { group: format!("{package}.test"), version: "v1".into(), kind: "Thing".into() };
        answers.push(catalog.package(package).map_err(text));
        answers.push(catalog.head(package, "stable").map_err(text));
        answers.push(catalog.default_provider(&api).map_err(text));
        for version in 0..20 {
            answers.push(catalog.bundle(package, "stable", &format!("{package}.v{version}.0.0")).map_err(text));
        }
    }
    answers
}
