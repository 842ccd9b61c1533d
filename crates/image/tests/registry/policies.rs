//! Policies, and what they mean to others.

use std::fs;

use serde_json::{Value, json};

use crate::signed::House;

#[test]
fn policies_are_valid_and_apply_as_for_skopeo() {
    let Some(house) = House::new() else { return };
    let host = house.registry.host();
    let accept = json!([{ "type": "insecureAcceptAnything" }]);
    let reject = json!([{ "type": "reject" }]);
    let scope = |scope: &str| json!({ "default": reject, "transports": { "docker": { scope: accept } } });
    let (by_name, by_tag) = (house.name("a/b"), house.name("a/b:v1"));
    let asked = |requirement: Value| json!({ "default": [requirement] });
    let keys = house.path("good.gpg");
    for (policy, good) in [
        (json!({ "default": accept }), true),
        (json!({ "default": reject }), false),
        (json!({ "default": reject, "transports": {} }), false),
        (json!({ "default": reject, "transports": { "docker": { "": accept } } }), true),
        (json!({ "default": accept, "transports": { "docker": { host: reject } } }), false),
        (json!({ "default": accept, "transports": { "docker": { host: reject, by_name.as_str(): accept } } }), true),
        (json!({ "default": accept, "transports": { "atomic": { host: reject } } }), true),
        (scope(host), true),
        (scope(&house.name("a")), true),
        (scope(&by_name), true),
        (scope(&by_tag), true),
        (scope(&house.name("a/b:v2")), false),
        (scope(&house.name("a/")), false),
        (scope(&format!("*.0.0.1:{}", host.split(':').nth(1).unwrap())), false),
        (scope("*.0.0.1"), true),
        (json!({ "default": accept, "transports": { "oci": { "/a": reject } } }), true),
        (json!({ "default": accept, "transports": { "oci": { "a": reject } } }), false),
        (json!({ "default": accept, "transports": { "dir": { "/": reject } } }), false),
        (json!({ "default": accept, "transports": { "docker-archive": { "x": reject } } }), false),
        (json!({ "default": accept, "transports": { "docker": { "x": [] } } }), false),
        (json!({ "default": accept, "more": 1 }), false),
        (json!({ "transports": {} }), false),
        (json!({ "default": [] }), false),
        (json!([]), false),
        (asked(json!({ "type": "unknown" })), false),
        (asked(json!({ "type": "insecureAcceptAnything", "more": 1 })), false),
        (asked(json!({ "type": "signedBy", "keyType": "GPGKeys" })), false),
        (asked(json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": keys, "keyData": "YQ==" })), false),
        (asked(json!({ "type": "signedBy", "keyType": "other", "keyPath": keys })), false),
        (json!({ "default": [accept[0], { "type": "reject" }] }), false),
    ] {
        let text = policy.to_string();
        fs::write(house.path("table.json"), &text).unwrap();
        let ours = house.client(&house.path("table.json")).pull(&by_tag);
        assert_eq!(ours.is_ok(), good, "{text}: {:?}", ours.err());
        let theirs = house.skopeo(&house.path("table.json"), "a/b:v1");
        assert_eq!(theirs.is_ok(), good, "skopeo, {text}: {theirs:?}");
    }
}
