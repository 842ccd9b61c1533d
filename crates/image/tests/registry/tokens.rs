//! Tokens of registries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use image::{ErrorKind, Location};
use testkit::{FakeRegistry, FakeRequest, FakeResponse, ResponseFault};

use crate::kit::{Kit, write};

const MANIFEST: &str = r#"{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json",
    "digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[]}"#;
const CONFIG: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

/// Starts a registry that requires the token `right`; `grant` responds to token requests.
fn registry(grant: impl Fn(&FakeRequest) -> FakeResponse + Send + Sync + 'static) -> FakeRegistry {
    let registry = FakeRegistry::start(move |request| {
        if request.path.starts_with("/token") {
            return (ResponseFault::None, Some(grant(request)));
        }
        if request.headers.get("authorization").map(String::as_str) == Some("Bearer right") {
            return (ResponseFault::None, None);
        }
        let host = &request.headers["host"];
        let challenge = format!(r#"Bearer realm="http://{host}/token",service="test registry""#);
        (ResponseFault::None, Some(FakeResponse::status(401).header("WWW-Authenticate", &challenge)))
    });
    registry.put("/v2/a/b/manifests/v1", "application/vnd.oci.image.manifest.v1+json", MANIFEST.as_bytes());
    registry.put(&format!("/v2/a/b/blobs/{CONFIG}"), "application/octet-stream", b"{}");
    registry
}

fn kit(registry: &FakeRegistry, entry: &str) -> Kit {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "auth.json", format!(r#"{{"auths": {{"{}": {entry}}}}}"#, registry.host()));
    Kit::in_dir(dir, &[("REGISTRY_AUTH_FILE", "{}/auth.json")], |options| options.use_http = true)
}

#[test]
fn a_password_is_exchanged_for_a_token() {
    let registry = registry(|request| {
        let known = request.headers.get("authorization").map(String::as_str) == Some("Basic dXNlcjpzZWNyZXQ=");
        let scope = "service=test%20registry&scope=repository:a/b:pull&account=user";
        assert!(request.path.ends_with(scope), "{}", request.path);
        if known { FakeResponse::status(200).body(r#"{"access_token": "right"}"#) } else { FakeResponse::status(401) }
    });
    let good = kit(&registry, r#"{"auth": "dXNlcjpzZWNyZXQ="}"#);
    good.pull(&format!("{}/a/b:v1", registry.host())).unwrap();
    let tokens = registry.log().iter().filter(|request| request.path.starts_with("/token")).count();
    assert_eq!(tokens, 1, "a valid token is reused");
    let bad = kit(&registry, r#"{"auth": "dXNlcjpvdGhlcg=="}"#);
    assert_eq!(bad.pull(&format!("{}/a/b:v1", registry.host())).unwrap_err().kind(), ErrorKind::Unauthorized);
}

#[test]
fn an_identity_token_is_exchanged_for_a_token() {
    let registry = registry(|request| {
        let body = String::from_utf8_lossy(&request.body);
        let good = request.method == "POST"
            && body.contains("grant_type=refresh_token")
            && body.contains("refresh_token=iden%2Btity")
            && body.contains("scope=repository:a/b:pull");
        if good { FakeResponse::status(200).body(r#"{"token": "right"}"#) } else { FakeResponse::status(401) }
    });
    let kit = kit(&registry, r#"{"identitytoken": "iden+tity"}"#);
    kit.pull(&format!("{}/a/b:v1", registry.host())).unwrap();
}

#[test]
fn an_expired_token_is_renewed() {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let registry = registry(move |_| {
        let token = if counted.fetch_add(1, Ordering::SeqCst) == 0 { "wrong" } else { "right" };
        FakeResponse::status(200).body(format!(r#"{{"token": "{token}", "expires_in": 300}}"#))
    });
    Kit::plain().pull(&format!("{}/a/b:v1", registry.host())).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[test]
fn credentials_stay_with_their_registry() {
    let elsewhere = FakeRegistry::start(|request| {
        assert!(!request.headers.contains_key("authorization"), "{request:?}");
        (ResponseFault::None, Some(FakeResponse::status(200).body("{}")))
    });
    let target = format!("http://{}/x", elsewhere.host());
    let registry = FakeRegistry::start(move |request| {
        if !request.headers.contains_key("authorization") {
            return (ResponseFault::None, Some(FakeResponse::status(401).header("WWW-Authenticate", "Basic realm=x")));
        }
        if request.path.contains("/blobs/") {
            return (ResponseFault::None, Some(FakeResponse::status(307).header("Location", &target)));
        }
        (ResponseFault::None, None)
    });
    registry.put("/v2/a/b/manifests/v1", "application/vnd.oci.image.manifest.v1+json", MANIFEST.as_bytes());
    let kit = kit(&registry, r#"{"auth": "dXNlcjpzZWNyZXQ="}"#);
    kit.client.pull(&Location::parse(&format!("{}/a/b:v1", registry.host())).unwrap()).unwrap();
    assert_eq!(elsewhere.log().len(), 1);
}
