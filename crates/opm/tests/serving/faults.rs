//! Faults around a server, and how it reports them.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::{Scratch, Server, bundle, free_port, get, mode};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

#[test]
fn missing_certificates_end_the_server_before_it_listens() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 1, 100);
    fs::write(scratch.path("cert.pem"), "").unwrap();
    let mut server = scratch.serve(&["--tls-cert", "cert.pem", "--tls-key", "missing.pem"]);
    let status = server.end(Duration::from_secs(10)).expect("the server exits immediately");
    assert_eq!(status.code(), Some(1));
    let log = server.log();
    assert!(log.contains("missing.pem") && !log.contains("listening"), "{log}");
}

#[test]
fn an_address_in_use_is_reported() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 1, 100);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    // Each of the listeners; the last flag wins.
    for flag in ["--port", "--http", "--pprof-addr"] {
        let free = free_port().to_string();
        let mut arguments = vec!["serve", "catalog", "-t", "", "--address", "127.0.0.1"];
        match flag {
            "--port" => arguments.extend(["--port", address.rsplit(':').next().unwrap()]),
            flag => arguments.extend(["--port", &free, flag, &address]),
        }
        let output = scratch.command(&arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("failed to listen: {address}: ")), "{text}");
    }
}

#[test]
fn pipes_and_devices_are_rejected_and_not_read() {
    for ignored in [false, true] {
        let scratch = Scratch::new();
        scratch.package("foo", "first", 1, 100);
        let pipe = scratch.path("catalog/pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        symlink("/dev/zero", scratch.path("catalog/endless")).unwrap();
        if ignored {
            fs::write(scratch.path("catalog/.indexignore"), "pipe\nendless\n").unwrap();
            // With a new cache, and with the existing one.
            for _ in 0..2 {
                let arguments = ["--cache-dir", "cache", "--cache-enforce-integrity=false", "--watch"];
                let server = scratch.serve(&arguments).ready();
                assert!(server.get("/catalogs/test/api/v1/packages/foo").starts_with("HTTP/1.1 200"));
            }
            continue;
        }
        let mut server = scratch.serve(&[]);
        let status = server.end(Duration::from_secs(20)).expect("the server does not wait for a pipe");
        assert_eq!(status.code(), Some(1));
        assert!(server.log().contains("is neither a file nor a directory"), "{}", server.log());
    }
}

#[test]
fn a_private_cache_stays_private() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 1, 100);
    let (private, open) = (scratch.path("private"), scratch.path("open"));
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    for cache in ["private", "open"] {
        let arguments = ["serve", "catalog", "--cache-only", "--cache-dir", cache, "-t", ""];
        assert!(scratch.command(&arguments).status().unwrap().success());
    }
    let file = "opm.v1/catalog.cache";
    assert_eq!([mode(&private), mode(&private.join("opm.v1")), mode(&private.join(file))], [0o700, 0o700, 0o600]);
    // In an image, any user of the group can renew the cache in this directory.
    assert_eq!([mode(&open), mode(&open.join("opm.v1")), mode(&open.join(file))], [0o775, 0o775, 0o664]);
}

#[test]
fn a_file_that_breaks_after_the_start_never_causes_a_partial_catalog() {
    for round in 0..5 {
        let scratch = Scratch::new();
        for name in ["aaa", "foo", "zzz"] {
            scratch.package(name, "first", 60, 40_000);
        }
        let cache = ["serve", "catalog", "--cache-only", "--cache-dir", "cache", "-t", ""];
        assert!(scratch.command(&cache).status().unwrap().success());
        let server = scratch.serve(&["--cache-dir", "cache"]);
        server.wait_for_log("serving registry");
        std::thread::sleep(Duration::from_millis(round * 7));
        fs::write(scratch.path("catalog/foo.json"), "{ this is no catalog").unwrap();
        let response = server.wait_for(server.http, "/catalogs/test/api/v1/metas?schema=olm.package", |response| {
            !response.is_empty() && !response.contains("still being loaded")
        });
        match response.starts_with("HTTP/1.1 200") {
            true => assert!(response.contains("\"name\":\"foo\""), "a partial catalog: {response}"),
            false => assert!(response.contains("cannot be served over HTTP"), "{response}"),
        }
    }
}

