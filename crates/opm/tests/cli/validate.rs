use crate::env::{SMALL, TestEnv};
use crate::resolve;

#[test]
fn a_valid_catalog_prints_nothing() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    insta::assert_snapshot!(env.opm(&["validate", "catalog"]), @r"
    exit 0
    --- stdout
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["validate", "catalog", "-o", "json"]), @r#"
    exit 0
    --- stdout
    {
      "passed": true
    }
    --- stderr
    "#);
}

#[test]
fn an_error_shows_its_line_and_a_fix() {
    let env = TestEnv::new();
    env.file(
        "catalog/foo.yaml",
        SMALL.replace("- name: foo.v1.0.0\n", "- name: foo.v1.0.0\n- name: foo.v2.0.0\n")
            + "---
schema: olm.bundle
name: foo.v2.0.0
package: foo
image: registry.example.com/foo:v2.0.0
properties:
- type: olm.package
  value: {packageName: foo, version: 2.0.0}
",
    );
    insta::assert_snapshot!(env.opm(&["validate", "catalog"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: package "foo", channel "stable": multiple channel heads found in graph: foo.v1.0.0, foo.v2.0.0
     --> catalog/foo.yaml:9:9 [channel-single-head]
    9 | - name: foo.v1.0.0
      |         ^^^^^^^^^^ nothing replaces or skips this entry
    help: add `replaces: foo.v1.0.0` to foo.v2.0.0, or move one of them to another channel

    1 problem found
    "#);
}

/// Twenty-two different faults in four files, JSON and YAML.
const FAULTS: &[(&str, &str)] = &[
    ("field-types", "delta/catalog.yaml:3:14"),
    ("package-name-label", "beta/catalog.json:3:13"),
    ("channel-entry-unique", "alpha/catalog.yaml:16:9"),
    ("channel-package-known", "beta/catalog.json:9:16"),
    ("bundle-image-pull-spec", "alpha/catalog.yaml:22:8"),
    ("bundle-version", "alpha/catalog.yaml:25:40"),
    ("property-values", "alpha/catalog.yaml:35:10"),
    ("bundle-package-property", "alpha/catalog.yaml:33:24"),
    ("related-image-pull-spec", "alpha/catalog.yaml:45:10"),
    ("bundle-package-property", "beta/catalog.json:41:13"),
    ("bundle-in-channel", "beta/catalog.json:41:13"),
    ("entry-has-bundle", "alpha/catalog.yaml:17:9"),
    ("deprecation-reference", "gamma/catalog.yaml:44:11"),
    ("channel-has-entries", "alpha/catalog.yaml:3:17"),
    ("channel-single-head", "alpha/catalog.yaml:9:9"),
    ("entry-skips", "alpha/catalog.yaml:14:5"),
    ("entry-skip-range", "alpha/catalog.yaml:15:14"),
    ("bundle-image-set", "alpha/catalog.yaml:38:7"),
    ("package-versions-unique", "beta/catalog.json:36:86"),
    ("default-channel-set", "gamma/catalog.yaml:2:7"),
    ("channel-chain", "gamma/catalog.yaml:8:9"),
    ("deprecation-message", "gamma/catalog.yaml:46:3"),
];

#[test]
fn all_faults_of_a_catalog_are_reported_in_one_run_at_their_lines() {
    let env = TestEnv::new();
    env.copy_of("fixtures/twenty-faults");
    let printed = env.opm(&["validate", "twenty-faults"]);
    assert!(printed.starts_with("exit 1\n"));
    let places: Vec<String> = printed
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--> twenty-faults/"))
        .map(str::to_owned)
        .collect();
    let expected: Vec<String> = FAULTS.iter().map(|(rule, place)| format!("{place} [{rule}]")).collect();
    assert_eq!(places, expected);
}

#[test]
fn faults_are_printed_as_annotations_for_code_hosts() {
    let env = TestEnv::new();
    env.copy_of("fixtures/twenty-faults");
    let output = env.command().args(["validate", "twenty-faults", "-o", "sarif"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let log: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let results = log["runs"][0]["results"].as_array().unwrap();
    let places: Vec<(String, String)> = results
        .iter()
        .map(|result| {
            let place = &result["locations"][0]["physicalLocation"];
            let uri = place["artifactLocation"]["uri"].as_str().unwrap().trim_start_matches("twenty-faults/");
            let region = &place["region"];
            (
                result["ruleId"].as_str().unwrap().into(),
                format!("{uri}:{}:{}", region["startLine"], region["startColumn"]),
            )
        })
        .collect();
    let expected: Vec<(String, String)> =
        FAULTS.iter().map(|(rule, place)| ((*rule).into(), (*place).into())).collect();
    assert_eq!(places, expected);
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
    }

    let github = env.opm(&["validate", "twenty-faults", "-o", "github"]);
    assert_eq!(github.lines().filter(|line| line.starts_with("::error file=twenty-faults/")).count(), FAULTS.len());
    assert!(github.contains("::error file=twenty-faults/alpha/catalog.yaml,line=9,col=9,title=channel-single-head::"));
}

#[test]
fn warnings_do_not_change_the_exit_code() {
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", SMALL.replace("defaultChannel: stable", "defaultChannel: stable\nvendor: me"));
    insta::assert_snapshot!(env.opm(&["validate", "catalog", "--warnings"]), @r#"
    exit 0
    --- stdout
    --- stderr
    warning: olm.package "foo" has unknown field "vendor", which is lost when it is rendered
     --> catalog/foo.yaml:4:9 [unknown-fields]
    4 | vendor: me
      |         ^^

    warning: head "foo.v1.0.0" has neither olm.csv.metadata nor objects: consoles cannot show it
      --> catalog/foo.yaml:13:7 [head-metadata]
    13 | name: foo.v1.0.0
       |       ^^^^^^^^^^
    help: render the bundle from its image, which adds them
    "#);
    insta::assert_snapshot!(env.opm(&["validate", "catalog", "--warnings=false"]), @r"
    exit 0
    --- stdout
    --- stderr
    ");
}

#[test]
fn a_broken_file_causes_no_reports_of_missing_objects() {
    let env = TestEnv::new();
    env.file("catalog/a.yaml", SMALL)
        .file("catalog/b.yaml", "schema: olm.channel\npackage: bar\nname: c\nentries: [}\n");
    let printed = env.opm(&["validate", "catalog"]);
    assert!(printed.contains("catalog/b.yaml:4:11 [yaml-syntax]"), "{printed}");
    assert!(!printed.contains("unknown package"), "{printed}");
}

#[test]
fn dependencies_of_a_whole_catalog_are_checked() {
    let env = resolve::env();
    insta::assert_snapshot!(env.opm(&["validate", "cat"]), @r"
    exit 0
    --- stdout
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["validate", "cat", "--deps"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: package "h": "h.v2.0.0", the head of channel "stable", cannot be installed: it requires Nothing (g/v1)
      --> cat/catalog.yaml:84:35 [dependency-met]
    84 | - {type: olm.gvk.required, value: {group: g, version: v1, kind: Nothing}}
       |                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ nothing that clusters can choose offers this
    help: no bundle here provides it
          if another catalog of the cluster offers it, name that by --with

    error: package "k": "k.v2.0.0", the head of channel "stable", cannot be installed: it requires package f 1.0.0
       --> cat/catalog.yaml:120:39 [dependency-met]
    120 | - {type: olm.package.required, value: {packageName: f, versionRange: '1.0.0'}}
        |                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ nothing that clusters can choose offers this
    help: f.v1.0.0 would do, but in channel stable it is skipped by f.v2.0.0
          not in the range: f.v2.0.0
          if another catalog of the cluster offers it, name that by --with

    2 problems found
    "#);
    insta::assert_snapshot!(env.opm(&["validate", "cat", "--deps", "-o", "github"]), @r#"
    exit 1
    --- stdout
    ::error file=cat/catalog.yaml,line=84,col=35,title=dependency-met::"h.v2.0.0", the head of channel "stable", cannot be installed: it requires Nothing (g/v1)%0Ahelp: no bundle here provides it%0A      if another catalog of the cluster offers it, name that by --with
    ::error file=cat/catalog.yaml,line=120,col=39,title=dependency-met::"k.v2.0.0", the head of channel "stable", cannot be installed: it requires package f 1.0.0%0Ahelp: f.v1.0.0 would do, but in channel stable it is skipped by f.v2.0.0%0A      not in the range: f.v2.0.0%0A      if another catalog of the cluster offers it, name that by --with
    --- stderr
    "#);
    env.file("other/catalog.yaml", resolve::catalog("near/stable: near.v1.0.0 gives=Nothing"));
    insta::assert_snapshot!(env.opm(&["validate", "cat", "--deps", "--with", "other"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: package "k": "k.v2.0.0", the head of channel "stable", cannot be installed: it requires package f 1.0.0
       --> cat/catalog.yaml:120:39 [dependency-met]
    120 | - {type: olm.package.required, value: {packageName: f, versionRange: '1.0.0'}}
        |                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ nothing that clusters can choose offers this
    help: f.v1.0.0 would do, but in channel stable it is skipped by f.v2.0.0
          not in the range: f.v2.0.0

    1 problem found
    "#);
    env.file("rule/catalog.yaml", resolve::catalog("r/stable: r.v1.0.0 rule=properties.exists("));
    insta::assert_snapshot!(env.opm(&["validate", "rule", "--deps", "-o", "json"]), @r#"
    exit 1
    --- stdout
    {
      "passed": false,
      "error": {
        "message": "invalid index:\n└── invalid package \"r\":\n    └── invalid channel \"stable\":\n        └── invalid bundle \"r.v1.0.0\":\n            └── \"r.v1.0.0\", the head of channel \"stable\", cannot be installed: convert olm.constraint to resolver predicate: 1:19: unexpected end of the rule"
      },
      "problems": [
        {
          "rule": "dependency-readable",
          "severity": "error",
          "message": "\"r.v1.0.0\", the head of channel \"stable\", cannot be installed: convert olm.constraint to resolver predicate: 1:19: unexpected end of the rule",
          "package": "r",
          "channel": "stable",
          "bundle": "r.v1.0.0",
          "file": "rule/catalog.yaml",
          "line": 18,
          "column": 33
        }
      ]
    }
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["validate", "cat", "--with", "other"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      --deps[=<true|false>]

    Usage: opm validate --deps[=<true|false>] --with <CATALOG> <SOURCE>

    For more information, try '--help'.
    ");
}

#[test]
fn a_hundred_problems_per_rule_are_shown_and_others_are_counted() {
    let env = TestEnv::new();
    let entries: String = (0..150).map(|number| format!("- {{name: p.v{number}}}\n")).collect();
    let head = "schema: olm.package\nname: p\ndefaultChannel: c\n---\nschema: olm.channel\npackage: p\nname: c\n";
    env.file("catalog/p.yaml", format!("{head}entries:\n{entries}"));
    let shown = env.opm(&["validate", "catalog"]);
    assert!(shown.contains("\n... and 50 more problems of the rule [entry-has-bundle]\n"), "{shown}");
    assert_eq!(shown.matches(" [entry-has-bundle]\n").count(), 100 + 1, "{shown}");
    assert!(shown.contains("\n151 problems found"), "{shown}");
    // Machine-readable output has all of them.
    let all = env.opm(&["validate", "catalog", "-o", "sarif"]);
    assert_eq!(all.matches("\"ruleId\": \"entry-has-bundle\"").count(), 150, "{all}");
}

#[test]
fn a_bundle_directory_is_recognized() {
    let env = TestEnv::new();
    env.file("foo/manifests/csv.yaml", "kind: ClusterServiceVersion\nmetadata: {name: foo.v1}\n")
        .file("foo/metadata/annotations.yaml", "annotations: {}\n");
    insta::assert_snapshot!(env.opm(&["validate", "foo"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: "foo" is a bundle, not a catalog
    help: 'opm bundle validate foo' checks it, and 'opm render foo' renders it as a catalog
    "#);
    // The words before are those of the existing tool where it has some.
    let help = "help: 'opm bundle validate foo' checks it, and 'opm render foo' renders it as a catalog\n";
    for command in [
        &["build", "foo", "--data-only", "--to", "oci:out"][..],
        &["serve", "foo", "--cache-dir", "cache", "--cache-only"],
        &["site", "build", "foo", "--to", "out"],
        &["list", "packages", "foo"],
        &["diff", "foo", "foo"],
        &["migrate", "foo", "out"],
        &["check-upgrades", "foo", "foo"],
        &["resolve", "foo", "--install", "foo"],
        &["upgrade-path", "foo", "foo", "--from", "1.0.0"],
        &["why", "foo", "foo"],
        &["edit", "remove", "foo", "--package", "foo"],
    ] {
        let shown = env.opm(command);
        assert!(shown.contains(" a bundle") && shown.contains(help), "{command:?}\n{shown}");
        assert!(!shown.contains("schema"), "{command:?}\n{shown}");
    }
}

#[test]
fn a_file_that_is_no_catalog_is_described() {
    let env = TestEnv::new();
    env.file("index.db", "").file("notes.txt", "to do\n");
    std::fs::write(env.path("other.db"), b"\x00\x01\xff").unwrap();
    std::fs::write(env.path("catalog.tar.gz"), b"\x1f\x8b\x08").unwrap();
    let help = "help: a catalog is a directory, an image or a SQLite database\n";
    for (file, kind) in [
        ("index.db", "an empty file"),
        ("notes.txt", "a text file of another kind"),
        ("other.db", "a binary file of another kind"),
        ("catalog.tar.gz", "a gzip archive"),
    ] {
        let expected = format!("exit 1\n--- stdout\n--- stderr\nerror: \"{file}\" is {kind}, not a catalog\n{help}");
        assert_eq!(env.opm(&["validate", file]), expected);
    }
}

#[test]
fn other_files_of_a_repository_are_reported_and_those_of_git_ignored() {
    let env = TestEnv::new();
    env.file("repo/.git/config", "[core]\n").file("repo/.git/HEAD", "ref: refs/heads/main\n");
    env.file("repo/catalog/foo.yaml", SMALL);
    assert_eq!(env.opm(&["validate", "repo"]), "exit 0\n--- stdout\n--- stderr\n", "files of git are loaded");
    env.file("repo/README.md", "# A catalog\n").file("repo/Makefile", "all:\n\ttrue\n");
    env.file("repo/src/a.go", "package a\n").file("repo/src/deep/b.go", "package b\n");
    let printed = env.opm(&["validate", "repo"]);
    assert!(printed.starts_with("exit 1\n"), "{printed}");
    let end = "\n4 files do not look like catalog files: Makefile, README.md, src/\n\
        help: list them in repo/.indexignore, or check only repo/catalog\n";
    assert!(printed.ends_with(end), "{printed}");
    env.file("repo/.indexignore", "README.md\nMakefile\nsrc/\n");
    assert_eq!(env.opm(&["validate", "repo"]), "exit 0\n--- stdout\n--- stderr\n");
    env.file("one/foo.yaml", SMALL).file("one/README.md", "| package | shows |\n");
    let printed = env.opm(&["validate", "one"]);
    assert!(
        printed.ends_with("\nREADME.md does not look like a catalog file\nhelp: list it in one/.indexignore\n"),
        "{printed}"
    );
}

#[test]
fn every_problem_is_available_as_json_with_its_position() {
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", SMALL.replace("defaultChannel: stable", "defaultChannel: steady"));
    let output = env.command().args(["validate", "catalog", "-o", "json"]).output().unwrap();
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["passed"], false);
    insta::assert_snapshot!(format!("{:#}", result["problems"]), @r#"
    [
      {
        "rule": "channel-has-entries",
        "severity": "error",
        "message": "channel must contain at least one bundle",
        "package": "foo",
        "channel": "steady",
        "file": "catalog/foo.yaml",
        "help": "restore the channel, or name one that the package has: stable",
        "line": 3,
        "column": 17
      }
    ]
    "#);
    insta::assert_snapshot!(env.opm(&["validate", "catalog", "--tree"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: invalid index:
    └── invalid package "foo":
        └── invalid channel "steady":
            └── channel must contain at least one bundle
    "#);
}

#[test]
fn problems_that_differ_only_in_the_version_are_shown_once() {
    let env = TestEnv::new();
    let mut text =
        SMALL.replace("- name: foo.v1.0.0\n", "- name: foo.v1.0.0\n  skips: [foo.v1.1.0, foo.v1.2.0, foo.v1.10.0]\n");
    for version in ["1.1.0", "1.2.0", "1.10.0"] {
        text += &format!(
            "---\nschema: olm.bundle\nname: foo.v{version}\npackage: foo\nimage: r.test/foo:v{version}\nproperties:\n\
             - {{type: olm.package, value: {{packageName: foo, version: {version}}}}}\n"
        );
    }
    env.file("catalog/foo.yaml", text);
    insta::assert_snapshot!(env.opm(&["validate", "catalog"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: package "foo", bundle "foo.v1.1.0" not found in any channel entries
      --> catalog/foo.yaml:23:7 [bundle-in-channel]
    23 | name: foo.v1.1.0
       |       ^^^^^^^^^^
    help: add an entry for it to a channel, or remove the bundle
    note: the same in 2 other places:
      catalog/foo.yaml:30:7  foo, foo.v1.2.0
      catalog/foo.yaml:37:7  foo, foo.v1.10.0

    3 problems found
    "#);
}

#[test]
fn the_entry_that_lost_its_replaces_is_named() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    let text = env.read("catalog/lantern/catalog.yaml");
    env.file("catalog/lantern/catalog.yaml", text.replacen("  replaces: lantern.v1.1.1\n", "", 1));
    let shown = env.opm(&["validate", "catalog"]);
    assert!(shown.contains("found in graph: lantern.v1.1.1, lantern.v2.0.0-rc.1\n"), "{shown}");
    assert!(shown.contains("help: add `replaces: lantern.v1.1.1` to lantern.v1.2.0, or move"), "{shown}");
}

#[test]
fn a_misspelt_field_of_an_entry_gets_the_nearest_name() {
    let env = TestEnv::new();
    for (written, near) in [("skip: [foo.v0.9.0]", "skips"), ("skip_range: <1.0.0", "skipRange")] {
        env.file(
            "catalog/foo.yaml",
            SMALL.replace("- name: foo.v1.0.0\n", &format!("- name: foo.v1.0.0\n  {written}\n")),
        );
        let key = written.split(':').next().unwrap();
        let shown = env.opm(&["validate", "catalog", "--warnings"]);
        let message = format!("olm.channel \"stable\" has unknown field \"entries[0].{key}\", which is lost");
        assert!(shown.starts_with("exit 0") && shown.contains(&message), "{shown}");
        assert!(shown.contains(&format!("help: did you mean \"{near}\"?")), "{shown}");
    }
}

#[test]
fn properties_of_the_legacy_format_have_no_effect_beside_channel_blobs() {
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", format!("{SMALL}- {{type: olm.skipRange, value: <1.0.0}}\n- {{type: olm.skips, value: foo.v0.1.0}}\n- {{type: olm.channel, value: {{name: fast, replaces: foo.v0.9.0}}}}\n"));
    let shown = env.opm(&["validate", "catalog", "--warnings"]);
    for (index, kind) in [(1, "olm.skipRange"), (2, "olm.skips"), (3, "olm.channel")] {
        let message = format!(
            "warning: bundle \"foo.v1.0.0\": property[{index}] of type \"{kind}\" has no effect, since package \"foo\" has \
             olm.channel blobs"
        );
        assert!(shown.contains(&message), "{shown}");
    }
    assert!(shown.contains("[first-form-ignored]"), "{shown}");
}
