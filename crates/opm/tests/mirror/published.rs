//! M-2: the bundles of published packages that a file keeps, compared with a plain implementation of the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use fbc::version::Version;
use serde_json::Value;
use testkit::published::CATALOG;

use crate::kit::{Kit, mirror};

/// Packages with many skips, with pre-releases, with many channels.
const PACKAGES: [&str; 3] = ["skupper-operator", "cert-manager", "camel-k"];

/// The data of a package that the rules need.
#[derive(Default)]
struct Package {
    /// The entries of each channel: name, replaces, skips.
    channels: BTreeMap<String, Vec<(String, String, Vec<String>)>>,
    versions: BTreeMap<String, Version>,
}

fn read(text: &str) -> Package {
    let mut package = Package::default();
    for blob in serde_json::Deserializer::from_str(text).into_iter::<Value>().map(Result::unwrap) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match text(&blob["schema"]).as_str() {
            "olm.channel" => {
                let entries = blob["entries"].as_array().unwrap().iter().map(|entry| {
                    let skips = entry["skips"].as_array().into_iter().flatten().map(text).collect();
                    (text(&entry["name"]), text(&entry["replaces"]), skips)
                });
                package.channels.insert(text(&blob["name"]), entries.collect());
            }
            "olm.bundle" => {
                let properties = blob["properties"].as_array().unwrap();
                let own = properties.iter().find(|property| property["type"] == "olm.package").unwrap();
                let version = Version::parse_strict(&text(&own["value"]["version"])).unwrap();
                package.versions.insert(text(&blob["name"]), version);
            }
            _ => {}
        }
    }
    package
}

/// Implements the rules without regard to cost: heads by default, else the part of the chain within the range.
fn expected(package: &Package, min: Option<&Version>, max: Option<&Version>) -> BTreeMap<String, BTreeSet<String>> {
    let mut selected = BTreeMap::new();
    for (name, entries) in &package.channels {
        let find = |wanted: &str| entries.iter().find(|(name, ..)| name == wanted);
        let fits = |name: &str| {
            let version = find(name).map(|_| &package.versions[name]);
            version.is_some_and(|version| {
                min.is_none_or(|min| version.cmp_precedence(min).is_ge())
                    && max.is_none_or(|max| version.cmp_precedence(max).is_le())
            })
        };
        let below: BTreeSet<&str> = entries
            .iter()
            .flat_map(|(_, replaces, skips)| skips.iter().map(String::as_str).chain([replaces.as_str()]))
            .collect();
        let head = entries.iter().find(|(name, ..)| !below.contains(name.as_str())).unwrap();
        if min.is_none() && max.is_none() {
            selected.insert(name.clone(), BTreeSet::from([head.0.clone()]));
            continue;
        }
        if min == max {
            let exact: BTreeSet<String> = entries.iter().map(|(name, ..)| name.clone()).filter(|it| fits(it)).collect();
            selected.insert(name.clone(), exact);
            continue;
        }
        let mut chain = vec![head];
        while let Some(next) = find(&chain.last().unwrap().1) {
            chain.push(next);
        }
        let count = |from: usize| {
            let all: BTreeSet<&str> = chain[from..]
                .iter()
                .flat_map(|(name, _, skips)| skips.iter().chain([name]).map(String::as_str))
                .filter(|name| fits(name))
                .collect();
            all.len()
        };
        let greatest = count(0);
        let Some(top) = (0..chain.len()).filter(|at| greatest > 0 && count(*at) == greatest).max() else { continue };
        let line = (top..chain.len()).take_while(|at| count(*at) > 0).map(|at| chain[at]);
        let own = line.flat_map(|(name, _, skips)| {
            skips.iter().filter(|skip| fits(skip)).chain([name]).cloned().collect::<Vec<_>>()
        });
        selected.insert(name.clone(), own.collect());
    }
    selected.retain(|_, bundles: &mut BTreeSet<String>| !bundles.is_empty());
    selected
}

#[test]
fn m2_bundles_of_published_packages_are_selected_by_the_rules() {
    let Some(published) = CATALOG.unpack() else { return };
    let Some(kit) = Kit::new() else { return };
    let mut compared = 0;
    for name in PACKAGES {
        let directory = published.path().join("catalog").join(name);
        let text = fs::read_to_string(directory.join("catalog.json")).unwrap();
        let package = read(&text);
        let index = format!("{}/published/{name}:v1", kit.host);
        kit.stdout(&["build", &directory.display().to_string(), "--data-only", "-t", &index, "--push", "--use-http"]);
        let mut versions: Vec<&Version> = package.versions.values().collect();
        versions.sort_by(|a, b| a.cmp_precedence(b));
        let at = |part: usize| versions[versions.len() * part / 4];
        for (min, max) in [
            (None, None),
            (Some(at(2)), None),
            (None, Some(at(1))),
            (Some(at(1)), Some(at(3))),
            (Some(at(2)), Some(at(2))),
        ] {
            let bound = |word: &str, bound: Option<&Version>| {
                bound.map(|bound| format!(", {word}: '{bound}'")).unwrap_or_default()
            };
            let text = format!(
                "kind: ImageSetConfiguration\nmirror:\n  operators:\n  - catalog: {index}\n    packages: [{{name: \
                 {name}{}{}}}]\n  blockedImages: [{{name: .}}]\n",
                bound("minVersion", min),
                bound("maxVersion", max)
            );
            fs::write(kit.path("set.yaml"), &text).unwrap();
            let output = kit.run(&mirror(&["plan", "set.yaml", "-o", "json", "--choose-default", "--missing", "keep"]));
            let expected = expected(&package, min, max);
            assert_eq!(output.status.success(), !expected.is_empty(), "{text}{output:?}");
            if expected.is_empty() {
                continue;
            }
            let planned: Value = serde_json::from_slice(&output.stdout).unwrap();
            let channels = &planned["lock"]["catalogs"][0]["packages"][name]["channels"];
            let found: BTreeMap<String, BTreeSet<String>> = serde_json::from_value(channels.clone()).unwrap();
            assert_eq!(found, expected, "{text}");
            compared += 1;
        }
    }
    assert!(compared >= 12, "{compared}");
}
