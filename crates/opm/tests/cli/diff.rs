use crate::env::TestEnv;

/// Returns a package whose bundles have a CSV with one rule and a CRD with some versions.
fn catalog(entries: &[(&str, &str)], rule: &str, crd_versions: &str) -> String {
    let mut text = String::from(
        "schema: olm.package\nname: foo\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: foo\nname: stable\nentries:\n",
    );
    for (version, replaces) in entries {
        text += &format!("- name: foo.v{version}\n");
        if !replaces.is_empty() {
            text += &format!("  replaces: foo.v{replaces}\n");
        }
    }
    for (index, (version, _)) in entries.iter().enumerate() {
        // Only the latest bundle has this rule and these versions.
        let (rule, crd_versions) =
            if index + 1 == entries.len() { (rule, crd_versions) } else { (RULE, "{\"name\":\"v1\"}") };
        let csv = format!(
            "{{\"kind\":\"ClusterServiceVersion\",\"spec\":{{\"install\":{{\"spec\":{{\"clusterPermissions\":[{{\"serviceAccountName\":\"foo\",\"rules\":[{rule}]}}]}}}}}}}}"
        );
        let crd = format!(
            "{{\"kind\":\"CustomResourceDefinition\",\"metadata\":{{\"name\":\"foos.example.com\"}},\"spec\":{{\"versions\":[{crd_versions}]}}}}"
        );
        text += &format!(
            "---\nschema: olm.bundle\nname: foo.v{version}\npackage: foo\nimage: registry.example.com/foo:v{version}\nproperties:\n\
             - type: olm.package\n  value: {{packageName: foo, version: {version}}}\n\
             - type: olm.bundle.object\n  value: {{data: {}}}\n- type: olm.bundle.object\n  value: {{data: {}}}\n",
            base64(&csv),
            base64(&crd)
        );
    }
    text
}

const RULE: &str = "{\"apiGroups\":[\"apps\"],\"resources\":[\"deployments\"],\"verbs\":[\"get\",\"list\"]}";
const MORE: &str = "{\"apiGroups\":[\"apps\"],\"resources\":[\"deployments\"],\"verbs\":[\"get\",\"delete\"]}";

