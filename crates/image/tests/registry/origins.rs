//! Credentials stay with the server they belong to, whatever a registry redirects to.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use testkit::{FakeRegistry, FakeRequest, FakeResponse, ResponseFault};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use crate::kit::{Kit, write};

const MANIFEST: &str = r#"{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json",
    "digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[]}"#;
const PASSWORD: &str = r#"{"auth": "dXNlcjpzZWNyZXQ="}"#;
const BASIC: &str = "Basic dXNlcjpzZWNyZXQ=";

fn kit(host: &str, entry: &str, skip_tls_verify: bool) -> Kit {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "auth.json", format!(r#"{{"auths": {{"{host}": {entry}}}}}"#));
    Kit::in_dir(dir, &[("REGISTRY_AUTH_FILE", "{}/auth.json")], |options| {
        options.use_http = !skip_tls_verify;
        options.skip_tls_verify = skip_tls_verify;
    })
}

fn header<'a>(request: &'a FakeRequest, name: &str) -> Option<&'a str> {
    request.headers.get(name).map(String::as_str)
}

/// Asserts that no request to a server contained credentials: in headers, body or URL.
fn assert_no_credentials(server: &FakeRegistry) {
    for request in server.log() {
        assert_eq!(header(&request, "authorization"), None, "{} {}", request.method, request.path);
        let body = String::from_utf8_lossy(&request.body).into_owned();
        assert!(!format!("{}{body}", request.path).contains("identity"), "{} {}: {body}", request.method, request.path);
    }
}

/// Starts a registry that requires a password, and redirects blobs to `target`.
fn redirecting(target: String) -> FakeRegistry {
    let registry = FakeRegistry::start(move |request| {
        let response = if header(request, "authorization") != Some(BASIC) {
            Some(FakeResponse::status(401).header("WWW-Authenticate", "Basic realm=x"))
        } else if request.path.contains("/blobs/") {
            Some(FakeResponse::status(307).header("Location", &target))
        } else {
            None
        };
        (ResponseFault::None, response)
    });
    registry.put("/v2/a/b/manifests/v1", "application/vnd.oci.image.manifest.v1+json", MANIFEST.as_bytes());
    registry
}

