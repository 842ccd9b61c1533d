use std::cell::RefCell;

use insta::assert_snapshot;

use super::*;
use crate::template::sample::{bundles, rendered};
use crate::template::{RenderedBundle, TemplateKind};

fn with(fields: &str) -> String {
    rendered(&format!("schema: olm.semver\n{fields}"))
}

#[test]
fn major_and_minor_channels_have_the_same_upgrades() {
    let template = "\
generateMajorChannels: true
generateMinorChannels: true
candidate: {bundles: [{image: foo:0.2.0}, {image: foo:0.1.0}, {image: foo:0.1.1}]}
fast: {bundles: [{image: foo:0.2.0}]}
";
    assert_snapshot!(with(template), @r#"
        {"schema": "olm.package","name": "foo","defaultChannel": "fast-v0.2","icon": {"base64data": "aWNvbg==","mediatype": "image/png"},"description": "About 0.2.0"}
        channel candidate-v0
          foo.v0.1.0
          foo.v0.1.1 skips foo.v0.1.0
          foo.v0.2.0 replaces foo.v0.1.1 skips foo.v0.1.0
        channel candidate-v0.1
          foo.v0.1.0
          foo.v0.1.1 skips foo.v0.1.0
        channel candidate-v0.2
          foo.v0.2.0 replaces foo.v0.1.1 skips foo.v0.1.0
        channel fast-v0
          foo.v0.2.0
        channel fast-v0.2
          foo.v0.2.0
        bundle foo.v0.1.0
        bundle foo.v0.1.1
        bundle foo.v0.2.0
        "#);
}

#[test]
fn channels_are_minor_ones_by_default() {
    let channels = |fields: &str| {
        let shown = with(&format!("{fields}\nstable: {{bundles: [{{image: foo:1.0.0}}]}}\n"));
        shown.lines().filter(|line| line.starts_with("channel")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(channels(""), "channel stable-v1.0");
    assert_eq!(channels("generateMinorChannels: false"), "channel stable-v1.0");
    assert_eq!(channels("generateMajorChannels: true"), "channel stable-v1");
    assert_eq!(channels("GENERATEMAJORCHANNELS: true"), "channel stable-v1");
}

#[test]
fn the_package_is_described_by_the_highest_bundle_of_the_default_channel() {
    let template =
        "stable: {bundles: [{image: foo:1.0.1}, {image: foo:1.0.0}]}\nfast: {bundles: [{image: foo:2.0.0}]}\n";
    let shown = with(template);
    assert_snapshot!(shown.lines().next().unwrap(), @r#"{"schema": "olm.package","name": "foo","defaultChannel": "stable-v1.0","icon": {"base64data": "aWNvbg==","mediatype": "image/png"},"description": "About 1.0.1"}"#);
}

#[test]
fn a_separate_csv_describes_the_package_too() {
    let render_with = |csv: &str| {
        let template =
            Template::parse(b"{schema: olm.semver, fast: {bundles: [{image: foo:1.0.0}]}}", &Limits::default());
        let mut supply = |references: &[&str]| {
            let json = bundles(references[0]).unwrap().remove(0).json;
            vec![Ok(vec![RenderedBundle { json, csv: Some(csv.to_owned()) }])]
        };
        let fbc = super::super::render(&template.unwrap(), TemplateKind::Semver, &Limits::default(), &mut supply);
        fbc.map(|fbc| super::super::sample::shown(&fbc)).unwrap_or_else(|error| error.to_string())
    };
    let shown = render_with(r#"{"spec":{"description":"kept"}}"#);
    assert_snapshot!(shown.lines().next().unwrap(), @r#"{"schema": "olm.package","name": "foo","defaultChannel": "fast-v1.0","description": "kept"}"#);
    assert_snapshot!(render_with(r#"{"spec":{"icon":[{"base64data":"a-b"}]}}"#), @r#"render: bundle "foo.v1.0.0": spec.icon[0].base64data: illegal base64 data at input byte 1"#);
}

#[test]
fn all_images_are_fetched_together_and_once() {
    let text = b"{schema: olm.semver, fast: {bundles: [{image: foo:1.0.0}, {image: foo:1.1.0}]}, stable: {bundles: [{image: foo:1.0.0}]}}";
    let fetched = RefCell::new(Vec::new());
    let mut supply = |references: &[&str]| {
        fetched.borrow_mut().push(references.join(" "));
        references.iter().map(|one| bundles(one)).collect()
    };
    let template = Template::parse(text, &Limits::default()).unwrap();
    super::super::render(&template, TemplateKind::Semver, &Limits::default(), &mut supply).unwrap();
    assert_eq!(fetched.into_inner(), ["foo:1.0.0 foo:1.1.0"]);
}

#[test]
fn unknown_and_duplicate_fields_are_rejected() {
    assert_snapshot!(with("generateMajorChannel: true\n"), @r#"render: unknown field "generateMajorChannel", expected one of: schema, generateMajorChannels, generateMinorChannels, defaultChannelTypePreference, candidate, fast, stable"#);
    assert_snapshot!(with("stable: {bundles: [{image: foo:1.0.0}, {name: x}]}\n"), @r#"render: unknown field "stable.bundles[1].name", expected one of: image"#);
    assert_snapshot!(with("fast: {}\nstable: {}\nfast: {}\n"), @r#"render: line 4: key "fast" already set in map"#);
    assert_snapshot!(rendered(r#"{"schema":"olm.semver","schema":"olm.semver"}"#), @r#"render: line 1: key "schema" already set in map"#);
    assert_snapshot!(with("Fast: {}\nfast: {}\n"), @r#"render: field "fast" already set"#);
    assert_snapshot!(with("stable: {bundles: {}}\n"), @r#"unmarshalling template: json: cannot unmarshal object into field "stable.bundles" of type list"#);
    assert_snapshot!(with("stable: {bundles: [{}]}\n"), @r#"render: stable.bundles[0] has no "image""#);
}

#[test]
fn the_preferred_kind_must_be_generated() {
    assert_snapshot!(with("defaultChannelTypePreference: major\n"), @"render: schema attribute mismatch: DefaultChannelTypePreference set to 'major' doesn't match GenerateMajorChannels set to 'false'");
    assert_snapshot!(with("defaultChannelTypePreference: minor\ngenerateMajorChannels: true\n"), @"render: schema attribute mismatch: DefaultChannelTypePreference set to 'minor' doesn't match GenerateMinorChannels set to 'false'");
    assert_snapshot!(with("defaultChannelTypePreference: patch\n"), @r#"render: unknown DefaultChannelTypePreference: "patch", valid values are 'major' or 'minor'"#);
}

#[test]
fn bundles_must_be_consistent() {
    let stable = |images: &[&str]| {
        let images: Vec<String> = images.iter().map(|image| format!("{{image: {image}}}")).collect();
        with(&format!("stable: {{bundles: [{}]}}\n", images.join(", ")))
    };
    assert_snapshot!(stable(&[]), @"render: no bundles specified or no bundles could be rendered");
    assert_snapshot!(stable(&["two"]), @r#"render: bundle image "two" holds 2 bundles, expected exactly 1"#);
    assert_snapshot!(stable(&["none"]), @r#"render: bundle image "none" holds 0 bundles, expected exactly 1"#);
    assert_snapshot!(stable(&["missing"]), @r#"render reference "missing": it is gone"#);
    assert_snapshot!(stable(&["foo:1.0"]), @r#"render: bundle "foo.v1.0" has invalid version "1.0": No Major.Minor.Patch elements found"#);
    assert_snapshot!(stable(&["foo:1.0.0", "bar:1.1.0"]), @r#"render: bundle "bar" does not belong to this package: "foo""#);
    assert_snapshot!(stable(&["foo:1.0.0", "foo:1.0.0"]), @r#"render: duplicate bundle name "foo.v1.0.0""#);
    assert_snapshot!(stable(&["foo:1.0.0+a", "foo:2.0.0", "foo:1.0.0+b"]), @r#"render: encountered bundle versions which differ only by build metadata, which cannot be ordered: version "1.0.0+a" of bundle "foo.v1.0.0+a" cannot be compared to "1.0.0+b" of bundle "foo.v1.0.0+b""#);
    assert_snapshot!(stable(&["foo:1.0.0", "foo:1.0.0/r1"]), @r#"render: encountered bundle versions which differ only by build metadata, which cannot be ordered: version "1.0.0" of bundle "foo.v1.0.0" cannot be compared to "1.0.0" of bundle "foo-v1.0.0-r1""#);
}
