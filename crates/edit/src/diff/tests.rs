use fbc::{Arrangement, Format, Limits};
use insta::assert_snapshot;

use super::sample::{Sample, shown};
use super::*;

/// Two channels of one package, a package that others depend on, and one that depends on it.
const NEW: &str = "
    foo stable: 1 2<1 3<2 4<3
    foo beta: 3 5<3
    dep d: 1 2<1 3<2
    dep x: 1 2<1
    dep.v1 olm.gvk={\"group\":\"g\",\"version\":\"v1\",\"kind\":\"Dep\"}
    dep.v2 olm.gvk={\"group\":\"g\",\"version\":\"v1\",\"kind\":\"Dep\"}
    dep.v3 olm.gvk={\"group\":\"g\",\"version\":\"v1\",\"kind\":\"Dep\"}
    app a: 1 2<1
    app.v2 olm.gvk.required={\"group\":\"g\",\"version\":\"v1\",\"kind\":\"Dep\"}
";

fn include(text: &str) -> Option<Include> {
    Some(Include::parse(text.as_bytes(), &Limits::default()).unwrap_or_else(|error| panic!("{error}")))
}

fn result(old: &str, new: &str, options: &DiffOptions) -> String {
    let (old, new) = (Sample::new(old), Sample::new(new));
    match diff(Some(old.side()), new.side(), options) {
        Ok(selection) => shown(&selection),
        Err(error) => error.to_string(),
    }
}

fn included(text: &str) -> String {
    result("", NEW, &DiffOptions { include: include(text), ..DiffOptions::default() })
}

#[test]
fn heads_only_selects_the_head_of_every_channel() {
    let options = DiffOptions { heads_only: true, ..DiffOptions::default() };
    assert_snapshot!(result("", NEW, &options), @r"
    app a: v2
    dep d: v3
    dep x: v2
    foo beta: v5
    foo stable: v4
    ");
    assert_eq!(result(NEW, NEW, &options), result("", NEW, &options));
}

#[test]
fn latest_selects_content_that_the_old_catalog_lacks() {
    let options = DiffOptions::default();
    assert_snapshot!(result("foo stable: 1 2<1", NEW, &options), @r"
    app a: v1 v2
    dep d: v1 v2 v3
    dep x: v1 v2
    foo beta: v3 v5
    foo stable: v3 v4
    ");
    assert_eq!(result(NEW, NEW, &options), "");
    assert_eq!(result("foo stable: 1 2-1", "foo stable: 1 2<1", &options), "", "edges do not count");
    assert_eq!(result("foo stable: 1 2<1\nbar b: 1", "foo stable: 1", &options), "", "removals do not count");
    assert_eq!(result("foo stable: 1 2<1\nfoo.v1 image=other", "foo stable: 1 2<1", &options), "foo stable: v1\n");
    assert_eq!(
        result("foo stable: 1 2<1\nfoo.v2 any=1", "foo stable: 1 2<1\nfoo.v2 any=2", &options),
        "foo stable: v2\n"
    );
}

#[test]
fn packages_and_channels_are_included_completely() {
    assert_snapshot!(included("packages: [{name: app}]"), @r"
    app a: v1 v2
    dep d: v3
    ");
    assert_eq!(included("packages: [{name: foo, channels: [{name: beta}]}]"), "foo beta: v3 v5\n");
    let options = DiffOptions {
        include: include("packages: [{name: foo}, {name: dep, channels: [{name: d, versions: [2.0.0]}, {name: x}]}]"),
        heads_only: true,
        ..DiffOptions::default()
    };
    assert_snapshot!(result("", NEW, &options), @r"
    dep d: v2 v3
    dep x: v2
    foo beta: v5
    foo stable: v4
    ");
}

#[test]
fn versions_and_names_include_the_path_to_the_head() {
    assert_eq!(
        included("packages: [{name: foo, channels: [{name: stable, versions: [3.0.0]}]}]"),
        "foo stable: v3 v4\n"
    );
    let named = "packages: [{name: foo, channels: [{name: stable, bundles: [foo.v3], versions: [4.0.0]}]}]";
    assert_eq!(included(named), "foo stable: v3 v4\n");
    assert_eq!(included("packages: [{name: foo, bundles: [foo.v5]}]"), "foo beta: v5\n");
    let alone = "packages: [{name: foo, channels: [{name: stable, bundles: [foo.v3]}]}]";
    assert_eq!(included(alone), "foo stable: v1 v2 v3 v4\n", "older tools honor names only together with versions");
    assert_snapshot!(included("packages: [{name: foo, versions: [3.0.0]}]"), @r"
    foo beta: v3 v5
    foo stable: v3 v4
    ");
    assert_eq!(included("packages: [{name: foo, versions: [1.0.0]}]"), "foo stable: v1 v2 v3 v4\n");
    assert_eq!(included("packages: [{name: foo, versions: [9.0.0]}]"), "");
}

#[test]
fn ranges_include_the_versions_in_them() {
    assert_snapshot!(included("packages: [{name: foo, range: '>=2.0.0 <4.0.0'}]"), @r"
    foo beta: v3
    foo stable: v2 v3
    ");
    assert_eq!(included("packages: [{name: foo, channels: [{name: stable, range: '<2.0.0'}]}]"), "foo stable: v1\n");
    let package_range = "packages: [{name: foo, range: '<4.0.0', channels: [{name: beta}]}]";
    assert_eq!(included(package_range), "foo beta: v3\n");
}

#[test]
fn included_content_can_be_added_to_the_rest() {
    let text = "packages: [{name: foo, channels: [{name: stable, versions: [2.0.0]}]}]";
    let options = |heads_only| DiffOptions {
        include: include(text),
        include_additive: true,
        heads_only,
        ..DiffOptions::default()
    };
    assert_snapshot!(result("", NEW, &options(true)), @r"
    app a: v2
    dep d: v3
    dep x: v2
    foo beta: v5
    foo stable: v2 v3 v4
    ");
    assert_snapshot!(result("foo stable: 1 2<1\ndep x: 1 2<1\ndep.v1 olm.gvk={\"group\":\"g\",\"version\":\"v1\",\"kind\":\"Dep\"}", NEW, &options(false)), @r"
    app a: v1 v2
    dep d: v1 v2 v3
    dep x: v2
    foo stable: v3 v4
    ");
}

#[test]
fn all_missing_items_are_reported_together() {
    let text = "packages: [{name: bar}, {name: foo, channels: [{name: gamma}, {name: beta, versions: [1.0.0], bundles: [x]}]}]";
    assert_snapshot!(included(text), @r#"error including items: [[package="bar"] package does not exist in new model, [package="foo" channel="gamma"] channel does not exist in new model, [package="foo" channel="beta"] bundles do not exist in channel: versions=["1.0.0"] names=["x"]]"#);
}

#[test]
fn an_include_file_is_validated() {
    let message = |text: &str| Include::parse(text.as_bytes(), &Limits::default()).unwrap_err().to_string();
    assert_eq!(message(""), "must specify at least one package in include config");
    assert_eq!(message("packages: []"), "must specify at least one package in include config");
    assert_eq!(message("packages: [{range: '1'}]"), "package at index 0 requires a name");
    assert_eq!(message("packages: [{name: p, channels: [{}]}]"), "package \"p\": channel at index 0 requires a name");
    assert_snapshot!(message("packages: [{name: p, range: '>1.0.0', bundles: [b]}]"), @r#"package "p": set a range, or versions and bundles, not both"#);
    assert_snapshot!(message("packages: [{name: p, range: '>1.0.0', channels: [{name: c, range: '>1.0.0'}]}]"), @r#"package "p", channel "c": set a range for the package or for the channel, not both"#);
    assert!(
        message("packages: [{name: p, range: nonsense}]").starts_with("package \"p\": invalid range \"nonsense\": ")
    );
    assert!(message("packages: [{name: p, versions: ['1']}]").starts_with("package \"p\": invalid version \"1\": "));
    assert!(message("packages: [").contains("yaml"));
    assert!(message("packages: [{name: p, versions: [1.0]}]").contains("packages[0].versions[0]"));
    let include = Include::parse(b"packages: [{name: p, version: [1.0.0]}]\nx: 1", &Limits::default()).unwrap();
    assert_eq!(include.warnings, ["unknown field packages[0].version", "unknown field x"]);
}

#[test]
fn dependencies_include_the_path_to_the_head_and_their_dependencies() {
    let new = "
        app a: 1 2<1
        app.v2 olm.package.required={\"packageName\":\"mid\",\"versionRange\":\"<3.0.0\"}
        mid one: 1 2<1 3<2
        mid two: 2
        mid.v2 olm.package.required={\"packageName\":\"deep\",\"versionRange\":\"\"}
        deep d: 1 2<1
    ";
    let options = DiffOptions { include: include("packages: [{name: app}]"), ..DiffOptions::default() };
    assert_snapshot!(result("", new, &options), @r"
    app a: v1 v2
    deep d: v2
    mid one: v2 v3
    ");
    assert_eq!(result("mid one: 2 3<2\ndeep d: 2", new, &options), "app a: v1 v2\n", "the old catalog has them");
    let none = DiffOptions { skip_dependencies: true, ..options };
    assert_eq!(result("", new, &none), "app a: v1 v2\n");
}

#[test]
fn the_first_package_by_name_provides_an_api() {
    let gvk = r#"{"group":"g","version":"v1","kind":"K"}"#;
    let new =
        format!("app a: 1\napp.v1 olm.gvk.required={gvk}\nzz z: 9\nzz.v9 olm.gvk={gvk}\nbb b: 1\nbb.v1 olm.gvk={gvk}");
    let options = DiffOptions { include: include("packages: [{name: app}]"), ..DiffOptions::default() };
    assert_eq!(result("", &new, &options), "app a: v1\nbb b: v1\n");
}

#[test]
fn unprovided_dependencies_are_ignored_and_invalid_ranges_are_errors() {
    let options = DiffOptions::default();
    let required = |range: &str| {
        format!("app a: 1\napp.v1 olm.package.required={{\"packageName\":\"x\",\"versionRange\":\"{range}\"}}")
    };
    assert_eq!(result("", &required(">=1.0.0"), &options), "app a: v1\n");
    let message = result("", &required("nonsense"), &options);
    assert!(message.contains("bundle \"app.v1\"") && message.contains("\"nonsense\""), "{message}");
}

#[test]
fn branches_are_included_and_entries_without_upgrades_do_not_fail() {
    let new = "foo c: 1 2<1 3<1-2 4<3";
    let from = |version: &str| {
        let include = include(&format!("packages: [{{name: foo, versions: [{version}.0.0]}}]"));
        result("", new, &DiffOptions { include, ..DiffOptions::default() })
    };
    assert_eq!(from("2"), "foo c: v2 v3 v4\n", "they meet at 1");
    assert_eq!(from("1"), "foo c: v1 v2 v3 v4\n");
    assert_eq!(from("4"), "foo c: v4\n");
    let apart = "foo c: 1 2-1";
    let include = include("packages: [{name: foo, versions: [1.0.0]}]");
    assert_eq!(result("", apart, &DiffOptions { include, ..DiffOptions::default() }), "foo c: v1\n");
    let needs = format!(
        "{apart}\napp a: 1\napp.v1 olm.package.required={{\"packageName\":\"foo\",\"versionRange\":\"<2.0.0\"}}"
    );
    let include = Include::parse(b"packages: [{name: app}]", &Limits::default()).ok();
    let message = result("", &needs, &DiffOptions { include, ..DiffOptions::default() });
    assert_eq!(message, "channel c: head \"foo.v2\" not reachable from bundle \"foo.v1\"");
}

#[test]
fn the_selection_is_a_catalog_with_sorted_lists() {
    let new = Sample::new("foo b: 2 1-2\nfoo a: 2\nfoo.v2 b=1\nfoo.v2 a=2\nfoo.v2 a=1\nfoo.v2 b=1");
    let options =
        DiffOptions { include: include("packages: [{name: foo, channels: [{name: b}]}]"), ..DiffOptions::default() };
    let Sample { mut fbc, catalog } = new;
    let selection = diff(None, DiffSide { fbc: &fbc, catalog: &catalog }, &options).unwrap();
    let blobs = selection.into_blobs(&mut fbc, &Limits::default()).unwrap();
    let blobs: Vec<_> = blobs.iter().map(|&number| &fbc.blobs()[number]).collect();
    let mut out = Vec::new();
    fbc.write_arranged(&blobs, Format::Yaml, Arrangement::Sorted, &mut out).unwrap();
    assert_snapshot!(String::from_utf8(out).unwrap(), @r"
    ---
    defaultChannel: b
    name: foo
    schema: olm.package
    ---
    entries:
    - name: foo.v1
      skips:
      - foo.v2
    - name: foo.v2
    name: b
    package: foo
    schema: olm.channel
    ---
    image: registry.example/foo.v1
    name: foo.v1
    package: foo
    properties:
    - type: olm.package
      value:
        packageName: foo
        version: 1.0.0
    schema: olm.bundle
    ---
    image: registry.example/foo.v2
    name: foo.v2
    package: foo
    properties:
    - type: a
      value: 1
    - type: a
      value: 2
    - type: b
      value: 1
    - type: olm.package
      value:
        packageName: foo
        version: 2.0.0
    schema: olm.bundle
    ");
}
