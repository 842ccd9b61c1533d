//! Registries that fail.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use image::{Digest, ErrorKind, ImageManifest, Location, Retries, Store, media_type};
use testkit::{FakeRegistry, ResponseFault};

use crate::kit::{Kit, content, image, noise, tar};

/// Serves an image from a store under a tag.
pub(crate) fn serve(registry: &FakeRegistry, store: &Store, repository: &str, tag: &str, digest: &Digest) {
    let content = fs::read(store.path_of(digest)).unwrap();
    let manifest: ImageManifest = serde_json::from_slice(&content).unwrap();
    for version in [tag, &digest.to_string()] {
        registry.put(&format!("/v2/{repository}/manifests/{version}"), media_type::OCI_MANIFEST, &content);
    }
    for blob in std::iter::once(&manifest.config).chain(&manifest.layers) {
        let content = fs::read(store.path_of(&blob.digest)).unwrap();
        registry.put(&format!("/v2/{repository}/blobs/{}", blob.digest), "application/octet-stream", &content);
    }
}

/// Starts a registry in which the selected requests fail; the first call of the API does not count.
fn failing(fault: ResponseFault, which: impl Fn(u64) -> bool + Send + Sync + 'static) -> FakeRegistry {
    let count = AtomicU64::new(0);
    FakeRegistry::start(move |request| {
        if request.path == "/v2/" {
            return (ResponseFault::None, None);
        }
        let number = count.fetch_add(1, Ordering::SeqCst);
        (if which(number) { fault.clone() } else { ResponseFault::None }, None)
    })
}

/// Returns files of a store that are neither complete blobs nor partial ones to resume.
fn leftovers(store: &Store) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(store.root().join("blobs/sha256")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if Digest::of(&fs::read(entry.path()).unwrap()).hex() != name {
            found.push(name);
        }
    }
    let blobs = fs::read_dir(store.root().join("blobs")).unwrap().flatten();
    found.extend(blobs.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| name != "sha256"));
    found
}

#[test]
fn transient_failures_are_retried() {
    let source = Kit::new(|_| {});
    let digest = image(source.store(), &[&tar("one", &noise(1, 50_000))]);
    for fault in [
        ResponseFault::Reset,
        ResponseFault::TooMany(0),
        ResponseFault::Status(500),
        ResponseFault::Status(503),
        ResponseFault::Truncated,
        ResponseFault::Silence(Duration::from_millis(700)),
    ] {
        for which in 0..3 {
            let registry = failing(fault.clone(), move |number| number == which);
            serve(&registry, source.store(), "a", "v1", &digest);
            let kit = Kit::new(|options| {
                options.use_http = true;
                options.timeouts.connect = Duration::from_millis(100);
                options.timeouts.idle = Duration::from_millis(300);
            });
            let outcome = kit.pull(&format!("{}/a:v1", registry.host()));
            assert!(outcome.is_ok(), "{fault:?} {which}: {}", outcome.unwrap_err());
        }
    }
}

#[test]
fn permanent_failures_are_reported() {
    let source = Kit::new(|_| {});
    let digest = image(source.store(), &[&tar("one", &noise(1, 50_000))]);
    for (fault, kind, text) in [
        (ResponseFault::Status(500), ErrorKind::Network, "status 500 Internal Server Error"),
        (ResponseFault::TooMany(0), ErrorKind::Network, "toomanyrequests"),
        (ResponseFault::TooMany(3600), ErrorKind::Network, "toomanyrequests"),
        (ResponseFault::Redirect, ErrorKind::Network, "stopped after 10 redirects"),
        (ResponseFault::Status(418), ErrorKind::Network, "status 418"),
        (ResponseFault::Status(404), ErrorKind::NotFound, "manifest unknown"),
        (ResponseFault::Wrong, ErrorKind::Unsupported, "the manifest is not valid JSON"),
        (ResponseFault::Reset, ErrorKind::Network, "connection"),
    ] {
        let registry = failing(fault.clone(), |_| true);
        serve(&registry, source.store(), "a", "v1", &digest);
        let kit = Kit::plain();
        let start = Instant::now();
        let error = kit.pull(&format!("{}/a:v1", registry.host())).unwrap_err();
        assert_eq!(error.kind(), kind, "{fault:?}: {error}");
        assert!(error.to_string().contains(text), "{fault:?}: {error}");
        assert!(start.elapsed() < Duration::from_secs(5), "{fault:?}");
        assert!(leftovers(kit.store()).is_empty());
    }
}

