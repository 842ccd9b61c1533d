use insta::assert_snapshot;

use super::*;
use crate::template::sample::{bundles, rendered};

/// Renders a template with a channel for each list of entries, the bundles of these versions of
/// `foo`, and these substitutions.
fn with(channels: &[&str], versions: &[&str], substitutions: &[(&str, &str)]) -> String {
    let mut template = String::from("schema: olm.template.substitutes\nentries:\n");
    template.push_str("- {schema: olm.package, name: foo, defaultChannel: c0}\n");
    for (index, entries) in channels.iter().enumerate() {
        template.push_str(&format!("- {{schema: olm.channel, package: foo, name: c{index}, entries: [{entries}]}}\n"));
    }
    for version in versions {
        let json = bundles(&format!("foo:{version}")).unwrap().remove(0).json;
        template.push_str(&format!("- {json}\n"));
    }
    template.push_str("substitutions:\n");
    for (name, base) in substitutions {
        template.push_str(&format!("- {{name: '{name}', base: '{base}', other: 1}}\n"));
    }
    let shown = rendered(&template);
    shown.lines().filter(|line| !line.starts_with(['{', 'b'])).collect::<Vec<_>>().join("\n")
}

const CHAIN: &str =
    "{name: foo.v1.0.0}, {name: foo.v2.0.0, replaces: foo.v1.0.0}, {name: foo.v3.0.0, replaces: foo.v2.0.0}";
const VERSIONS: &[&str] = &["1.0.0", "2.0.0", "3.0.0"];

