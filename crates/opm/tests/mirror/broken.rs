//! M-19: overloaded, slow or unusual registries and networks.

use std::fs;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use testkit::{FakeRegistry, FakeRequest, FakeResponse, ResponseFault};

use crate::kit::{Kit, mirror};
use crate::proxy::forward;

const ALL: &str = "    - name: alpha\n      minVersion: 1.0.0\n    - name: beta\n";

/// Runs a command whose source is another registry.
pub(crate) fn through(kit: &Kit, fake: &FakeRegistry, words: &[&str]) -> Output {
    let conf = kit.path("registries.conf");
    let (from, to) = (&kit.host, fake.host());
    fs::write(&conf, format!("[[registry]]\nprefix = {from:?}\nlocation = {to:?}\ninsecure = true\n")).unwrap();
    kit.command(&mirror(words)).env("CONTAINERS_REGISTRIES_CONF", conf).output().unwrap()
}

fn is_blob(request: &FakeRequest) -> bool {
    request.method == "GET" && request.path.contains("/blobs/")
}

#[test]
fn m19_an_overloaded_registry_gets_fewer_requests_and_delivers_everything() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALL);
    let digest = kit.mirror(&["pull", &file, "whole"]);
    let host = kit.source.as_ref().unwrap().host().to_owned();
    let (count, busy, maximum) = (AtomicUsize::new(0), AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let peak = maximum.clone();
    let fake = FakeRegistry::start(move |request| {
        let now = busy.fetch_add(1, Ordering::SeqCst) + 1;
        peak.fetch_max(now, Ordering::SeqCst);
        let turn = count.fetch_add(1, Ordering::SeqCst);
        let response = forward(&host, request);
        let fault = match turn {
            // Some of the first requests fail, and later one in twenty.
            3 | 4 => ResponseFault::TooMany(1),
            turn if turn % 60 < 3 && turn >= 60 => ResponseFault::Status(502),
            11 => ResponseFault::Status(503),
            17 => ResponseFault::Reset,
            23 => ResponseFault::Silence(Duration::from_secs(2)),
            turn if is_blob(request) && turn % 7 == 0 => ResponseFault::Truncated,
            _ => ResponseFault::None,
        };
        busy.fetch_sub(1, Ordering::SeqCst);
        (fault, Some(response))
    });
    let output = through(&kit, &fake, &["pull", &file, "out", "--jobs", "4"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), digest);
    assert!(maximum.load(Ordering::SeqCst) <= 4, "{maximum:?}");
    assert_eq!(kit.mirror(&["verify", "out"]), digest);
}

#[test]
fn m19_a_slow_connection_delivers_everything() {
    let Some(kit) = Kit::with_layers_of(60_000) else { return };
    let file = kit.set("set.yaml", "    - name: beta\n");
    let digest = kit.mirror(&["pull", &file, "whole"]);
    let host = kit.source.as_ref().unwrap().host().to_owned();
    let count = AtomicUsize::new(0);
    let fake = FakeRegistry::start(move |request| {
        let response = forward(&host, request);
        // One large blob arrives at 20 kB per second or less.
        let slow = is_blob(request) && response.body.len() > 50_000 && count.fetch_add(1, Ordering::SeqCst) == 0;
        (if slow { ResponseFault::Drip(Duration::from_micros(20)) } else { ResponseFault::None }, Some(response))
    });
    let output = through(&kit, &fake, &["pull", &file, "out", "--progress", "json"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), digest);
    // Programs can read the progress.
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<serde_json::Value> =
        messages.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() > 2, "{messages}");
    let last = lines.iter().rfind(|line| line["doing"] == "fetching" && line["finished"] == true).unwrap();
    assert_eq!(last["bytes"], last["total"], "{messages}");
    assert!(lines[0]["total"].as_u64() > Some(0) && lines[0]["bytesPerSecond"].is_u64(), "{messages}");
}

