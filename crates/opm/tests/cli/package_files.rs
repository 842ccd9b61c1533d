//! A package moves together with the files that its bundles refer to.

use std::collections::BTreeMap;
use std::process::Command;

use crate::env::TestEnv;

/// Writes a package with two bundles, whose objects are in files.
fn package(env: &TestEnv, root: &str, name: &str, objects: &str) {
    let mut text = format!(
        "schema: olm.package\nname: {name}\ndefaultChannel: stable\n---\nschema: olm.channel\n\
        package: {name}\nname: stable\nentries:\n- name: {name}.v1.0.0\n- name: {name}.v2.0.0\n  replaces: {name}.v1.0.0\n"
    );
    for version in ["1.0.0", "2.0.0"] {
        text += &format!(
            "---\n# version {version}\nschema: olm.bundle\npackage: {name}\nname: {name}.v{version}\nimage: r.test/{name}:v{version}\n\
             properties:\n- {{type: olm.package, value: {{packageName: {name}, version: {version}}}}}\n\
             - type: olm.bundle.object\n  value:\n    ref: {objects}/{name}.v{version}/csv.yaml # its CSV\n\
             - {{type: olm.bundle.object, value: {{ref: {objects}/common.yaml}}}}\n"
        );
        let csv = format!("kind: ClusterServiceVersion\nmetadata: {{name: {name}.v{version}}}\nspec: {{}}\n");
        env.file(&format!("{root}/{name}/{objects}/{name}.v{version}/csv.yaml"), csv);
    }
    env.file(&format!("{root}/{name}/{objects}/common.yaml"), format!("kind: ConfigMap\nmetadata: {{name: {name}}}\n"));
    env.file(&format!("{root}/{name}/index.yaml"), text);
}

/// Returns the files below a directory with their content.
fn files(env: &TestEnv, directory: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for name in env.names(&next) {
            let path = format!("{next}/{name}");
            if env.path(&path).is_dir() {
                waiting.push(path);
            } else {
                found.insert(path[directory.len() + 1..].to_owned(), env.read(&path));
            }
        }
    }
    found
}

fn paths(env: &TestEnv, directory: &str) -> Vec<String> {
    files(env, directory).into_keys().collect()
}

#[test]
fn referenced_files_are_no_catalog_content() {
    let env = TestEnv::new();
    package(&env, "catalog", "foo", "objects");
    assert_eq!(env.opm(&["validate", "catalog"]), "exit 0\n--- stdout\n--- stderr\n");
    assert!(env.stdout(&["render", "catalog"]).contains("\"data\": "));
    env.stdout(&["migrate", "catalog", "migrated"]);
    assert_eq!(env.stdout(&["render", "catalog"]), env.stdout(&["render", "migrated"]));
    // A file without a reference is catalog content.
    env.file("catalog/foo/objects/stray.yaml", "kind: ConfigMap\n");
    let shown = env.opm(&["validate", "catalog"]);
    assert!(shown.contains("catalog/foo/objects/stray.yaml:1:1") && !shown.contains("csv.yaml"), "{shown}");
}

#[test]
fn a_reference_hides_no_catalog_content() {
    let env = TestEnv::new();
    package(&env, "catalog", "foo", "objects");
    package(&env, "catalog", "thief", "objects");
    env.file("catalog/foo/more.yaml", "schema: example.com/note\npackage: foo\n");
    let text = env.read("catalog/thief/index.yaml");
    env.file("catalog/thief/index.yaml", text.replace("ref: objects/common.yaml", "ref: ../foo/more.yaml"));
    std::fs::remove_file(env.path("catalog/thief/objects/common.yaml")).unwrap();
    let shown = env.opm(&["validate", "catalog"]);
    let message = "bundle \"thief.v1.0.0\" refers to foo/more.yaml, which contains catalog content, not an object";
    assert!(shown.starts_with("exit 1") && shown.contains(message), "{shown}");
    // Other referenced files cause no problems when one is missing.
    env.file("catalog/thief/index.yaml", text.replace("ref: objects/common.yaml", "ref: objects/none.yaml"));
    let shown = env.opm(&["validate", "catalog"]);
    assert!(shown.contains("objects/none.yaml") && !shown.contains("csv.yaml"), "{shown}");
}

