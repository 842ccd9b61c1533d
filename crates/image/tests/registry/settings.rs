//! Effects of configuration files and environment variables.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use image::{ErrorKind, Location};
use testkit::{FakeRegistry, FakeResponse, RegistryPlan, ResponseFault};

use crate::kit::{Kit, write};

const CONFIG: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

/// Starts a registry with an empty image in these repositories.
fn registry(repositories: &[&str]) -> FakeRegistry {
    let registry = FakeRegistry::start(|_| (ResponseFault::None, None));
    let manifest = format!(
        r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{CONFIG}","size":2}},"layers":[]}}"#
    );
    for repository in repositories {
        registry.put(
            &format!("/v2/{repository}/manifests/v1"),
            "application/vnd.oci.image.manifest.v1+json",
            manifest.as_bytes(),
        );
        registry.put(&format!("/v2/{repository}/blobs/{CONFIG}"), "application/octet-stream", b"{}");
    }
    registry
}

fn with_conf(conf: &str) -> Kit {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "etc/containers/registries.conf", conf);
    Kit::in_dir(dir, &[], |_| {})
}

#[test]
fn a_mirror_is_tried_before_its_registry() {
    let mirror = registry(&["mirror/x"]);
    let home = registry(&["x", "y"]);
    let conf = format!(
        "[[registry]]\nprefix = 'reg.test'\nlocation = '{}'\ninsecure = true\n[[registry.mirror]]\nlocation = '{}/mirror'\ninsecure = true\n",
        home.host(),
        mirror.host()
    );
    let kit = with_conf(&conf);
    kit.pull("reg.test/x:v1").unwrap();
    assert!(home.log().is_empty(), "the registry got a request although the mirror has the image");
    kit.pull("reg.test/y:v1").unwrap();
    let error = kit.pull("reg.test/z:v1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("Mirrors also failed"), "{error}");
}

#[test]
fn the_configuration_can_disable_tls_and_block_registries() {
    let home = registry(&["x"]);
    let host = home.host();
    assert!(with_conf("").pull(&format!("{host}/x:v1")).is_err());
    with_conf(&format!("[registries.insecure]\nregistries = ['{host}']\n")).pull(&format!("{host}/x:v1")).unwrap();
    let blocked = with_conf(&format!("[[registry]]\nlocation = '{host}'\nblocked = true\n"));
    assert_eq!(blocked.pull(&format!("{host}/x:v1")).unwrap_err().kind(), ErrorKind::Forbidden);
}

#[test]
fn drop_ins_and_a_file_of_the_user_are_read() {
    let home = registry(&["x"]);
    let rule = format!("[[registry]]\nprefix = 'reg.test'\nlocation = '{}'\ninsecure = true\n", home.host());
    for (path, variables) in [
        ("etc/containers/registries.conf.d/50-x.conf", &[][..]),
        ("home/.config/containers/registries.conf.d/50-x.conf", &[("HOME", "{}/home")][..]),
        ("home/.config/containers/registries.conf", &[("HOME", "{}/home")][..]),
        ("own.conf", &[("CONTAINERS_REGISTRIES_CONF", "{}/own.conf")][..]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, path, &rule);
        Kit::in_dir(dir, variables, |_| {}).pull("reg.test/x:v1").unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "etc/containers/registries.conf", "[[registry]");
    let error = Kit::in_dir(dir, &[], |_| {}).pull("reg.test/x:v1").unwrap_err();
    assert!(error.to_string().contains("registries.conf: "), "{error}");
}

#[test]
fn short_names_resolve_as_configured() {
    let home = registry(&["full/x", "y"]);
    let host = home.host();
    let conf = format!(
        "unqualified-search-registries = ['127.0.0.1:1', '{host}']\n[aliases]\n'x' = '{host}/full/x'\n[[registry]]\nlocation = '{host}'\ninsecure = true\n"
    );
    let kit = with_conf(&conf);
    assert_eq!(kit.client.locate("x:v1").unwrap().to_string(), format!("{host}/full/x:v1"));
    assert_eq!(kit.client.locate("y:v1").unwrap().to_string(), format!("{host}/y:v1"));
    let error = with_conf("").client.locate("x:v1").unwrap_err();
    assert!(error.to_string().starts_with("repository name must be canonical"), "{error}");
    assert!(error.help().is_some());
}

#[test]
fn a_policy_is_enforced_if_it_exists() {
    let home = registry(&["x"]);
    let name = format!("{}/x:v1", home.host());
    let with = |policy: &str, insecure: bool| {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, "etc/containers/policy.json", policy);
        Kit::in_dir(dir, &[], |options| {
            options.use_http = true;
            options.insecure_policy = insecure;
        })
    };
    Kit::plain().pull(&name).unwrap();
    with(r#"{"default": [{"type": "insecureAcceptAnything"}]}"#, false).pull(&name).unwrap();
    let reject = r#"{"default": [{"type": "reject"}]}"#;
    assert_eq!(with(reject, false).pull(&name).unwrap_err().kind(), ErrorKind::Forbidden);
    with(reject, true).pull(&name).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let signed = r#"{"default": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/no/such"}]}"#;
    write(&dir, "etc/containers/policy.json", signed);
    let signed = Kit::in_dir(dir, &[], |options| options.use_http = true);
    let error = signed.pull(&name).unwrap_err();
    assert!(error.help().unwrap().ends_with("OPM_INSECURE_POLICY=true disables it"), "{error:?}");
    Kit::in_dir(signed.dir, &[("OPM_INSECURE_POLICY", "true")], |options| options.use_http = true).pull(&name).unwrap();
}

#[test]
fn proxies_are_used_unless_excluded() {
    let home = registry(&["x"]);
    let (proxy, seen) = proxy(home.host().to_owned(), false);
    let address = format!("http://me:word@{proxy}");
    let plain = Kit::with(&[("HTTP_PROXY", &address), ("HTTPS_PROXY", &address)], |options| options.use_http = true);
    plain.pull("reg.test:5000/x:v1").unwrap();
    let seen = seen.lock().unwrap().join("\n");
    assert!(seen.contains("CONNECT reg.test:5000 HTTP/1.1"), "{seen}");
    assert!(seen.contains("GET http://reg.test:5000/v2/x/manifests/v1 HTTP/1.1"), "{seen}");
    assert!(seen.to_lowercase().contains("proxy-authorization: basic bwu6d29yza=="), "{seen}");
    let variables = [("HTTP_PROXY", address.as_str()), ("HTTPS_PROXY", &address), ("NO_PROXY", "reg.test,.other.test")];
    let without = Kit::with(&variables, |options| options.use_http = true);
    assert!(without.pull("reg.test:5000/x:v1").is_err());
    // Loopback addresses never use a proxy.
    without.client.pull(&Location::parse(&format!("{}/x:v1", home.host())).unwrap()).unwrap();
}

#[test]
fn a_registry_with_tls_is_reached_through_a_proxy() {
    let Some(registry) = testkit::DockerRegistry::start(RegistryPlan { tls: true, ..RegistryPlan::default() }) else {
        return;
    };
    let (proxy, seen) = proxy(registry.host().to_owned(), true);
    let address = format!("http://{proxy}");
    // Only the proxy resolves the name, which has no certificate.
    let kit = Kit::with(&[("HTTPS_PROXY", &address)], |options| options.skip_tls_verify = true);
    let digest = crate::kit::image(kit.store(), &[b"layer"]);
    kit.client.push(&digest, &Location::parse("reg.test/x:v1").unwrap()).unwrap();
    assert_eq!(kit.client.head(&"reg.test/x:v1".parse().unwrap()).unwrap(), digest);
    let seen = seen.lock().unwrap().clone();
    assert!(!seen.is_empty() && seen.iter().all(|head| head.starts_with("CONNECT reg.test:443 ")), "{seen:?}");
    let strict = Kit::with(&[("HTTPS_PROXY", &address)], |options| options.ca_files.push(registry.authority()));
    let error = strict.pull("reg.test/x:v1").unwrap_err();
    assert!(error.to_string().ends_with("x509: certificate is not valid for reg.test"), "{error}");
}

#[test]
fn a_proxy_without_a_tunnel_is_reported() {
    let endless = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"X-More: of it\r\n".repeat(4000)].concat();
    let cases: [(&[u8], &str); 4] = [
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
            "407 Proxy Authentication Required",
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "refused a connection to reg.test:443: 204 No Content"),
        (b"SSH-2.0-server\r\n\r\n", "invalid HTTP version parsed"),
        (&endless, "message head is too large"),
    ];
    for (response, expected) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let response = response.to_vec();
        let connections = thread::spawn(move || {
            let mut streams = listener.incoming().flatten();
            let mut stream = streams.next().unwrap();
            read_head(&mut stream).unwrap();
            let _ = stream.write_all(&response);
            // The client closes the connection, and does not try again.
            let _ = stream.read(&mut [0]);
        });
        let error = Kit::with(&[("HTTPS_PROXY", &address)], |_| ()).pull("reg.test/x:v1").unwrap_err().to_string();
        assert!(error.contains(&format!("proxy {}", &address[7..])) && error.contains(expected), "{error}");
        connections.join().unwrap();
    }
}

