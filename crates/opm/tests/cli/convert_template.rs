use crate::env::{SMALL, TestEnv};

#[test]
fn a_basic_template_names_bundles_by_their_image() {
    let env = TestEnv::new();
    env.file("catalog.yaml", SMALL);
    insta::assert_snapshot!(env.stdout(&["alpha", "convert-template", "basic", "catalog.yaml", "-o", "yaml"]), @r"
    ---
    entries:
    - defaultChannel: stable
      name: foo
      schema: olm.package
    - entries:
      - name: foo.v1.0.0
      name: stable
      package: foo
      schema: olm.channel
    - image: registry.example.com/foo:v1.0.0
      schema: olm.bundle
    schema: olm.template.basic
    ");
}

#[test]
fn a_broken_file_is_reported_with_its_line() {
    let env = TestEnv::new();
    env.file("catalog.yaml", "a: 1\nb: [}\n");
    let shown = env.opm(&["alpha", "convert-template", "basic", "catalog.yaml"]);
    assert!(shown.contains("error: catalog.yaml:2: yaml:"), "{shown}");
}
