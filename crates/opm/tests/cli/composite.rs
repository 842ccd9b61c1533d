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
    // The first form of the basic template, beside the composite file.
    env.file(
        "contribution/basic.yaml",
        "schema: olm.package\nname: foo\ndefaultChannel: stable\n---\n\
         {schema: olm.channel, package: foo, name: stable, entries: [{name: foo.v1.0.0}]}\n---\n\
         {schema: olm.bundle, image: ../bundle}\n",
    );
    env.file("contribution/semver.yaml", "schema: olm.semver\nstable: {bundles: [{image: ../bundle}]}\n");
    // Found in the directory of the catalog before that.
    env.file("one/small.yaml", SMALL).file("contribution/small.yaml", "not: a catalog\n");
    env.file("one/made.yaml", SMALL).file("two/keep", "");
    env
}

#[test]
fn catalogs_are_made_of_their_components() {
    let env = prepared();
    let told = env.opm(&[&ARGUMENTS[..], &["-o", "yaml"]].concat());
    assert_eq!(told, "exit 0\n--- stdout\n--- stderr\n");
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
fn nothing_appears_when_a_catalog_is_not_valid() {
    let env = prepared();
    env.file("two/foo/other.yaml", SMALL);
    let told = env.opm(&ARGUMENTS);
    assert!(
        told.starts_with("exit 1\n--- stdout\n--- stderr\nerror: validation failed, two/foo is unchanged:\n"),
        "{told}"
    );
    assert_eq!(env.names("two/foo"), ["other.yaml"]);
    assert_eq!(env.names("one"), ["made.yaml", "small.yaml"]);
    assert!(!told.contains("/tmp"), "{told}");
    let told = env.opm(&[&ARGUMENTS[..], &["--validate=false"]].concat());
    assert_eq!(told, "exit 0\n--- stdout\n--- stderr\n");
    assert_eq!(env.names("two/foo"), ["catalog.yaml", "other.yaml"]);
}

#[test]
fn components_that_cannot_be_made_leave_everything_as_it_is() {
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
        let told = env.opm(&ARGUMENTS);
        assert!(told.starts_with("exit 1\n--- stdout\n--- stderr\n") && told.contains(expected), "{expected}: {told}");
        assert_eq!(env.names("one"), ["made.yaml", "small.yaml"]);
        assert_eq!(env.names("two"), ["keep"]);
    }
}

#[test]
fn the_catalogs_may_come_from_the_web_but_not_say_where_to_write() {
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
    let told =
        env.opm(&[&ARGUMENTS[..], &["-f", &serve(CATALOGS.replace("workingDir: two", "workingDir: ../two"))]].concat());
    assert!(told.contains("must be below the current directory"), "{told}");
    assert_eq!(env.names("one"), ["made.yaml", "small.yaml"]);
    let told = env.opm(&[&ARGUMENTS[..], &["-f", &serve(CATALOGS.to_owned())]].concat());
    assert_eq!(told, "exit 0\n--- stdout\n--- stderr\n");
    let told = env.opm(&[&ARGUMENTS[..], &["-f", "http://127.0.0.1:1/catalogs.yaml"]].concat());
    assert!(
        told.starts_with("exit 1\n") && told.contains("unable to open \"http://127.0.0.1:1/catalogs.yaml\""),
        "{told}"
    );
}

#[test]
fn flags_of_composite_templates_are_for_those_alone() {
    let env = prepared();
    let told = env.opm(&["alpha", "render-template", "contribution/semver.yaml", "-f", "catalogs.yaml"]);
    assert!(told.contains("error: --catalog-config requires the template type composite\n"), "{told}");
    let told = env.opm(&["alpha", "render-template", "composite", "more.yaml"]);
    assert!(
        told.contains("composite templates take no argument \"more.yaml\": pass the files with -c and -f"),
        "{told}"
    );
    let told = env.opm(&[&ARGUMENTS[..], &["-o", "mermaid"]].concat());
    assert!(told.contains("composite templates support only the output formats json and yaml"), "{told}");
}

#[test]
fn the_first_form_of_the_basic_template_has_the_first_name_of_the_command() {
    let env = prepared();
    let rendered = env.stdout(&["alpha", "render-veneer", "basic", "contribution/basic.yaml"]);
    assert!(rendered.contains("\"name\": \"foo.v1.0.0\"") && rendered.contains("olm.bundle.object"), "{rendered}");
    assert_eq!(env.stdout(&["alpha", "render-veneer", "contribution/basic.yaml"]), rendered);
    let told = env.opm(&["alpha", "render-template", "basic", "contribution/basic.yaml"]);
    assert!(told.contains("template has unknown schema (\"olm.package\")"), "{told}");
}