#[test]
fn other_failures_are_not_retried() {
    let registry = failing(ResponseFault::Status(404), |_| true);
    let kit = Kit::plain();
    kit.pull(&format!("{}/a:v1", registry.host())).unwrap_err();
    let request = registry.log().iter().filter(|request| request.path.contains("manifests")).count();
    assert_eq!(request, 1);
}

#[test]
fn an_index_with_a_wrong_size_is_rejected() {
    let source = Kit::new(|_| {});
    let digest = image(source.store(), &[&tar("one", b"first")]);
    let registry = failing(ResponseFault::None, |_| false);
    serve(&registry, source.store(), "a", "single", &digest);
    let size = fs::metadata(source.store().path_of(&digest)).unwrap().len();
    for (tag, size, good) in [("right", size, true), ("wrong", size + 1, false)] {
        let index = format!(
            r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"{}","digest":"{digest}","size":{size},"platform":{{"os":"linux","architecture":"amd64"}}}}]}}"#,
            media_type::OCI_MANIFEST
        );
        registry.put(&format!("/v2/a/manifests/{tag}"), media_type::OCI_INDEX, index.as_bytes());
        let outcome = Kit::plain().pull(&format!("{}/a:{tag}", registry.host()));
        assert_eq!(outcome.is_ok(), good, "{tag}");
        assert!(good || outcome.unwrap_err().kind() == ErrorKind::Digest);
    }
}