/// Starts a proxy that forwards all requests to one server, and tunnels if `tunnels` is set.
fn proxy(target: String, tunnels: bool) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let recorded = Arc::clone(&seen);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (target, recorded) = (target.clone(), Arc::clone(&recorded));
            thread::spawn(move || {
                while let Some(head) = read_head(&mut stream) {
                    recorded.lock().unwrap().push(head.clone());
                    if head.starts_with("CONNECT") && tunnels {
                        let upstream = TcpStream::connect(&target).unwrap();
                        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
                        let (mut from, mut to) = (stream.try_clone().unwrap(), upstream.try_clone().unwrap());
                        thread::spawn(move || std::io::copy(&mut from, &mut to));
                        let _ = std::io::copy(&mut &upstream, &mut stream);
                        return;
                    }
                    if head.starts_with("CONNECT") {
                        let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
                        return;
                    }
                    let path =
                        head.split_whitespace().nth(1).unwrap().splitn(4, '/').nth(3).unwrap_or_default().to_owned();
                    let mut upstream = TcpStream::connect(&target).unwrap();
                    write!(upstream, "GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                    upstream.shutdown(std::net::Shutdown::Write).unwrap();
                    let mut response = Vec::new();
                    upstream.read_to_end(&mut response).unwrap();
                    let _ = stream.write_all(&response);
                }
            });
        }
    });
    (address, seen)
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

