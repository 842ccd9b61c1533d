//! What goes wrong around a server, and what it says of it.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::{Place, Server, bundle, free_port, get, mode};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

#[test]
fn missing_certificates_end_the_server_before_it_listens() {
    let place = Place::new();
    place.package("foo", "first", 1, 100);
    fs::write(place.path("cert.pem"), "").unwrap();
    let mut server = place.serve(&["--tls-cert", "cert.pem", "--tls-key", "missing.pem"]);
    let status = server.end(Duration::from_secs(10)).expect("ends at once");
    assert_eq!(status.code(), Some(1));
    let log = server.log();
    assert!(log.contains("missing.pem") && !log.contains("listening"), "{log}");
}

#[test]
fn an_address_in_use_is_named() {
    let place = Place::new();
    place.package("foo", "first", 1, 100);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    // Each of the listeners; the flag that comes last counts.
    for flag in ["--port", "--http", "--pprof-addr"] {
        let free = free_port().to_string();
        let mut arguments = vec!["serve", "catalog", "-t", "", "--address", "127.0.0.1"];
        match flag {
            "--port" => arguments.extend(["--port", address.rsplit(':').next().unwrap()]),
            flag => arguments.extend(["--port", &free, flag, &address]),
        }
        let output = place.command(&arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("failed to listen: {address}: ")), "{text}");
    }
}

#[test]
fn pipes_and_devices_are_refused_and_not_read() {
    for ignored in [false, true] {
        let place = Place::new();
        place.package("foo", "first", 1, 100);
        let pipe = place.path("catalog/pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        symlink("/dev/zero", place.path("catalog/endless")).unwrap();
        if ignored {
            fs::write(place.path("catalog/.indexignore"), "pipe\nendless\n").unwrap();
            // With a cache, and once more with the one that is there.
            for _ in 0..2 {
                let arguments = ["--cache-dir", "cache", "--cache-enforce-integrity=false", "--watch"];
                let server = place.serve(&arguments).ready();
                assert!(server.get("/catalogs/test/api/v1/packages/foo").starts_with("HTTP/1.1 200"));
            }
            continue;
        }
        let mut server = place.serve(&[]);
        let status = server.end(Duration::from_secs(20)).expect("does not wait for what is in a pipe");
        assert_eq!(status.code(), Some(1));
        assert!(server.log().contains("is neither a file nor a directory"), "{}", server.log());
    }
}

#[test]
fn a_private_cache_stays_private() {
    let place = Place::new();
    place.package("foo", "first", 1, 100);
    let (private, open) = (place.path("private"), place.path("open"));
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    for cache in ["private", "open"] {
        let arguments = ["serve", "catalog", "--cache-only", "--cache-dir", cache, "-t", ""];
        assert!(place.command(&arguments).status().unwrap().success());
    }
    let file = "opm.v1/catalog.cache";
    assert_eq!([mode(&private), mode(&private.join("opm.v1")), mode(&private.join(file))], [0o700, 0o700, 0o600]);
    // One that is made for the cache can be renewed by any user of an image in its group.
    assert_eq!([mode(&open), mode(&open.join("opm.v1")), mode(&open.join(file))], [0o775, 0o775, 0o664]);
}

#[test]
fn a_file_that_breaks_after_the_start_never_leaves_half_a_catalog() {
    for round in 0..5 {
        let place = Place::new();
        for name in ["aaa", "foo", "zzz"] {
            place.package(name, "first", 60, 40_000);
        }
        let cache = ["serve", "catalog", "--cache-only", "--cache-dir", "cache", "-t", ""];
        assert!(place.command(&cache).status().unwrap().success());
        let server = place.serve(&["--cache-dir", "cache"]);
        server.wait_for_log("serving registry");
        std::thread::sleep(Duration::from_millis(round * 7));
        fs::write(place.path("catalog/foo.json"), "{ this is no catalog").unwrap();
        let answer = server.wait_for(server.http, "/catalogs/test/api/v1/metas?schema=olm.package", |answer| {
            !answer.is_empty() && !answer.contains("still being loaded")
        });
        match answer.starts_with("HTTP/1.1 200") {
            true => assert!(answer.contains("\"name\":\"foo\""), "half a catalog: {answer}"),
            false => assert!(answer.contains("cannot be served over HTTP"), "{answer}"),
        }
    }
}

#[test]
fn without_room_for_files_http_says_so_and_recovers() {
    let place = Place::new();
    place.package("foo", "first", 1, 100);
    fs::remove_dir(place.path("tmp")).unwrap();
    let server = place.serve(&[]);
    let all = "/catalogs/test/api/v1/all";
    let answer = server.wait_for(server.http, all, |answer| answer.contains("cannot be served over HTTP"));
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("cannot write a temporary file"), "{answer}");
    assert!(get(server.debug, "/readyz", "").contains("not served over HTTP"));
    fs::create_dir(place.path("tmp")).unwrap();
    server.wait_for(server.http, all, |answer| answer.starts_with("HTTP/1.1 200"));
    assert!(!get(server.debug, "/readyz", "").contains("HTTP: "));
}

