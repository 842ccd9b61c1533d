//! `opm edit add-bundle`.

use crate::edit::{COMMENTED, commented};
use crate::env::{SMALL, TestEnv};

const CSV: &str = "\
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: foo.v1.3.0
spec:
  version: 1.3.0
  description: About foo.
";

/// Writes a bundle directory `bundle` of the package.
fn with_bundle(env: &TestEnv, package: &str) {
    let annotations = format!(
        "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
         operators.operatorframework.io.bundle.package.v1: {package}\n"
    );
    env.file("bundle/manifests/csv.yaml", CSV.replace("foo.v", &format!("{package}.v")));
    env.file("bundle/metadata/annotations.yaml", annotations);
}

#[test]
fn a_new_bundle_is_added_after_the_others_with_its_entries() {
    let env = commented();
    with_bundle(&env, "foo");
    let add = ["edit", "add-bundle", "catalog", "bundle", "--image", "registry.example.com/foo:v1.3.0", "--migrate"];
    let diff = env.stdout(&[&add as &[_], &["--channel", "alpha,stable", "--edge", "semver", "--dry-run"]].concat());
    insta::assert_snapshot!(diff);
    env.stdout(&[&add as &[_], &["--channel", "alpha,stable"]].concat());
    assert_eq!(env.stdout(&["validate", "catalog"]), "");
    let shown = env.opm(&[&add as &[_], &["--channel", "alpha"]].concat());
    assert!(shown.starts_with("exit 1") && shown.contains("opm edit promote"), "{shown}");
    env.stdout(&["edit", "remove", "catalog", "--bundle", "foo.v1.3.0", "--forget"]);
    assert_eq!(env.read("catalog/foo.yaml"), COMMENTED);
}

#[test]
fn a_new_package_gets_its_own_file() {
    let env = commented();
    with_bundle(&env, "bar");
    let add =
        ["edit", "add-bundle", "catalog", "bundle", "--channel", "stable", "--image", "registry.example.com/bar:1"];
    env.stdout(&[&add as &[_], &["--migrate"]].concat());
    insta::assert_snapshot!(env.read("catalog/bar/catalog.yaml"));
    assert_eq!(env.read("catalog/foo.yaml"), COMMENTED);
    env.stdout(&["edit", "remove", "catalog", "--package", "bar"]);
    assert_eq!(env.names("catalog/bar"), Vec::<String>::new());
}

/// Writes a bundle directory whose annotations name two channels.
fn bundle_for_two_channels(env: &TestEnv) {
    env.file(
        "bundle/manifests/csv.yaml",
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: foo.v2.0.0}\n\
         spec:\n  version: 2.0.0\n  replaces: foo.v1.0.0\n",
    );
    env.file(
        "bundle/metadata/annotations.yaml",
        "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n  \
         operators.operatorframework.io.bundle.channels.v1: stable,candidate\n",
    );
}

#[test]
fn a_bundle_is_added_to_an_existing_and_a_new_channel() {
    for text in [SMALL.to_owned(), SMALL.trim_end().to_owned(), SMALL.replace('\n', "\r\n")] {
        let env = TestEnv::new();
        bundle_for_two_channels(&env);
        env.file("catalog/foo.yaml", text);
        let add = ["edit", "add-bundle", "catalog", "bundle", "--create", "--image", "r.test/foo:v2"];
        env.stdout(&[&add[..], &["--channel", "stable,candidate"]].concat());
        assert_eq!(env.stdout(&["validate", "catalog"]), "");
        let channels = env.stdout(&["list", "channels", "catalog", "-o", "csv"]);
        assert!(
            channels.contains("foo,stable,foo.v2.0.0") && channels.contains("foo,candidate,foo.v2.0.0"),
            "{channels}"
        );
    }
}

#[test]
fn an_edit_is_summarized_in_one_line() {
    let env = commented();
    let summary = |arguments: &[&str]| {
        let shown = env.opm(&[&["edit"], arguments].concat());
        shown.strip_prefix("exit 0\n--- stdout\n--- stderr\n").unwrap_or(&shown).to_owned()
    };
    insta::assert_snapshot!(summary(&["promote", "catalog", "foo.v1.2.0", "stable", "--skip", "foo.v1.1.0"]), @"added foo.v1.2.0 to stable: replaces foo.v1.0.0, skips foo.v1.1.0");
    insta::assert_snapshot!(summary(&["set-default", "catalog", "foo", "stable"]), @"the default channel of foo is stable, was alpha");
    assert_eq!(summary(&["set-default", "catalog", "foo", "stable"]), "");
    assert_eq!(summary(&["set-default", "catalog", "foo", "alpha", "-q"]), "");
    insta::assert_snapshot!(summary(&["deprecate", "catalog", "-p", "foo", "--channel", "alpha", "-m", "use stable"]), @"deprecated channel alpha of foo");
    insta::assert_snapshot!(summary(&["deprecate", "catalog", "-p", "foo", "--channel", "alpha", "--undo"]), @"channel alpha of foo is no longer deprecated");
    insta::assert_snapshot!(summary(&["remove", "catalog", "--bundle", "foo.v1.1.0"]), @"removed foo.v1.1.0 from alpha; foo.v1.2.0 in alpha replaces foo.v1.0.0, skips foo.v1.1.1, foo.v1.1.0");
    insta::assert_snapshot!(summary(&["set-edge", "catalog", "foo.v1.2.0", "--channel", "alpha", "--skips", "", "--allow-stranded"]), @r"
    warning: foo / alpha: 2 versions lose their upgrade path: foo.v1.1.0, foo.v1.1.1
    changed: foo.v1.2.0 in alpha replaces foo.v1.0.0
    ");
}

#[test]
fn a_bundle_can_declare_its_channels_and_edges() {
    let env = TestEnv::new();
    bundle_for_two_channels(&env);
    env.file("catalog/foo.yaml", SMALL);
    insta::assert_snapshot!(env.opm(&["edit", "add-bundle", "catalog", "bundle"]), @r"
    exit 0
    --- stdout
    --- stderr
    warning: bundle: the bundle has no image, which clusters need: set it with --image
    note: from the bundle: channels stable, candidate; replaces foo.v1.0.0
    added foo.v2.0.0 to candidate, stable: replaces foo.v1.0.0
    ");
    assert_eq!(env.stdout(&["validate", "catalog"]), "");
}

#[test]
fn a_bundle_that_replaces_no_head_is_rejected() {
    let env = commented();
    bundle_for_two_channels(&env);
    let add = ["edit", "add-bundle", "catalog", "bundle", "--image", "r.test/foo:v2", "--channel", "alpha"];
    insta::assert_snapshot!(env.opm(&add), @r#"
    exit 1
    --- stdout
    --- stderr
    error: "foo.v2.0.0" replaces "foo.v1.0.0", so "foo.v1.2.0" remains a second head of channel "alpha"
    help: use --edge replaces to replace "foo.v1.2.0", or --edge semver to insert it by version
    "#);
    assert_eq!(env.read("catalog/foo.yaml"), COMMENTED);
    env.stdout(&[&add[..], &["--edge", "semver"]].concat());
    assert_eq!(env.stdout(&["validate", "catalog"]), "");
}