#[test]
fn a_slow_response_times_out() {
    let source = Kit::new(|_| {});
    let digest = image(source.store(), &[&tar("one", b"first")]);
    let registry = failing(ResponseFault::Drip(Duration::from_millis(20)), |_| true);
    serve(&registry, source.store(), "a", "v1", &digest);
    let kit = Kit::new(|options| {
        options.use_http = true;
        options.timeouts.crawl = Duration::from_millis(500);
    });
    let start = Instant::now();
    let error = kit.pull(&format!("{}/a:v1", registry.host())).unwrap_err();
    assert!(error.to_string().ends_with("the response is too slow"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn additional_statuses_are_retried_on_request() {
    let source = Kit::new(|_| {});
    let digest = image(source.store(), &[&tar("one", b"first")]);
    let outcome = |variables: &[(&str, &str)]| {
        let registry = failing(ResponseFault::Status(403), |number| number < 2);
        serve(&registry, source.store(), "a", "v1", &digest);
        Kit::with(variables, |options| options.use_http = true).pull(&format!("{}/a:v1", registry.host()))
    };
    assert_eq!(outcome(&[]).unwrap_err().kind(), ErrorKind::Unauthorized);
    assert_eq!(outcome(&[("OPM_RETRY_STATUS", "403, 408")]).unwrap().digest, digest);
}

#[test]
fn retries_honor_retry_after() {
    let source = Kit::new(|_| {});
    let digest = image(source.store(), &[&tar("one", b"first")]);
    let registry = failing(ResponseFault::TooMany(1), |number| number == 0);
    serve(&registry, source.store(), "a", "v1", &digest);
    let start = Instant::now();
    Kit::plain().pull(&format!("{}/a:v1", registry.host())).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[test]
fn an_interrupted_download_resumes_until_it_is_complete() {
    let source = Kit::new(|_| {});
    let layer = tar("one", &noise(1, 400_000));
    let digest = image(source.store(), &[&layer]);
    let blob = format!("/v2/a/blobs/{}", Digest::of(&layer));
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let registry = FakeRegistry::start(move |request| {
        let breaks = request.path == blob && counted.fetch_add(1, Ordering::SeqCst) < 8;
        (if breaks { ResponseFault::Truncated } else { ResponseFault::None }, None)
    });
    serve(&registry, source.store(), "a", "v1", &digest);
    let kit = Kit::plain();
    kit.pull(&format!("{}/a:v1", registry.host())).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 9);
    let ranges = registry.log().iter().filter(|request| request.headers.contains_key("range")).count();
    assert_eq!(ranges, 8, "each request asks for the missing range only");
    assert_eq!(fs::read(kit.store().path_of(&Digest::of(&layer))).unwrap(), layer);
}

#[test]
fn damaged_blobs_of_the_store_are_fetched_again() {
    let source = Kit::new(|_| {});
    let layer = tar("one", &noise(1, 5000));
    let digest = image(source.store(), &[&layer]);
    let registry = failing(ResponseFault::None, |_| false);
    serve(&registry, source.store(), "a", "v1", &digest);
    let name = format!("{}/a:v1", registry.host());
    let kit = Kit::plain();
    let pulled = kit.pull(&name).unwrap();
    for file in [Digest::of(&layer), digest, pulled.manifest.config.digest].map(|digest| kit.store().path_of(&digest)) {
        let mut content = fs::read(&file).unwrap();
        content[1] ^= 1;
        fs::write(file, content).unwrap();
    }
    let again = Kit::in_dir(kit.dir, &[], |options| options.use_http = true);
    assert_eq!(again.pull(&name).unwrap().digest, digest);
    assert_eq!(fs::read(again.store().path_of(&Digest::of(&layer))).unwrap(), layer);
    assert!(leftovers(again.store()).is_empty());
    // Offline, a damaged blob is an error.
    fs::write(again.store().path_of(&Digest::of(&layer)), noise(2, layer.len())).unwrap();
    let offline = Kit::in_dir(again.dir, &[], |options| options.offline = true);
    assert_eq!(offline.pull(&name).unwrap_err().kind(), ErrorKind::Offline);
}

#[test]
fn a_thousand_faulty_pulls_succeed_or_report_a_known_error() {
    let source = Kit::new(|_| {});
    let layers: Vec<Vec<u8>> =
        (0..20).map(|number| tar("file", &noise(number, 3000 + 500 * number as usize))).collect();
    let images: Vec<Digest> = layers.chunks(2).map(|pair| image(source.store(), &[&pair[0], &pair[1]])).collect();
    let state = AtomicU64::new(42);
    let registry = FakeRegistry::start(move |_| {
        // One response in four is faulty.
        let chance = state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
        let chance = (chance ^ (chance >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33;
        let fault = match chance % 32 {
            0 | 1 => ResponseFault::Reset,
            2 => ResponseFault::TooMany(0),
            3 => ResponseFault::Status(500),
            4 | 5 => ResponseFault::Truncated,
            6 => ResponseFault::Wrong,
            7 => ResponseFault::Redirect,
            _ => ResponseFault::None,
        };
        (fault, None)
    });
    for (number, digest) in images.iter().enumerate() {
        serve(&registry, source.store(), &format!("image{number}"), "v1", digest);
    }
    let (mut good, mut bad) = (0, 0);
    for round in 0..100 {
        let kit = Kit::new(|options| {
            options.use_http = true;
            options.retries = Retries {
                count: 3,
                first_delay: Duration::from_micros(100),
                max_delay: Duration::from_millis(50),
                constant: false,
            };
        });
        let locations: Vec<Location> = (0..images.len())
            .map(|number| Location::parse(&format!("{}/image{number}:v1", registry.host())).unwrap())
            .collect();
        for (number, outcome) in kit.client.pull_many(&locations).into_iter().enumerate() {
            match outcome {
                Ok(pulled) => {
                    assert_eq!(pulled.digest, images[number], "round {round}");
                    for ((_, blob), layer) in pulled.layers.iter().zip(&layers[2 * number..]) {
                        assert_eq!(&content(blob), layer, "round {round}");
                    }
                    good += 1;
                }
                Err(error) => {
                    let known = [ErrorKind::Network, ErrorKind::Digest, ErrorKind::Unsupported, ErrorKind::NotFound];
                    assert!(known.contains(&error.kind()), "round {round}: {error}");
                    bad += 1;
                }
            }
        }
        assert_eq!(leftovers(kit.store()), Vec::<String>::new(), "round {round}");
    }
    assert_eq!(good + bad, 1000);
    assert!(good > 500, "{good} of 1000");
}
