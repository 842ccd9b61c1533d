//! Which texts are policies, and which part of a policy applies to an image.

use image::signature::{Identity, Material, PolicyRequirement, SignaturePolicy, TrustedSigners};

const ANYTHING: &str = r#"[{"type": "insecureAcceptAnything"}]"#;

fn with(requirement: &str) -> Result<PolicyRequirement, String> {
    let text = format!(r#"{{"default": [{requirement}]}}"#);
    let policy = SignaturePolicy::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(policy.applied("docker", &[]).requirements[0].clone())
}

#[test]
fn unknown_content_makes_a_policy_invalid() {
    for text in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"default": []}"#,
        r#"{"default": {}}"#,
        r#"{"default": [{}]}"#,
        r#"{"default": [{"type": "other"}]}"#,
        r#"{"default": [{"type": "reject", "why": "no"}]}"#,
        r#"{"default": [{"type": "reject", "type": "insecureAcceptAnything"}]}"#,
        r#"{"default": [{"type": "reject"}], "defaults": []}"#,
        r#"{"default": [{"type": "reject"}], "default": [{"type": "insecureAcceptAnything"}]}"#,
        r#"{"default": [{"type": "reject"}], "transports": []}"#,
        r#"{"default": [{"type": "reject"}], "transports": {"docker": {"a.test": []}}}"#,
        r#"{"default": [{"type": "reject"}], "transports": {"oci": {"here": [{"type": "reject"}]}}}"#,
        r#"{"default": [{"type": "reject"}], "transports": {"oci": {"/": [{"type": "reject"}]}}}"#,
        r#"{"default": [{"type": "reject"}], "transports": {"dir": {"/a/../b": [{"type": "reject"}]}}}"#,
        r#"{"default": [{"type": "reject"}], "transports": {"docker-archive": {"x": [{"type": "reject"}]}}}"#,
        r#"{"default": [{"type": "reject"}]} {}"#,
    ] {
        assert!(SignaturePolicy::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn requirements_name_one_source_of_trust() {
    for requirement in [
        r#"{"type": "signedBy"}"#,
        r#"{"type": "signedBy", "keyType": "GPGKeys"}"#,
        r#"{"type": "signedBy", "keyType": "other", "keyPath": "/a"}"#,
        r#"{"type": "signedBy", "keyType": "GPGKeys", "keyPath": ""}"#,
        r#"{"type": "signedBy", "keyType": "GPGKeys", "keyPath": 1}"#,
        r#"{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/a", "keyData": "YQ=="}"#,
        r#"{"type": "signedBy", "keyType": "GPGKeys", "keyPaths": []}"#,
        r#"{"type": "signedBy", "keyType": "GPGKeys", "keyData": "%"}"#,
        r#"{"type": "signedBy", "keyType": "GPGKeys", "keyDatas": ["YQ=="]}"#,
        r#"{"type": "sigstoreSigned"}"#,
        r#"{"type": "sigstoreSigned", "keyPath": "/a", "keyPaths": ["/a"]}"#,
        r#"{"type": "sigstoreSigned", "keyPath": "/a", "keyType": "GPGKeys"}"#,
        r#"{"type": "sigstoreSigned", "keyPath": "/a", "signedIdentity": null}"#,
        r#"{"type": "sigstoreSigned", "keyPath": "/a", "rekorPublicKeyPath": "/b", "rekorPublicKeyData": "YQ=="}"#,
        r#"{"type": "sigstoreSigned", "fulcio": {"caPath": "/a", "oidcIssuer": "i", "subjectEmail": "e"}}"#,
        r#"{"type": "sigstoreSigned", "rekorPublicKeyPath": "/b", "fulcio": {"caPath": "/a", "oidcIssuer": "i"}}"#,
        r#"{"type": "sigstoreSigned", "rekorPublicKeyPath": "/b", "fulcio": {"oidcIssuer": "i", "subjectEmail": "e"}}"#,
        r#"{"type": "sigstoreSigned", "pki": {"caRootsPath": "/a"}}"#,
        r#"{"type": "sigstoreSigned", "pki": {"caRootsPath": "/a", "subjectEmail": ""}}"#,
        r#"{"type": "sigstoreSigned", "rekorPublicKeyPath": "/b", "pki": {"caRootsPath": "/a", "subjectEmail": "e"}}"#,
        r#"{"type": "signedBaseLayer"}"#,
    ] {
        assert!(with(requirement).is_err(), "{requirement}");
    }
}

#[test]
fn all_kinds_of_trust_are_parsed() {
    let Ok(PolicyRequirement::SignedBy(simple)) =
        with(r#"{"type": "signedBy", "keyType": "GPGKeys", "keyPaths": ["/a", "/b"]}"#)
    else {
        panic!("no signedBy")
    };
    assert_eq!(simple.keys, [Material::Path("/a".into()), Material::Path("/b".into())]);
    assert_eq!(simple.identity, Identity::MatchRepoDigestOrExact);
    let Ok(PolicyRequirement::SigstoreSigned(keys)) = with(
        r#"{"type": "sigstoreSigned", "keyDatas": ["YQ==", "Yg=="], "signedIdentity": {"type": "matchRepository"}}"#,
    ) else {
        panic!("no sigstoreSigned")
    };
    assert_eq!(keys.trust, TrustedSigners::Keys(vec![Material::Data(b"a".to_vec()), Material::Data(b"b".to_vec())]));
    assert_eq!(keys.identity, Identity::MatchRepository);
    let fulcio = r#"{"type": "sigstoreSigned", "rekorPublicKeyPaths": ["/r"],
        "fulcio": {"caData": "YQ==", "oidcIssuer": "i", "subjectEmail": "e"}}"#;
    assert!(
        matches!(with(fulcio), Ok(PolicyRequirement::SigstoreSigned(it)) if matches!(it.trust, TrustedSigners::Fulcio { .. }))
    );
    let pki = r#"{"type": "sigstoreSigned", "pki": {"caRootsData": "YQ==", "caIntermediatesPath": "/i", "subjectHostname": "h"}}"#;
    assert!(
        matches!(with(pki), Ok(PolicyRequirement::SigstoreSigned(it)) if matches!(it.trust, TrustedSigners::Pki { .. }))
    );
    let base = r#"{"type": "signedBaseLayer", "baseLayerIdentity": {"type": "matchExact"}}"#;
    assert_eq!(with(base), Ok(PolicyRequirement::SignedBaseLayer));
}

#[test]
fn the_narrowest_scope_applies() {
    let text = format!(
        r#"{{"default": [{{"type": "reject"}}], "transports": {{"docker": {{"a.test/x": {ANYTHING}, "": {ANYTHING}}}, "new": {{"s": {ANYTHING}}}}}}}"#
    );
    let policy = SignaturePolicy::parse(text.as_bytes()).unwrap();
    let scopes = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    assert_eq!(policy.applied("docker", &scopes(&["a.test/x:v1", "a.test/x", ""])).scope, Some(("docker", "a.test/x")));
    assert_eq!(policy.applied("docker", &scopes(&["b.test/x:v1", ""])).scope, Some(("docker", "")));
    let other = policy.applied("oci", &scopes(&["/a", ""]));
    assert_eq!((other.scope, other.requirements), (None, &[PolicyRequirement::Reject][..]));
}
