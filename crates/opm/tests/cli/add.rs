use std::collections::BTreeMap;
use std::fs;

use crate::env::TestEnv;

const FOO: &str = "\
# Kept by hand.
schema: olm.package # comments stay
name: foo
defaultChannel: stable
---
schema: olm.channel
package: foo
name: stable
entries:
- name: foo.v1.0.0
---
schema: custom.note
package: foo
unknown: {b: 1, a: [x]}
---
schema: olm.bundle
name: foo.v1.0.0
package: foo
image: registry.example.com/foo:v1.0.0
properties:
- type: olm.package
  value: {packageName: foo, version: 1.0.0}
";

fn bundle(env: &TestEnv, at: &str, name: &str, package: &str, spec: &str) {
    let version = name.rsplit(".v").next().unwrap();
    let csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {{name: {name}}}\n\
         spec:\n  version: {version}\n{spec}"
    );
    let annotations = format!(
        "annotations:\n  operators.operatorframework.io.bundle.package.v1: {package}\n  \
         operators.operatorframework.io.bundle.channels.v1: stable,beta\n"
    );
    env.file(&format!("{at}/manifests/csv.yaml"), csv).file(&format!("{at}/metadata/annotations.yaml"), annotations);
}

/// Returns all files of a directory with their content.
fn snapshot(env: &TestEnv, directory: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for name in env.names(directory) {
        let path = format!("{directory}/{name}");
        if env.path(&path).is_dir() {
            found.insert(path.clone(), String::new());
            found.extend(snapshot(env, &path));
        } else {
            let text = env.read(&path);
            found.insert(path, text);
        }
    }
    found
}

