use std::io::Write;
use std::process::Stdio;

use crate::env::{SMALL, TestEnv};

/// Returns an environment with bundle directories `1.0.0`, `1.0.1` and `1.1.0` of one package.
fn with_bundles() -> TestEnv {
    let env = TestEnv::new();
    for version in ["1.0.0", "1.0.1", "1.1.0"] {
        env.file(
            &format!("bundles/{version}/manifests/csv.yaml"),
            format!(
                "kind: ClusterServiceVersion\nmetadata: {{name: foo.v{version}}}\n\
                 spec: {{version: {version}, description: Foo as of {version}}}\n"
            ),
        );
        env.file(
            &format!("bundles/{version}/metadata/annotations.yaml"),
            "annotations: {operators.operatorframework.io.bundle.package.v1: foo}\n",
        );
    }
    env
}

const SEMVER: &str = "\
schema: olm.semver
generateMajorChannels: true
stable:
  bundles:
  - image: ./bundles/1.1.0
  - image: ./bundles/1.0.0
  - image: ./bundles/1.0.1
";

/// Runs `render-template` on a template on standard input.
fn with_input(env: &TestEnv, arguments: &[&str], input: &str) -> String {
    let mut command = env.command();
    command.args(["alpha", "render-template"]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    env.show(child.wait_with_output().unwrap())
}

#[test]
fn a_semver_template_becomes_a_catalog() {
    let env = with_bundles();
    env.file("semver.yaml", SEMVER);
    let catalog = env.stdout(&["alpha", "render-template", "semver", "semver.yaml", "-o", "yaml"]);
    let data: Vec<&str> = catalog.lines().filter(|line| !line.contains("data:")).collect();
    insta::assert_snapshot!(data.join("\n"), @r#"
    ---
    defaultChannel: stable-v1
    description: Foo as of 1.1.0
    name: foo
    schema: olm.package
    ---
    entries:
    - name: foo.v1.0.0
    - name: foo.v1.0.1
      skips:
      - foo.v1.0.0
    - name: foo.v1.1.0
      replaces: foo.v1.0.1
      skips:
      - foo.v1.0.0
    name: stable-v1
    package: foo
    schema: olm.channel
    ---
    image: ""
    name: foo.v1.0.0
    package: foo
    properties:
    - type: olm.package
      value:
        packageName: foo
        version: 1.0.0
    - type: olm.bundle.object
      value:
    schema: olm.bundle
    ---
    image: ""
    name: foo.v1.0.1
    package: foo
    properties:
    - type: olm.package
      value:
        packageName: foo
        version: 1.0.1
    - type: olm.bundle.object
      value:
    schema: olm.bundle
    ---
    image: ""
    name: foo.v1.1.0
    package: foo
    properties:
    - type: olm.package
      value:
        packageName: foo
        version: 1.1.0
    - type: olm.bundle.object
      value:
    schema: olm.bundle
    "#);
    env.file("catalog/catalog.yaml", catalog);
    assert_eq!(env.stdout(&["validate", "catalog"]), "");
}

#[test]
fn a_template_is_drawn_as_an_upgrade_graph() {
    let env = with_bundles();
    env.file("semver.yaml", SEMVER);
    insta::assert_snapshot!(env.stdout(&["alpha", "render-template", "semver.yaml", "-o", "mermaid"]), @r#"
    graph LR
      classDef deprecated fill:#E8960F
      classDef skipped stroke:#FF0000,stroke-width:4px
      classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px
      %% package "foo"
      subgraph "foo"
        %% channel "stable-v1"
        subgraph foo-stable-v1["stable-v1"]
          foo-stable-v1-foo.v1.1.0["foo.v1.1.0"]
          foo-stable-v1-foo.v1.0.0["foo.v1.0.0"]-- skip --> foo-stable-v1-foo.v1.1.0["foo.v1.1.0"]
          foo-stable-v1-foo.v1.0.1["foo.v1.0.1"]-- replace --> foo-stable-v1-foo.v1.1.0["foo.v1.1.0"]
          foo-stable-v1-foo.v1.0.1["foo.v1.0.1"]
          foo-stable-v1-foo.v1.0.0["foo.v1.0.0"]-- skip --> foo-stable-v1-foo.v1.0.1["foo.v1.0.1"]
          foo-stable-v1-foo.v1.0.0["foo.v1.0.0"]
        end
      end
    class foo-stable-v1-foo.v1.0.0 skipped
    linkStyle 2 stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;
    "#);
}

#[test]
fn type_and_file_are_optional() {
    let env = with_bundles();
    env.file("semver.yaml", SEMVER);
    let expected = env.opm(&["alpha", "render-template", "semver", "semver.yaml"]);
    assert!(expected.starts_with("exit 0\n"), "{expected}");
    assert_eq!(env.opm(&["alpha", "render-template", "semver.yaml"]), expected);
    assert_eq!(env.opm(&["alpha", "render-veneer", "semver", "semver.yaml"]), expected);
    for arguments in [&[] as &[&str], &["-"], &["semver"], &["semver", "-"]] {
        assert_eq!(with_input(&env, arguments, SEMVER), expected, "{arguments:?}");
    }
}

#[test]
fn the_substitutes_template_preserves_a_catalog() {
    let env = TestEnv::new();
    env.file("catalog/c.yaml", SMALL);
    let template = env.stdout(&["alpha", "convert-template", "substitutes", "catalog/c.yaml"]);
    let rendered = with_input(&env, &["substitutes"], &template);
    assert_eq!(rendered, env.opm(&["render", "catalog"]));
}

#[test]
fn invalid_bundles_of_a_template_are_rejected() {
    let env = with_bundles();
    env.file("catalog/c.yaml", SMALL);
    let basic = |image: &str| {
        let template = format!("schema: olm.template.basic\nentries: [{{schema: olm.bundle, image: {image}}}]\n");
        let shown = with_input(&env, &[], &template);
        shown.strip_prefix("exit 1\n--- stdout\n--- stderr\nerror: rendering template: ").unwrap_or(&shown).to_owned()
    };
    insta::assert_snapshot!(basic("bundles/1.0.0"), @r#"
    render reference "bundles/1.0.0": a directory is not allowed in a template; for a bundle directory, write "./bundles/1.0.0"
      --> <stdin>:2:39
    "#);
    insta::assert_snapshot!(basic("./catalog"), @r#"
    render reference "./catalog": a catalog directory is not allowed in a template, only an image or a bundle directory (with 'manifests' and 'metadata')
      --> <stdin>:2:39
    "#);
    insta::assert_snapshot!(basic("./catalog/c.yaml"), @r#"
    render reference "./catalog/c.yaml": a file is not allowed in a template, only an image or a bundle directory
      --> <stdin>:2:39
    "#);
    insta::assert_snapshot!(basic("./nosuch"), @r#"
    render reference "./nosuch": No such file or directory (os error 2)
      --> <stdin>:2:39
    "#);
    let unreachable = basic("127.0.0.1:1/foo:v1");
    assert!(
        unreachable.contains("failed to pull image \"127.0.0.1:1/foo:v1\"") && unreachable.contains("refused"),
        "{unreachable}"
    );
}

#[test]
fn a_template_without_entries_gives_a_warning() {
    let env = TestEnv::new();
    env.file("basic.yaml", "schema: olm.template.basic\nentrys:\n- schema: olm.package\n  name: etcd\n");
    insta::assert_snapshot!(env.opm(&["template", "render", "basic.yaml"]), @r#"
    exit 0
    --- stdout
    --- stderr
    warning: "basic.yaml" renders an empty catalog: it has no `entries`
    "#);
}

#[test]
fn invalid_arguments_are_reported() {
    let env = TestEnv::new();
    env.file("broken.yaml", "schema: olm.semver\nstable: [\n").file("other.yaml", "schema: other\n");
    let shown = |arguments: &[&str]| {
        let shown = env.opm(&[&["alpha", "render-template"], arguments].concat());
        shown
            .strip_prefix("exit 1\n--- stdout\n--- stderr\n")
            .unwrap_or(&shown)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    insta::assert_snapshot!(shown(&["advanced", "other.yaml"]), @r#"error: invalid template type "advanced", must be one of: [basic semver substitutes]"#);
    insta::assert_snapshot!(shown(&["composite"]), @r#"error: unable to open "catalogs.yaml": No such file or directory (os error 2)"#);
    insta::assert_snapshot!(shown(&["nosuch.yaml"]), @r#"error: unable to open "nosuch.yaml": No such file or directory (os error 2)"#);
    insta::assert_snapshot!(shown(&["other.yaml"]), @"error: auto-detecting template type: unknown template schema: other");
    assert!(env.opm(&["template", "render", "other.yaml"]).contains("\n  --> other.yaml:1:9\n"));
    insta::assert_snapshot!(shown(&["basic", "other.yaml"]), @r#"error: rendering template: template has unknown schema ("other"), should be "olm.template.basic""#);
    insta::assert_snapshot!(shown(&["broken.yaml"]), @"error: auto-detecting template type: broken.yaml:3: yaml: did not find expected node content");
    insta::assert_snapshot!(shown(&["semver", "broken.yaml"]), @"error: rendering template: broken.yaml:3: yaml: did not find expected node content");
    insta::assert_snapshot!(shown(&["basic", "other.yaml", "more"]), @"error: unexpected argument 'more' found");
    insta::assert_snapshot!(shown(&["other.yaml", "-o", "dot"]), @"error: invalid value 'dot' for '--output <FORMAT>'");
    insta::assert_snapshot!(shown(&["other.yaml", "--migrate-level", "x9"]), @"error: invalid value 'x9' for '--migrate-level <LEVEL>'");
    insta::assert_snapshot!(shown(&[]), @"error: auto-detecting template type: template input missing required 'schema' field");
}

#[test]
fn directories_are_relative_to_the_template_and_faults_have_lines() {
    let env = with_bundles();
    let template = |entry: &str| {
        format!(
            "schema: olm.template.basic\nentries:\n- schema: olm.package\n  name: foo\n  defaultChannel: stable\n\
             - schema: olm.bundle\n  image: {entry}\n"
        )
    };
    env.file("templates/deep/basic.yaml", template("../../bundles/1.0.0"));
    let rendered = env.stdout(&["template", "render", "basic", "templates/deep/basic.yaml"]);
    assert!(rendered.contains("foo.v1.0.0"), "{rendered}");
    env.file("templates/gone.yaml", template("./nosuch"));
    insta::assert_snapshot!(env.opm(&["template", "render", "basic", "templates/gone.yaml"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: rendering template: render reference "./nosuch": No such file or directory (os error 2)
      --> templates/gone.yaml:7:10
    "#);
    env.file(
        "templates/semver.yaml",
        "schema: olm.semver\ngenerateMajorChannels: true\nstable:\n  bundles:\n  - imag: foo:v1\n",
    );
    insta::assert_snapshot!(env.opm(&["template", "render", "templates/semver.yaml"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: rendering template: render: unknown field "stable.bundles[0].imag", expected one of: image
      --> templates/semver.yaml:5:11
    "#);
}
