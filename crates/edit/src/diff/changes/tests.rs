mod model;

use std::collections::BTreeMap;

use fbc::base64;
use fbc::blob::TextBuffer;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::diff::sample::Sample;
use crate::diff::{self, diff};
use model::{Model, ModelEntry};

fn found(old: &str, new: &str, changelog: bool) -> CatalogChanges {
    let (old, new) = (Sample::new(old), Sample::new(new));
    changes(old.side(), new.side(), &CompareOptions { changelog, ..CompareOptions::default() }).unwrap()
}

fn json(changes: &CatalogChanges) -> String {
    serde_json::to_string_pretty(changes).unwrap()
}

/// A property that holds a manifest.
fn object(json: &str) -> String {
    let mut data = Vec::new();
    base64::encode(json.as_bytes(), &mut data);
    format!("olm.bundle.object={{\"data\":\"{}\"}}", String::from_utf8(data).unwrap())
}

fn csv(rules: &str) -> String {
    object(&format!(
        r#"{{"kind":"ClusterServiceVersion","spec":{{"install":{{"spec":{{"clusterPermissions":[{{"serviceAccountName":"sa","rules":[{rules}]}}]}}}}}}}}"#
    ))
}

fn crd(versions: &str) -> String {
    object(&format!(
        r#"{{"kind":"CustomResourceDefinition","metadata":{{"name":"foos.g"}},"spec":{{"versions":[{versions}]}}}}"#
    ))
}

#[test]
fn equal_catalogs_have_no_differences() {
    let text = "foo stable: 1 2<1-9\nfoo.v1 a={\"x\":1,\"y\":2}\nbar b: 1";
    assert!(found(text, text, true).is_empty());
    let other_order = "bar b: 1\nfoo stable: 2<1-9 1\nfoo.v1 a={\"y\":2,\"x\":1}";
    assert!(found(text, other_order, true).is_empty());
}

