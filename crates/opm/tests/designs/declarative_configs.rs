//! Declarative config: the format of file-based catalogs, as it was first defined.

use crate::env::{SMALL, TestEnv};
use crate::{names, run_in};

/// Runs a line, which must succeed, and returns its output.
fn ok(env: &TestEnv, line: &str) -> String {
    let output = run_in(env, line);
    assert!(output.status.success(), "{line}: {}", env.show(output));
    String::from_utf8(output.stdout).expect("text")
}

fn fails(env: &TestEnv, line: &str, reason: &str) {
    let output = run_in(env, line);
    let failed = !output.status.success();
    let shown = env.show(output);
    assert!(failed && shown.contains(reason), "{line}: {shown}");
}

/// Returns the small catalog with a second bundle in channel `stable`.
fn two_bundles() -> String {
    let second = "---\nschema: olm.bundle\nname: foo.v1.1.0\npackage: foo\nimage: registry.example.com/foo:v1.1.0\n\
        properties:\n- type: olm.package\n  value: {packageName: foo, version: 1.1.0}\n";
    SMALL.replace("- name: foo.v1.0.0\n", "- name: foo.v1.0.0\n- name: foo.v1.1.0\n  replaces: foo.v1.0.0\n") + second
}

#[test]
fn motivation_editting() {
    let env = TestEnv::new();
    let text = two_bundles();
    env.file("index/foo.yaml", &text);
    ok(&env, "opm validate index");
    // Promoting an existing bundle to a new channel
    let fast = "---\nschema: olm.channel\npackage: foo\nname: fast\nentries:\n- name: foo.v1.1.0\n";
    env.file("index/foo.yaml", text.clone() + fast);
    ok(&env, "opm validate index");
    // Changing the default channel of a package
    env.file("index/foo.yaml", text.replace("defaultChannel: stable", "defaultChannel: fast") + fast);
    ok(&env, "opm validate index");
    assert!(ok(&env, "opm list packages index").contains("fast"));
    // Adding, updating, or removing upgrade edges
    env.file("index/foo.yaml", text.replace("  replaces: foo.v1.0.0\n", "  skips: [foo.v1.0.0]\n"));
    ok(&env, "opm validate index");
    env.file("index/foo.yaml", text.replace("  replaces: foo.v1.0.0\n", ""));
    fails(&env, "opm validate index", "multiple channel heads");
}

#[test]
fn motivation_composability() {
    let env = TestEnv::new();
    for (index, package) in [("indexA", "foo"), ("indexB", "bar")] {
        for place in [format!("{index}/index.yaml"), format!("indexC/{index}/index.yaml")] {
            env.file(&place, SMALL.replace("foo", package));
        }
        ok(&env, &format!("opm validate {index}"));
    }
    ok(&env, "opm validate indexC");
    let listed = ok(&env, "opm list packages indexC");
    assert!(listed.contains("foo") && listed.contains("bar"), "{listed}");
    assert_eq!(ok(&env, "opm render indexC"), ok(&env, "opm render indexB indexA"));
}

#[test]
fn motivation_extensibility() {
    let env = TestEnv::new();
    env.file("index/foo.yaml", format!("{SMALL}- {{type: example.com/colour, value: {{deep: [red]}}}}\n"))
        .file("index/mine.yaml", "schema: example.com/thing\npackage: foo\nanything: [1, two, {three: 3}]\n");
    ok(&env, "opm validate --strict index");
    let rendered = ok(&env, "opm render index");
    assert!(rendered.contains("example.com/colour") && rendered.contains("\"three\": 3"), "{rendered}");
}

