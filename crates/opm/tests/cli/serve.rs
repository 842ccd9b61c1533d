use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{DockerRegistry, RegistryPlan};

use crate::env::{SMALL, Stopped, TestEnv};

/// Returns a catalog like [`SMALL`], of another package.
fn renamed(name: &str) -> String {
    SMALL.replace("foo", name)
}

fn get(port: u16, path: &str) -> String {
    let mut response = String::new();
    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
        let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let _ = stream.read_to_string(&mut response);
    }
    response
}

/// Polls until the response contains `wanted`.
fn wait_for(port: u16, path: &str, wanted: &str) {
    let patience = Instant::now() + Duration::from_secs(60);
    let mut response = String::new();
    while Instant::now() < patience {
        response = get(port, path);
        if response.contains(wanted) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{path} does not contain {wanted:?}:\n{response}");
}

#[test]
fn a_directory_with_files_but_no_blobs_is_served_only_if_that_is_allowed() {
    let env = TestEnv::new();
    env.file("git/.git/HEAD", "ref: refs/heads/main\n");
    env.file("ignored/.indexignore", "*.md\n").file("ignored/docs/README.md", "# Notes\n");
    for directory in ["git", "ignored"] {
        let serve = ["serve", directory, "--address", "127.0.0.1", "--port", "0", "-t", ""];
        let refused = format!(
            "error: \"{directory}\" contains no catalog: opm found no blobs in it; check the path\n\
             help: --allow-empty accepts a catalog without any blobs\n"
        );
        let http = format!("127.0.0.1:{}", testkit::free_port());
        for command in [&serve[..], &["preview", directory, "--http", &http]] {
            let shown = env.opm(command);
            assert!(shown.starts_with("exit 1\n") && shown.ends_with(&refused), "{shown}");
        }
        let port = testkit::free_port();
        let http = format!("127.0.0.1:{port}");
        for command in [
            &[&serve[..], &["--allow-empty", "--http", &http]].concat()[..],
            &["preview", directory, "--allow-empty", "--http", &http],
        ] {
            let _server = Stopped(env.command().args(command).stderr(Stdio::null()).spawn().unwrap());
            wait_for(port, "/readyz", "200 OK");
        }
    }
    // A new catalog starts with an empty directory.
    std::fs::create_dir_all(env.path("new/sub")).unwrap();
    let port = testkit::free_port();
    let command = ["preview", "new", "--http", &format!("127.0.0.1:{port}")];
    let _server = Stopped(env.command().args(command).stderr(Stdio::null()).spawn().unwrap());
    wait_for(port, "/readyz", "200 OK");
}

#[test]
fn a_tag_is_followed_through_updates_and_outages() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let env = TestEnv::new();
    let reference = format!("{}/team/catalog:latest", registry.host());
    let push = |name: &str| {
        env.file(&format!("{name}/catalog.yaml"), renamed(name));
        env.stdout(&["build", name, "-t", &reference, "--data-only", "--push", "--use-http"]);
    };
    push("first");
    std::fs::create_dir(env.path("tmp")).unwrap();
    let port = testkit::free_port();
    let http = format!("127.0.0.1:{port}");
    let mut server = Stopped(
        env.command()
            .env("TMPDIR", env.path("tmp"))
            .args(["serve", &reference, "--use-http", "--poll-interval", "100ms", "--port", "0", "-t", ""])
            .args(["--address", "127.0.0.1", "--http", &http])
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let packages = "/catalogs/catalog/api/v1/metas?schema=olm.package";
    wait_for(port, packages, r#""name":"first""#);
    push("second");
    wait_for(port, packages, r#""name":"second""#);
    assert!(!get(port, packages).contains("first"));
    // The image is no catalog.
    env.copy_of("examples/bundles/lantern/1.3.0");
    let manifests = ["--directory", "1.3.0/manifests", "--package", "lantern", "--channels", "stable", "--overwrite"];
    let to = ["--tag", &reference, "--image-builder", "none", "--push", "--use-http"];
    env.stdout(&[&["alpha", "bundle", "build"], &manifests[..], &to[..]].concat());
    wait_for(port, "/readyz", "is a bundle, not a catalog");
    assert!(get(port, packages).contains(r#""name":"second""#), "the last valid catalog is served");
    drop(registry);
    wait_for(port, "/readyz", "cannot check for a newer catalog");
    assert!(get(port, packages).contains(r#""name":"second""#), "the last valid catalog is served");
    let killed = Command::new("kill").arg(server.0.id().to_string()).status().unwrap();
    assert!(killed.success());
    assert!(server.0.wait().unwrap().success(), "the server exits with an error");
    assert!(env.names("tmp").is_empty(), "the server left files: {:?}", env.names("tmp"));
}

#[test]
fn a_transient_local_failure_while_an_image_is_pulled_is_retried() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let env = TestEnv::new();
    let reference = format!("{}/team/catalog:latest", registry.host());
    let push = |name: &str| {
        env.file(&format!("{name}/catalog.yaml"), renamed(name));
        env.stdout(&["build", name, "-t", &reference, "--data-only", "--push", "--use-http"]);
    };
    push("first");
    std::fs::create_dir(env.path("tmp")).unwrap();
    let port = testkit::free_port();
    let http = format!("127.0.0.1:{port}");
    let kept = env.path("kept").display().to_string();
    let _server = Stopped(
        env.command()
            .env("TMPDIR", env.path("tmp"))
            .args(["serve", &reference, "--use-http", "--poll-interval", "100ms", "--port", "0", "-t", ""])
            .args(["--address", "127.0.0.1", "--http", &http, "--image-cache", &kept])
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let packages = "/catalogs/catalog/api/v1/metas?schema=olm.package";
    wait_for(port, packages, r#""name":"first""#);
    // The directory for unpacked images is unavailable, as with a full or lost file system.
    let scratch = env.names("tmp").into_iter().find(|name| name.starts_with("opm-images-")).unwrap();
    let (place, away) = (env.path("tmp").join(&scratch), env.path("away"));
    std::fs::rename(&place, &away).unwrap();
    push("second");
    wait_for(port, "/readyz", "cannot check for a newer catalog");
    assert!(get(port, packages).contains(r#""name":"first""#), "the last valid catalog is served");
    std::fs::rename(&away, &place).unwrap();
    wait_for(port, packages, r#""name":"second""#);
}

#[test]
fn a_policy_that_changes_while_a_server_runs_applies_to_the_next_image() {
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let env = TestEnv::new();
    let reference = format!("{}/team/catalog:latest", registry.host());
    let push = |name: &str| {
        env.file(&format!("{name}/catalog.yaml"), renamed(name));
        env.stdout(&["build", name, "-t", &reference, "--data-only", "--push", "--use-http"]);
    };
    let policy = |kind: &str| {
        env.file("home/.config/containers/policy.json", format!(r#"{{"default": [{{"type": "{kind}"}}]}}"#));
    };
    push("first");
    policy("insecureAcceptAnything");
    let port = testkit::free_port();
    let http = format!("127.0.0.1:{port}");
    let _server = Stopped(
        env.command()
            .args(["serve", &reference, "--use-http", "--poll-interval", "100ms", "--port", "0", "-t", ""])
            .args(["--address", "127.0.0.1", "--http", &http])
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let packages = "/catalogs/catalog/api/v1/metas?schema=olm.package";
    wait_for(port, packages, r#""name":"first""#);
    policy("reject");
    push("second");
    wait_for(port, "/readyz", "is rejected by policy");
    assert!(get(port, packages).contains(r#""name":"first""#), "the last accepted catalog is served");
    policy("insecureAcceptAnything");
    wait_for(port, packages, r#""name":"second""#);
}