#[test]
fn a_helper_provides_credentials() {
    let home = FakeRegistry::start(|request| {
        if request.headers.get("authorization").map(String::as_str) == Some("Basic dXNlcjpzZWNyZXQ=") {
            return (ResponseFault::None, None);
        }
        (ResponseFault::None, Some(FakeResponse::status(401).header("WWW-Authenticate", "Basic realm=x")))
    });
    let manifest =
        format!(r#"{{"schemaVersion":2,"config":{{"mediaType":"x","digest":"{CONFIG}","size":2}},"layers":[]}}"#);
    home.put("/v2/x/manifests/v1", "application/vnd.oci.image.manifest.v1+json", manifest.as_bytes());
    home.put(&format!("/v2/x/blobs/{CONFIG}"), "application/octet-stream", b"{}");
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "docker/config.json", format!(r#"{{"credHelpers": {{"{}": "test"}}}}"#, home.host()));
    let helper = "#!/bin/sh\n[ \"$1\" = get ] || exit 1\nread -r host\necho \"$host\" > \"$(dirname \"$0\")/asked\"\necho '{\"Username\": \"user\", \"Secret\": \"secret\"}'\n";
    write(&dir, "bin/docker-credential-test", helper);
    let path = dir.path().join("bin/docker-credential-test");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let variables = [("DOCKER_CONFIG", "{}/docker"), ("PATH", "{}/bin:/usr/bin:/bin")];
    let kit = Kit::in_dir(dir, &variables, |options| options.use_http = true);
    kit.pull(&format!("{}/x:v1", home.host())).unwrap();
    assert_eq!(std::fs::read_to_string(kit.path().join("bin/asked")).unwrap().trim(), home.host());
}