#[test]
fn specification_structure() {
    let env = TestEnv::new();
    let ignore = "# Ignore everything except non-object .json and .yaml files\n**/*\n!*.json\n!*.yaml\n\
        **/objects/*.json\n**/objects/*.yaml\n";
    let object = "- type: olm.bundle.object\n  value: {ref: objects/pkg-b.v0.1.0.clusterserviceversion.yaml}\n";
    let as_json = ok(env.file("made/a.yaml", SMALL.replace("foo", "pkg-c")), "opm render made");
    env.file("index/pkg-a/index.yaml", SMALL.replace("foo", "pkg-a"))
        .file("index/pkg-b/.indexignore", ignore)
        .file("index/pkg-b/README.md", "# No part of the index\n")
        .file("index/pkg-b/index.yaml", SMALL.replace("foo", "pkg-b") + object)
        .file(
            "index/pkg-b/objects/pkg-b.v0.1.0.clusterserviceversion.yaml",
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: pkg-b.v1.0.0}\n",
        )
        .file("index/pkg-c/index.json", as_json);
    ok(&env, "opm validate --strict index");
    // Each sub-directory is an index itself, and can be part of another one.
    for index in ["index/pkg-a", "index/pkg-b", "index/pkg-c"] {
        ok(&env, &format!("opm validate --strict {index}"));
    }
    assert_eq!(names(&env, "index"), ["pkg-a", "pkg-b", "pkg-c"]);
    assert!(ok(&env, "opm render index").contains("olm.bundle.object"));
    env.file("index/pkg-a/notes.txt", "no declarative config\n");
    fails(&env, "opm validate index", "notes.txt");
}

