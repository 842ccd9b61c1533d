use std::fs;

use serde_json::json;

use crate::env::{SMALL, TestEnv};
use crate::resolve;

/// A handwritten catalog with comments.
pub(crate) const COMMENTED: &str = "\
# Catalog of foo.
# Reviewed by the team.

schema: olm.package
name: foo
defaultChannel: alpha   # for now
---
schema: olm.channel
package: foo
name: alpha
entries:
  # the first release
  - name: foo.v1.0.0
  - name: foo.v1.1.0   # has a leak
    replaces: foo.v1.0.0
  # the good one
  - name: foo.v1.2.0
    replaces: foo.v1.1.0
    skips:
      - foo.v1.1.1   # never released
---
schema: olm.channel
package: foo
name: stable
entries:
- {name: foo.v1.0.0}
---
schema: olm.bundle
name: foo.v1.0.0
package: foo
image: registry.example.com/foo:v1.0.0
properties:
- {type: olm.package, value: {packageName: foo, version: 1.0.0}}
---
schema: olm.bundle
name: foo.v1.1.0
package: foo
image: registry.example.com/foo:v1.1.0
properties:
- {type: olm.package, value: {packageName: foo, version: 1.1.0}}
---
schema: olm.bundle
name: foo.v1.2.0
package: foo
image: registry.example.com/foo:v1.2.0
properties:
- {type: olm.package, value: {packageName: foo, version: 1.2.0}}
";

pub(crate) fn commented() -> TestEnv {
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", COMMENTED);
    env
}

