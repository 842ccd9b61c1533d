//! What schemas accept, checked with another validator.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::env::{SMALL, TestEnv, project};

/// Checks each line of standard input, a schema file and a document; prints the numbers of invalid documents.
const VALIDATE: &str = "
import json, sys
from jsonschema import Draft202012Validator
validators = {}
for number, line in enumerate(sys.stdin):
    file, document = json.loads(line)
    if file not in validators:
        schema = json.load(open(file))
        Draft202012Validator.check_schema(schema)
        validators[file] = Draft202012Validator(schema)
    error = next(validators[file].iter_errors(document), None)
    if error is not None:
        print(number, error.json_path, str(error.message)[:200])
";

/// Returns the invalid documents by number, each with a reason.
fn broken(env: &TestEnv, documents: &[(&str, String)]) -> BTreeMap<usize, String> {
    let mut input = String::new();
    for (schema, document) in documents {
        let file = env.path(&format!("{}.schema.json", schema.replace('/', "-")));
        if !file.exists() {
            fs::write(&file, env.stdout(&["schema", schema])).expect("a file");
        }
        input += &format!("[{:?},{document}]\n", file.display().to_string());
    }
    env.file("documents", input);
    let mut command = Command::new("python3");
    command.args(["-c", VALIDATE]).stdin(fs::File::open(env.path("documents")).expect("a file"));
    let output = command.output().expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let lines = text.lines().map(|line| line.split_once(' ').expect("a number and a reason"));
    lines.map(|(number, reason)| (number.parse().expect("a number"), reason.to_owned())).collect()
}

fn in_catalog(documents: Vec<String>) -> Vec<(&'static str, String)> {
    documents.into_iter().map(|document| ("catalog", document)).collect()
}

/// Returns the documents of a catalog, each as JSON.
fn documents(env: &TestEnv, catalog: &Path) -> Vec<String> {
    let text = env.stdout(&["render", &catalog.display().to_string()]);
    let values = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
    values.map(|value| value.expect("JSON").to_string()).collect()
}

fn names(env: &TestEnv) -> Vec<String> {
    env.stdout(&["schema", "--list"]).lines().map(str::to_owned).collect()
}

#[test]
fn schemas_of_the_repository_are_up_to_date() {
    let env = TestEnv::new();
    let names = names(&env);
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let file = match name.strip_prefix("report/") {
            Some(report) => testkit::report_schema(report),
            None => project("schemas").join(format!("{name}.json")),
        };
        let on_disk = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(env.stdout(&["schema", &name]), on_disk, "{name}: run `cargo xtask docs`");
    }
    assert_eq!(env.stdout(&["schema"]), env.stdout(&["schema", "catalog"]));
}

#[test]
fn every_example_matches_its_schema() {
    if !testkit::python_module("jsonschema") {
        return;
    }
    let env = TestEnv::new();
    let mut names = names(&env);
    names.retain(|name| !name.starts_with("report/"));
    let mut examples = Vec::new();
    for name in &names {
        let schema: serde_json::Value = serde_json::from_str(&env.stdout(&["schema", name])).expect("JSON");
        let own = schema.get("examples").or_else(|| schema["$defs"].get(name.replace('/', "-"))?.get("examples"));
        match own.and_then(|examples| examples.as_array()) {
            Some(own) => examples.extend(own.iter().map(|example| (name.as_str(), example.to_string()))),
            None => assert_eq!(name, "catalog"),
        }
    }
    assert_eq!(examples.len() + 1, names.len());
    assert_eq!(broken(&env, &examples), BTreeMap::new());
}

