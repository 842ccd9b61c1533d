//! Programs that keep credentials.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use image::ErrorKind;
use tempfile::TempDir;
use testkit::{FakeRegistry, FakeResponse, Fault};

use crate::kit::{Kit, write};

const MANIFEST: &str = r#"{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json",
    "digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[]}"#;
const CONFIG: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

/// A registry that wants `user` and `secret`, or nothing.
fn registry(open: bool) -> FakeRegistry {
    let registry = FakeRegistry::start(move |asked| {
        let known = asked.headers.get("authorization").map(String::as_str) == Some("Basic dXNlcjpzZWNyZXQ=");
        let refused = FakeResponse::status(401).header("WWW-Authenticate", "Basic realm=x");
        (Fault::None, (!open && !known).then_some(refused))
    });
    registry.put("/v2/a/manifests/v1", "application/vnd.oci.image.manifest.v1+json", MANIFEST.as_bytes());
    registry.put(&format!("/v2/a/blobs/{CONFIG}"), "application/octet-stream", b"{}");
    registry
}

/// Makes a kit with a docker config, and a program `docker-credential-kit` of this script.
fn kit(config: &str, script: &str, patience: Duration) -> Kit {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "docker/config.json", config);
    program(&dir, script);
    let path = format!("{{}}/bin:{}", std::env::var("PATH").unwrap());
    Kit::in_dir(dir, &[("DOCKER_CONFIG", "{}/docker"), ("PATH", &path)], |options| {
        options.use_http = true;
        options.timeouts.helper = patience;
    })
}

fn program(dir: &TempDir, script: &str) {
    let root = dir.path().display().to_string();
    write(dir, "bin/docker-credential-kit", format!("#!/bin/sh\n{}\n", script.replace("{}", &root)));
    let path = dir.path().join("bin/docker-credential-kit");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

const ANSWER: &str = r#"cat > {}/asked; echo '{"Username": "user", "Secret": "secret"}'"#;
const LONG: Duration = Duration::from_secs(20);

#[test]
fn the_program_for_all_credentials_is_asked() {
    let registry = registry(false);
    let config = format!(r#"{{"auths": {{"{}": {{}}}}, "credsStore": "kit"}}"#, registry.host());
    let kit = kit(&config, ANSWER, LONG);
    kit.pull(&format!("{}/a:v1", registry.host())).unwrap();
    assert_eq!(fs::read_to_string(kit.path().join("asked")).unwrap(), registry.host());
}

#[test]
fn the_program_of_one_registry_is_asked_before_it() {
    let registry = registry(false);
    let config = format!(r#"{{"credHelpers": {{"{}": "kit"}}, "credsStore": "missing"}}"#, registry.host());
    kit(&config, ANSWER, LONG).pull(&format!("{}/a:v1", registry.host())).unwrap();
}

#[test]
fn a_program_for_all_credentials_that_is_missing_counts_only_where_credentials_are_needed() {
    let config = r#"{"credsStore": "missing"}"#;
    let open = registry(true);
    kit(config, ANSWER, LONG).pull(&format!("{}/a:v1", open.host())).unwrap();
    let closed = registry(false);
    let error = kit(config, ANSWER, LONG).pull(&format!("{}/a:v1", closed.host())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    assert!(error.help().unwrap().contains("docker-credential-missing"), "{:?}", error.help());
}

#[test]
fn credentials_that_the_program_does_not_have_may_stand_in_the_file() {
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
fn a_program_whose_child_keeps_the_output_open_ends_in_time_with_all_it_started() {
    let registry = registry(false);
    let config = format!(r#"{{"credHelpers": {{"{}": "kit"}}}}"#, registry.host());
    for script in [
        // It answers and ends; its child does neither.
        r#"sleep 60 & echo $! > {}/pid; echo '{"Username": "user", "Secret": "secret"}'"#,
        // Neither of them ends.
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
fn who_logs_in_while_a_client_is_there_is_known_to_it() {
    let registry = registry(false);
    let kit = kit("{}", ANSWER, LONG);
    let name = format!("{}/a:v1", registry.host());
    assert_eq!(kit.pull(&name).unwrap_err().kind(), ErrorKind::Unauthorized);
    write(
        &kit.dir,
        "docker/config.json",
        format!(r#"{{"auths": {{"{}": {{"auth": "dXNlcjpzZWNyZXQ="}}}}}}"#, registry.host()),
    );
    kit.pull(&name).unwrap();
}