#[test]
fn a_bundle_is_added_to_the_files_of_its_package() {
    let env = TestEnv::new();
    env.file("catalog/foo/all.yaml", FOO).file("catalog/other.yaml", "schema: custom.other # kept\n");
    bundle(&env, "b2", "foo.v2.0.0", "foo", "  replaces: foo.v1.0.0\n");
    insta::assert_snapshot!(env.opm(&["alpha", "add", "catalog", "b2"]), @r"
    exit 0
    --- stdout
    --- stderr
    ");
    insta::assert_snapshot!(env.read("catalog/foo/all.yaml"));
    let object =
        env.read("catalog/foo/objects/foo.v2.0.0/foo.v2.0.0_operators.coreos.com_v1alpha1_clusterserviceversion.yaml");
    assert!(object.contains("replaces: foo.v1.0.0\n"), "{object}");
    assert_eq!(env.read("catalog/other.yaml"), "schema: custom.other # kept\n");
    assert_eq!(env.names("catalog/foo"), [".indexignore", "all.yaml", "objects"]);
    assert!(env.read("catalog/foo/.indexignore").contains("**/objects/*\n"));
    assert!(env.stdout(&["render", "catalog"]).contains("\"unknown\": {"));
}

#[test]
fn a_new_package_gets_a_directory() {
    let env = TestEnv::new();
    fs::create_dir(env.path("catalog")).unwrap();
    let icon = "  description: The bar.\n  icon: [{base64data: aWNvbg==, mediatype: image/png}]\n";
    bundle(&env, "b1", "bar.v1.0.0", "bar", icon);
    bundle(&env, "b2", "bar.v1.1.0", "bar", "");
    let arguments = ["alpha", "add", "catalog", "b1", "--channels", "one"];
    assert_eq!(env.stdout(&arguments), "");
    insta::assert_snapshot!(env.read("catalog/bar/bar.json"), @r#"
    {
        "schema": "olm.package",
        "name": "bar",
        "defaultChannel": "one",
        "icon": {
            "base64data": "aWNvbg==",
            "mediatype": "image/png"
        },
        "description": "The bar."
    }
    {
        "schema": "olm.channel",
        "name": "one",
        "package": "bar",
        "entries": [
            {
                "name": "bar.v1.0.0"
            }
        ]
    }
    {
        "schema": "olm.bundle",
        "name": "bar.v1.0.0",
        "package": "bar",
        "image": "",
        "properties": [
            {
                "type": "olm.package",
                "value": {
                    "packageName": "bar",
                    "version": "1.0.0"
                }
            },
            {
                "type": "olm.bundle.object",
                "value": {
                    "ref": "objects/bar.v1.0.0/bar.v1.0.0_operators.coreos.com_v1alpha1_clusterserviceversion.yaml"
                }
            }
        ]
    }
    "#);
    let next = [
        "alpha",
        "add",
        "catalog",
        "b2",
        "--channels",
        "one,two",
        "--replaces",
        "bar.v1.0.0",
        "--skip-range",
        "<1.1.0",
    ];
    env.stdout(&next);
    assert_eq!(env.names("catalog/bar/objects"), ["bar.v1.0.0", "bar.v1.1.0"]);
    insta::assert_snapshot!(env.stdout(&["alpha", "list", "bundles", "catalog"]), @r"
    PACKAGE  CHANNEL  BUNDLE      REPLACES    SKIPS  SKIP RANGE  IMAGE
    bar      one      bar.v1.0.0                                 
    bar      one      bar.v1.1.0  bar.v1.0.0         <1.1.0      
    bar      two      bar.v1.1.0  bar.v1.0.0         <1.1.0
    ");
}

#[test]
fn all_bundles_are_added_or_none() {
    let env = TestEnv::new();
    env.file("catalog/foo/all.yaml", FOO);
    bundle(&env, "good", "new.v1.0.0", "new", "");
    bundle(&env, "old", "foo.v1.0.0", "foo", "");
    env.file("broken/manifests/x.yaml", "kind: ConfigMap\n")
        .file("broken/metadata/annotations.yaml", "annotations: {}\n");
    bundle(&env, "escaping", "up.v1.0.0", "../../up", "");
    let before = snapshot(&env, "catalog");
    for (bad, text) in [
        ("old", "bundle \"foo.v1.0.0\" already exists in package \"foo\""),
        ("broken", "error interpreting bundle image \"broken\": no csv in bundle"),
        ("none", "error pulling image \"none\" into registry"),
        ("catalog", "it is a catalog, not a bundle"),
        ("escaping", "invalid package name \"../../up\""),
    ] {
        let shown = env.opm(&["alpha", "add", "catalog", "good", bad]);
        assert!(shown.starts_with("exit 1") && shown.contains(text), "{shown}");
        assert_eq!(snapshot(&env, "catalog"), before, "{bad}");
    }
    let shown = env.opm(&["alpha", "add", "catalog", "good", "old", "--replaces", "x"]);
    assert!(shown.contains("require a single bundle"), "{shown}");
    // An obstacle is found only when files are renamed into place.
    env.file("catalog/new", "a file where a directory is needed\n");
    env.file("catalog/.indexignore", "new\n");
    let before = snapshot(&env, "catalog");
    let shown = env.opm(&["alpha", "add", "catalog", "good"]);
    assert!(shown.starts_with("exit 1"), "{shown}");
    assert_eq!(snapshot(&env, "catalog"), before);
    assert!(env.names(".").iter().all(|name| !name.starts_with(".opm")));
    env.file("catalog/bad.yaml", "a: [\n");
    assert!(env.opm(&["alpha", "add", "catalog", "good"]).contains("error loading directory \"catalog\""));
}

#[test]
fn an_add_that_would_make_a_catalog_invalid_changes_nothing() {
    let env = TestEnv::new();
    fs::create_dir(env.path("catalog")).unwrap();
    bundle(&env, "b", "foo.v2.0.0", "foo", "");
    let shown = env.opm(&["alpha", "add", "catalog", "b", "--default-channel", "none"]);
    assert!(shown.starts_with("exit 1") && shown.contains("so nothing was changed"), "{shown}");
    assert!(snapshot(&env, "catalog").is_empty());
    // The bundle would be a second head.
    env.file("catalog/foo/all.yaml", FOO);
    let before = snapshot(&env, "catalog");
    let shown = env.opm(&["alpha", "add", "catalog", "b"]);
    assert!(shown.starts_with("exit 1") && shown.contains("multiple channel heads"), "{shown}");
    assert_eq!(snapshot(&env, "catalog"), before);
}

#[test]
fn an_add_that_strands_versions_is_refused_unless_that_is_allowed() {
    let env = TestEnv::new();
    let entries = "- name: foo.v1.0.0\n- name: foo.v1.1.0\n  skips: [foo.v1.0.0]\n";
    let next = FOO[FOO.find("---\nschema: olm.bundle").unwrap()..].replace("1.0.0", "1.1.0");
    env.file("catalog/foo.yaml", FOO.replace("- name: foo.v1.0.0\n", entries) + &next);
    // The only edge from the first version leads to one that is skipped now.
    bundle(&env, "b2", "foo.v2.0.0", "foo", "  skips: [foo.v1.1.0]\n");
    let before = snapshot(&env, "catalog");
    insta::assert_snapshot!(env.opm(&["alpha", "add", "catalog", "b2", "--channels", "stable"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: the edit would strand clusters, so nothing was changed:
      foo / stable: foo.v1.0.0 is stuck: nothing upgrades it; so far it is upgraded to foo.v1.1.0
    help: --allow-stranded makes the edit anyway; to reconnect them afterwards:
      opm edit set-edge catalog foo.v2.0.0 --package foo --channel stable --add-skip foo.v1.0.0
    ");
    assert_eq!(snapshot(&env, "catalog"), before);
    insta::assert_snapshot!(env.opm(&["alpha", "add", "catalog", "b2", "--channels", "stable", "--allow-stranded"]), @r"
    exit 0
    --- stdout
    --- stderr
    warning: foo / stable: this version loses its upgrade path: foo.v1.0.0
    ");
    assert!(env.stdout(&["render", "catalog"]).contains("foo.v2.0.0"));
}

#[test]
fn a_package_of_the_legacy_format_is_rejected() {
    let env = TestEnv::new();
    let old = "schema: olm.package\nname: foo\ndefaultChannel: stable\n---\nschema: olm.bundle\nname: foo.v1.0.0\n\
        package: foo\nimage: r.test/foo:v1\nproperties:\n- {type: olm.package, value: {packageName: foo, version: 1.0.0}}\n\
        - {type: olm.channel, value: {name: stable}}\n";
    env.file("catalog/foo.yaml", old);
    bundle(&env, "b2", "foo.v2.0.0", "foo", "  replaces: foo.v1.0.0\n");
    let shown = env.opm(&["alpha", "add", "catalog", "b2"]);
    assert!(shown.starts_with("exit 1") && shown.contains("opm migrate"), "{shown}");
    assert_eq!(env.read("catalog/foo.yaml"), old);
}

#[test]
fn images_can_be_pinned_by_digest() {
    let Some(registry) = testkit::DockerRegistry::start(testkit::RegistryPlan::default()) else { return };
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", FOO).file("other/foo.yaml", FOO).file("tags/foo.yaml", FOO).file(
        "made/manifests/csv.yaml",
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: foo.v1.1.0}\n\
         spec: {version: 1.1.0, replaces: foo.v1.0.0}\n",
    );
    let tag = format!("{}/foo:v1.1.0", registry.host());
    let build =
        ["alpha", "bundle", "build", "--directory", "made/manifests", "--package", "foo", "--channels", "stable"];
    let digest = env.stdout(&[&build[..], &["--tag", &tag, "-b", "none", "--push", "--use-http"]].concat());
    let pinned = format!("{tag}@{}", digest.trim());
    env.stdout(&["alpha", "add", "--use-http", "--pin", "catalog", &tag]);
    env.stdout(&["edit", "add-bundle", "other", &tag, "--use-http", "--pin", "--channel", "stable"]);
    env.stdout(&["alpha", "add", "--use-http", "tags", &tag]);
    for (catalog, recorded) in [("catalog", &pinned), ("other", &pinned), ("tags", &tag)] {
        assert!(env.stdout(&["render", catalog]).contains(&format!("\"image\": \"{recorded}\"")), "{catalog}");
    }
}