#[test]
fn channels_heads_edges_and_default_channels_are_reported() {
    assert_snapshot!(json(&found("foo a: 1 2<1", "foo b: 1\nfoo a: 1 2-1 3<2", false)), @r#"
    {
      "packages": [
        {
          "name": "foo",
          "what": "changed",
          "defaultChannel": {
            "old": "a",
            "new": "b"
          },
          "channels": [
            {
              "name": "a",
              "what": "changed",
              "head": {
                "old": "foo.v2",
                "new": "foo.v3"
              },
              "entries": [
                {
                  "bundle": "foo.v2",
                  "what": "changed",
                  "replaces": {
                    "old": "foo.v1",
                    "new": null
                  },
                  "skips": {
                    "added": [
                      "foo.v1"
                    ],
                    "removed": []
                  }
                },
                {
                  "bundle": "foo.v3",
                  "what": "added",
                  "replaces": {
                    "old": null,
                    "new": "foo.v2"
                  }
                }
              ]
            },
            {
              "name": "b",
              "what": "added",
              "head": {
                "old": null,
                "new": "foo.v1"
              },
              "entries": [
                {
                  "bundle": "foo.v1",
                  "what": "added"
                }
              ]
            }
          ],
          "bundles": [
            {
              "name": "foo.v3",
              "what": "added",
              "version": "3.0.0",
              "image": {
                "old": null,
                "new": "registry.example/foo.v3"
              },
              "properties": {
                "added": [
                  {
                    "type": "olm.package",
                    "value": {
                      "packageName": "foo",
                      "version": "3.0.0"
                    }
                  }
                ],
                "removed": []
              }
            }
          ]
        }
      ],
      "others": []
    }
    "#);
}

#[test]
fn stricter_and_removed_fields_of_crds_are_narrowing() {
    let schema = |fields: &str, required: &str| {
        crd(&format!(
            r#"{{"name":"v1","storage":true,"schema":{{"openAPIV3Schema":{{"properties":{{"spec":{{"required":[{required}],"properties":{{{fields}}}}}}}}}}}}}"#
        ))
    };
    let old = schema(
        r#""a":{"type":"string"},"b":{"type":"string","enum":["x","y"]},"c":{"type":"object","properties":{"d":{}}}"#,
        "",
    );
    let new = schema(
        r#""a":{"type":"integer"},"b":{"type":"string","enum":["x"]},"e":{"type":"string"},"f":{"type":"string"}"#,
        r#""a","e""#,
    );
    let changes = found(&format!("foo a: 1\nfoo.v1 {old}"), &format!("foo a: 1\nfoo.v1 {new}"), false);
    let fields: Vec<String> = changes.packages[0].bundles[0]
        .fields
        .iter()
        .map(|it| {
            format!("{} {} {} {}{}", it.what.word(), it.crd, it.path, it.detail, if it.narrows { " !" } else { "" })
        })
        .collect();
    assert_snapshot!(fields.join("\n"), @r"
    changed foos.g v1.spec.a is integer instead of string !
    changed foos.g v1.spec.a is required now !
    changed foos.g v1.spec.b no longer allows y !
    added foos.g v1.spec.e string, required !
    added foos.g v1.spec.f string
    removed foos.g v1.spec.c  !
    ");
}

#[test]
fn permissions_and_crd_versions_of_a_changed_bundle_are_reported() {
    let old_rules = r#"{"apiGroups":["apps",""],"resources":["deployments"],"verbs":["get","list"]}"#;
    let new_rules = r#"{"apiGroups":["apps"],"resources":["deployments"],"verbs":["get","delete"]},{"nonResourceURLs":["/metrics"],"verbs":["get"]},{"apiGroups":[""],"resources":["secrets"],"resourceNames":["s"],"verbs":["*"]}"#;
    let old =
        format!("foo a: 1\nfoo.v1 {}\nfoo.v1 {}", csv(old_rules), crd(r#"{"name":"v1"},{"name":"v2","served":false}"#));
    let new = format!(
        "foo a: 1\nfoo.v1 {}\nfoo.v1 {}\nfoo.v1 image=new",
        csv(new_rules),
        crd(r#"{"name":"v1","served":true},{"name":"v2"}"#)
    );
    let changes = found(&old, &new, false);
    let bundle = &changes.packages[0].bundles[0];
    let permissions: Vec<String> = bundle
        .permissions
        .iter()
        .map(|it| {
            format!(
                "{:?} {} {} +{} -{}",
                it.scope,
                it.service_account,
                it.resource,
                it.verbs.added.join(","),
                it.verbs.removed.join(",")
            )
        })
        .collect();
    assert_snapshot!(permissions.join("\n"), @r"
    Cluster sa /metrics +get -
    Cluster sa deployments + -get,list
    Cluster sa deployments.apps +delete -list
    Cluster sa secrets [s] +* -
    ");
    assert_eq!(
        bundle.crds,
        [CrdChange {
            name: "foos.g".into(),
            versions: ValueChange { old: vec!["v1".into()], new: vec!["v1".into(), "v2".into()] },
            stored: None,
        }]
    );
    assert_eq!(
        bundle.image,
        Some(ValueChange { old: Some("registry.example/foo.v1".into()), new: Some("new".into()) })
    );
    assert!(bundle.manifests && bundle.properties.is_empty());
}

#[test]
fn csv_metadata_shows_crd_versions_too() {
    let metadata = |version: &str| {
        format!(
            r#"foo.v1 olm.csv.metadata={{"crdDescriptions":{{"owned":[{{"name":"foos.g","version":"{version}","kind":"Foo"}}]}}}}"#
        )
    };
    let changes = found(&format!("foo a: 1\n{}", metadata("v1")), &format!("foo a: 1\n{}", metadata("v2")), false);
    let crds = &changes.packages[0].bundles[0].crds;
    assert_eq!(crds[0].versions, ValueChange { old: vec!["v1".into()], new: vec!["v2".into()] });
}

#[test]
fn a_changelog_compares_new_versions_with_their_predecessors() {
    let gvk = |version: &str| format!(r#"olm.gvk={{"group":"g","version":"{version}","kind":"K"}}"#);
    let old = format!("foo a: 1\nfoo.v1 {}", gvk("v1"));
    let new = format!("foo a: 2<1 1 3<2\nfoo.v1 {}\nfoo.v2 {}\nfoo.v3 {}", gvk("v1"), gvk("v2"), gvk("v2"));
    let changes = found(&old, &new, true);
    let reported: Vec<String> = changes.packages[0]
        .bundles
        .iter()
        .map(|it| {
            format!(
                "{} against {:?}: +{} -{}",
                it.name,
                it.compared_with,
                it.properties.added.len(),
                it.properties.removed.len()
            )
        })
        .collect();
    assert_eq!(reported, ["foo.v2 against Some(\"foo.v1\"): +1 -1", "foo.v3 against Some(\"foo.v2\"): +0 -0"]);
    // The replaced bundle may exist only in the old catalog.
    let changes = found("foo a: 1", "foo a: 2<1", true);
    assert_eq!(changes.packages[0].bundles[1].compared_with.as_deref(), Some("foo.v1"));
    // Without `replaces`, the predecessor is the next lower version.
    let changes = found("foo a: 1 2-1", "foo a: 1 2-1\nfoo b: 5", true);
    assert_eq!(changes.packages[0].bundles[0].compared_with.as_deref(), Some("foo.v2"));
    assert_eq!(found("", "foo a: 1", true).packages[0].bundles[0].compared_with, None);
}

#[test]
fn a_rule_with_very_many_resources_is_not_expanded() {
    let many = |name: &str| (0..5000).map(|number| format!("\"{name}{number}\"")).collect::<Vec<_>>().join(",");
    let rules = format!(r#"{{"apiGroups":[{}],"resources":[{}],"verbs":["get"]}}"#, many("g"), many("r"));
    let changes = found(&format!("foo a: 1\nfoo.v1 {}", csv("")), &format!("foo a: 1\nfoo.v1 {}", csv(&rules)), false);
    assert_eq!(changes.packages[0].bundles[0].permissions.len(), 1);
}

#[test]
fn the_result_is_the_same_on_every_run() {
    let catalog = |last: usize, variants: usize| -> String {
        let package = |package: usize| {
            let mut text = format!("p{package} c: 1");
            (2..=last).for_each(|version| text += &format!(" {version}<{}", version - 1));
            (1..=last).for_each(|version| text += &format!("\np{package}.v{version} a={}", version % variants));
            text + "\n"
        };
        (0..20).map(package).collect()
    };
    let (old, new) = (Sample::new(&catalog(15, 2)), Sample::new(&catalog(20, 3)));
    let options = CompareOptions { changelog: true, ..CompareOptions::default() };
    let first = json(&changes(old.side(), new.side(), &options).unwrap());
    for _ in 0..50 {
        assert_eq!(json(&changes(old.side(), new.side(), &options).unwrap()), first);
    }
}

/// Catalogs of up to two packages with up to two channels of up to six versions; bundles have one of three images and
/// one of three properties.
fn catalogs() -> impl Strategy<Value = String> {
    let channels = proptest::collection::vec((0..2usize, 0..2usize, 1..64u32, 0..64u32), 0..5);
    let variants = proptest::collection::vec((0..3u8, 0..3u8), 12);
    (channels, variants).prop_map(|(channels, variants)| {
        let mut text = String::new();
        let mut seen = BTreeSet::new();
        let mut bundles = BTreeSet::new();
        for (package, channel, members, skips) in channels {
            if !seen.insert((package, channel)) {
                continue;
            }
            text += &format!("p{package} c{channel}:");
            let mut before = None;
            for version in (1..=6).filter(|version| members >> (version - 1) & 1 == 1) {
                text += &format!(" {version}");
                text += &before.map(|before| format!("<{before}")).unwrap_or_default();
                text += if skips >> (version - 1) & 1 == 1 { "-99" } else { "" };
                before = Some(version);
                bundles.insert((package, version));
            }
            text += "\n";
        }
        for (package, version) in bundles {
            let (image, property) = variants[package * 6 + version as usize - 1];
            text += &format!("p{package}.v{version} image=i{image}\n");
            text += &format!("p{package}.v{version} some={property}\n");
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn changes_applied_to_the_old_catalog_give_the_new_one(old in catalogs(), new in catalogs()) {
        let (old, new) = (Sample::new(&old), Sample::new(&new));
        let found = changes(old.side(), new.side(), &CompareOptions::default()).unwrap();
        let mut model = Model::of(&old);
        model.apply(&found);
        prop_assert_eq!(model, Model::of(&new));
        prop_assert!(changes(new.side(), new.side(), &CompareOptions::default()).unwrap().is_empty());
    }

    /// That diff covers neither edges nor removals, so only channel memberships and bundles are compared.
    #[test]
    fn new_content_merged_into_the_old_catalog_gives_the_new_one(old in catalogs(), new in catalogs()) {
        let (old, new) = (Sample::new(&old), Sample::new(&new));
        let selection = diff(Some(old.side()), new.side(), &diff::DiffOptions::default()).unwrap();
        let (before, after) = (Model::of(&old), Model::of(&new));
        let mut model = before.clone();
        for (package, channel, bundle) in selection.names() {
            let known = before.0.get(package).and_then(|it| it.channels.get(channel)?.get(bundle));
            let same = before.0.get(package).and_then(|it| it.bundles.get(bundle)) == after.0[package].bundles.get(bundle);
            prop_assert!(known.is_none() || !same, "{} of {} is not new", bundle, channel);
            let model = model.0.entry(package.to_owned()).or_default();
            model.channels.entry(channel.to_owned()).or_default().insert(bundle.to_owned(), ModelEntry::default());
            model.bundles.insert(bundle.to_owned(), after.0[package].bundles[bundle].clone());
        }
        for (name, package) in &after.0 {
            for (channel, entries) in &package.channels {
                for bundle in entries.keys() {
                    prop_assert!(model.0[name].channels[channel].contains_key(bundle));
                    prop_assert_eq!(&model.0[name].bundles[bundle], &package.bundles[bundle]);
                }
            }
        }
    }
}
