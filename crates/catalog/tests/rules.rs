//! Rules from the outside: a catalog in, its problems out.

use catalog::{Warnings, check, inspect, tree};
use fbc::json::Raw;
use fbc::{Fbc, Limits, LoadReport, Problem, ProblemSeverity};

/// Returns the problems of a catalog, given as one JSON object per line.
fn problems(blobs: &str, warnings: Warnings) -> Vec<Problem> {
    let mut fbc = Fbc::default();
    let mut loaded = LoadReport::default();
    let inspect_options = inspect(warnings);
    for text in blobs.lines().map(str::trim).filter(|line| !line.is_empty()) {
        fbc.add_generated(text, &Limits::default()).unwrap();
        let raw = Raw::parse(text, 100).unwrap();
        inspect_options(fbc.blobs().last().unwrap(), raw, &mut loaded.problems);
    }
    let checked = check(&fbc, loaded, warnings);
    let valid = checked.errors().next().is_none();
    assert_eq!(valid, checked.catalog.is_ok(), "a catalog exists exactly if there are no errors");
    checked.into_problems()
}

/// Returns the errors of a catalog as `opm validate` prints them.
fn errors(blobs: &str) -> String {
    let problems = problems(blobs, Warnings::Off);
    tree::message(problems.iter().filter(|problem| problem.severity == ProblemSeverity::Error))
}

/// Returns a bundle of package `foo`.
fn bundle(name: &str, version: &str) -> String {
    format!(
        r#"{{"schema":"olm.bundle","name":"{name}","package":"foo","image":"r.io/foo/b:{name}","properties":[{{"type":"olm.package","value":{{"packageName":"foo","version":"{version}"}}}}]}}"#
    )
}

const PACKAGE: &str = r#"{"schema":"olm.package","name":"foo","defaultChannel":"stable"}"#;