#[test]
fn a_change_that_could_not_be_loaded_is_tried_again() {
    let place = Place::new();
    place.package("foo", "first", 1, 100);
    let server = place.serve(&["--poll-interval", "20ms"]).ready();
    fs::remove_dir(place.path("tmp")).unwrap();
    place.package("bar", "second", 1, 100);
    server.wait_for(server.debug, "/readyz", |answer| answer.contains("the last update was refused"));
    let package = "/catalogs/test/api/v1/packages/bar";
    assert!(server.get(package).starts_with("HTTP/1.1 404"));
    let served = runtime().block_on(async { bundle(&server.channel().await, "bar", "bar.v0.0.0").await });
    assert!(served.is_err(), "gRPC and HTTP serve the same catalog");
    // Nothing in the directory changes from here on.
    fs::create_dir(place.path("tmp")).unwrap();
    server.wait_for(server.http, package, |answer| answer.starts_with("HTTP/1.1 200"));
    assert!(!get(server.debug, "/readyz", "").contains("refused"));
}

#[test]
fn a_repair_that_fails_is_not_begun_at_every_call() {
    let place = Place::new();
    place.package("foo", "first", 3, 5000);
    let server = place.serve(&["--cache-dir", "cache", "--cache-enforce-integrity=false"]).ready();
    fs::write(place.path("catalog/foo.json"), "{").unwrap();
    let file = fs::OpenOptions::new().write(true).open(place.path("cache/opm.v1/catalog.cache")).unwrap();
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
    // What is wrong may be mended, and then it is.
    place.package("foo", "first", 3, 5000);
    server.wait_for_log("serving from the rebuilt cache");
    runtime().block_on(async { bundle(&server.channel().await, "foo", "foo.v2.0.0").await }).unwrap();
}

#[test]
fn an_image_that_could_not_be_taken_is_tried_again() {
    let Some(registry) = testkit::DockerRegistry::start(testkit::RegistryPlan::default()) else {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "skipped: there is no docker-registry");
        return;
    };
    let place = Place::new();
    let reference = format!("{}/team/catalog:latest", registry.host());
    let push = |name: &str| {
        let _ = fs::remove_dir_all(place.path("catalog"));
        fs::create_dir(place.path("catalog")).unwrap();
        place.package(name, "image", 1, 100);
        let arguments = ["build", "catalog", "-t", &reference, "--data-only", "--push", "--use-http"];
        let output = place.command(&arguments).env("TMPDIR", place.path("")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    push("first");
    let arguments = ["serve", &reference, "--use-http", "--poll-interval", "100ms", "-t", ""];
    let server = Server::start(place.command(&arguments), &[]).ready();
    // What was pulled before cannot be cleared away for a while.
    let obstacle = blobs(&place.path("tmp")).expect("the store of images").join("obstacle");
    fs::create_dir(&obstacle).unwrap();
    push("second");
    std::thread::sleep(Duration::from_millis(500));
    fs::remove_dir(&obstacle).unwrap();
    server.wait_for(server.http, "/catalogs/test/api/v1/packages/second", |answer| answer.starts_with("HTTP/1.1 200"));
}

/// Finds the directory of blobs below another.
fn blobs(directory: &Path) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).collect();
    let found = entries.iter().find(|path| path.ends_with("blobs/sha256")).cloned();
    found.or_else(|| entries.iter().find_map(|path| blobs(path)))
}