/// Documents that a schema rejects, each for one reason.
const REJECTED: &[(&str, &str)] = &[
    (r#"[]"#, "not an object"),
    (r#"{"name":"foo"}"#, "no schema"),
    (r#"{"schema":"","name":"foo"}"#, "an empty schema"),
    (r#"{"schema":"custom","package":1}"#, "a package that is no text"),
    (r#"{"schema":"olm.package","name":"Foo","defaultChannel":"stable"}"#, "an upper-case name"),
    (r#"{"schema":"olm.package","name":"foo"}"#, "no default channel"),
    (r#"{"schema":"olm.package","name":"foo","defaultChannel":"a","icon":{"base64data":"a-b"}}"#, "bad base64"),
    (r#"{"schema":"olm.channel","package":"foo","name":"stable","entries":[]}"#, "no entries"),
    (r#"{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":1}]}"#, "a name that is no text"),
    (
        r#"{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"skips":["a"]}]}"#,
        "an entry without a name",
    ),
    (r#"{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"a/b","properties":[]}"#, "no version"),
    (
        r#"{"schema":"olm.bundle","package":"foo","name":"foo.v1","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}}]}"#,
        "neither image nor objects",
    ),
    (
        r#"{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"A//b","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}}]}"#,
        "an image that is none",
    ),
    (
        r#"{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"a/b","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0"}}]}"#,
        "a version of two numbers",
    ),
    (
        r#"{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"a/b","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}},{"type":"olm.gvk","value":{"group":1}}]}"#,
        "a group that is no text",
    ),
    (
        r#"{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"a","skips":[""]}]}"#,
        "an empty skip",
    ),
    (
        r#"{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"a","skipRange":"*"}]}"#,
        "no range",
    ),
    (
        r#"{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"a"},{"name":"a"}]}"#,
        "an entry twice",
    ),
    (
        r#"{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"a/b","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0+a","release":"1"}}]}"#,
        "build metadata next to a release",
    ),
    (
        r#"{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"a/b","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}},{"type":"olm.bundle.object","value":{"ref":"a","data":"e30="}}]}"#,
        "an object in two forms",
    ),
    (
        r#"{"schema":"olm.deprecations","package":"foo","entries":[{"reference":{"schema":"olm.package","name":"foo"},"message":"no"}]}"#,
        "a package by its name",
    ),
    (
        r#"{"schema":"olm.deprecations","package":"foo","entries":[{"reference":{"schema":"olm.thing"},"message":"no"}]}"#,
        "a reference to nothing known",
    ),
    (
        r#"{"schema":"olm.deprecations","package":"foo","entries":[{"reference":{"schema":"olm.package"},"message":""}]}"#,
        "an empty message",
    ),
];

#[test]
fn schemas_reject_invalid_documents() {
    if !testkit::python_module("jsonschema") {
        return;
    }
    let env = TestEnv::new();
    let documents = in_catalog(REJECTED.iter().map(|(document, _)| (*document).to_owned()).collect());
    let found = broken(&env, &documents);
    for (number, (document, reason)) in REJECTED.iter().enumerate() {
        assert!(found.contains_key(&number), "{reason}: {document}");
    }
    env.file("catalog/foo.yaml", SMALL);
    let valid = [self::documents(&env, &env.path("catalog")), self::documents(&env, &project("examples/catalog"))];
    assert_eq!(broken(&env, &in_catalog(valid.concat())), BTreeMap::new());
}

#[test]
fn patterns_of_pull_specs_and_versions_match_the_checks() {
    if !testkit::python_module("jsonschema") {
        return;
    }
    let env = TestEnv::new();
    let digest = "a".repeat(64);
    let specs = [
        "z",
        "localhost:5000/x",
        "HOST.com/x",
        "a/b:T_g.1-",
        "a/b__c",
        "a.b_c/x",
        "localhost/x",
        "a:5000/b",
        "1.2.3.4/a/b/c",
        "Host/x",
        "a//b",
        "a/b:",
        "a/b___c",
        "a/-b",
        "a b",
        "x@sha256:abc",
        "[::1]:5000/x",
        "docker://a/b",
        "/a",
        "a/",
        "a_/b",
        &format!("a/b:t@sha256:{digest}"),
        &format!("a@sha512:{digest}"),
        &digest,
        &format!("a:{}", "t".repeat(129)),
        &format!("a/b@sha256:{}", "A".repeat(64)),
        "a-/b",
        "-a/b",
        "a..b/c",
        "a.b-/c",
        "x.-y/c",
        "",
    ];
    let versions = [
        "1.0.0",
        "1.0",
        "v1.0.0",
        "01.0.0",
        "1.0.0-rc.1",
        "1.0.0-01",
        "1.0.0-",
        "1.0.0+a",
        "1.0.0+",
        "1.0.0-a.0b+c",
        "",
        "1.0.0 ",
    ];
    let bundle = |image: &str, version: &str| {
        serde_json::json!({"schema": "olm.bundle", "package": "foo", "name": "foo.v1", "image": image, "properties": [
            {"type": "olm.package", "value": {"packageName": "foo", "version": version}},
            {"type": "olm.bundle.object", "value": {"data": "e30="}},
        ]})
    };
    let cases: Vec<(String, bool)> =
        specs
            .iter()
            .map(|spec| (bundle(spec, "1.0.0").to_string(), fbc::pull_spec::check(spec).is_ok()))
            .chain(versions.iter().map(|version| {
                (bundle("a/b", version).to_string(), fbc::version::Version::parse_strict(version).is_ok())
            }))
            .collect();
    let found = broken(&env, &in_catalog(cases.iter().map(|(document, _)| document.clone()).collect()));
    for (number, (document, valid)) in cases.iter().enumerate() {
        assert_eq!(*valid, !found.contains_key(&number), "{document}");
    }
}

#[test]
fn a_large_catalog_matches_the_schema() {
    let Some(catalog) = std::env::var_os("OPM_SCHEMA_CATALOG").map(PathBuf::from) else {
        return testkit::skipped("OPM_SCHEMA_CATALOG names no catalog to validate, which takes minutes");
    };
    if !testkit::python_module("jsonschema") {
        return;
    }
    let env = TestEnv::new();
    let documents = documents(&env, &catalog);
    assert!(!documents.is_empty());
    assert_eq!(broken(&env, &in_catalog(documents)), BTreeMap::new());
}

#[test]
fn templates_and_include_files_are_checked_too() {
    if !testkit::python_module("jsonschema") {
        return;
    }
    let env = TestEnv::new();
    let cases = [
        ("olm.semver", r#"{"schema":"olm.semver","GenerateMajorChannels":true,"Stable":{"Bundles":[]}}"#, true),
        ("olm.semver", r#"{"schema":"olm.semver","generateMajorChannel":true}"#, false),
        ("olm.semver", r#"{"schema":"olm.semver","stable":{"bundles":[{"name":"a"}]}}"#, false),
        ("olm.semver", r#"{"schema":"olm.semver","defaultChannelTypePreference":"patch"}"#, false),
        (
            "olm.template.basic",
            r#"{"schema":"olm.template.basic","entries":[{"schema":"olm.bundle","image":"a","package":"foo"}]}"#,
            false,
        ),
        ("olm.template.substitutes", r#"{"schema":"olm.template.substitutes","substitutions":[{"name":"a"}]}"#, false),
        ("olm.composite", r#"{"schema":"olm.composite","components":[]}"#, false),
        ("olm.composite.catalogs", r#"{"schema":"olm.composite.catalogs","catalogs":[{"name":"a"}]}"#, false),
        ("include", r#"{"packages":[{"name":"foo","range":">=1.0.0"}]}"#, true),
        ("include", r#"{"packages":[{"name":"foo","range":">=1.0.0","versions":["1.0.0"]}]}"#, false),
        ("include", r#"{"packages":[]}"#, false),
        (
            "property/olm.constraint",
            r#"{"not":{"constraints":[{"gvk":{"group":"a","version":"v1","kind":"A"}}]}}"#,
            true,
        ),
        ("property/olm.constraint", r#"{"not":{"constraints":[{"some":1}]}}"#, false),
    ];
    let documents: Vec<(&str, String)> =
        cases.iter().map(|(schema, document, _)| (*schema, (*document).into())).collect();
    let found = broken(&env, &documents);
    for (number, (schema, document, valid)) in cases.iter().enumerate() {
        assert_eq!(*valid, !found.contains_key(&number), "{schema}: {document}: {:?}", found.get(&number));
    }
}

#[test]
fn files_can_refer_to_their_schema_for_editors() {
    let env = TestEnv::new();
    env.file("catalog.yaml", SMALL);
    let line = "# yaml-language-server: $schema=schemas/catalog.json\n---\ndefaultChannel: stable\n";
    let init = ["init", "foo", "-c", "stable", "-o", "yaml"];
    let with = env.stdout(&[&init[..], &["--editor-schema", "schemas/catalog.json"]].concat());
    assert!(with.starts_with(line), "{with}");
    assert_eq!(with.strip_prefix("# yaml-language-server: $schema=schemas/catalog.json\n").unwrap(), env.stdout(&init));
    let template = env.stdout(&[
        "alpha",
        "convert-template",
        "basic",
        "catalog.yaml",
        "-o",
        "yaml",
        "--editor-schema",
        "olm.template.basic.json",
    ]);
    assert!(template.starts_with("# yaml-language-server: $schema=olm.template.basic.json\n---\n"), "{template}");
    // A file that starts with the comment loads like any other.
    env.file(
        "made/foo.yaml",
        SMALL.replacen("schema: olm.package", "# yaml-language-server: $schema=x\nschema: olm.package", 1),
    );
    assert_eq!(env.opm(&["validate", "made"]), "exit 0\n--- stdout\n--- stderr\n");
    let shown = env.opm(&["init", "foo", "--editor-schema", "x"]);
    assert!(shown.starts_with("exit 1") && shown.contains("requires -o yaml"), "{shown}");
    let shown = env.opm(&["init", "foo", "-o", "yaml", "--editor-schema", "x\nname: y"]);
    assert!(shown.starts_with("exit 1") && shown.contains("without spaces"), "{shown}");
}

#[test]
fn fields_and_rules_are_explained() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.opm(&["explain", "olm.chanel"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: no field, schema, property or rule is named "olm.chanel"
    help: did you mean "olm.channel"?
    "#);
    assert!(env.stdout(&["explain", "olm.channel.entries.skipRange"]).contains("upgrade to this bundle directly"));
    assert!(
        env.stdout(&["explain", "channel-single-head"]).contains("Make the newest entry replace or skip the others")
    );
    assert!(env.stdout(&["explain", ".indexignore"]).contains(".gitignore"));
    assert!(env.opm(&["explain", ".indexignor"]).contains("did you mean \".indexignore\"?"));
    let overview = env.stdout(&["explain"]);
    for rule in catalog::rules::RULES {
        assert!(overview.contains(&format!("\n  {} ", rule.name)), "{}", rule.name);
        assert!(env.stdout(&["explain", rule.name]).contains("To fix it:"), "{}", rule.name);
    }
}
