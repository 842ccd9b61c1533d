//! M-20: images for some platforms only.

use std::collections::HashMap;
use std::sync::Mutex;

use image::Digest;
use testkit::{FakeRegistry, FakeRequest, FakeResponse, ResponseFault};

use crate::kit::Kit;

const ALPHA: &str = "    - name: alpha\n      minVersion: 1.1.0\n";
const ONE: &str = "    platforms: [{os: linux, architecture: amd64}]\n";

#[test]
fn m20_a_registry_that_rejects_sparse_indexes_is_detected_first() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set_of("set.yaml", "v1", ALPHA, ONE);
    kit.mirror(&["pull", &file, "out"]);
    let error = kit.mirror_fails(&["push", "out", &kit.to()]);
    assert!(error.contains("rejects indexes without all their images"), "{error}");
    // The error suggests all platforms, or the setting of the registry.
    let ways = ["remove 'platforms'", "validation.manifests.indexes.platforms: none", "FEATURE_SPARSE_INDEX: true"];
    assert!(ways.iter().all(|way| error.contains(way)), "{error}");
    assert_eq!(kit.closed_digest("m/ns/index:v1"), None);
}

/// Starts a registry that accepts everything, and mounts no blobs across repositories.
fn lenient() -> FakeRegistry {
    accepting(|_| true)
}

/// Like [`lenient`], but it accepts only what the rule allows.
pub(crate) fn accepting(rule: impl Fn(&str) -> bool + Send + Sync + 'static) -> FakeRegistry {
    let content: Mutex<HashMap<String, FakeResponse>> = Mutex::default();
    FakeRegistry::start(move |request: &FakeRequest| {
        if request.method != "GET" && !rule(&request.path) {
            return (ResponseFault::None, Some(FakeResponse::status(400)));
        }
        let mut content = content.lock().unwrap();
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let reply = match request.method.as_str() {
            "POST" => FakeResponse::status(202).header("Location", &format!("{path}1")),
            "PUT" if path.contains("/blobs/uploads/") => {
                let digest = query.trim_start_matches("digest=").replace("%3A", ":");
                let place = path.split("/uploads/").next().unwrap_or_default();
                content.insert(format!("{place}/{digest}"), FakeResponse::status(200).body(request.body.clone()));
                FakeResponse::status(201)
            }
            "PUT" => {
                let digest = Digest::of(&request.body).to_string();
                let media_type = request.headers.get("content-type").cloned().unwrap_or_default();
                let response = FakeResponse::status(200)
                    .header("Docker-Content-Digest", &digest)
                    .header("Content-Type", &media_type)
                    .body(request.body.clone());
                let place = path.rsplit_once('/').map_or("", |(place, _)| place);
                content.insert(format!("{place}/{digest}"), response.clone());
                content.insert(path.to_owned(), response);
                FakeResponse::status(201)
            }
            "DELETE" => FakeResponse::status(202),
            _ if path == "/v2/" => FakeResponse::status(200),
            _ => content.get(path).cloned().unwrap_or_else(|| FakeResponse::status(404)),
        };
        (ResponseFault::None, Some(reply))
    })
}

#[test]
fn m20_a_sparse_index_is_kept_without_images_of_other_platforms() {
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
    let put = registry
        .log()
        .into_iter()
        .find(|request| request.method == "PUT" && request.path.ends_with("/ns/many/manifests/v1"));
    assert_eq!(Digest::of(&put.unwrap().body), index);
}
