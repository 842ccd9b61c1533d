//! Credential helpers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use image::ErrorKind;
use tempfile::TempDir;
use testkit::{FakeRegistry, FakeResponse, ResponseFault};

use crate::kit::{Kit, write};

const MANIFEST: &str = r#"{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json",
    "digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[]}"#;
const CONFIG: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

/// Starts a registry that requires `user` and `secret`, unless it is `open`.
fn registry(open: bool) -> FakeRegistry {
    let registry = FakeRegistry::start(move |request| {
        let authorized = request.headers.get("authorization").map(String::as_str) == Some("Basic dXNlcjpzZWNyZXQ=");
        let unauthorized = FakeResponse::status(401).header("WWW-Authenticate", "Basic realm=x");
        (ResponseFault::None, (!open && !authorized).then_some(unauthorized))
    });
    registry.put("/v2/a/manifests/v1", "application/vnd.oci.image.manifest.v1+json", MANIFEST.as_bytes());
    registry.put(&format!("/v2/a/blobs/{CONFIG}"), "application/octet-stream", b"{}");
    registry
}

/// Returns a kit with a docker config and a helper `docker-credential-kit` that runs this script.
fn kit(config: &str, script: &str, timeout: Duration) -> Kit {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "docker/config.json", config);
    helper(&dir, script);
    let path = format!("{{}}/bin:{}", std::env::var("PATH").unwrap());
    Kit::in_dir(dir, &[("DOCKER_CONFIG", "{}/docker"), ("PATH", &path)], |options| {
        options.use_http = true;
        options.timeouts.helper = timeout;
    })
}

fn helper(dir: &TempDir, script: &str) {
    let root = dir.path().display().to_string();
    write(dir, "bin/docker-credential-kit", format!("#!/bin/sh\n{}\n", script.replace("{}", &root)));
    let path = dir.path().join("bin/docker-credential-kit");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

const REPLY: &str = r#"cat > {}/asked; echo '{"Username": "user", "Secret": "secret"}'"#;
const LONG: Duration = Duration::from_secs(20);

#[test]
fn the_helper_for_all_registries_is_called() {
    let registry = registry(false);
    let config = format!(r#"{{"auths": {{"{}": {{}}}}, "credsStore": "kit"}}"#, registry.host());
    let kit = kit(&config, REPLY, LONG);
    kit.pull(&format!("{}/a:v1", registry.host())).unwrap();
    assert_eq!(fs::read_to_string(kit.path().join("asked")).unwrap(), registry.host());
}

#[test]
fn the_helper_of_one_registry_takes_precedence() {
    let registry = registry(false);
    let config = format!(r#"{{"credHelpers": {{"{}": "kit"}}, "credsStore": "missing"}}"#, registry.host());
    kit(&config, REPLY, LONG).pull(&format!("{}/a:v1", registry.host())).unwrap();
}

#[test]
fn a_missing_helper_matters_only_if_credentials_are_required() {
    let config = r#"{"credsStore": "missing"}"#;
    let open = registry(true);
    kit(config, REPLY, LONG).pull(&format!("{}/a:v1", open.host())).unwrap();
    let closed = registry(false);
    let error = kit(config, REPLY, LONG).pull(&format!("{}/a:v1", closed.host())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    assert!(error.help().unwrap().contains("docker-credential-missing"), "{:?}", error.help());
}

#[test]
fn credentials_that_the_helper_lacks_may_be_in_the_file() {
    let registry = registry(false);
    let config =
        format!(r#"{{"auths": {{"{}": {{"auth": "dXNlcjpzZWNyZXQ="}}}}, "credsStore": "kit"}}"#, registry.host());
    let nothing = "echo 'credentials not found in native keychain'; exit 1";
    kit(&config, nothing, LONG).pull(&format!("{}/a:v1", registry.host())).unwrap();
}

fn is_running(pid: &str) -> bool {
    fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

#[test]
fn a_helper_is_killed_with_its_children_after_the_timeout() {
    let registry = registry(false);
    let config = format!(r#"{{"credHelpers": {{"{}": "kit"}}}}"#, registry.host());
    for script in [
        // The helper replies and exits; its child keeps the output open.
        r#"sleep 60 & echo $! > {}/pid; echo '{"Username": "user", "Secret": "secret"}'"#,
        // Neither of them exits.
        r#"sleep 60 & echo $! > {}/pid; sleep 60"#,
    ] {
        let kit = kit(&config, script, Duration::from_millis(700));
        let start = Instant::now();
        let error = kit.pull(&format!("{}/a:v1", registry.host())).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert!(error.to_string().contains("no response within 0.7 seconds"), "{error}");
        let pid = fs::read_to_string(kit.path().join("pid")).unwrap();
        while is_running(&pid) {
            assert!(start.elapsed() < Duration::from_secs(20), "{pid} is still running");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_running_client_finds_credentials_of_a_new_login() {
    let registry = registry(false);
    let kit = kit("{}", REPLY, LONG);
    let name = format!("{}/a:v1", registry.host());
    assert_eq!(kit.pull(&name).unwrap_err().kind(), ErrorKind::Unauthorized);
    write(
        &kit.dir,
        "docker/config.json",
        format!(r#"{{"auths": {{"{}": {{"auth": "dXNlcjpzZWNyZXQ="}}}}}}"#, registry.host()),
    );
    kit.pull(&name).unwrap();
}