/// A text of the small catalog, its replacement, and a word of the message.
type Change = (&'static str, &'static str, &'static str);

const BUNDLE_END: &str = "    version: 1.0.0\n";

/// Content that the definitions rule out, by heading.
const RULED_OUT: &[(&str, &[Change])] = &[
    (
        "Schema",
        &[
            ("schema: olm.package", "schema: ''", "missing root schema field"),
            (BUNDLE_END, "    version: 1.0.0\n---\nschema: example.com/thing\npackage: ''\n", "package is empty"),
            (BUNDLE_END, "    version: 1.0.0\n---\nschema: example.com/thing\nproperties: {}\n", "not a list"),
            (BUNDLE_END, "    version: 1.0.0\n- {type: '', value: 1}\n", "empty type"),
            (BUNDLE_END, "    version: 1.0.0\n- {type: a, value: null}\n", "value null"),
            (BUNDLE_END, "    version: 1.0.0\n- {type: a}\n", "value is missing"),
        ],
    ),
    (
        "olm.package",
        &[
            ("name: foo\n", "name: ''\n", "package with no name"),
            ("defaultChannel: stable\n", "", "default channel must be set"),
            ("defaultChannel: stable\n", "defaultChannel: stable\nicon: {base64data: aGk=}\n", "icon has no mediatype"),
        ],
    ),
    (
        "olm.bundle",
        &[
            ("image: registry.example.com/foo:v1.0.0\n", "image: ''\n", "image must be set"),
            ("image: registry.example.com/foo:v1.0.0\n", "image: a/b\nrelatedImages: [{image: ''}]\n", "has no image"),
        ],
    ),
    (
        "Properties: olm.package",
        &[
            ("    packageName: foo\n", "    packageName: bar\n", "does not match"),
            (BUNDLE_END, "    version: one\n", "version"),
            (
                BUNDLE_END,
                "    version: 1.0.0\n- {type: olm.package, value: {packageName: foo, version: 1.0.0}}\n",
                "exactly 1",
            ),
        ],
    ),
    (
        "Properties: olm.gvk",
        &[(
            BUNDLE_END,
            "    version: 1.0.0\n- {type: olm.gvk, value: {group: '', version: v1, kind: A}}\n",
            "valid group",
        )],
    ),
    (
        "Properties: olm.package.required",
        &[(
            BUNDLE_END,
            "    version: 1.0.0\n- {type: olm.package.required, value: {packageName: bar, versionRange: x}}\n",
            "invalid range",
        )],
    ),
    (
        "Properties: olm.gvk.required",
        &[(
            BUNDLE_END,
            "    version: 1.0.0\n- {type: olm.gvk.required, value: {group: a.b, version: v1}}\n",
            "valid kind",
        )],
    ),
    (
        "Properties: olm.bundle.object",
        &[
            (BUNDLE_END, "    version: 1.0.0\n- {type: olm.bundle.object, value: {}}\n", "is empty"),
            (BUNDLE_END, "    version: 1.0.0\n- {type: olm.bundle.object, value: {ref: ../../x}}\n", "outside"),
        ],
    ),
];

#[test]
fn content_that_the_definitions_rule_out_is_rejected() {
    for (heading, changes) in RULED_OUT {
        for (from, to, reason) in *changes {
            let env = TestEnv::new();
            let text = SMALL.replacen(from, to, 1);
            assert_ne!(text, SMALL, "{heading}: {from}");
            env.file("index/foo.yaml", text);
            let output = run_in(&env, "opm validate --strict index");
            let failed = !output.status.success();
            let shown = env.show(output);
            assert!(failed && shown.contains(reason), "{heading}: {to}: {shown}");
        }
    }
}

/// A package as in the definitions: channels, skips and skip ranges are properties of bundles.
const FIRST_FORM: &str = "\
schema: olm.package
name: foo
defaultChannel: stable
description: A package
icon: {base64data: PHN2Zz48L3N2Zz4=, mediatype: image/svg+xml}
---
schema: olm.bundle
package: foo
name: foo.v1.0.0
image: registry.example.com/foo:v1.0.0
properties:
- {type: olm.package, value: {packageName: foo, version: 1.0.0}}
- {type: olm.channel, value: {name: stable, replaces: foo.v0.9.0}}
relatedImages:
- {image: registry.example.com/operand:v1, name: operand}
- {image: registry.example.com/other:v1}
---
schema: olm.bundle
package: foo
name: foo.v1.1.0
image: registry.example.com/foo:v1.1.0
properties:
- {type: olm.package, value: {packageName: foo, version: 1.1.0}}
- {type: olm.channel, value: {name: stable, replaces: foo.v1.0.0}}
- {type: olm.channel, value: {name: fast}}
- {type: olm.skips, value: foo.v1.0.1}
- {type: olm.skips, value: foo.v1.0.2}
- {type: olm.skipRange, value: '>=1.0.0 <1.1.0'}
- {type: olm.gvk, value: {group: foo.example.com, version: v1, kind: Foo}}
- {type: olm.gvk.required, value: {group: bar.example.com, version: v1, kind: Bar}}
- {type: olm.package.required, value: {packageName: bar, versionRange: '>=1.0.0'}}
- {type: olm.bundle.object, value: {data: eyJraW5kIjoiQSJ9}}
- {type: olm.bundle.object, value: {ref: objects/b.yaml}}
";

#[test]
fn specification_properties() {
    let env = TestEnv::new();
    env.file("index/foo.yaml", FIRST_FORM)
        .file("index/objects/b.yaml", "kind: B\n")
        .file("index/.indexignore", "objects/\n");
    ok(&env, "opm validate --strict index");
    let channels = ok(&env, "opm list channels index");
    assert!(channels.contains("stable") && channels.contains("fast"), "{channels}");
    let rendered = ok(&env, "opm render index");
    assert!(rendered.contains("\"skipRange\": \">=1.0.0 <1.1.0\"") || rendered.contains("\\u003e=1.0.0"), "{rendered}");
    // "it is invalid to define multiple olm.channel properties for the same channel name"
    let twice = FIRST_FORM.replace("value: {name: fast}}", "value: {name: stable}}");
    env.file("index/foo.yaml", twice);
    fails(&env, "opm validate index", "stable");
    // "It is invalid to include multiple olm.skipRange properties on a bundle."
    let twice = FIRST_FORM.replace("- {type: olm.gvk, ", "- {type: olm.skipRange, value: <1.0.0}\n- {type: olm.gvk, ");
    env.file("index/foo.yaml", twice);
    fails(&env, "opm validate index", "olm.skipRange");
}

#[test]
fn cli() {
    let env = TestEnv::new();
    // opm init
    let package = ok(&env, "opm init foo --default-channel stable -o yaml");
    let rest = SMALL.split_once("---\n").expect("documents").1;
    env.file("index/foo/index.yaml", format!("{package}---\n{rest}"));
    // opm render
    let rendered = ok(&env, "opm render index");
    assert!(rendered.contains("\"defaultChannel\": \"stable\""), "{rendered}");
    // opm validate
    assert_eq!(ok(&env, "opm validate index"), "");
    // opm serve
    ok(&env, "opm serve index --cache-dir cache --cache-only");
    // opm alpha diff
    env.file("newer/foo/index.yaml", two_bundles());
    let new = ok(&env, "opm alpha diff index newer");
    assert!(new.contains("foo.v1.1.0") && !new.contains("foo:v1.0.0"), "{new}");
    // opm alpha generate dockerfile
    ok(&env, "opm alpha generate dockerfile index");
    assert!(env.read("index.Dockerfile").contains("ADD index /configs\n"));
}
