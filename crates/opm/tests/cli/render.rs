use std::process::Stdio;

use crate::env::{SMALL, TestEnv};

#[test]
fn a_catalog_is_printed_in_a_fixed_order_and_form() {
    let env = TestEnv::new();
    env.file("catalog/z.yaml", SMALL).file("catalog/a.json", "{\"schema\":\"x.io/note\",\"b\":1.0,\"a\":\"<>\"}");
    insta::assert_snapshot!(env.opm(&["render", "catalog"]), @r#"
    exit 0
    --- stdout
    {
        "schema": "olm.package",
        "name": "foo",
        "defaultChannel": "stable"
    }
    {
        "schema": "olm.channel",
        "name": "stable",
        "package": "foo",
        "entries": [
            {
                "name": "foo.v1.0.0"
            }
        ]
    }
    {
        "schema": "olm.bundle",
        "name": "foo.v1.0.0",
        "package": "foo",
        "image": "registry.example.com/foo:v1.0.0",
        "properties": [
            {
                "type": "olm.package",
                "value": {
                    "packageName": "foo",
                    "version": "1.0.0"
                }
            }
        ]
    }
    {
        "a": "<>",
        "b": 1,
        "schema": "x.io/note"
    }
    --- stderr
    "#);
}

#[test]
fn rendered_output_renders_to_itself() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    for format in ["json", "yaml"] {
        let once = env.stdout(&["render", "catalog", "-o", format]);
        env.file("again/catalog", &once);
        assert_eq!(env.stdout(&["render", "again", "-o", format]), once);
        assert_eq!(env.stdout(&["render", "again"]), env.stdout(&["render", "catalog"]));
    }
}

#[test]
fn a_bundle_directory_becomes_a_bundle() {
    let env = TestEnv::new();
    env.copy_of("examples/bundles");
    let template = "--alpha-image-ref-template=r.example.com/{{.Package}}:{{.Version}}";
    let text = env.stdout(&["render", "bundles/lantern/1.3.0", template, "--migrate", "-o", "yaml"]);
    insta::assert_snapshot!(text, @r#"
    ---
    image: r.example.com/lantern:1.3.0
    name: lantern.v1.3.0
    package: lantern
    properties:
    - type: olm.gvk
      value:
        group: harbour.example.com
        kind: Lantern
        version: v1
    - type: olm.gvk.required
      value:
        group: harbour.example.com
        kind: TideGauge
        version: v1
    - type: olm.package
      value:
        packageName: lantern
        version: 1.3.0
    - type: olm.csv.metadata
      value:
        annotations:
          capabilities: Seamless Upgrades
          olm.skipRange: '>=1.0.0 <1.3.0'
        apiServiceDefinitions: {}
        crdDescriptions:
          owned:
          - displayName: Lantern
            kind: Lantern
            name: lanterns.harbour.example.com
            version: v1
        description: Keeps the lights of a harbour burning, and dims them by day.
        displayName: Lantern
        installModes:
        - supported: true
          type: AllNamespaces
        maturity: stable
        provider:
          name: Harbour Works
    relatedImages:
    - image: r.example.com/lantern:1.3.0
      name: ""
    - image: registry.example.com/harbour/lantern:v1.3.0
      name: ""
    - image: registry.example.com/harbour/wick:v7
      name: wick
    schema: olm.bundle
    "#);
}

#[test]
fn an_unreadable_source_prevents_all_output() {
    let env = TestEnv::new();
    env.file("good/c.yaml", SMALL).file("bad/c.yaml", "schema: 5\n");
    insta::assert_snapshot!(env.opm(&["render", "good", "bad", "nosuch"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: render reference "bad":
    error: expected value for key "schema" to be a string, got number (5)
     --> bad/c.yaml:1:9 [envelope-types]
    1 | schema: 5
      |         ^
    help: quote the value of "schema"

    1 problem found
    error: render reference "nosuch": the path does not exist, and it is not an image reference: repository name must be canonical, with registry and full path, such as docker.io/library/etcd
    "#);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let env = TestEnv::new();
    for i in 0..200 {
        env.file(&format!("catalog/{i}.yaml"), format!("schema: x.io/big\ntext: {}\n", "x".repeat(10_000)));
    }
    let mut child =
        env.command().args(["render", "catalog"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn blobs_without_a_package_are_omitted_with_a_warning() {
    let env = TestEnv::new();
    env.file("catalog/c.yaml", "schema: olm.bundle\nname: lost\n");
    insta::assert_snapshot!(env.opm(&["render", "catalog"]), @r#"
    exit 0
    --- stdout
    --- stderr
    warning: catalog/c.yaml: olm.bundle "lost" has no package and is dropped
    "#);
}