#[test]
fn a_server_that_blobs_redirect_to_gets_no_credentials_for_its_realm() {
    for challenge in [r#"Bearer realm="http://HOST/token",service="x""#, "Basic realm=x"] {
        let elsewhere = FakeRegistry::start(move |request| {
            let challenge = challenge.replace("HOST", &request.headers["host"]);
            let response = if request.path.starts_with("/token") {
                FakeResponse::status(200).body(r#"{"token": "theirs"}"#)
            } else {
                FakeResponse::status(401).header("WWW-Authenticate", &challenge)
            };
            (ResponseFault::None, Some(response))
        });
        let registry = redirecting(format!("http://{}/x", elsewhere.host()));
        let kit = kit(registry.host(), PASSWORD, false);
        let error = kit.pull(&format!("{}/a/b:v1", registry.host())).unwrap_err();
        assert!(!elsewhere.log().is_empty(), "the redirect was not followed");
        assert_no_credentials(&elsewhere);
        assert!(error.help().is_some_and(|help| help.contains(elsewhere.host())), "{error}: {:?}", error.help());
    }
}

#[test]
fn a_server_that_the_first_call_redirects_to_gets_no_credentials_either() {
    let elsewhere = FakeRegistry::start(move |request| {
        let realm = format!(r#"Bearer realm="http://{}/token""#, request.headers["host"]);
        (ResponseFault::None, Some(FakeResponse::status(401).header("WWW-Authenticate", &realm)))
    });
    let target = format!("http://{}/v2/", elsewhere.host());
    let registry = FakeRegistry::start(move |request| {
        let redirect = FakeResponse::status(302).header("Location", &target);
        (ResponseFault::None, (request.path == "/v2/").then_some(redirect))
    });
    let kit = kit(registry.host(), PASSWORD, false);
    kit.pull(&format!("{}/a/b:v1", registry.host())).unwrap_err();
    assert_no_credentials(&elsewhere);
}

#[test]
fn a_redirect_of_the_token_endpoint_does_not_pass_on_the_refresh_token() {
    for status in [301, 302, 307, 308] {
        let elsewhere =
            FakeRegistry::start(|_| (ResponseFault::None, Some(FakeResponse::status(200).body(r#"{"token": "x"}"#))));
        let target = format!("http://{}/token", elsewhere.host());
        let registry = FakeRegistry::start(move |request| {
            let realm = format!(r#"Bearer realm="http://{}/token""#, request.headers["host"]);
            let response = if request.path.starts_with("/token") {
                FakeResponse::status(status).header("Location", &target)
            } else {
                FakeResponse::status(401).header("WWW-Authenticate", &realm)
            };
            (ResponseFault::None, Some(response))
        });
        let kit = kit(registry.host(), r#"{"identitytoken": "identity"}"#, false);
        let error = kit.pull(&format!("{}/a/b:v1", registry.host())).unwrap_err();
        assert_no_credentials(&elsewhere);
        assert!(elsewhere.log().is_empty(), "{status}");
        assert!(error.to_string().contains("redirected"), "{error}");
    }
}

#[test]
fn a_token_endpoint_may_redirect_to_itself() {
    let registry = FakeRegistry::start(move |request| {
        let realm = format!(r#"Bearer realm="http://{}/token""#, request.headers["host"]);
        let response = match request.path.as_str() {
            "/token" => FakeResponse::status(307).header("Location", "/token/v2"),
            "/token/v2" => {
                assert!(String::from_utf8_lossy(&request.body).contains("refresh_token=identity"));
                FakeResponse::status(200).body(r#"{"token": "right"}"#)
            }
            _ if header(request, "authorization") == Some("Bearer right") => return (ResponseFault::None, None),
            _ => FakeResponse::status(401).header("WWW-Authenticate", &realm),
        };
        (ResponseFault::None, Some(response))
    });
    registry.put("/v2/a/b/manifests/v1", "application/vnd.oci.image.manifest.v1+json", MANIFEST.as_bytes());
    let config = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    registry.put(&format!("/v2/a/b/blobs/{config}"), "application/octet-stream", b"{}");
    let kit = kit(registry.host(), r#"{"identitytoken": "identity"}"#, false);
    kit.pull(&format!("{}/a/b:v1", registry.host())).unwrap();
}

/// Listens on one port with and without TLS; forwards TLS connections to one server, others to another.
fn both(with_tls: &FakeRegistry, plain: &FakeRegistry) -> String {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let chain = vec![CertificateDer::from(issued.cert.der().to_vec())];
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let (with_tls, plain) = (with_tls.host().to_owned(), plain.host().to_owned());
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            send.send(listener.local_addr().unwrap().to_string()).unwrap();
            loop {
                let Ok((mut stream, _)) = listener.accept().await else { continue };
                let (acceptor, with_tls, plain) = (acceptor.clone(), with_tls.clone(), plain.clone());
                tokio::spawn(async move {
                    let mut first = [0];
                    // A TLS handshake starts with 22; a client that disconnects is ignored.
                    if stream.peek(&mut first).await.is_ok_and(|count| count == 1) && first == [22] {
                        let Ok(mut stream) = acceptor.accept(stream).await else { return };
                        let mut server = TcpStream::connect(with_tls).await.unwrap();
                        let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
                    } else {
                        let mut server = TcpStream::connect(plain).await.unwrap();
                        let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
                        let _ = stream.read(&mut first).await;
                    }
                });
            }
        });
    });
    receive.recv().unwrap()
}

#[test]
fn plain_http_at_the_same_host_is_another_server() {
    let plain = FakeRegistry::start(|_| (ResponseFault::None, Some(FakeResponse::status(200).body("{}"))));
    let secure = FakeRegistry::start(|request| {
        let response = if header(request, "authorization") != Some(BASIC) {
            Some(FakeResponse::status(401).header("WWW-Authenticate", "Basic realm=x"))
        } else if request.path.contains("/blobs/") {
            Some(FakeResponse::status(307).header("Location", &format!("http://{}/x", request.headers["host"])))
        } else {
            None
        };
        (ResponseFault::None, response)
    });
    secure.put("/v2/a/b/manifests/v1", "application/vnd.oci.image.manifest.v1+json", MANIFEST.as_bytes());
    let host = both(&secure, &plain);
    let kit = kit(&host, PASSWORD, true);
    kit.pull(&format!("{host}/a/b:v1")).unwrap();
    assert_eq!(plain.log().len(), 1);
    assert_no_credentials(&plain);
}

#[test]
fn an_upload_does_not_leave_tls_for_another_port() {
    for redirected in [false, true] {
        let plain = FakeRegistry::start(|_| (ResponseFault::None, Some(FakeResponse::status(201))));
        let other = format!("http://{}/upload", plain.host());
        let secure = FakeRegistry::start(move |request| {
            let response = match request.method.as_str() {
                "POST" if redirected => FakeResponse::status(202).header("Location", "/v2/a/b/blobs/uploads/1"),
                "POST" => FakeResponse::status(202).header("Location", &other),
                "PUT" => FakeResponse::status(307).header("Location", &other),
                _ if request.path == "/v2/" => return (ResponseFault::None, None),
                _ => FakeResponse::status(404),
            };
            (ResponseFault::None, Some(response))
        });
        let host = both(&secure, &plain);
        // Without verification, plain HTTP would be allowed for a whole registry.
        let kit = kit(&host, PASSWORD, true);
        let digest = crate::kit::image(kit.store(), &[b"confidential"]);
        let error = kit.client.push(&digest, &image::Location::parse(&format!("{host}/a/b:v1")).unwrap()).unwrap_err();
        assert!(plain.log().is_empty(), "{:?}", plain.log());
        let expected = if redirected { "redirected from HTTPS to HTTP" } else { "without TLS" };
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_token_server_without_tls_gets_no_credentials_from_a_registry_with_tls() {
    for (entry, skip_tls_verify) in [(PASSWORD, true), (r#"{"identitytoken": "identity"}"#, true), (PASSWORD, false)] {
        let plain =
            FakeRegistry::start(|_| (ResponseFault::None, Some(FakeResponse::status(200).body(r#"{"token": "x"}"#))));
        let realm = format!(r#"Bearer realm="http://{}/token""#, plain.host());
        let secure = FakeRegistry::start(move |request| {
            let known = header(request, "authorization") == Some("Bearer x");
            let denied = || FakeResponse::status(401).header("WWW-Authenticate", &realm);
            (ResponseFault::None, (!known).then(denied))
        });
        secure.put("/v2/a/b/manifests/v1", "application/vnd.oci.image.manifest.v1+json", MANIFEST.as_bytes());
        let host = both(&secure, &plain);
        let outcome = kit(&host, entry, skip_tls_verify).pull(&format!("{host}/a/b:v1"));
        if skip_tls_verify {
            let error = outcome.unwrap_err();
            assert!(error.to_string().contains("does not use TLS"), "{error}");
            assert!(plain.log().is_empty(), "{:?}", plain.log());
        } else {
            // Whoever allows plain HTTP for a registry allows it for its token server.
            assert_eq!(header(&plain.log()[0], "authorization"), Some(BASIC));
        }
    }
}