/// Runs an edit on the commented catalog: first as a dry run, then for real, and compares both.
fn shown(arguments: &[&'static str]) -> String {
    let env = commented();
    let (verb, rest) = arguments.split_first().unwrap();
    let with = |more: &[&'static str]| [&["edit", verb, "catalog"], rest, more].concat();
    let diff = env.stdout(&with(&["--dry-run"]));
    assert_eq!(env.read("catalog/foo.yaml"), COMMENTED);
    assert_eq!(env.stdout(&with(&[])), "");
    assert_eq!(env.stdout(&["validate", "catalog"]), "");
    env.file("diff", &diff).file("catalog-before/foo.yaml", COMMENTED);
    let patch = |arguments: &[&str]| {
        std::process::Command::new("git").args(arguments).current_dir(env.path("catalog-before")).status()
    };
    // git applies the diff, if it is installed.
    if let Ok(status) = patch(&["apply", "../diff"]) {
        assert!(status.success(), "{diff}");
        assert_eq!(env.read("catalog-before/foo.yaml"), env.read("catalog/foo.yaml"));
    }
    assert_eq!(env.names("."), ["catalog", "catalog-before", "diff"]);
    diff
}

#[test]
fn a_default_channel_changes_in_its_line() {
    insta::assert_snapshot!(shown(&["set-default", "foo", "stable"]));
}

#[test]
fn a_promoted_bundle_gets_an_entry_like_the_others() {
    insta::assert_snapshot!(shown(&["promote", "foo.v1.2.0", "stable", "--skip-range", ">=1.0.0 <1.2.0"]));
}

#[test]
fn a_bundle_is_removed_with_its_comments() {
    insta::assert_snapshot!(shown(&["remove", "--bundle", "foo.v1.1.0"]));
}

#[test]
fn a_deprecation_gets_a_document() {
    insta::assert_snapshot!(shown(&["deprecate", "--bundle", "foo.v1.1.0", "--message", "leaks: use 1.2"]));
}

#[test]
fn an_edge_changes_in_place() {
    insta::assert_snapshot!(shown(&[
        "set-edge",
        "foo.v1.2.0",
        "--channel",
        "alpha",
        "--remove-skip",
        "foo.v1.1.1",
        "--skip-range",
        "<1.2.0",
    ]));
}

#[test]
fn heads_alone_are_kept() {
    insta::assert_snapshot!(shown(&["filter", "--heads-only"]));
}

#[test]
fn an_edit_and_its_reverse_restore_all_bytes() {
    let env = commented();
    for (edit, reverse) in [
        (
            &["set-default", "catalog", "foo", "stable"] as &[&str],
            &["set-default", "catalog", "foo", "alpha"] as &[&str],
        ),
        (
            &["deprecate", "catalog", "--package", "foo", "--channel", "alpha", "-m", "use stable"],
            &["deprecate", "catalog", "--package", "foo", "--channel", "alpha", "--undo"],
        ),
        (
            &["promote", "catalog", "foo.v1.2.0", "stable"],
            &["remove", "catalog", "--bundle", "foo.v1.2.0", "--channel", "stable", "--forget"],
        ),
        (
            &["set-edge", "catalog", "foo.v1.1.0", "--channel", "alpha", "--skip-range", "<1.1.0"],
            &["set-edge", "catalog", "foo.v1.1.0", "--channel", "alpha", "--skip-range", ""],
        ),
        (
            &["promote", "catalog", "foo.v1.2.0", "stable", "--skip", "foo.v1.1.9"],
            &["remove", "catalog", "--bundle", "foo.v1.2.0", "--channel", "stable", "--forget"],
        ),
    ] {
        env.stdout(&[&["edit"], edit].concat());
        assert_ne!(env.read("catalog/foo.yaml"), COMMENTED);
        env.stdout(&[&["edit"], reverse].concat());
        assert_eq!(env.read("catalog/foo.yaml"), COMMENTED, "{edit:?}");
    }
}

#[test]
fn a_rejected_edit_changes_nothing_and_suggests_a_fix() {
    let env = commented();
    let refused = |arguments: &[&str]| {
        let shown = env.opm(&[&["edit"], arguments].concat());
        assert_eq!(env.read("catalog/foo.yaml"), COMMENTED);
        assert_eq!(env.names("."), ["catalog"]);
        shown
    };
    insta::assert_snapshot!(refused(&["set-edge", "catalog", "foo.v1.2.0", "--channel", "alpha", "--replaces", "foo.v9.0.0"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: foo.v1.2.0 replaces foo.v9.0.0, which no bundle is called
      --> catalog/foo.yaml:17:11 [spelling]
    17 |   - name: foo.v1.2.0
       |           ^^^^^^^^^^
    help: did you mean "foo.v1.1.0"?

    1 problem found; 1 more probably vanishes with it
    error: the edited catalog would not be valid, so nothing was changed
    "#);
    insta::assert_snapshot!(refused(&["remove", "catalog", "--package", "foo", "--channel", "alpha"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: the default channel of package "foo" would be removed
    help: set another one with --default-channel: stable
    "#);
    insta::assert_snapshot!(refused(&["promote", "catalog", "foo.v1.0.0", "beta"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: package "foo" has no channel "beta"
    help: its channels are: alpha, stable; --create creates a new one
    "#);
    insta::assert_snapshot!(refused(&["set-default", "catalog", "fob", "alpha"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: the catalog has no package "fob"
    help: did you mean "foo"?
    "#);
}

#[test]
fn another_directory_gets_the_changed_catalog() {
    let env = commented();
    env.file("catalog/.indexignore", "*.md\n").file("catalog/README.md", "about it\n");
    env.stdout(&["edit", "set-default", "catalog", "foo", "stable", "--to", "new/place"]);
    assert_eq!(env.read("catalog/foo.yaml"), COMMENTED);
    assert_eq!(env.read("new/place/foo.yaml"), COMMENTED.replace("defaultChannel: alpha", "defaultChannel: stable"));
    // What the catalog ignores does not belong to it.
    assert_eq!(env.names("new/place"), [".indexignore", "foo.yaml"]);
    assert_eq!(env.names("new"), ["place"]);
    let shown = env.opm(&["edit", "set-default", "catalog", "foo", "stable", "--to", "new/place"]);
    assert!(shown.contains("must be empty"), "{shown}");
}

#[test]
fn files_change_together_and_empty_ones_are_removed() {
    let env = TestEnv::new();
    let documents: Vec<&str> = COMMENTED.split("---\n").collect();
    env.file("catalog/package.yaml", documents[0])
        .file("catalog/channels.yaml", documents[1..3].join("---\n"))
        .file("catalog/old.yaml", documents[3])
        .file("catalog/bundles.yaml", documents[4..].join("---\n"));
    env.stdout(&["edit", "filter", "catalog", "--versions", ">=1.1.0"]);
    assert_eq!(env.names("catalog"), ["bundles.yaml", "channels.yaml", "package.yaml"]);
    assert_eq!(env.names("."), ["catalog"]);
    assert_eq!(env.stdout(&["validate", "catalog"]), "");
}

#[test]
fn an_interrupted_edit_is_completed_by_the_next() {
    let env = commented();
    let root = fs::canonicalize(env.path("catalog")).unwrap();
    let stable = COMMENTED.replace("defaultChannel: alpha", "defaultChannel: stable");
    let digest = |text: &str| image::Digest::of(text.as_bytes()).to_string();
    let journal = format!(
        r#"{{"catalog":{:?},"files":[{{"path":"foo.yaml","old":{:?},"new":{:?}}},{{"path":"gone.yaml","old":{1:?},"new":null}}]}}"#,
        root.to_str().unwrap(),
        digest(COMMENTED),
        digest(&stable),
    );
    env.file(".opm-edit-x/journal", journal).file(".opm-edit-x/tree/foo.yaml", &stable);
    let shown = env.opm(&["edit", "set-default", "catalog", "foo", "stable"]);
    assert!(shown.contains("opm has completed it now") && !shown.contains("default channel"), "{shown}");
    assert_eq!(env.read("catalog/foo.yaml"), stable);
    assert_eq!(env.names("."), ["catalog"]);
    assert_eq!(env.names("catalog"), ["foo.yaml"]);
}

#[test]
fn aliases_are_not_edited() {
    let env = TestEnv::new();
    let text = COMMENTED.replace("- {name: foo.v1.0.0}", "- &first {name: foo.v1.0.0}\nfirst: *first");
    let text =
        text.replace("entries:\n- &first", "entries: &entries\n- &first").replace("first: *first", "Entries: *entries");
    env.file("catalog/foo.yaml", &text);
    let shown = env.opm(&["edit", "promote", "catalog", "foo.v1.2.0", "stable"]);
    assert!(shown.starts_with("exit 1"), "{shown}");
    assert_eq!(env.read("catalog/foo.yaml"), text);
}

#[test]
fn catalogs_are_merged_with_their_comments() {
    let env = commented();
    let other = SMALL.replace("foo", "bar") + "---\nschema: example.com/note\ntext: of all\n";
    env.file("other/bar.yaml", format!("# about bar\n{other}"));
    let more = COMMENTED.replace("foo.v1.2.0", "foo.v1.3.0").replace("version: 1.2.0", "version: 1.3.0");
    let more = more.replace("- name: foo.v1.3.0\n    replaces", "- name: foo.v1.3.0 # new\n    replaces");
    env.file("other/foo.yaml", more.replace("replaces: foo.v1.1.0\n    skips:", "replaces: foo.v1.2.0\n    skips:"));
    env.stdout(&["edit", "merge", "catalog", "other", "--to", "both"]);
    assert_eq!(env.names("both"), ["__global.yaml", "bar", "foo.yaml"]);
    insta::assert_snapshot!(env.stdout(&["edit", "merge", "catalog", "other", "--dry-run"]));
    assert_eq!(env.stdout(&["validate", "both"]), "");
    assert_eq!(env.opm(&["edit", "merge", "both", "other"]), "exit 0\n--- stdout\n--- stderr\n");
}

#[test]
fn conflicts_between_catalogs_are_reported() {
    let env = commented();
    let other = COMMENTED
        .replace("defaultChannel: alpha", "defaultChannel: stable")
        .replace("image: registry.example.com/foo:v1.1.0", "image: registry.example.com/foo:other")
        .replace("- foo.v1.1.1", "- foo.v1.1.2");
    env.file("other/foo.yaml", other);
    insta::assert_snapshot!(env.opm(&["edit", "merge", "catalog", "other"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: the catalogs conflict:
      package "foo": the default channels "alpha" and "stable" differ
      package "foo": entry "foo.v1.2.0" of channel "alpha" has different edges
      package "foo": bundle "foo.v1.1.0" differs
    help: use --prefer-first to keep the first; to keep the second, pass it first
    "#);
    insta::assert_snapshot!(env.opm(&["edit", "merge", "catalog", "other", "--prefer-first"]), @r#"
    exit 0
    --- stdout
    --- stderr
    note: package "foo": the default channels "alpha" and "stable" differ; kept the first
    note: package "foo": entry "foo.v1.2.0" of channel "alpha" has different edges; kept the first
    note: package "foo": bundle "foo.v1.1.0" differs; kept the first
    "#);
    assert_eq!(env.read("catalog/foo.yaml"), COMMENTED);
}

#[test]
fn images_are_filtered_and_merged_into_new_directories() {
    let env = resolve::env();
    env.stdout(&["build", "cat", "--data-only", "-t", "registry.example.com/cat:v1", "-o", "oci:image"]);
    insta::assert_snapshot!(env.opm(&["edit", "filter", "oci:image", "--package", "b", "--with-dependencies", "--to", "small"]), @r#"
    exit 0
    --- stdout
    --- stderr
    note: package "f" is kept: "b.v1.0.0" needs Foo (g/v1)
    removed 3 packages, 4 channels, 7 bundles
    "#);
    assert_eq!(env.stdout(&["validate", "small", "--deps"]), "");
    env.file("mine/catalog.yaml", resolve::catalog("m/stable: m.v1.0.0"));
    env.stdout(&["edit", "merge", "mine", "oci:image", "--to", "both"]);
    assert!(env.stdout(&["list", "packages", "both"]).contains("\nz "));
    insta::assert_snapshot!(env.opm(&["edit", "filter", "oci:image", "--package", "b"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: oci:image is not a directory: use --to DIR for the result
    ");
}

#[test]
fn a_package_in_the_original_format_can_be_removed() {
    for arguments in [&["remove", "catalog", "-p", "weather-vane"] as &[&str], &["filter", "catalog", "-p", "lantern"]]
    {
        let env = TestEnv::new();
        env.copy_of("examples/catalog");
        env.stdout(&[&["edit"], arguments].concat());
        assert_eq!(env.names("catalog/weather-vane"), ["objects"]);
        assert_eq!(env.names("catalog/weather-vane/objects"), [""; 0]);
        env.stdout(&["validate", "catalog"]);
        assert!(env.stdout(&["list", "packages", "catalog"]).contains("\nlantern "));
    }
}

/// A channel of five versions, and another that lists the second.
fn five() -> (TestEnv, String) {
    let env = TestEnv::new();
    let versions = ["1.0.0", "1.0.1", "1.1.0", "1.1.1", "1.2.0"];
    let mut text = "schema: olm.package\nname: p\ndefaultChannel: fast\n---\nschema: olm.channel\npackage: p\n\
                    name: fast\nentries:\n"
        .to_owned();
    for (number, version) in versions.iter().enumerate() {
        text += &format!("- name: p.v{version}\n");
        if number > 0 {
            text += &format!("  replaces: p.v{}\n", versions[number - 1]);
        }
    }
    text += "---\nschema: olm.channel\npackage: p\nname: kept\nentries:\n- name: p.v1.0.1\n";
    for version in versions {
        text += &format!(
            "---\nschema: olm.bundle\npackage: p\nname: p.v{version}\nimage: quay.io/p/p:v{version}\nproperties:\n\
             - type: olm.package\n  value:\n    packageName: p\n    version: {version}\n"
        );
    }
    env.file("catalog/p.yaml", &text).file("before/p.yaml", &text);
    (env, text)
}

#[test]
fn a_removed_version_that_returns_strands_nobody() {
    let (env, text) = five();
    env.stdout(&["edit", "remove", "catalog", "--bundle", "p.v1.0.1", "--channel", "fast"]);
    env.stdout(&["edit", "promote", "catalog", "p.v1.0.1", "fast", "--edge", "semver"]);
    assert_eq!(env.read("catalog/p.yaml"), text);
    env.stdout(&["edit", "remove", "catalog", "--bundle", "p.v1.0.1", "--channel", "fast"]);
    env.stdout(&["edit", "promote", "catalog", "p.v1.0.1", "fast", "--edge", "skip-patch"]);
    assert!(env.stdout(&["check-upgrades", "before", "catalog"]).starts_with("nobody is stranded"));
}

#[test]
fn an_edit_that_strands_versions_is_refused_unless_that_is_allowed() {
    let (env, text) = five();
    let edge = ["edit", "set-edge", "catalog", "p.v1.0.1", "--channel", "fast", "--skip-range", "<9.0.0"];
    insta::assert_snapshot!(env.opm(&edge), @r"
    exit 1
    --- stdout
    --- stderr
    error: the edit would strand clusters, so nothing was changed:
      p / fast: p.v1.0.0 is stuck at p.v1.0.1: nothing upgrades that; so far it is upgraded to p.v1.2.0 in 4 steps
      p / fast: p.v1.0.1 is stuck at p.v1.0.1: nothing upgrades that; so far it is upgraded to p.v1.2.0 in 3 steps
      p / fast: p.v1.1.0 is stuck at p.v1.1.0: nothing upgrades that; so far it is upgraded to p.v1.2.0 in 2 steps
      p / fast: p.v1.1.1 is stuck at p.v1.1.1: nothing upgrades that; so far it is upgraded to p.v1.2.0
    help: --allow-stranded makes the edit anyway
    ");
    assert_eq!(env.read("catalog/p.yaml"), text);
    insta::assert_snapshot!(env.opm(&[&edge[..], &["--allow-stranded"]].concat()), @r"
    exit 0
    --- stdout
    --- stderr
    warning: p / fast: 4 versions lose their upgrade path: p.v1.0.0, p.v1.0.1, p.v1.1.0, p.v1.1.1
    changed: p.v1.0.1 in fast replaces p.v1.0.0, skips versions <9.0.0
    ");
    // Versions that were stranded before do not prevent an edit.
    insta::assert_snapshot!(env.opm(&["edit", "remove", "catalog", "--bundle", "p.v1.1.1"]), @r"
    exit 0
    --- stdout
    --- stderr
    removed p.v1.1.1 from fast; p.v1.2.0 in fast replaces p.v1.1.0, skips p.v1.1.1
    ");
}

#[test]
fn removed_heads_leave_their_clusters_without_an_upgrade_and_that_is_reported() {
    let (env, _) = five();
    insta::assert_snapshot!(env.opm(&["edit", "remove", "catalog", "--bundle", "p.v1.2.0"]), @r"
    exit 0
    --- stdout
    --- stderr
    warning: p / fast: this version loses its upgrade path: p.v1.2.0
    removed p.v1.2.0 from fast
    ");
    // The only path of a version that is gone already.
    env.stdout(&["edit", "remove", "catalog", "--bundle", "p.v1.1.0"]);
    insta::assert_snapshot!(env.opm(&["edit", "remove", "catalog", "--bundle", "p.v1.1.1"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: the edit would strand clusters, so nothing was changed:
      p / fast: p.v1.1.0 has no path: it is not in the channel any more, and nothing upgrades it; so far it is upgraded to p.v1.1.1
    help: --allow-stranded makes the edit anyway; to reconnect them afterwards:
      opm edit set-edge catalog p.v1.0.1 --package p --channel fast --add-skip p.v1.1.0,p.v1.1.1
    ");
}

#[test]
fn a_filter_reports_the_versions_that_lose_their_path() {
    let (env, _) = five();
    insta::assert_snapshot!(env.opm(&["edit", "filter", "catalog", "--package", "p", "--heads-only"]), @r"
    exit 0
    --- stdout
    --- stderr
    warning: p / fast: 3 versions lose their upgrade path: p.v1.0.0, p.v1.0.1, p.v1.1.0
    removed 3 bundles
    ");
    let (env, _) = five();
    insta::assert_snapshot!(env.opm(&["edit", "filter", "catalog", "--versions", ">=1.1.0"]), @r"
    exit 0
    --- stdout
    --- stderr
    warning: p / fast: this version loses its upgrade path: p.v1.0.0
    warning: p / kept: this version loses its upgrade path: p.v1.0.1
    removed channel kept of p with p.v1.0.0, p.v1.0.1
    ");
}

#[test]
fn an_edit_does_not_touch_what_the_catalog_ignores() {
    use std::os::unix::fs::symlink;
    let env = commented();
    env.file("catalog/.indexignore", "/junk/**\n").file("catalog/junk/notes", "");
    let junk = env.path("catalog/junk");
    symlink("nowhere", junk.join("dangling")).unwrap();
    symlink("..", junk.join("directory")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(junk.join("socket")).unwrap();
    // The edit would wait for somebody who writes to it.
    let fifo = std::process::Command::new("mkfifo").arg(junk.join("fifo")).status().unwrap();
    assert!(fifo.success());
    let before = env.names("catalog/junk");
    env.stdout(&["edit", "set-default", "catalog", "foo", "stable"]);
    env.stdout(&["edit", "set-default", "catalog", "foo", "alpha", "--to", "other"]);
    env.stdout(&["edit", "set-default", "catalog", "foo", "alpha"]);
    assert_eq!(env.read("catalog/foo.yaml"), COMMENTED);
    assert_eq!(env.names("catalog/junk"), before);
    assert_eq!(env.names("other"), [".indexignore", "foo.yaml"]);
}

#[test]
fn changed_files_keep_their_owner() {
    use std::os::unix::fs::{MetadataExt, chown};
    let env = commented();
    let file = env.path("catalog/foo.yaml");
    // Only the superuser can give files away; others edit files of their own.
    let _ = chown(&file, Some(1234), Some(2345));
    let owner = || fs::metadata(&file).map(|metadata| (metadata.uid(), metadata.gid())).unwrap();
    let before = owner();
    env.stdout(&["edit", "set-default", "catalog", "foo", "stable"]);
    assert_eq!(owner(), before);
}

#[test]
fn an_older_version_is_added_to_a_channel_that_lists_the_newest_first() {
    let (env, text) = five();
    let newest_first = "entries:\n- name: p.v1.2.0\n  replaces: p.v1.1.0\n- name: p.v1.1.0\n";
    let start = text.find("entries:").unwrap();
    let end = text.find("---\nschema: olm.channel\npackage: p\nname: kept").unwrap();
    let kept = text[end..].replace(
        "entries:\n",
        "entries:\n- name: p.v1.0.0\n- name: p.v1.1.1\n  skips:\n  - p.v1.0.0\n  replaces: p.v1.0.1\n",
    );
    let text = format!("{}{newest_first}{kept}", &text[..start]);
    for text in [text.clone(), text.trim_end().to_owned()] {
        env.file("catalog/p.yaml", &text);
        env.stdout(&["edit", "promote", "catalog", "p.v1.0.0", "fast", "--edge", "semver"]);
        let wanted = newest_first.to_owned() + "  replaces: p.v1.0.0\n- name: p.v1.0.0\n";
        assert_eq!(env.read("catalog/p.yaml"), text.replacen(newest_first, &wanted, 1));
        env.stdout(&["edit", "remove", "catalog", "--bundle", "p.v1.0.0", "--channel", "fast", "--forget"]);
        assert_eq!(env.read("catalog/p.yaml"), text);
    }
}

#[test]
fn a_default_channel_that_needs_quotes_can_be_undone() {
    let numbered = COMMENTED.replace("name: stable", "name: \"4.10\"");
    for (first, text) in [
        ("alpha", numbered.clone()),
        ("alpha", numbered.replace("Channel: alpha", "Channel: 'alpha'")),
        ("alpha", numbered.replace("Channel: alpha", "Channel: \"alpha\"").replace("name: foo\n", "name: \"foo\"\n")),
        ("4.10", numbered.replace("Channel: alpha", "Channel: \"4.10\"")),
        ("4.10", numbered.replace("Channel: alpha", "Channel: '4.10'")),
    ] {
        let env = TestEnv::new();
        env.file("catalog/foo.yaml", &text);
        let second = if first == "alpha" { "4.10" } else { "alpha" };
        env.stdout(&["edit", "set-default", "catalog", "foo", second]);
        assert_ne!(env.read("catalog/foo.yaml"), text);
        env.stdout(&["edit", "set-default", "catalog", "foo", first]);
        assert_eq!(env.read("catalog/foo.yaml"), text);
    }
}

#[test]
fn blank_lines_between_json_blobs_survive_an_edit_and_its_reverse() {
    let env = TestEnv::new();
    env.file("yaml/foo.yaml", SMALL);
    let json = env.stdout(&["render", "yaml"]).replace("}\n{", "}\n\n\n{");
    env.file("catalog/foo.json", format!("{json}\n{{\"schema\": \"example.com/note\"}}\n"));
    let before = env.read("catalog/foo.json");
    env.stdout(&["edit", "deprecate", "catalog", "--package", "foo", "-m", "use bar"]);
    assert_ne!(env.read("catalog/foo.json"), before);
    env.stdout(&["edit", "deprecate", "catalog", "--package", "foo", "--undo"]);
    assert_eq!(env.read("catalog/foo.json"), before);
}

/// Applies a diff in the folder `catalog` with every tool that is installed, and passes each result to `check`.
fn apply_diff(env: &TestEnv, diff: &str, reset: impl Fn(), check: impl Fn()) {
    env.file("diff", diff);
    for tool in [&["git", "apply", "../diff"] as &[&str], &["patch", "-p1", "-i", "../diff"]] {
        reset();
        let applied = std::process::Command::new(tool[0]).args(&tool[1..]).current_dir(env.path("catalog")).output();
        let Ok(output) = applied else { continue };
        assert!(output.status.success(), "{tool:?}\n{diff}\n{output:?}");
        check();
    }
}

#[test]
fn diffs_of_files_with_unusual_names_can_be_applied() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let names: [&[u8]; 9] = [
        b"a b.yaml",
        b" a.yaml ",
        b"a\tb.yaml",
        b"a\n+++ b\n.yaml",
        b"a\n--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n.yaml",
        b"a\r.yaml",
        b"\"quoted\\.yaml",
        "f\u{f6}\u{f6}.yaml".as_bytes(),
        b"\xff\xfe.yaml",
    ];
    for name in names {
        let name = OsStr::from_bytes(name);
        let env = TestEnv::new();
        let catalog = env.path("catalog");
        fs::create_dir(&catalog).unwrap();
        let file = catalog.join(name);
        fs::write(&file, COMMENTED).unwrap();
        let dry_run = |edit: &[&str]| env.stdout(&[&["edit"], edit, &["--dry-run"]].concat());
        let reset = || fs::write(&file, COMMENTED).unwrap();
        apply_diff(&env, &dry_run(&["set-default", "catalog", "foo", "stable"]), reset, || {
            let changed = COMMENTED.replace("Channel: alpha", "Channel: stable");
            assert_eq!(fs::read_to_string(&file).unwrap(), changed);
            assert_eq!(env.names("catalog").len(), 1);
        });
        reset();
        let diff = dry_run(&["remove", "catalog", "--package", "foo"]);
        apply_diff(&env, &diff, reset, || assert_eq!(env.names("catalog"), [""; 0]));
    }
}

#[test]
fn diffs_that_create_files_with_unusual_names_can_be_applied() {
    for name in ["a b", "a\tb", "\"a\\", "f\u{f6}\u{f6}"] {
        let env = commented();
        let object = json!({"type": "olm.bundle.object", "value": {"ref": format!("objects/{name}.yaml")}});
        let other = SMALL.replace("foo", "bar").replace("properties:\n", &format!("properties:\n- {object}\n"));
        env.file("other/bar.yaml", other).file("other/.indexignore", "objects\n");
        env.file(&format!("other/objects/{name}.yaml"), "kind: ConfigMap\n");
        let merge = ["edit", "merge", "catalog", "other"];
        env.stdout(&[&merge[..], &["--to", "both"]].concat());
        let diff = env.stdout(&[&merge[..], &["--dry-run"]].concat());
        let reset = || {
            let _ = fs::remove_dir_all(env.path("catalog/bar"));
        };
        apply_diff(&env, &diff, reset, || {
            let object = format!("bar/objects/{name}.yaml");
            assert_eq!(env.read(&format!("catalog/{object}")), env.read(&format!("both/{object}")));
            assert_eq!(env.names("catalog/bar/objects"), env.names("both/bar/objects"));
        });
    }
}

#[test]
fn a_json_report_lists_entries_files_and_stranded_versions() {
    let env = commented();
    let edit = ["edit", "remove", "catalog", "--bundle", "foo.v1.2.0", "--allow-stranded", "-o", "json"];
    let dry = env.stdout(&[&edit[..], &["--dry-run"]].concat());
    assert_eq!(env.read("catalog/foo.yaml"), COMMENTED);
    let mut dry: serde_json::Value = serde_json::from_str(&dry).expect("a report");
    let diff = dry.as_object_mut().expect("an object").remove("diff").expect("a diff");
    assert!(diff.as_str().expect("a diff").starts_with("--- a/foo.yaml\n+++ b/foo.yaml\n@@"), "{diff}");
    let shown = env.opm(&edit);
    insta::assert_snapshot!(shown, @r#"
    exit 0
    --- stdout
    {
      "summary": "removed foo.v1.2.0 from alpha",
      "entries": [
        {
          "package": "foo",
          "channel": "alpha",
          "name": "foo.v1.2.0",
          "change": "removed",
          "replaces": "foo.v1.1.0",
          "skips": [
            "foo.v1.1.1"
          ]
        }
      ],
      "notes": [],
      "stranded": [
        {
          "package": "foo",
          "channel": "alpha",
          "bundles": [
            "foo.v1.1.1"
          ]
        },
        {
          "package": "foo",
          "channel": "alpha",
          "bundles": [
            "foo.v1.2.0"
          ]
        }
      ],
      "files": [
        {
          "path": "foo.yaml",
          "change": "changed"
        }
      ]
    }
    --- stderr
    "#);
    let json = shown.lines().skip(2).take_while(|line| *line != "--- stderr").collect::<String>();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).expect("a report"), dry);
}

#[test]
fn a_json_report_of_an_edit_without_changes_is_empty() {
    let env = commented();
    let args = ["edit", "set-default", "catalog", "foo", "alpha", "-o", "json", "--dry-run"];
    insta::assert_snapshot!(env.opm(&args), @r#"
    exit 0
    --- stdout
    {
      "summary": null,
      "entries": [],
      "notes": [],
      "stranded": [],
      "files": [],
      "diff": ""
    }
    --- stderr
    "#);
}
