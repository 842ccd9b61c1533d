//! `validate --strict`: for each rule a catalog that violates it and one that does not.

use std::process::Command;

use crate::env::{SMALL, TestEnv};

/// A rule, a change that violates it, and the position of the problem.
struct Case {
    rule: &'static str,
    /// A text of the valid catalog, and its replacement.
    breaks: (&'static str, &'static str),
    line: &'static str,
    /// A valid replacement.
    passes: &'static str,
}

const VERSION: &str = "    version: 1.0.0\n";
const ENTRY: &str = "- name: foo.v1.0.0\n";
const IMAGE: &str = "image: registry.example.com/foo:v1.0.0\n";
const DEFAULT: &str = "defaultChannel: stable\n";
const END: &str = "schema: olm.bundle\n";

const CASES: &[Case] = &[
    Case {
        rule: "gvk-fields",
        breaks: (VERSION, "    version: 1.0.0\n- {type: olm.gvk, value: {group: Example, kind: Foo, version: v1}}\n"),
        line: "20:34",
        passes: "    version: 1.0.0\n- {type: olm.gvk, value: {group: example.com, kind: Foo, version: v1}}\n",
    },
    Case {
        rule: "gvk-fields",
        breaks: (
            VERSION,
            "    version: 1.0.0\n- {type: olm.gvk.required, value: {group: a.b, kind: foo, version: v1}}\n",
        ),
        line: "20:54",
        passes: "    version: 1.0.0\n- {type: olm.gvk.required, value: {group: a.b, kind: Foo, version: v1}}\n",
    },
    Case {
        rule: "required-package",
        breaks: (
            VERSION,
            "    version: 1.0.0\n- {type: olm.package.required, value: {packageName: bar, versionRange: newest}}\n",
        ),
        line: "20:72",
        passes: "    version: 1.0.0\n- {type: olm.package.required, value: {packageName: bar, versionRange: '>=1.0.0'}}\n",
    },
    Case {
        rule: "related-image-empty",
        breaks: (IMAGE, "image: registry.example.com/foo:v1.0.0\nrelatedImages:\n- name: operand\n"),
        line: "16:3",
        passes: "image: registry.example.com/foo:v1.0.0\nrelatedImages:\n- {name: '', image: registry.example.com/bar:v1}\n",
    },
    Case {
        rule: "null-value",
        breaks: (ENTRY, "- name: foo.v1.0.0\n  skips: ~\n"),
        line: "10:10",
        passes: "- name: foo.v1.0.0\n  skips: []\n",
    },
    Case {
        rule: "null-value",
        breaks: (DEFAULT, "defaultChannel: stable\ndescription:\n"),
        line: "4:13",
        passes: "defaultChannel: stable\ndescription: ''\n",
    },
    Case {
        rule: "null-value",
        breaks: (VERSION, "    version: 1.0.0\n    release: null\n"),
        line: "20:14",
        passes: "    version: 1.0.0\n    release: ''\n",
    },
    Case {
        rule: "property-shape",
        breaks: (DEFAULT, "defaultChannel: stable\nproperties:\n- type: example.com/colour\n"),
        line: "5:3",
        passes: "defaultChannel: stable\nproperties:\n- {type: example.com/colour, value: red}\n",
    },
    Case {
        rule: "property-shape",
        breaks: (VERSION, "    version: 1.0.0\n- {type: example.com/colour, value: null}\n"),
        line: "20:3",
        passes: "    version: 1.0.0\n- {type: example.com/colour, value: {deep: null}}\n",
    },
    Case {
        rule: "properties-list",
        breaks: (END, "schema: example.com/thing\nproperties: {}\n---\nschema: olm.bundle\n"),
        line: "12:13",
        passes: "schema: example.com/thing\nproperties: []\n---\nschema: olm.bundle\n",
    },
    Case {
        rule: "empty-names",
        breaks: (ENTRY, "- name: foo.v1.0.0\n  replaces: ''\n"),
        line: "10:13",
        passes: "- name: foo.v1.0.0\n  replaces: foo.v0.9.0\n",
    },
    Case {
        rule: "empty-names",
        breaks: (END, "schema: example.com/thing\npackage: ''\n---\nschema: olm.bundle\n"),
        line: "12:10",
        passes: "schema: example.com/thing\npackage: bar\n---\nschema: olm.bundle\n",
    },
    Case {
        rule: "bundle-object-empty",
        breaks: (VERSION, "    version: 1.0.0\n- {type: olm.bundle.object, value: {data: ''}}\n"),
        line: "20:3",
        passes: "    version: 1.0.0\n- {type: olm.bundle.object, value: {data: e30=}}\n",
    },
    Case {
        rule: "bundle-image-required",
        breaks: (IMAGE, "relatedImages: []\n"),
        line: "12:7",
        passes: "image: registry.example.com/foo:v1.0.0\n",
    },
    Case {
        rule: "first-form-properties",
        breaks: (VERSION, "    version: 1.0.0\n- {type: olm.channel, value: {name: stable, replaces: ''}}\n"),
        line: "20:55",
        passes: "    version: 1.0.0\n- {type: olm.channel, value: {name: stable, replaces: foo.v0.9.0}}\n",
    },
    Case {
        rule: "first-form-properties",
        breaks: (VERSION, "    version: 1.0.0\n- {type: olm.skips, value: ''}\n"),
        line: "20:28",
        passes: "    version: 1.0.0\n- {type: olm.skips, value: foo.v0.9.0}\n",
    },
    Case {
        rule: "first-form-properties",
        breaks: (VERSION, "    version: 1.0.0\n- {type: olm.skipRange, value: old}\n"),
        line: "20:32",
        passes: "    version: 1.0.0\n- {type: olm.skipRange, value: <1.0.0}\n",
    },
    Case {
        rule: "icon-fields",
        breaks: (DEFAULT, "defaultChannel: stable\nicon: {base64data: aGk=}\n"),
        line: "4:7",
        passes: "defaultChannel: stable\nicon: {base64data: aGk=, mediatype: image/png}\n",
    },
    Case {
        rule: "unknown-fields",
        breaks: (DEFAULT, "defaultChannel: stable\nvendor: me\n"),
        line: "4:9",
        passes: "defaultChannel: stable\ndescription: me\n",
    },
    Case {
        rule: "unknown-fields",
        breaks: (ENTRY, "- name: foo.v1.0.0\n  skip: [foo.v0.9.0]\n"),
        line: "10:9",
        passes: "- name: foo.v1.0.0\n  skips: [foo.v0.9.0]\n",
    },
    Case {
        rule: "unknown-fields",
        breaks: (VERSION, "    version: 1.0.0\n- {type: a.b, value: {}, vlaue: 1}\n"),
        line: "20:33",
        passes: "    version: 1.0.0\n- {type: a.b, value: {vlaue: 1}}\n",
    },
    Case {
        rule: "unknown-fields",
        breaks: (
            IMAGE,
            "image: registry.example.com/foo:v1.0.0\nrelatedImages: [{name: a, image: registry.example.com/a:v1, digest: x}]\n",
        ),
        line: "15:69",
        passes: "image: registry.example.com/foo:v1.0.0\nrelatedImages: [{name: a, image: registry.example.com/a:v1}]\n",
    },
    Case {
        rule: "unknown-fields",
        breaks: (
            END,
            "schema: olm.deprecations\npackage: foo\nentries:\n- {reference: {schema: olm.package}, mesage: m, message: m}\n---\nschema: olm.bundle\n",
        ),
        line: "14:46",
        passes: "schema: olm.deprecations\npackage: foo\nentries:\n- {reference: {schema: olm.package}, message: m}\n---\nschema: olm.bundle\n",
    },
    Case {
        rule: "schema-reserved",
        breaks: (END, "schema: olm.thing\n---\nschema: olm.bundle\n"),
        line: "11:9",
        passes: "schema: example.com/thing\n---\nschema: olm.bundle\n",
    },
];

