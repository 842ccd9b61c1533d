//! Explanations of how a client would reach an image.

use testkit::{FakeRegistry, FakeResponse, ResponseFault};

use crate::kit::{Kit, write};

#[test]
fn an_explanation_shows_files_registries_and_responses_but_no_secrets() {
    let registry = FakeRegistry::start(|request| {
        if request.headers.get("authorization").map(String::as_str) == Some("Basic bmFtZTpzZWNyZXQ=") {
            return (ResponseFault::None, None);
        }
        (ResponseFault::None, Some(FakeResponse::status(401).header("WWW-Authenticate", "Basic realm=x")))
    });
    let manifest = r#"{"schemaVersion":2,"config":{"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[]}"#;
    registry.put("/v2/a/b/manifests/v1", "application/vnd.oci.image.manifest.v1+json", manifest.as_bytes());
    let host = registry.host();
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "auth.json", format!(r#"{{"auths": {{"{host}/a": {{"auth": "bmFtZTpzZWNyZXQ="}}}}}}"#));
    let rule = format!(
        "[[registry]]\nprefix = 'reg.test'\nlocation = '{host}'\ninsecure = true\n[[registry.mirror]]\nlocation = '127.0.0.1:1'\n"
    );
    write(&dir, "etc/containers/registries.conf", rule);
    write(&dir, "etc/containers/policy.json", r#"{"default": [{"type": "insecureAcceptAnything"}]}"#);
    let variables = [("REGISTRY_AUTH_FILE", "{}/auth.json"), ("HTTPS_PROXY", "http://name:secret@proxy.test:3128")];
    let kit = Kit::in_dir(dir, &variables, |_| {});
    let explanation = kit.client.explain(&"reg.test/a/b:v1".parse().unwrap());
    assert_eq!(explanation.verdict(), None);
    assert_eq!(explanation.registries_conf, [kit.path().join("etc/containers/registries.conf")]);
    assert_eq!(explanation.rule, Some(kit.path().join("etc/containers/registries.conf")));
    assert_eq!(explanation.policy, Some(kit.path().join("etc/containers/policy.json")));
    let [mirror, home] = explanation.places.as_slice() else { panic!("{explanation:?}") };
    assert!(mirror.mirror && mirror.problem.is_some() && mirror.credentials.is_none());
    assert!(mirror.searched.contains(&kit.path().join("auth.json")));
    assert_eq!((home.status, home.asks_for.as_deref()), (Some(401), Some("a password")));
    assert_eq!(home.credentials.as_ref().unwrap().key, format!("{host}/a"));
    assert!(home.digest.is_some() && home.problem.is_none() && !home.verified);
    let shown = serde_json::to_string(&explanation).unwrap() + &format!("{explanation:?}");
    assert!(!shown.contains("secret") && !shown.contains("bmFt"), "{shown}");
}

#[test]
fn a_proxy_is_shown_without_its_password() {
    let kit = Kit::with(&[("HTTPS_PROXY", "http://name:secret@127.0.0.1:1")], |_| {});
    let explanation = kit.client.explain(&"reg.test/a/b:v1".parse().unwrap());
    assert_eq!(explanation.places[0].proxy.as_deref(), Some("http://127.0.0.1:1"));
    assert!(explanation.verdict().is_some());
    let shown = serde_json::to_string(&explanation).unwrap();
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn a_blocked_registry_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "etc/containers/registries.conf", "[[registry]]\nlocation = 'reg.test'\nblocked = true\n");
    let explanation = Kit::in_dir(dir, &[], |_| {}).client.explain(&"reg.test/a:v1".parse().unwrap());
    assert!(explanation.problem.unwrap().text.contains("is blocked in"));
    assert!(explanation.places.is_empty());
}