#[test]
fn a_full_disk_is_reported_over_http_and_recovers() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 1, 100);
    fs::remove_dir(scratch.path("tmp")).unwrap();
    let server = scratch.serve(&[]);
    let all = "/catalogs/test/api/v1/all";
    let response = server.wait_for(server.http, all, |response| response.contains("cannot be served over HTTP"));
    assert!(response.starts_with("HTTP/1.1 503") && response.contains("cannot write a temporary file"), "{response}");
    assert!(get(server.debug, "/readyz", "").contains("not served over HTTP"));
    fs::create_dir(scratch.path("tmp")).unwrap();
    server.wait_for(server.http, all, |response| response.starts_with("HTTP/1.1 200"));
    assert!(!get(server.debug, "/readyz", "").contains("HTTP: "));
}

#[test]
fn a_change_that_failed_to_load_is_retried() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 1, 100);
    let server = scratch.serve(&["--poll-interval", "20ms"]).ready();
    fs::remove_dir(scratch.path("tmp")).unwrap();
    scratch.package("bar", "second", 1, 100);
    server.wait_for(server.debug, "/readyz", |response| response.contains("the last update was refused"));
    let package = "/catalogs/test/api/v1/packages/bar";
    assert!(server.get(package).starts_with("HTTP/1.1 404"));
    let served = runtime().block_on(async { bundle(&server.channel().await, "bar", "bar.v0.0.0").await });
    assert!(served.is_err(), "gRPC serves another catalog than HTTP");
    // The directory does not change from here on.
    fs::create_dir(scratch.path("tmp")).unwrap();
    server.wait_for(server.http, package, |response| response.starts_with("HTTP/1.1 200"));
    assert!(!get(server.debug, "/readyz", "").contains("refused"));
}

#[test]
fn a_failing_repair_does_not_start_with_every_call() {
    let scratch = Scratch::new();
    scratch.package("foo", "first", 3, 5000);
    let server = scratch.serve(&["--cache-dir", "cache", "--cache-enforce-integrity=false"]).ready();
    fs::write(scratch.path("catalog/foo.json"), "{").unwrap();
    let file = fs::OpenOptions::new().write(true).open(scratch.path("cache/opm.v1/catalog.cache")).unwrap();
    file.write_all_at(&[0xa5; 2000], 800).unwrap();
    runtime().block_on(async {
        let channel = server.channel().await;
        for _ in 0..60 {
            assert!(bundle(&channel, "foo", "foo.v2.0.0").await.is_err());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let repairs = server.log().matches("building a temporary one").count();
    assert!((1..=3).contains(&repairs), "{repairs} repairs in 1.2 s:\n{}", server.log());
    // Once the cause is fixed, the repair succeeds.
    scratch.package("foo", "first", 3, 5000);
    server.wait_for_log("serving from the rebuilt cache");
    runtime().block_on(async { bundle(&server.channel().await, "foo", "foo.v2.0.0").await }).unwrap();
}

#[test]
fn an_image_that_failed_to_load_is_retried() {
    let Some(registry) = testkit::DockerRegistry::start(testkit::RegistryPlan::default()) else {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "skipped: there is no docker-registry");
        return;
    };
    let scratch = Scratch::new();
    let reference = format!("{}/team/catalog:latest", registry.host());
    let push = |name: &str| {
        let _ = fs::remove_dir_all(scratch.path("catalog"));
        fs::create_dir(scratch.path("catalog")).unwrap();
        scratch.package(name, "image", 1, 100);
        let arguments = ["build", "catalog", "-t", &reference, "--data-only", "--push", "--use-http"];
        let output = scratch.command(&arguments).env("TMPDIR", scratch.path("")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    push("first");
    let arguments = ["serve", &reference, "--use-http", "--poll-interval", "100ms", "-t", ""];
    let server = Server::start(scratch.command(&arguments), &[]).ready();
    // Files of the previous pull cannot be removed at first.
    let obstacle = blobs(&scratch.path("tmp")).expect("the store of images").join("obstacle");
    fs::create_dir(&obstacle).unwrap();
    push("second");
    std::thread::sleep(Duration::from_millis(500));
    fs::remove_dir(&obstacle).unwrap();
    server.wait_for(server.http, "/catalogs/test/api/v1/packages/second", |response| {
        response.starts_with("HTTP/1.1 200")
    });
}

/// Returns the directory of blobs below another one.
fn blobs(directory: &Path) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).collect();
    let found = entries.iter().find(|path| path.ends_with("blobs/sha256")).cloned();
    found.or_else(|| entries.iter().find_map(|path| blobs(path)))
}
