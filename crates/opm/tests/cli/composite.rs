use std::io::{Read, Write};
use std::net::TcpListener;

use crate::env::{SMALL, TestEnv};

const CATALOGS: &str = "\
schema: olm.composite.catalogs
catalogs:
- name: first
  destination: {workingDir: one}
  builders: [olm.builder.basic, olm.builder.custom, olm.builder.raw]
- name: second
  destination: {workingDir: two}
  builders: [olm.builder.semver]
";

const COMPOSITE: &str = "\
schema: olm.composite
components:
- name: first
  destination: {path: foo}
  strategy: {name: basic, template: {schema: olm.builder.basic, config: {input: basic.yaml, output: catalog.yaml}}}
- name: first
  destination: {path: bar}
  strategy: {name: raw, template: {schema: olm.builder.raw, config: {input: small.yaml, output: catalog.yaml}}}
- name: first
  destination: {path: baz}
  strategy: {name: custom, template: {schema: olm.builder.custom, config: {command: cat, args: [made.yaml], output: catalog.yaml}}}
- name: second
  destination: {path: foo}
  strategy: {name: semver, template: {schema: olm.builder.semver, config: {input: semver.yaml, output: catalog.yaml}}}
";

const ARGUMENTS: [&str; 5] = ["alpha", "render-template", "composite", "-c", "contribution/composite.yaml"];

fn prepared() -> TestEnv {
    let env = TestEnv::new();
    env.file(
        "bundle/manifests/csv.yaml",
        "kind: ClusterServiceVersion\nmetadata: {name: foo.v1.0.0}\nspec: {version: 1.0.0}\n",
    );
    env.file(
        "bundle/metadata/annotations.yaml",
        "annotations: {operators.operatorframework.io.bundle.package.v1: foo}\n",
    );
    env.file("catalogs.yaml", CATALOGS).file("contribution/composite.yaml", COMPOSITE);
    // the legacy form of the basic template, next to the composite file.
    env.file(
        "contribution/basic.yaml",
        "schema: olm.package\nname: foo\ndefaultChannel: stable\n---\n\
         {schema: olm.channel, package: foo, name: stable, entries: [{name: foo.v1.0.0}]}\n---\n\
         {schema: olm.bundle, image: ../bundle}\n",
    );
    env.file("contribution/semver.yaml", "schema: olm.semver\nstable: {bundles: [{image: ../bundle}]}\n");
    // It is found in the directory of the catalog first.
    env.file("one/small.yaml", SMALL).file("contribution/small.yaml", "not: a catalog\n");
    env.file("one/made.yaml", SMALL).file("two/keep", "");
    env
}

#[test]
fn catalogs_are_built_from_their_components() {
    let env = prepared();
    let shown = env.opm(&[&ARGUMENTS[..], &["-o", "yaml"]].concat());
    assert_eq!(shown, "exit 0\n--- stdout\n--- stderr\n");
    for (path, start) in [
        ("one/foo/catalog.yaml", "---\ndefaultChannel: stable\nname: foo\n"),
        ("one/bar/catalog.yaml", "---\ndefaultChannel: stable\nname: foo\n"),
        ("two/foo/catalog.yaml", "---\ndefaultChannel: stable-v1.0\nname: foo\n"),
    ] {
        assert!(env.read(path).starts_with(start), "{path}: {}", env.read(path));
    }
    assert_eq!(env.read("one/bar/catalog.yaml"), env.read("one/baz/catalog.yaml"));
    assert_eq!(env.names("one/foo"), ["catalog.yaml"]);
    assert_eq!(env.stdout(&["validate", "one/foo"]), "");
}

#[test]
fn an_invalid_catalog_is_not_written() {
    let env = prepared();
    env.file("two/foo/other.yaml", SMALL);
    let shown = env.opm(&ARGUMENTS);
    assert!(
        shown.starts_with("exit 1\n--- stdout\n--- stderr\nerror: validation failed, two/foo is unchanged:\n"),
        "{shown}"
    );
    assert_eq!(env.names("two/foo"), ["other.yaml"]);
    assert_eq!(env.names("one"), ["made.yaml", "small.yaml"]);
    assert!(!shown.contains("/tmp"), "{shown}");
    let shown = env.opm(&[&ARGUMENTS[..], &["--validate=false"]].concat());
    assert_eq!(shown, "exit 0\n--- stdout\n--- stderr\n");
    assert_eq!(env.names("two/foo"), ["catalog.yaml", "other.yaml"]);
}