#[test]
fn a_substitute_replaces_its_base() {
    assert_snapshot!(with(&[CHAIN], VERSIONS, &[("foo:2.0.1", "foo.v2.0.0")]), @"
        channel c0
          foo.v1.0.0
          foo.v2.0.0
          foo.v3.0.0 replaces foo.v2.0.1 skips foo.v2.0.0
          foo.v2.0.1 replaces foo.v1.0.0 skips foo.v2.0.0
        ");
    assert_snapshot!(with(&[CHAIN], VERSIONS, &[("foo:1.0.1", "foo.v1.0.0")]), @"
        channel c0
          foo.v1.0.0
          foo.v2.0.0 replaces foo.v1.0.1 skips foo.v1.0.0
          foo.v3.0.0 replaces foo.v2.0.0
          foo.v1.0.1 skips foo.v1.0.0
        ");
    assert_snapshot!(with(&[CHAIN], VERSIONS, &[("foo:3.0.1", "foo.v3.0.0")]), @"
        channel c0
          foo.v1.0.0
          foo.v2.0.0 replaces foo.v1.0.0
          foo.v3.0.0
          foo.v3.0.1 replaces foo.v2.0.0 skips foo.v3.0.0
        ");
}

#[test]
fn skips_and_ranges_move_to_the_substitute_in_every_channel() {
    let skipping = "{name: foo.v3.0.0, skips: [foo.v2.0.0, foo.v1.0.0], skipRange: <3.0.0}, {name: foo.v2.0.0, skips: [foo.v0.9.0], skipRange: <2.0.0}";
    let without = "{name: foo.v3.0.0, skips: [foo.v2.0.0]}";
    assert_snapshot!(with(&[CHAIN, skipping, without], VERSIONS, &[("foo:2.0.1", "foo.v2.0.0")]), @"
        channel c0
          foo.v1.0.0
          foo.v2.0.0
          foo.v3.0.0 replaces foo.v2.0.1 skips foo.v2.0.0
          foo.v2.0.1 replaces foo.v1.0.0 skips foo.v2.0.0
        channel c1
          foo.v3.0.0 range <3.0.0 skips foo.v1.0.0 foo.v2.0.1
          foo.v2.0.0
          foo.v2.0.1 range <2.0.0 skips foo.v0.9.0 foo.v2.0.0
        channel c2
          foo.v3.0.0 skips foo.v2.0.0
        ");
}

#[test]
fn substitutes_may_be_substituted() {
    assert_snapshot!(with(&[CHAIN], VERSIONS, &[("foo:2.0.1", "foo.v2.0.0"), ("foo:2.0.2", "foo.v2.0.1")]), @"
        channel c0
          foo.v1.0.0
          foo.v2.0.0
          foo.v3.0.0 replaces foo.v2.0.2 skips foo.v2.0.0 foo.v2.0.1
          foo.v2.0.1
          foo.v2.0.2 replaces foo.v1.0.0 skips foo.v2.0.0 foo.v2.0.1
        ");
}

#[test]
fn a_release_makes_a_bundle_newer_as_does_build_metadata_if_the_csv_declares_it() {
    let heads = |substitute: &str, base: &str| {
        let version = base.trim_end_matches('*');
        let channel = format!("{{name: foo.v{version}}}");
        let shown = with(&[&channel], &[base], &[(substitute, &format!("foo.v{version}"))]);
        shown.lines().last().unwrap_or_default().trim().to_owned()
    };
    assert_snapshot!(heads("foo:2.0.0/r1", "2.0.0"), @"foo-v2.0.0-r1 skips foo.v2.0.0");
    assert_snapshot!(heads("foo:2.0.0+1*", "2.0.0"), @"foo.v2.0.0+1 skips foo.v2.0.0");
    assert_snapshot!(heads("foo:2.0.0+10*", "2.0.0+9*"), @"foo.v2.0.0+10 skips foo.v2.0.0+9");
    assert_snapshot!(heads("foo:2.0.0+1", "2.0.0"), @r#"render: error processing substitution "foo.v2.0.0" -> "foo:2.0.0+1": base bundle "foo.v2.0.0" is not less than substitute bundle "foo:2.0.0+1""#);
    assert_snapshot!(heads("foo:2.0.0+01*", "2.0.0"), @r#"render: error processing substitution "foo.v2.0.0" -> "foo:2.0.0+01*": bundle "foo.v2.0.0+01": invalid release "01": segment 0: Numeric PreRelease version must not contain leading zeroes "01""#);
}

#[test]
fn invalid_substitutions_are_rejected() {
    let chain = |substitutions: &[(&str, &str)]| with(&[CHAIN], VERSIONS, substitutions);
    assert_snapshot!(chain(&[("", "foo.v2.0.0")]), @r#"render: error processing substitution "foo.v2.0.0" -> "": substitution name cannot be empty"#);
    assert_snapshot!(chain(&[("foo:2.0.1", "")]), @r#"render: error processing substitution "" -> "foo:2.0.1": substitution base cannot be empty"#);
    assert_snapshot!(chain(&[("foo.v2.0.0", "foo.v2.0.0")]), @r#"render: error processing substitution "foo.v2.0.0" -> "foo.v2.0.0": substitution name and base cannot be the same"#);
    assert_snapshot!(chain(&[("foo:2.0.1", "foo.v2.0.0"), ("foo:2.0.2", "foo.v2.0.0")]), @r#"render: cannot reuse the same substitution base "foo.v2.0.0""#);
    assert_snapshot!(chain(&[("foo:3.0.1", "foo.v2.0.0"), ("foo:3.0.1", "foo.v3.0.0")]), @r#"render: cannot reuse the same substitution "foo:3.0.1" for different bases ("foo.v2.0.0" and "foo.v3.0.0")"#);
    assert_snapshot!(chain(&[("foo:9.0.1", "foo.v9.0.0")]), @r#"render: error processing substitution "foo.v9.0.0" -> "foo:9.0.1": base bundle "foo.v9.0.0" is not in the catalog"#);
    assert_snapshot!(chain(&[("foo:2.0.0", "foo.v2.0.0")]), @r#"render: error processing substitution "foo.v2.0.0" -> "foo:2.0.0": base bundle "foo.v2.0.0" is not less than substitute bundle "foo:2.0.0""#);
    assert_snapshot!(chain(&[("foo:1.9.0", "foo.v2.0.0")]), @r#"render: error processing substitution "foo.v2.0.0" -> "foo:1.9.0": base bundle "foo.v2.0.0" is not less than substitute bundle "foo:1.9.0""#);
    assert_snapshot!(chain(&[("missing", "foo.v2.0.0")]), @r#"render: error processing substitution "foo.v2.0.0" -> "missing": render reference "missing": it is gone"#);
    assert_snapshot!(chain(&[("none", "foo.v2.0.0")]), @r#"render: error processing substitution "foo.v2.0.0" -> "none": the image holds no bundle"#);
}

#[test]
fn the_catalog_is_valid_before_and_after() {
    assert_snapshot!(with(&["{name: foo.v1.0.0}, {name: foo.v2.0.0}"], &["1.0.0", "2.0.0"], &[]), @r#"
        render: entries are not valid FBC: invalid index:
        └── invalid package "foo":
            └── invalid channel "c0":
                └── multiple channel heads found in graph: foo.v1.0.0, foo.v2.0.0
        "#);
    assert_snapshot!(with(&[CHAIN], VERSIONS, &[("bar:2.0.1", "foo.v2.0.0")]), @r#"
        render: error processing substitution "foo.v2.0.0" -> "bar:2.0.1": resulting config is not valid FBC: unknown package "bar" for bundle "bar.v2.0.1"
        no olm.bundle blobs found in package "foo" for olm.channel entries [bar.v2.0.1]
        "#);
}

#[test]
fn a_catalog_without_substitutions_is_unchanged() {
    assert_snapshot!(with(&[CHAIN], VERSIONS, &[]), @"
        channel c0
          foo.v1.0.0
          foo.v2.0.0 replaces foo.v1.0.0
          foo.v3.0.0 replaces foo.v2.0.0
        ");
}

#[test]
fn annotations_of_migrated_bundles_declare_substitutes() {
    let limits = Limits::default();
    let fbc = Fbc::default();
    let bundle = |annotations: &str| {
        fbc.generated_blob(&format!(r#"{{"schema":"olm.bundle","name":"b","package":"p","properties":[{{"type":"olm.package","value":{{"packageName":"p","version":"1.0.0+7"}}}},{{"type":"olm.csv.metadata","value":{{"annotations":{annotations}}}}}]}}"#), &limits).unwrap()
    };
    let release = |annotations| version_and_release(&fbc, &bundle(annotations), &limits).unwrap().1;
    assert_eq!(release(r#"{"olm.substitutesFor":"x"}"#), Release::parse("7").unwrap());
    assert_eq!(release("{}"), None);
}