#[test]
fn bundles_are_removed_with_their_objects() {
    let env = TestEnv::new();
    package(&env, "catalog", "foo", "objects");
    package(&env, "catalog", "bar", "objects");
    env.file("catalog/bar/.indexignore", "objects/*\n").file("catalog/bar/README.md", "about bar\n");
    env.file("catalog/.indexignore", "*.md\n").file("catalog/foo/.indexignore", "objects/*\n");
    let remove = ["edit", "remove", "catalog", "--bundle", "foo.v1.0.0"];
    let diff = env.stdout(&[&remove[..], &["--dry-run"]].concat());
    assert!(diff.contains("--- a/foo/objects/foo.v1.0.0/csv.yaml\n+++ /dev/null\n"), "{diff}");
    assert!(env.path("catalog/foo/objects/foo.v1.0.0/csv.yaml").exists());
    env.stdout(&remove);
    let foo = ["foo/.indexignore", "foo/index.yaml", "foo/objects/common.yaml", "foo/objects/foo.v2.0.0/csv.yaml"];
    let left = paths(&env, "catalog");
    assert_eq!(left.iter().filter(|path| path.starts_with("foo/")).collect::<Vec<_>>(), foo);
    assert_eq!(left.iter().filter(|path| path.starts_with("bar/")).count(), 6);
    // A whole package is removed with its ignore file; unrelated files stay.
    env.stdout(&["edit", "remove", "catalog", "--package", "foo"]);
    assert!(!paths(&env, "catalog").iter().any(|path| path.starts_with("foo/")));
    env.stdout(&["edit", "remove", "catalog", "--package", "bar"]);
    assert_eq!(paths(&env, "catalog"), [".indexignore", "bar/.indexignore", "bar/README.md"]);
}

#[test]
fn a_rejected_edit_keeps_all_files() {
    let env = TestEnv::new();
    package(&env, "catalog", "foo", "objects");
    let before = files(&env, "catalog");
    let shown = env.opm(&["edit", "remove", "catalog", "--package", "foo", "--channel", "stable"]);
    assert!(shown.starts_with("exit 1"), "{shown}");
    assert_eq!(files(&env, "catalog"), before);
}

#[test]
fn a_filtered_catalog_has_the_files_of_its_bundles() {
    let env = TestEnv::new();
    package(&env, "catalog", "foo", "objects");
    package(&env, "catalog", "bar", "objects");
    env.stdout(&["edit", "filter", "catalog", "--package", "foo", "--heads-only", "--to", "small"]);
    assert_eq!(paths(&env, "small"), ["foo/index.yaml", "foo/objects/common.yaml", "foo/objects/foo.v2.0.0/csv.yaml"]);
    env.stdout(&["validate", "small"]);
}

#[test]
fn bundles_are_merged_with_their_objects() {
    let env = TestEnv::new();
    package(&env, "catalog", "foo", "objects");
    package(&env, "other", "bar", "objects");
    package(&env, "other", "baz", "../shared");
    let diff = env.stdout(&["edit", "merge", "catalog", "other", "--dry-run"]);
    assert!(diff.contains("+++ b/bar/objects/common.yaml\n"), "{diff}");
    env.stdout(&["edit", "merge", "catalog", "other"]);
    env.stdout(&["validate", "catalog"]);
    let merged = files(&env, "catalog");
    let bar: Vec<&String> = merged.keys().filter(|path| path.starts_with("bar/")).collect();
    assert_eq!(
        bar,
        [
            "bar/.indexignore",
            "bar/catalog.yaml",
            "bar/objects/bar.v1.0.0/csv.yaml",
            "bar/objects/bar.v2.0.0/csv.yaml",
            "bar/objects/common.yaml"
        ]
    );
    assert!(merged["bar/catalog.yaml"].contains("ref: objects/bar.v1.0.0/csv.yaml # its CSV\n"));
    // References that led out of the folder now lead into it.
    assert!(merged["baz/catalog.yaml"].contains("ref: objects/baz.v1.0.0/csv.yaml # its CSV\n"), "{merged:#?}");
    assert!(merged.keys().all(|path| !path.starts_with("shared/")));
    for name in ["foo", "bar", "baz"] {
        let alone = format!("alone/{name}");
        env.file(&format!("{alone}/x/y"), "");
        std::fs::remove_dir_all(env.path(&format!("{alone}/x"))).unwrap();
        let copied =
            Command::new("cp").arg("-r").arg(env.path(&format!("catalog/{name}"))).arg(env.path(&alone)).status();
        assert!(copied.unwrap().success());
        env.stdout(&["validate", &alone]);
    }
}