#[test]
fn failing_components_change_nothing() {
    let cases = [
        ("args: [made.yaml]", "args: [nosuch.yaml]", "command \"cat\": exit status: 1"),
        ("command: cat", "command: ./nosuch", "command \"./nosuch\": No such file"),
        (
            "input: semver.yaml",
            "input: nosuch.yaml",
            "input \"nosuch.yaml\" not found: neither two/nosuch.yaml nor contribution/nosuch.yaml is a file",
        ),
        ("input: small.yaml", "input: ../contribution/small.yaml", "is missing root schema field"),
        ("path: bar", "path: ../bar", "must be a path below the directory of the catalog"),
        ("name: second\n  dest", "name: third\n  dest", "unknown catalog \"third\""),
    ];
    for (text, other, expected) in cases {
        let env = prepared();
        env.file("contribution/composite.yaml", COMPOSITE.replace(text, other));
        let shown = env.opm(&ARGUMENTS);
        assert!(
            shown.starts_with("exit 1\n--- stdout\n--- stderr\n") && shown.contains(expected),
            "{expected}: {shown}"
        );
        assert_eq!(env.names("one"), ["made.yaml", "small.yaml"]);
        assert_eq!(env.names("two"), ["keep"]);
    }
}

#[test]
fn a_downloaded_catalog_config_cannot_choose_where_to_write() {
    let serve = |text: String| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/catalogs.yaml", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
            stream.write_all((head + &text).as_bytes()).unwrap();
        });
        address
    };
    let env = prepared();
    let shown =
        env.opm(&[&ARGUMENTS[..], &["-f", &serve(CATALOGS.replace("workingDir: two", "workingDir: ../two"))]].concat());
    assert!(shown.contains("must be below the current directory"), "{shown}");
    assert_eq!(env.names("one"), ["made.yaml", "small.yaml"]);
    let shown = env.opm(&[&ARGUMENTS[..], &["-f", &serve(CATALOGS.to_owned())]].concat());
    assert_eq!(shown, "exit 0\n--- stdout\n--- stderr\n");
    let shown = env.opm(&[&ARGUMENTS[..], &["-f", "http://127.0.0.1:1/catalogs.yaml"]].concat());
    assert!(
        shown.starts_with("exit 1\n") && shown.contains("unable to open \"http://127.0.0.1:1/catalogs.yaml\""),
        "{shown}"
    );
}

#[test]
fn flags_of_composite_templates_require_that_type() {
    let env = prepared();
    let shown = env.opm(&["alpha", "render-template", "contribution/semver.yaml", "-f", "catalogs.yaml"]);
    assert!(shown.contains("error: --catalog-config requires the template type composite\n"), "{shown}");
    let shown = env.opm(&["alpha", "render-template", "composite", "more.yaml"]);
    assert!(
        shown.contains("composite templates take no argument \"more.yaml\": pass the files with -c and -f"),
        "{shown}"
    );
    let shown = env.opm(&[&ARGUMENTS[..], &["-o", "mermaid"]].concat());
    assert!(shown.contains("composite templates support only the output formats json and yaml"), "{shown}");
}

#[test]
fn the_first_name_of_the_command_accepts_the_legacy_form_of_the_basic_template() {
    let env = prepared();
    let rendered = env.stdout(&["alpha", "render-veneer", "basic", "contribution/basic.yaml"]);
    assert!(rendered.contains("\"name\": \"foo.v1.0.0\"") && rendered.contains("olm.bundle.object"), "{rendered}");
    assert_eq!(env.stdout(&["alpha", "render-veneer", "contribution/basic.yaml"]), rendered);
    let shown = env.opm(&["alpha", "render-template", "basic", "contribution/basic.yaml"]);
    assert!(shown.contains("template has unknown schema (\"olm.package\")"), "{shown}");
}