/// The object that a bundle must have for the rule to apply.
const CARRIED: &str = "\
- type: olm.bundle.object
  value: {data: e30=}
";

#[test]
fn a_strict_check_rejects_content_that_is_tolerated_otherwise() {
    for case in CASES {
        let env = TestEnv::new();
        let small = if case.rule == "bundle-image-required" { format!("{SMALL}{CARRIED}") } else { SMALL.to_owned() };
        let (from, to) = case.breaks;
        assert!(small.contains(from), "{}: {from}", case.rule);
        env.file("bad/foo.yaml", small.replacen(from, to, 1))
            .file("good/foo.yaml", small.replacen(from, case.passes, 1));

        let shown = env.opm(&["validate", "bad", "--strict"]);
        assert!(shown.starts_with("exit 1\n"), "{}: {shown}", case.rule);
        let place = format!("--> bad/foo.yaml:{} [{}]", case.line, case.rule);
        assert!(shown.contains(&place), "{place}: {shown}");
        assert_eq!(shown.matches("--> ").count(), 1, "{}: {shown}", case.rule);

        for arguments in [["validate", "bad"], ["validate", "bad/"]] {
            assert_eq!(env.opm(&arguments), "exit 0\n--- stdout\n--- stderr\n", "{}", case.rule);
        }
        let warned = env.opm(&["validate", "bad", "--warnings"]);
        assert!(warned.starts_with("exit 0\n") && warned.contains(&place), "{}: {warned}", case.rule);
        assert_eq!(env.opm(&["validate", "good", "--strict"]), "exit 0\n--- stdout\n--- stderr\n", "{}", case.rule);
    }
}

#[test]
fn every_strict_rule_has_a_case() {
    for rule in catalog::rules::STRICT {
        assert!(CASES.iter().any(|case| case.rule == rule.name), "{}", rule.name);
    }
}

#[test]
fn a_strict_check_shows_warnings_on_request() {
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", SMALL.replace(DEFAULT, "defaultChannel: stable\nicon: {base64data: ''}\n"));
    let shown = env.opm(&["validate", "catalog", "--strict"]);
    assert!(shown.contains("[icon-fields]") && !shown.contains("[icon-is-image]"), "{shown}");
    let shown = env.opm(&["validate", "catalog", "--strict", "--warnings"]);
    assert!(
        shown.contains("[icon-fields]") && shown.contains("warning: package \"foo\": icon data is empty"),
        "{shown}"
    );
    let shown = env.opm(&["validate", "catalog", "--strict", "-o", "json"]);
    assert!(shown.contains("\"passed\": false"), "{shown}");
}

#[test]
fn on_a_terminal_a_valid_catalog_is_reported() {
    if !testkit::installed("script") {
        return;
    }
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", SMALL);
    let on_terminal = |line: &str| {
        let output = Command::new("script")
            .args(["-qec", line, "/dev/null"])
            .current_dir(env.path(""))
            .stdin(std::process::Stdio::null())
            .output()
            .expect("script runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let opm = env!("CARGO_BIN_EXE_opm");
    assert_eq!(on_terminal(&format!("{opm} validate catalog")), "No errors found\r\n");
    assert_eq!(on_terminal(&format!("{opm} validate catalog 2>/dev/null")), "");
    assert_eq!(on_terminal(&format!("{opm} validate catalog >out")), "No errors found\r\n");
    assert_eq!(env.read("out"), "", "the message went to stdout");
    assert!(!on_terminal(&format!("{opm} validate catalog -o json")).contains("No errors"));
}