#[test]
fn a_merged_file_never_replaces_another() {
    let env = TestEnv::new();
    package(&env, "catalog", "foo", "objects");
    package(&env, "other", "foo", "objects");
    let other = env
        .read("other/foo/index.yaml")
        .replace("2.0.0", "3.0.0")
        .replace("replaces: foo.v1.0.0", "replaces: foo.v2.0.0");
    env.file("other/foo/index.yaml", other.replace("---\n# version 1.0.0", "---\n# the same\n# version 1.0.0"));
    std::fs::rename(env.path("other/foo/objects/foo.v2.0.0"), env.path("other/foo/objects/foo.v3.0.0")).unwrap();
    // Equal names, different content: the first bundle differs, and the new one must not get the other file.
    env.file("other/foo/objects/common.yaml", "kind: ConfigMap\nmetadata: {name: changed}\n");
    let shown = env.opm(&["edit", "merge", "catalog", "other"]);
    assert!(shown.contains("package \"foo\": bundle \"foo.v1.0.0\" differs"), "{shown}");
    let before = files(&env, "catalog");
    env.stdout(&["edit", "merge", "catalog", "other", "--prefer-first"]);
    env.stdout(&["validate", "catalog"]);
    let merged = files(&env, "catalog");
    assert_eq!(merged["foo/objects/common.yaml"], before["foo/objects/common.yaml"]);
    assert!(merged["foo/objects/common-2.yaml"].contains("changed"));
    assert!(merged["foo/index.yaml"].contains("{ref: objects/common-2.yaml}"), "{}", merged["foo/index.yaml"]);
}

#[test]
fn added_bundles_can_be_copied_with_their_folder() {
    let env = TestEnv::new();
    std::fs::create_dir(env.path("catalog")).unwrap();
    for (name, version) in [("foo", "1.0.0"), ("foo", "2.0.0"), ("bar", "1.0.0")] {
        let replaces = if version == "2.0.0" { "  replaces: foo.v1.0.0\n" } else { "" };
        let csv = format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {{name: {name}.v{version}}}\n\
             spec:\n  version: {version}\n{replaces}"
        );
        let annotations = format!(
            "annotations:\n  operators.operatorframework.io.bundle.package.v1: {name}\n  \
             operators.operatorframework.io.bundle.channels.v1: stable\n"
        );
        env.file("b/manifests/csv.yaml", csv).file("b/metadata/annotations.yaml", annotations);
        env.stdout(&["alpha", "add", "catalog", "b"]);
    }
    assert_eq!(env.names("catalog"), ["bar", "foo"]);
    assert_eq!(env.names("catalog/foo"), [".indexignore", "foo.json", "objects"]);
    assert_eq!(env.read("catalog/foo/.indexignore").matches("objects").count(), 1);
    let copied = Command::new("cp").arg("-r").arg(env.path("catalog/foo")).arg(env.path("alone")).status();
    assert!(copied.unwrap().success());
    assert_eq!(env.stdout(&["list", "bundles", "alone"]).lines().count(), 3);
    env.stdout(&["edit", "remove", "catalog", "--bundle", "foo.v1.0.0"]);
    assert_eq!(paths(&env, "catalog/foo/objects").len(), 1);
}