#[test]
fn m19_blobs_from_another_host_get_no_credentials_and_tokens_are_renewed() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n");
    let digest = kit.mirror(&["pull", &file, "whole"]);
    let host = kit.source.as_ref().unwrap().host().to_owned();
    let behind = host.clone();
    let other = FakeRegistry::start(move |request| (ResponseFault::None, Some(forward(&behind, request))));
    let elsewhere = other.host().to_owned();
    let (tokens, uses) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let fake = FakeRegistry::start(move |request| {
        let home = request.headers.get("host").cloned().unwrap_or_default();
        if request.path.starts_with("/token") {
            let number = tokens.fetch_add(1, Ordering::SeqCst) + 1;
            uses.store(0, Ordering::SeqCst);
            let body = format!("{{\"token\": \"secret-{number}\", \"expires_in\": 300}}");
            return (ResponseFault::None, Some(FakeResponse::status(200).body(body)));
        }
        let challenge = format!("Bearer realm=\"http://{home}/token\",service=\"fake\"");
        let refused = || FakeResponse::status(401).header("WWW-Authenticate", &challenge);
        // A token is valid for a few requests, whatever its announced lifetime.
        let known = request.headers.get("authorization").is_some_and(|value| value.starts_with("Bearer secret-"));
        if !known || uses.fetch_add(1, Ordering::SeqCst) >= 6 && !request.path.contains(".sig") {
            return (ResponseFault::None, Some(refused()));
        }
        // Requests without credentials are rejected even for missing content.
        if request.path.contains("/manifests/sha256-") {
            return (ResponseFault::None, Some(refused()));
        }
        if is_blob(request) {
            let place = format!("http://{elsewhere}{}", request.path);
            return (ResponseFault::None, Some(FakeResponse::status(307).header("Location", &place)));
        }
        (ResponseFault::None, Some(forward(&host, request)))
    });
    let output = through(&kit, &fake, &["pull", &file, "out"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), digest);
    let request = other.log();
    assert!(request.iter().filter(|request| is_blob(request)).count() > 3, "{}", request.len());
    assert!(request.iter().all(|request| !request.headers.contains_key("authorization")));
}

/// `--jobs` connections to each host.
#[test]
fn m19_registries_do_not_wait_for_each_other() {
    let Some(kit) = Kit::new() else { return };
    let host = kit.source.as_ref().unwrap().host().to_owned();
    kit.image("one/large:v1", &[&crate::kit::noise("large", 900_000)]);
    kit.image("two/small:v1", &[&crate::kit::noise("small", 1_000)]);
    let asked_second = Arc::new(AtomicUsize::new(0));
    let (behind, seen) = (host.clone(), asked_second.clone());
    let second = FakeRegistry::start(move |request| {
        seen.fetch_add(usize::from(is_blob(request)), Ordering::SeqCst);
        (ResponseFault::None, Some(forward(&behind, request)))
    });
    let alone = Arc::new(AtomicUsize::new(0));
    let noted = alone.clone();
    // The first registry has the largest blob, and delivers it when the second gets a request.
    let first = FakeRegistry::start(move |request| {
        let begun = Instant::now();
        while is_blob(request) && asked_second.load(Ordering::SeqCst) == 0 {
            if begun.elapsed() > Duration::from_secs(10) {
                noted.fetch_add(1, Ordering::SeqCst);
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        (ResponseFault::None, Some(forward(&host, request)))
    });
    let set = format!(
        "kind: ImageSetConfiguration\nmirror:\n  additionalImages:\n  - name: {}/one/large:v1\n  - name: {}/two/small:v1\n",
        first.host(),
        second.host()
    );
    fs::write(kit.path("set.yaml"), set).unwrap();
    kit.mirror(&["pull", "set.yaml", "out", "--jobs", "1"]);
    assert_eq!(alone.load(Ordering::SeqCst), 0, "the requests to the two registries are not concurrent");
}

/// Failed transfers are retried after all others, also to the destination.
#[test]
fn m19_uploads_to_a_temporarily_failing_destination_are_retried() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALL);
    let digest = kit.mirror(&["pull", &file, "out"]);
    let host = kit.closed.host().to_owned();
    let layer = image::Digest::of(&crate::kit::noise("ns/beta:v1", 400_000)).hex();
    let count = AtomicUsize::new(0);
    let fake = FakeRegistry::start(move |request| {
        // One blob fails with all its retries, and once more.
        if request.method == "PUT" && request.path.contains(&layer) && count.fetch_add(1, Ordering::SeqCst) < 6 {
            return (ResponseFault::Status(502), None);
        }
        let mut response = forward(&host, request);
        // The proxy rewrites the locations of uploads.
        for (_, value) in response.headers.iter_mut().filter(|(name, _)| name.eq_ignore_ascii_case("location")) {
            *value = value.replace(&format!("http://{host}"), "");
        }
        (ResponseFault::None, Some(response))
    });
    let output = kit.run(&mirror(&["push", "out", &format!("{}/m", fake.host())]));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), digest);
    kit.mirror(&["verify", &kit.to(), "--lock", "out/mirror/lock.json", "--deep"]);
}

#[test]
fn a_rate_limit_applies_in_both_directions() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: beta\n");
    let start = Instant::now();
    // The images have about 800 kB; the limit does not apply to the bytes of the first second.
    kit.mirror(&["pull", &file, "out", "--limit-rate", "200k"]);
    assert!(start.elapsed() > Duration::from_secs(2), "{:?}", start.elapsed());
    let start = Instant::now();
    kit.mirror(&["push", "out", &kit.to(), "--limit-rate", "200k"]);
    assert!(start.elapsed() > Duration::from_secs(2), "{:?}", start.elapsed());
    for bad in ["1k", "fast", "0"] {
        let output = kit.run(&mirror(&["push", "out", &kit.to(), "--limit-rate", bad]));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains("at least 64k"), "{error}");
    }
}