fn base64(text: &str) -> String {
    let mut out = Vec::new();
    fbc::base64::encode(text.as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

fn two_catalogs() -> TestEnv {
    let env = TestEnv::new();
    env.file("old/c.yaml", catalog(&[("1.0.0", ""), ("1.1.0", "1.0.0")], RULE, "{\"name\":\"v1\"}"));
    let new =
        catalog(&[("1.0.0", ""), ("1.1.0", "1.0.0"), ("1.2.0", "1.1.0")], MORE, "{\"name\":\"v1\"},{\"name\":\"v2\"}");
    env.file("new/c.yaml", new.replace("foo:v1.0.0", "foo:v1.0.0-rebuilt"));
    env
}

#[test]
fn differences_are_printed_as_text() {
    let env = two_catalogs();
    insta::assert_snapshot!(env.stdout(&["diff", "old", "new"]), @r"
    ~ package foo
      ~ channel stable, head foo.v1.1.0 -> foo.v1.2.0
        + foo.v1.2.0 replaces foo.v1.1.0
      ~ bundle foo.v1.0.0, version 1.0.0
        ~ image registry.example.com/foo:v1.0.0 -> registry.example.com/foo:v1.0.0-rebuilt
      + bundle foo.v1.2.0, version 1.2.0, image registry.example.com/foo:v1.2.0
    packages: 0 added, 0 removed, 1 changed; channels: 0 added, 0 removed, 1 changed; bundles: 1 added, 0 removed, 1 changed
    ");
}

#[test]
fn a_changelog_describes_what_new_versions_change() {
    let env = two_catalogs();
    insta::assert_snapshot!(env.stdout(&["diff", "old", "new", "--changelog", "-o", "markdown"]), @r"
    # Changes

    Packages: 0 added, 0 removed, 1 changed; channels: 0 added, 0 removed, 1 changed; bundles: 1 added, 0 removed, 1 changed.

    ## Package `foo` (changed)

    - **changed** channel `stable`, head `foo.v1.1.0` → `foo.v1.2.0`
      - **added** `foo.v1.2.0` replaces `foo.v1.1.0`
    - **changed** bundle `foo.v1.0.0`, version `1.0.0`
      - **changed** image `registry.example.com/foo:v1.0.0` → `registry.example.com/foo:v1.0.0-rebuilt`
    - **added** bundle `foo.v1.2.0`, version `1.2.0`, image `registry.example.com/foo:v1.2.0`, against `foo.v1.1.0`
      - **added** cluster permission of `foo`: `delete` `deployments.apps`
      - **removed** cluster permission of `foo`: `list` `deployments.apps`
      - **changed** CRD `foos.example.com`: `v1` → `v1`, `v2`
    ");
}

#[test]
fn differences_are_printed_as_json() {
    let env = two_catalogs();
    let json = env.stdout(&["diff", "old", "new", "--changelog", "-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let bundle = &value["packages"][0]["bundles"][1];
    assert_eq!(bundle["comparedWith"], "foo.v1.1.0");
    assert_eq!(bundle["permissions"][0]["scope"], "cluster");
    assert_eq!(bundle["crds"][0]["versions"]["new"], serde_json::json!(["v1", "v2"]));
    assert_eq!(value["packages"][0]["channels"][0]["head"]["new"], "foo.v1.2.0");
}

#[test]
fn the_exit_code_reports_differences_on_request() {
    let env = two_catalogs();
    assert_eq!(env.opm(&["diff", "old", "old", "--exit-code"]), "exit 0\n--- stdout\nno differences\n--- stderr\n");
    assert!(env.opm(&["diff", "old", "new"]).starts_with("exit 0\n"));
    let shown = env.opm(&["diff", "old", "new", "--exit-code"]);
    assert!(shown.starts_with("exit 1\n--- stdout\n~ package foo\n") && shown.ends_with("--- stderr\n"), "{shown}");
}

#[test]
fn names_are_escaped() {
    let env = two_catalogs();
    let skips = "replaces: foo.v1.1.0\n  skips: [\"a\\e[31m\\n`b`\"]\n";
    env.file("new/c.yaml", env.read("new/c.yaml").replace("replaces: foo.v1.1.0\n", skips));
    let shown = env.opm(&["diff", "old", "new"]);
    assert!(shown.contains(r#" skips "a\x1b[31m\n`b`""#), "{shown}");
    let shown = env.opm(&["diff", "old", "new", "-o", "markdown"]);
    assert!(shown.contains(r#" skips `` "a\x1b[31m\n`b`" ``"#), "{shown}");
}

#[test]
fn an_invalid_catalog_is_rejected() {
    let env = two_catalogs();
    env.file("broken/c.yaml", "schema: olm.package\nname: foo\ndefaultChannel: gone\n");
    for arguments in [&["diff", "old", "broken"] as &[&str], &["alpha", "diff", "broken", "new"]] {
        let shown = env.opm(arguments);
        assert!(
            shown.starts_with("exit 1\n--- stdout\n--- stderr\nerror: \"broken\" is not a valid catalog:\n"),
            "{shown}"
        );
        assert!(shown.contains("gone"), "{shown}");
    }
    env.file("bundle/manifests/x.yaml", "").file("bundle/metadata/x.yaml", "");
    let shown = env.opm(&["alpha", "diff", "bundle"]);
    assert!(shown.starts_with("exit 1\n--- stdout\n--- stderr\n") && shown.contains("bundle"), "{shown}");
}

#[test]
fn new_content_is_printed_as_a_catalog() {
    let env = two_catalogs();
    let new = env.stdout(&["alpha", "diff", "old", "new"]);
    let lines: Vec<&str> = new.lines().filter(|line| line.starts_with("- name") || line.starts_with("name")).collect();
    assert_eq!(
        lines,
        [
            "name: foo",
            "- name: foo.v1.0.0",
            "- name: foo.v1.2.0",
            "name: stable",
            "name: foo.v1.0.0",
            "name: foo.v1.2.0"
        ]
    );
    assert_eq!(env.stdout(&["alpha", "diff", "new", "new"]), "");
    env.file("all/c.yaml", env.stdout(&["alpha", "diff", "new"]));
    assert_eq!(env.stdout(&["diff", "new", "all"]), "no differences\n");
}

#[test]
fn an_include_file_is_checked() {
    let env = two_catalogs();
    env.file(
        "include.yaml",
        "packages:\n- name: foo\n  version: 1.0.0\n  channels:\n  - name: stable\n    bundles: [foo.v1.1.0]\n",
    );
    let shown = env.opm(&["alpha", "diff", "new", "-i", "include.yaml"]);
    assert!(shown.contains("warning: include file include.yaml: unknown field packages[0].version\n"), "{shown}");
    assert!(shown.contains("\"bundles\" without \"versions\" select the whole channel"), "{shown}");
    env.file("include.yaml", "packages:\n- name: [\n");
    let shown = env.opm(&["alpha", "diff", "new", "-i", "include.yaml"]);
    assert!(shown.starts_with("exit 1\n--- stdout\n--- stderr\nerror: include file include.yaml:3: "), "{shown}");
    let shown = env.opm(&["alpha", "diff", "new", "--include-additive"]);
    assert!(shown.contains("must set --include-file if --include-additive is set"), "{shown}");
}

#[test]
fn every_run_prints_the_same() {
    let env = two_catalogs();
    for arguments in [&["diff", "old", "new", "--changelog"] as &[&str], &["alpha", "diff", "old", "new"]] {
        let first = env.stdout(arguments);
        for _ in 0..50 {
            assert_eq!(env.stdout(arguments), first);
        }
    }
}
