//! What the program teaches about broken catalogs: the cause first, and help that helps.

use std::fs;

use serde_json::Value;

use crate::env::{TestEnv, project};

const LANTERN: &str = "catalog/lantern/catalog.yaml";

/// Returns the example catalog with one change to the package lantern.
fn changed(change: impl Fn(&str) -> String) -> TestEnv {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    let text = env.read(LANTERN);
    let broken = change(&text);
    assert_ne!(text, broken);
    env.file(LANTERN, broken);
    env
}

/// Replaces the last occurrence.
fn replace_last(text: &str, from: &str, to: &str) -> String {
    let at = text.rfind(from).unwrap();
    format!("{}{to}{}", &text[..at], &text[at + from.len()..])
}

/// Returns the first line of the report, and its first help.
fn report(env: &TestEnv) -> (String, String) {
    let output = env.command().args(["validate", "catalog"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let first = text.lines().next().unwrap_or_default().to_owned();
    let help = text.lines().find_map(|line| line.strip_prefix("help: ")).unwrap_or_default().to_owned();
    (first, help)
}

#[track_caller]
fn check(change: impl Fn(&str) -> String, first: &str, help: &str) {
    assert_eq!(report(&changed(change)), (first.to_owned(), help.to_owned()));
}

#[test]
fn a_merge_conflict_is_named() {
    check(
        |text| {
            replace_last(
                text,
                "  replaces: lantern.v1.1.1\n",
                "<<<<<<< HEAD\n  replaces: lantern.v1.1.1\n=======\n>>>>>>> b\n",
            )
        },
        "error: yaml: could not find expected ':'",
        "resolve the merge conflict between the lines '<<<<<<<' and '>>>>>>>'",
    );
}

#[test]
fn half_a_rename_leads_to_the_other_half() {
    let renamed = |text: &str| {
        let bundles = text.find("schema: olm.bundle").unwrap();
        text[..bundles].replace("lantern.v1.2.0", "lantern.v1.2.1") + &text[bundles..]
    };
    check(
        renamed,
        "error: no olm.bundle blobs found in package \"lantern\" for olm.channel entries [lantern.v1.2.1]",
        "did you mean \"lantern.v1.2.0\"?",
    );
}

#[test]
fn wrong_indentation_is_suspected() {
    check(
        |text| text.replacen("- name: lantern.v1.1.0\n  replaces", "- name: lantern.v1.1.0\nreplaces", 1),
        "error: yaml: did not find expected key",
        "a line above is indented differently: keys of one object start in one column, and so do the items of one list",
    );
}

#[test]
fn a_deleted_default_channel_is_missed() {
    let deleted = |text: &str| {
        let documents = text.split("---\n").filter(|document| !document.contains("name: stable\n"));
        documents.collect::<Vec<_>>().join("---\n")
    };
    check(
        deleted,
        "error: package \"lantern\" has no channel \"stable\", its default channel",
        "restore the channel, or name one that the package has: candidate",
    );
    check(
        |text| text.replacen("defaultChannel: stable\n", "", 1),
        "error: package \"lantern\": default channel must be set",
        "add a defaultChannel: one of candidate, stable",
    );
}

#[test]
fn a_copied_bundle_needs_another_name() {
    let copied = |text: &str| {
        let start = text.find("schema: olm.bundle\nname: lantern.v1.2.0").unwrap();
        let end = text[start..].find("---\n").map_or(text.len(), |at| start + at);
        format!("{text}---\n{}", text[start..end].replace("version: 1.2.0", "version: 1.3.0"))
    };
    let (first, help) = report(&changed(copied));
    assert_eq!(first, "error: package \"lantern\" has duplicate bundle \"lantern.v1.2.0\"");
    assert!(
        help.starts_with("its version is 1.3.0: give it the name of that version, or remove it; the first is at "),
        "{help}"
    );
}

#[test]
fn a_second_head_is_joined_to_the_first() {
    check(
        |text| replace_last(text, "  replaces: lantern.v1.1.1\n", ""),
        "error: package \"lantern\", channel \"stable\": multiple channel heads found in graph: lantern.v1.1.1, lantern.v1.2.0",
        "add `replaces: lantern.v1.1.1` to lantern.v1.2.0, or move one of them to another channel",
    );
}

#[test]
fn typos_come_before_what_they_cause() {
    let schema = changed(|text| text.replacen("schema: olm.channel", "schema: olm.chanel", 1));
    insta::assert_snapshot!(schema.opm(&["validate", "catalog"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: unknown schema "olm.chanel"
      --> catalog/lantern/catalog.yaml:13:9 [spelling]
    13 | schema: olm.chanel
       |         ^^^^^^^^^^
    help: did you mean "olm.channel"?

    1 problem found; 2 more probably vanish with it
    "#);
    let meant = |typo: &str, right: &str| {
        let (first, help) = report(&changed(|text| replace_last(text, right, typo)));
        format!("{first} {help}")
    };
    assert_eq!(
        meant("  replace: lantern.v1.1.1\n", "  replaces: lantern.v1.1.1\n"),
        "error: olm.channel has no field \"entries[2].replace\" did you mean \"replaces\"?"
    );
    assert_eq!(
        meant("  replaces: lantern.v1.1.11\n", "  replaces: lantern.v1.1.1\n"),
        "error: lantern.v1.2.0 replaces lantern.v1.1.11, which no bundle is called did you mean \"lantern.v1.1.1\"?"
    );
    assert_eq!(
        meant("nmae: stable\n", "name: stable\n"),
        "error: olm.channel has no field \"nmae\" did you mean \"name\"?"
    );
    let (first, help) =
        report(&changed(|text| replace_last(text, "---\nschema: olm.bundle\n", "---\nshcema: olm.bundle\n")));
    assert!(first.contains("missing root schema field"), "{first}");
    assert_eq!(help, "did you mean \"schema\" instead of \"shcema\"?");
}

#[test]
fn a_valid_catalog_with_unknown_names_stays_valid() {
    let env = changed(|text| text.replacen("entries:\n", "entrie: []\nentries:\n", 1) + "---\nschema: olm.chanels\n");
    assert_eq!(env.opm(&["validate", "catalog"]), "exit 0\n--- stdout\n--- stderr\n");
}

#[test]
fn a_tab_is_replaced_by_spaces() {
    check(
        |text| text.replacen("  replaces: lantern.v1.0.0", "\treplaces: lantern.v1.0.0", 1),
        "error: yaml: found a tab character that violates indentation",
        "indent with spaces",
    );
}

#[test]
fn a_repeated_key_is_a_warning() {
    let env = changed(|text| text.replacen("name: candidate\n", "name: candidate\nname: candidat\n", 1));
    insta::assert_snapshot!(env.opm(&["validate", "catalog"]), @r#"
    exit 0
    --- stdout
    --- stderr
    warning: key "name" is written twice; the last one counts
      --> catalog/lantern/catalog.yaml:16:1 [repeated-key]
    16 | name: candidat
       | ^
    help: keep one of them
    "#);
    let env = TestEnv::new();
    let channel = r#"{"schema": "olm.channel", "package": "p", "name": "c", "entries": [{"name": "a", "replaces": "b", "replaces": "c"}]}"#;
    env.file("catalog/c.json", channel);
    assert_eq!(report(&env).0, "warning: key \"replaces\" is written twice; the last one counts");
}

#[test]
fn a_truncated_file_is_suspected() {
    let (_, help) = report(&changed(|text| text[..text.find("version: 1.2.0").unwrap() - 6].to_owned()));
    assert!(help.ends_with("the file ends within a line: is the rest missing?"), "{help}");
    let env = TestEnv::new();
    env.file("catalog/a.json", r#"{"schema": "olm.package", "name": "a", "#);
    assert_eq!(report(&env).1, "the file ends inside a document; it may be truncated");
}

#[test]
fn every_place_of_a_problem_is_listed() {
    let env = TestEnv::new();
    let mut text = "schema: olm.package\nname: p\ndefaultChannel: a\n".to_owned();
    for channel in ["a", "b", "c"] {
        text += &format!(
            "---\nschema: olm.channel\npackage: p\nname: {channel}\nentries: [{{name: p.v1.0.0}}, {{name: p.v2.0.0}}]\n"
        );
    }
    for version in ["1.0.0", "2.0.0"] {
        text += &format!(
            "---\nschema: olm.bundle\npackage: p\nname: p.v{version}\nimage: r.test/p:v{version}\nproperties:\n\
             - {{type: olm.package, value: {{packageName: p, version: {version}}}}}\n"
        );
    }
    env.file("catalog/p.yaml", text);
    insta::assert_snapshot!(env.opm(&["validate", "catalog"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: package "p", channel "a": multiple channel heads found in graph: p.v1.0.0, p.v2.0.0
     --> catalog/p.yaml:8:18 [channel-single-head]
    8 | entries: [{name: p.v1.0.0}, {name: p.v2.0.0}]
      |                  ^^^^^^^^ nothing replaces or skips this entry
    help: add `replaces: p.v1.0.0` to p.v2.0.0, or move one of them to another channel
    note: the same in 2 other places:
      catalog/p.yaml:13:18  p, b
      catalog/p.yaml:18:18  p, c

    3 problems found
    "#);
}

/// Applies what a help proposes at a position of a text; `None` for proposals that name no edit.
fn apply(text: &str, problem: &Value) -> Option<String> {
    let help = problem["help"].as_str()?;
    let (line, column) = (problem["line"].as_u64()? as usize, problem["column"].as_u64()? as usize);
    let start = text.lines().take(line - 1).map(|line| line.len() + 1).sum::<usize>();
    let of_line = text[start..].lines().next()?;
    if let Some(meant) = help.strip_prefix("did you mean \"").and_then(|rest| rest.strip_suffix("\"?")) {
        let wrong = match problem["message"].as_str()?.split_once(" has no field \"") {
            Some((_, path)) => path.trim_end_matches('"').rsplit(['.', ']']).next()?,
            None => {
                let value = of_line[column - 1..].trim_start_matches('"');
                value.split(['"', ',', ' ', '}']).next()?
            }
        };
        return Some(format!(
            "{}{}{}",
            &text[..start],
            of_line.replacen(wrong, meant, 1),
            &text[start + of_line.len()..]
        ));
    }
    let field = help.strip_prefix("add `")?;
    let (field, rest) = field.split_once('`')?;
    let json = field.starts_with('"');
    let entry = match rest.strip_prefix(" to ") {
        Some(rest) => rest.split([',', ' ']).next()?,
        None => problem["package"].as_str()?,
    };
    let scope = problem["channel"].as_str().map_or(0, |channel| {
        let named = [format!("name: {channel}\n"), format!("\"name\": \"{channel}\"")];
        let at = named.iter().find_map(|named| text.find(named.as_str())).unwrap();
        // The fields of an object in JSON are sorted.
        if json {
            text[..at]
                .rfind(
                    "
{",
                )
                .unwrap_or_default()
        } else {
            at
        }
    });
    let named = if json { format!("\"name\": \"{entry}\"") } else { format!("name: {entry}\n") };
    let at = scope + text[scope..].find(&named)?;
    let indent = at - text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let at = at + named.len();
    Some(match json {
        true => format!("{}, {field}{}", &text[..at], &text[at..]),
        false => format!("{}{}{field}\n{}", &text[..at], " ".repeat(indent), &text[at..]),
    })
}

#[test]
fn the_help_of_a_problem_repairs_it() {
    let lantern = fs::read_to_string(project("examples/catalog/lantern/catalog.yaml")).unwrap();
    let edge = "  replaces: lantern.v1.1.1\n";
    let broken: Vec<String> = [
        (edge, ""),
        (edge, "  replaces: lantern.v1.1.11\n"),
        (edge, "  replace: lantern.v1.1.1\n"),
        ("---\nschema: olm.bundle\n", "---\nschema: olm.bundel\n"),
        ("package: lantern\n", "package: lanten\n"),
        ("name: lantern.v1.2.0\n  replaces", "name: lantern.v1.2.00\n  replaces"),
        ("defaultChannel: stable", "defaultChannel: stabel"),
        ("nmae: stable\n", "name: stable\n"),
    ]
    .iter()
    .map(|(right, wrong)| match lantern.contains(right) {
        true => replace_last(&lantern, right, wrong),
        false => replace_last(&lantern, wrong, right),
    })
    .collect();
    let others = [
        "name: candidate\n",
        "name: lantern.v1.1.0\npackage",
        "name: lantern.v2.0.0-rc.1\npackage",
        "olm.deprecations",
    ];
    let only = lantern.split("---\n").filter(|document| !others.iter().any(|other| document.contains(other)));
    let only = only.collect::<Vec<_>>().join("---\n").replacen("defaultChannel: stable\n", "", 1);
    for (number, text) in broken.into_iter().chain([only]).enumerate() {
        for json in [false, true] {
            let env = TestEnv::new();
            env.copy_of("examples/catalog");
            let file = if json { "catalog/lantern/catalog.json" } else { LANTERN };
            let text = if json { as_json(&text) } else { text.clone() };
            fs::remove_file(env.path(LANTERN)).unwrap();
            env.file(file, &text);
            let problems = |env: &TestEnv| {
                let output = env.command().args(["validate", "catalog", "-o", "json"]).output().unwrap();
                let report: Value = serde_json::from_slice(&output.stdout).unwrap();
                report["problems"].as_array().cloned().unwrap_or_default()
            };
            let before = problems(&env);
            let first = before.iter().find(|problem| problem.get("consequence").is_none()).expect("a problem");
            let repaired = apply(&text, first).unwrap_or_else(|| panic!("{number}: no edit in {first:#}"));
            env.file(file, &repaired);
            let after = problems(&env);
            assert!(
                !after.iter().any(|problem| problem["message"] == first["message"]),
                "{number}: {first:#}\n{repaired}"
            );
        }
    }
}

/// Returns the documents of a catalog as JSON values, one after the other.
fn as_json(yaml: &str) -> String {
    let documents = fbc::stream::documents(yaml.as_bytes(), &fbc::Limits::default()).unwrap();
    let pretty = |json: &fbc::json::Text| {
        let value: Value = serde_json::from_str(json.raw().text()).unwrap();
        serde_json::to_string_pretty(&value).unwrap() + "\n"
    };
    documents.iter().filter(|json| json.raw().text() != "null").map(pretty).collect()
}

#[test]
fn an_answer_names_the_channel_and_why() {
    let env = TestEnv::new();
    let mut text = "schema: olm.package\nname: p\ndefaultChannel: alpha\n".to_owned();
    text += "---\nschema: olm.channel\npackage: p\nname: alpha\nentries: [{name: p.v1.0.0}]\n";
    text += "---\nschema: olm.channel\npackage: p\nname: stable\n\
             entries: [{name: p.v2.0.0}, {name: p.v2.1.0, replaces: p.v2.0.0}]\n";
    for version in ["1.0.0", "2.0.0", "2.1.0"] {
        text += &format!(
            "---\nschema: olm.bundle\npackage: p\nname: p.v{version}\nimage: r.test/p:v{version}\nproperties:\n\
             - {{type: olm.package, value: {{packageName: p, version: {version}}}}}\n"
        );
    }
    env.file("catalog/p.yaml", text);
    insta::assert_snapshot!(env.opm(&["upgrade-path", "catalog", "p", "--from", "2.0.0"]), @r"
    exit 0
    --- stdout
    p.v2.0.0  (channel stable: the default channel alpha neither lists nor upgrades p.v2.0.0)
    -> p.v2.1.0  (replaces)
    p.v2.1.0 is the newest of channel stable
    --- stderr
    ");
    let resolved = env.opm(&["resolve", "catalog", "--installed", "p.v2.0.0"]);
    assert!(resolved.contains("upgrade  p.v2.0.0 to p.v2.1.0  (p 2.1.0, channel stable of catalog)"), "{resolved}");
    insta::assert_snapshot!(env.opm(&["resolve", "catalog", "--install", "p@stable=1.0.0"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: channel stable of package p has no version 1.0.0; it is in alpha
    ");
    insta::assert_snapshot!(env.opm(&["edit", "set-default", "catalog", "q", "alpha"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: the catalog has no package "q"
    help: available: p
    "#);
}
