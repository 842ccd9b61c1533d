//! T-20: images for some platforms only.

use std::collections::HashMap;
use std::sync::Mutex;

use image::Digest;
use testkit::{FakeRegistry, FakeRequest, FakeResponse, Fault};

use crate::kit::Kit;

const ALPHA: &str = "    - name: alpha\n      minVersion: 1.1.0\n";
const ONE: &str = "    platforms: [{os: linux, architecture: amd64}]\n";

#[test]
fn t20_a_registry_that_takes_no_sparse_index_is_asked_first() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set_of("set.yaml", "v1", ALPHA, ONE);
    kit.mirror(&["pull", &file, "out"]);
    let error = kit.mirror_fails(&["push", "out", &kit.to()]);
    assert!(error.contains("rejects indexes without all their images"), "{error}");
    // What to do is named: all platforms, or which setting.
    let ways = ["remove 'platforms'", "validation.manifests.indexes.platforms: none", "FEATURE_SPARSE_INDEX: true"];
    assert!(ways.iter().all(|way| error.contains(way)), "{error}");
    assert_eq!(kit.closed_digest("m/ns/index:v1"), None);
}

/// A registry that takes everything, and gives no blob of one repository to another.
fn lenient() -> FakeRegistry {
    taking(|_| true)
}

/// The same, but it takes what the rule says.
pub(crate) fn taking(rule: impl Fn(&str) -> bool + Send + Sync + 'static) -> FakeRegistry {
    let kept: Mutex<HashMap<String, FakeResponse>> = Mutex::default();
    FakeRegistry::start(move |asked: &FakeRequest| {
        if asked.method != "GET" && !rule(&asked.path) {
            return (Fault::None, Some(FakeResponse::status(400)));
        }
        let mut kept = kept.lock().unwrap();
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let answer = match asked.method.as_str() {
            "POST" => FakeResponse::status(202).header("Location", &format!("{path}1")),
            "PUT" if path.contains("/blobs/uploads/") => {
                let digest = query.trim_start_matches("digest=").replace("%3A", ":");
                let place = path.split("/uploads/").next().unwrap_or_default();
                kept.insert(format!("{place}/{digest}"), FakeResponse::status(200).body(asked.body.clone()));
                FakeResponse::status(201)
            }
            "PUT" => {
                let digest = Digest::of(&asked.body).to_string();
                let media_type = asked.headers.get("content-type").cloned().unwrap_or_default();
                let made = FakeResponse::status(200)
                    .header("Docker-Content-Digest", &digest)
                    .header("Content-Type", &media_type)
                    .body(asked.body.clone());
                let place = path.rsplit_once('/').map_or("", |(place, _)| place);
                kept.insert(format!("{place}/{digest}"), made.clone());
                kept.insert(path.to_owned(), made);
                FakeResponse::status(201)
            }
            "DELETE" => FakeResponse::status(202),
            _ if path == "/v2/" => FakeResponse::status(200),
            _ => kept.get(path).cloned().unwrap_or_else(|| FakeResponse::status(404)),
        };
        (Fault::None, Some(answer))
    })
}

#[test]
fn t20_where_it_is_allowed_the_index_stays_and_other_platforms_stay_behind() {
    let Some(kit) = Kit::new() else { return };
    let index = kit.index("ns/many:v1", &["amd64", "arm64", "s390x"]);
    let more = format!(
        "  additionalImages:\n  - name: {}/ns/many:v1\n    platforms: [{{os: linux, architecture: arm64}}]\n",
        kit.host
    );
    let file = kit.set_of("set.yaml", "v1", ALPHA, &more);
    kit.mirror(&["pull", &file, "out"]);
    let list = kit.read("out/mirror/blobs.txt");
    for (architecture, is_wanted) in [("amd64", false), ("arm64", true), ("s390x", false)] {
        let layer = Digest::of(format!("a layer for {architecture}").as_bytes());
        assert_eq!(list.contains(&layer.to_string()), is_wanted, "{architecture}: {list}");
    }
    let registry = lenient();
    let to = format!("{}/m", registry.host());
    kit.mirror(&["push", "out", &to]);
    kit.mirror(&["verify", &to, "--lock", "out/mirror/lock.json"]);
    let put =
        registry.log().into_iter().find(|asked| asked.method == "PUT" && asked.path.ends_with("/ns/many/manifests/v1"));
    assert_eq!(Digest::of(&put.unwrap().body), index);
}
