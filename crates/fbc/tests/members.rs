//! Which files belong to a catalog.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fbc::{Fbc, LoadOptions, LoadReport, Unportable};
use tempfile::TempDir;

const BUNDLE: &str = "schema: olm.bundle\nname: a.v1\npackage: a\nimage: x\nproperties:\n\
    - {type: olm.bundle.object, value: {ref: objects/csv.yaml}}\n";

fn directory(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn load(root: &Path) -> LoadReport {
    Fbc::default().load_dir(root, &LoadOptions::default()).unwrap()
}

fn paths(loaded: &LoadReport) -> Vec<&str> {
    loaded.members.paths().map(|path| path.to_str().unwrap()).collect()
}

#[test]
fn a_catalog_is_what_is_loaded_what_is_referenced_and_what_is_obeyed() {
    let root = directory(&[
        ("a/catalog.yaml", BUNDLE),
        ("a/objects/csv.yaml", "kind: A"),
        ("a/objects/other.yaml", "kind: B"),
        ("a/.indexignore", "objects\n"),
        (".indexignore", "*.md\n"),
        ("README.md", "# A"),
        ("empty.yaml", ""),
        (".git/config", "[core]"),
        ("a/.hg/store", "x"),
        ("a/.svn/x.json", "{\"schema\": \"x\"}"),
        ("a/CVS/Root", "x"),
    ]);
    // A work tree and a submodule have a file of this name.
    fs::write(root.path().join("a/.git"), "gitdir: ../.git/modules/a").unwrap();
    let loaded = load(root.path());
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    assert_eq!(
        paths(&loaded),
        [".indexignore", "a/.indexignore", "a/catalog.yaml", "a/objects/csv.yaml", "empty.yaml"]
    );

    let target = root.path().join("a/CVS/copy");
    loaded.members.copy_to(&target).unwrap();
    assert_eq!(paths(&load(&target)), paths(&loaded));
}

#[test]
fn hidden_files_and_links_that_lead_out_are_loaded_but_not_portable() {
    let outside = directory(&[("c.yaml", "schema: x\n")]);
    let root = directory(&[
        ("a/catalog.yaml", "schema: x\n"),
        (".dot.yaml", "schema: x\n"),
        (".hidden/c.yaml", "schema: x\n"),
        (".hidden/.indexignore", "*.md\n"),
        (".git/x.yaml", "schema: x\n"),
    ]);
    symlink("a/catalog.yaml", root.path().join("inside.yaml")).unwrap();
    symlink(outside.path().join("c.yaml"), root.path().join("outside.yaml")).unwrap();
    symlink(".git/x.yaml", root.path().join("versioned.yaml")).unwrap();
    let mut loaded = load(root.path());
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    assert_eq!(loaded.members.paths().count(), 7);

    let removed = loaded.members.remove_unportable(root.path()).unwrap();
    let expected = [
        (".dot.yaml", Unportable::Hidden),
        (".hidden/c.yaml", Unportable::Hidden),
        ("outside.yaml", Unportable::LeadsOut),
        ("versioned.yaml", Unportable::VersionControl),
    ];
    assert_eq!(removed, expected.map(|(path, reason)| (PathBuf::from(path), reason)));
    assert_eq!(paths(&loaded), ["a/catalog.yaml", "inside.yaml"]);
    let target = tempfile::tempdir().unwrap();
    loaded.members.copy_to(target.path()).unwrap();
    let copied = target.path().join("inside.yaml");
    assert!(copied.symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read_to_string(copied).unwrap(), "schema: x\n");
}

#[test]
fn objects_are_not_read_from_version_control() {
    let root = directory(&[("c.yaml", &BUNDLE.replace("objects/csv.yaml", ".git/config")), (".git/config", "a: b")]);
    let loaded = load(root.path());
    assert_eq!(loaded.problems.len(), 1, "{:?}", loaded.problems);
    assert!(loaded.problems[0].message.contains("leads to a file of version control"), "{:?}", loaded.problems);
}

#[test]
fn a_catalog_with_problems_still_has_its_files() {
    let root = directory(&[
        ("bad.yaml", "{"),
        ("c.yaml", &BUNDLE.replace("image: x", "image: [x]")),
        ("objects/csv.yaml", "kind: A"),
        (".indexignore", "objects\n"),
    ]);
    symlink("none", root.path().join("dangling")).unwrap();
    let loaded = load(root.path());
    assert!(loaded.problems.len() >= 3, "{:?}", loaded.problems);
    assert_eq!(paths(&loaded), [".indexignore", "bad.yaml", "c.yaml", "objects/csv.yaml"]);
}
