//! Policies, compared with skopeo.

use std::fs;

use serde_json::{Value, json};

use crate::signed::SignedRegistry;

#[test]
fn policies_are_parsed_and_applied_like_skopeo() {
    let Some(signed) = SignedRegistry::new() else { return };
    let host = signed.registry.host();
    let accept = json!([{ "type": "insecureAcceptAnything" }]);
    let reject = json!([{ "type": "reject" }]);
    let scope = |scope: &str| json!({ "default": reject, "transports": { "docker": { scope: accept } } });
    let (by_name, by_tag) = (signed.name("a/b"), signed.name("a/b:v1"));
    let default_policy = |requirement: Value| json!({ "default": [requirement] });
    let keys = signed.path("good.gpg");
    for (policy, good) in [
        (json!({ "default": accept }), true),
        (json!({ "default": reject }), false),
        (json!({ "default": reject, "transports": {} }), false),
        (json!({ "default": reject, "transports": { "docker": { "": accept } } }), true),
        (json!({ "default": accept, "transports": { "docker": { host: reject } } }), false),
        (json!({ "default": accept, "transports": { "docker": { host: reject, by_name.as_str(): accept } } }), true),
        (json!({ "default": accept, "transports": { "atomic": { host: reject } } }), true),
        (scope(host), true),
        (scope(&signed.name("a")), true),
        (scope(&by_name), true),
        (scope(&by_tag), true),
        (scope(&signed.name("a/b:v2")), false),
        (scope(&signed.name("a/")), false),
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
        (default_policy(json!({ "type": "unknown" })), false),
        (default_policy(json!({ "type": "insecureAcceptAnything", "more": 1 })), false),
        (default_policy(json!({ "type": "signedBy", "keyType": "GPGKeys" })), false),
        (
            default_policy(json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": keys, "keyData": "YQ==" })),
            false,
        ),
        (default_policy(json!({ "type": "signedBy", "keyType": "other", "keyPath": keys })), false),
        (json!({ "default": [accept[0], { "type": "reject" }] }), false),
    ] {
        let text = policy.to_string();
        fs::write(signed.path("table.json"), &text).unwrap();
        let ours = signed.client(&signed.path("table.json")).pull(&by_tag);
        assert_eq!(ours.is_ok(), good, "{text}: {:?}", ours.err());
        let theirs = signed.skopeo(&signed.path("table.json"), "a/b:v1");
        assert_eq!(theirs.is_ok(), good, "skopeo, {text}: {theirs:?}");
    }
}