/// Returns a catalog with one channel, from entries like `v2 replaces v1 skips v0,v3 range <2.0.0`.
fn channel(entries: &str) -> String {
    let mut blobs = String::from(PACKAGE);
    let mut list = Vec::new();
    for entry in entries.split(';').map(str::trim) {
        let mut words = entry.split_whitespace();
        let name = words.next().unwrap();
        let number = name.trim_start_matches('v');
        blobs += &format!("\n{}", bundle(name, &format!("{number}.0.0")));
        let mut fields = format!(r#""name":"{name}""#);
        while let Some(word) = words.next() {
            let value = words.next().unwrap();
            fields += &match word {
                "replaces" => format!(r#","replaces":"{value}""#),
                "skips" => format!(r#","skips":["{}"]"#, value.replace("''", "").replace(',', "\",\"")),
                "range" => format!(r#","skipRange":"{value}""#),
                other => panic!("{other}"),
            };
        }
        list.push(format!("{{{fields}}}"));
    }
    format!(
        "{blobs}\n{{\"schema\":\"olm.channel\",\"name\":\"stable\",\"package\":\"foo\",\"entries\":[{}]}}",
        list.join(",")
    )
}

/// Returns the innermost message about a channel, or `ok`.
fn verdict(entries: &str) -> String {
    match errors(&channel(entries)) {
        text if text.is_empty() => "ok".into(),
        text => text.lines().last().unwrap().trim_start_matches([' ', '└', '─', '├', '│']).into(),
    }
}

#[test]
fn a_channel_has_one_head_that_reaches_every_entry() {
    assert_eq!(verdict("v1"), "ok");
    assert_eq!(verdict("v1; v2 replaces v1"), "ok");
    assert_eq!(verdict("v1; v2"), "multiple channel heads found in graph: v1, v2");
    assert_eq!(verdict("v1 replaces v1"), "no channel head found in graph");
    assert_eq!(verdict("v1 replaces v2; v2 replaces v1"), "no channel head found in graph");
    assert_eq!(
        verdict("v1 replaces v2; v2 replaces v1; v3 replaces v2"),
        "detected cycle in replaces chain of upgrade graph: v2 -> v1 -> v2"
    );
    assert_eq!(
        verdict("v1; v2 replaces v1; v3 replaces x skips v2"),
        "channel contains one or more stranded bundles: v1"
    );
    assert_eq!(
        verdict("v1; v2 replaces v1; v3 replaces v2 skips v2"),
        "channel contains one or more stranded bundles: v1"
    );
    assert_eq!(verdict("v1; v2 replaces v1; v3 replaces v1 skips v2"), "ok");
    assert_eq!(verdict("v1; v2 replaces v1; v3 replaces v1"), "multiple channel heads found in graph: v2, v3");
    assert_eq!(verdict("v1 replaces v0"), "ok");
    assert_eq!(verdict("v1; v2 replaces nope"), "multiple channel heads found in graph: v1, v2");
    assert_eq!(verdict("v1 skips v1"), "no channel head found in graph");
    assert_eq!(verdict("v1 skips ''"), "skip[0] is empty");
    assert_eq!(verdict("v1; v2 range <2.0.0"), "multiple channel heads found in graph: v1, v2");
    assert_eq!(verdict("v1 skips v2; v2 skips v1; v3"), "ok");
    assert_eq!(verdict("v1; v2 replaces v1 skips v1"), "ok");
    assert_eq!(verdict("v1 range from"), "invalid skipRange \"from\": Could not get version from string: \"from\"");
}

#[test]
fn all_problems_are_reported_as_lines_and_as_a_tree() {
    let blobs = r#"
        {"schema":"olm.package","name":"foo"}
        {"schema":"olm.channel","name":"stable","package":"foo","entries":[{"name":"a","skips":[""]},{"name":"b"},{"name":"gone"}]}
        {"schema":"olm.channel","name":"empty","package":"foo","entries":[]}
        {"schema":"olm.bundle","name":"a","package":"foo","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}}]}
        {"schema":"olm.bundle","name":"b","package":"foo","image":"Not/Valid","properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0"}}]}
        {"schema":"olm.bundle","name":"c","package":"foo","image":"r.io/c:1","properties":[{"type":"olm.gvk","value":"text"}]}
        {"schema":"olm.deprecations","package":"foo","entries":[{"reference":{"schema":"olm.bundle","name":"z"},"message":"m"},{"reference":{"schema":"olm.channel","name":"empty"},"message":""}]}
    "#;
    insta::assert_snapshot!(errors(blobs), @r#"
    parse properties for bundle "c": parse property[0] of type "olm.gvk": json: cannot unmarshal string into field "properties[0].value" of type object
    package "foo" bundle "c" must have exactly 1 "olm.package" property, found 0
    package "foo" bundle "b" image: invalid image pull spec "Not/Valid": invalid reference format: repository name must be lowercase
    error parsing bundle "b" version "1.0": No Major.Minor.Patch elements found
    package "foo", bundle "c" not found in any channel entries
    no olm.bundle blobs found in package "foo" for olm.channel entries [gone]
    cannot deprecate bundle "z" for package "foo": bundle not found
    invalid index:
    └── invalid package "foo":
        ├── default channel must be set
        ├── invalid channel "empty":
        │   ├── channel must contain at least one bundle
        │   └── invalid deprecation: message must be set
        └── invalid channel "stable":
            ├── multiple channel heads found in graph: a, b, gone
            └── invalid bundle "a":
                ├── skip[0] is empty
                └── bundle image must be set
    "#);
}

#[test]
fn similar_names_are_suggested() {
    let blobs = format!(
        "{PACKAGE}\n{}\n{}",
        bundle("foo.v1.0.0", "1.0.0"),
        r#"{"schema":"olm.channel","name":"stabel","package":"foo","entries":[{"name":"foo.v1.0.O"}]}"#
    );
    let helps: Vec<String> = problems(&blobs, Warnings::Off).into_iter().filter_map(|problem| problem.help).collect();
    assert!(helps.contains(&"did you mean \"foo.v1.0.0\"?".to_owned()), "{helps:?}");
    assert!(helps.contains(&"did you mean \"stabel\"?".to_owned()), "{helps:?}");
}

#[test]
fn versions_of_a_package_are_unique_except_for_build_metadata() {
    let two = |a: &str, b: &str| {
        errors(&format!(
            "{PACKAGE}\n{}\n{}\n{}",
            bundle("a", a),
            bundle("b", b),
            r#"{"schema":"olm.channel","name":"stable","package":"foo","entries":[{"name":"a"},{"name":"b","replaces":"a"}]}"#
        ))
    };
    assert!(two("1.0.0", "1.0.0").ends_with("duplicate versions found in bundles: [{1.0.0: [a, b]}]"));
    assert_eq!(two("1.0.0+a", "1.0.0+b"), "");
}

#[test]
fn package_names_are_dns_labels() {
    let named = |name: &str| errors(&format!(r#"{{"schema":"olm.package","name":"{name}","defaultChannel":"x"}}"#));
    assert!(named("foo.bar").contains("invalid package name \"foo.bar\": [must not contain dots]"));
    assert!(named("Foo").contains("a lowercase RFC 1123 label"));
    assert!(named(&"a".repeat(64)).contains("[must be no more than 63 characters]"));
    assert!(!named("a-1").contains("invalid package name"));
}

#[test]
fn the_name_of_a_bundle_contains_its_release() {
    let with = |name: &str, version: &str, release: &str| {
        let blobs = format!(
            "{PACKAGE}\n{{\"schema\":\"olm.channel\",\"name\":\"stable\",\"package\":\"foo\",\"entries\":[{{\"name\":\"{name}\"}}]}}\n\
             {{\"schema\":\"olm.bundle\",\"name\":\"{name}\",\"package\":\"foo\",\"image\":\"a/b:c\",\"properties\":[\
             {{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"foo\",\"version\":\"{version}\",\"release\":\"{release}\"}}}}]}}"
        );
        errors(&blobs)
    };
    assert_eq!(with("foo-v1.0.0-1", "1.0.0", "1"), "");
    assert!(with("foo.v1", "1.0.0", "1").contains("does not match normalized name \"foo-v1.0.0-1\""));
    assert!(with("foo-v1.0.0+b-1", "1.0.0+b", "1").contains("cannot use build metadata"));
    assert!(with("foo-v1.0.0-01", "1.0.0", "01").contains("release version \"01\""));
}

#[test]
fn warnings_report_suspicious_content() {
    let blobs = format!(
        "{}\n{}",
        r#"{"schema":"olm.package","name":"foo","defaultChannel":"stable","icon":{"base64data":"aGk=","mediatype":"image/png"},"colour":"red"}"#,
        r#"{"schema":"olm.bundle","name":"v3","package":"foo","image":"a/b:c","relatedImages":[{"name":"x","image":""}],"properties":[
            {"type":"olm.package","value":{"packageName":"foo","version":"3.0.0"}},{"type":"olm.gvk","value":{"group":"G","kind":"k","version":"v1"}},
            {"type":"","value":null},{"type":"olm.package.required","value":{"packageName":"","versionRange":"nope"}},
            {"type":"olm.csv.metadata","value":{}},{"type":"olm.csv.metadata","value":{}}]}"#
            .replace('\n', "")
    ) + &channel("v1 range !=1.2.x; v2 replaces v1; v4 replaces v2")
        .replace(PACKAGE, "")
        .replace(r#""replaces":"v2""#, r#""replaces":"v2","skips":["v3"]"#)
        .replace(r#"{"name":"v1""#, r#"{"name":"v3","replaces":"v4"},{"name":"v1""#)
        + "\n{\"schema\":\"olm.thing\"}";
    let problems = problems(&blobs, Warnings::On);
    let mut rules: Vec<&str> = problems
        .iter()
        .filter(|problem| problem.severity == ProblemSeverity::Warning)
        .map(|problem| problem.rule)
        .collect();
    rules.sort_unstable();
    rules.dedup();
    assert_eq!(
        rules,
        [
            "csv-metadata-once",
            "gvk-fields",
            "icon-is-image",
            "property-shape",
            "related-image-empty",
            "replaces-newer",
            "required-package",
            "schema-reserved",
            "skip-range-surprise",
            "skips-acyclic",
            "unknown-fields",
        ]
    );
}

#[test]
fn a_head_without_metadata_gets_a_warning() {
    let problems = problems(&channel("v1"), Warnings::On);
    assert_eq!(problems.iter().map(|problem| problem.rule).collect::<Vec<_>>(), ["head-metadata"]);
}

#[test]
fn an_unreadable_file_causes_no_reports_of_missing_objects() {
    let mut fbc = Fbc::default();
    fbc.add_generated(
        r#"{"schema":"olm.channel","name":"c","package":"foo","entries":[{"name":"a"}]}"#,
        &Limits::default(),
    )
    .unwrap();
    fbc.add_generated(PACKAGE, &Limits::default()).unwrap();
    let loaded = LoadReport { incomplete: true, ..LoadReport::default() };
    let checked = check(&fbc, loaded, Warnings::Off);
    assert_eq!(checked.errors().map(|problem| problem.rule).collect::<Vec<_>>(), ["incomplete"]);
    assert!(checked.catalog.is_err(), "an incomplete catalog passed the checks");
}
