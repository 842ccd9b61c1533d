//! A set is complete in the end, even if runs or registries are killed at any moment.

use std::fs;
use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use image::Digest;

use crate::kit::{Kit, mirror, names};
use crate::proxy::Proxy;

const ALL: &str = "    - name: alpha\n      minVersion: 1.0.0\n    - name: beta\n";
/// The bytes that may be in flight, and lost, when a connection is killed.
const IN_FLIGHT: u64 = 1 << 20;

/// Returns the number of rounds, by default or from `OPM_KILL_ROUNDS`.
fn rounds() -> u64 {
    match std::env::var_os("OPM_KILL_ROUNDS") {
        Some(_) => testkit::kill_rounds(),
        None => 30,
    }
}

/// Checks that every blob matches its name.
fn check(kit: &Kit, directory: &str) {
    for name in names(&kit.path(directory).join("blobs/sha256")) {
        let content = fs::read(kit.path(directory).join("blobs/sha256").join(&name)).unwrap();
        assert_eq!(Digest::of(&content).hex(), name);
    }
}

fn start(kit: &Kit, words: &[&str]) -> Child {
    let mut command = kit.command(&mirror(words));
    command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Runs a command and kills it at a moment between 0 and `span`; returns whether it ended before.
fn run_killed(kit: &Kit, words: &[&str], seed: u64, span: Duration) -> bool {
    let mut child = start(kit, words);
    // Pseudo-random moments, the same in every run.
    let chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    std::thread::sleep(span.mul_f64(chance as f64 / f64::from(1 << 24)));
    let done = child.try_wait().unwrap().is_some_and(|status| status.success());
    let _ = child.kill();
    child.wait().unwrap();
    done
}

#[test]
fn m12_the_next_run_resumes_a_run_killed_at_any_moment() {
    let Some(kit) = Kit::with_layers_of(1_500_000) else { return };
    let file = kit.set("set.yaml", ALL);
    let before = kit.proxy.count();
    let begun = Instant::now();
    let digest = kit.mirror(&["pull", &file, "whole", "--volumes", "1MiB", "--to", "expected"]);
    let taken = begun.elapsed();
    let once = kit.proxy.count() - before;
    let to = kit.to();
    let pull = ["pull", &file, "out", "--jobs", "2", "--volumes", "1MiB", "--to", "volumes"];
    let (before, mut kills, mut runs) = (kit.proxy.count(), 0, 0);
    for round in 1..=rounds() {
        let done = run_killed(&kit, &pull, round, taken);
        kills += u64::from(!done);
        runs += 1;
        check(&kit, "out");
    }
    assert_eq!(kit.mirror(&pull), digest);
    check(&kit, "out");
    // Only manifests, the catalog and bytes in flight on two connections are fetched twice.
    let fetched = kit.proxy.count() - before;
    let small = 150_000 * (runs + 1);
    assert!(fetched < once + small + kills * 2 * IN_FLIGHT, "{fetched} bytes, {once} without kills, {kills} kills");
    // All remaining files are used by later runs.
    assert_eq!(names(&kit.path("out")), names(&kit.path("whole")));
    assert_eq!(names(&kit.path("out/mirror")), names(&kit.path("whole/mirror")));
    assert_eq!(names(&kit.path("out/blobs/sha256")), names(&kit.path("whole/blobs/sha256")));
    assert_eq!(names(&kit.path("volumes")), names(&kit.path("expected")));
    for name in names(&kit.path("expected")) {
        let read = |place: &str| fs::read(kit.path(place).join(&name)).unwrap();
        assert!(read("volumes") == read("expected"), "{name}");
    }
    // The catalog gets its tag after everything else is complete.
    let begun = Instant::now();
    kit.mirror(&["push", "out", &format!("{}/first", kit.closed.host())]);
    let taken = begun.elapsed();
    for round in 1..=rounds() {
        run_killed(&kit, &["push", "volumes", &to], round + 1000, taken);
        if kit.closed_digest("m/ns/index:v1").is_some() {
            kit.mirror(&["verify", &to, "--lock", "out/mirror/lock.json"]);
        }
    }
    assert_eq!(kit.mirror(&["push", "volumes", &to]), digest);
    kit.mirror(&["verify", &to, "--lock", "out/mirror/lock.json", "--deep"]);
}

/// Waits until a pull has transferred `part` bytes, or has ended.
fn wait_for_part(kit: &Kit, before: u64, part: u64, child: &mut Child) {
    while kit.proxy.count() - before < part && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn m9_content_of_a_source_that_restarts_is_fetched_once() {
    let Some(mut kit) = Kit::with_layers_of(1_500_000) else { return };
    let file = kit.set("set.yaml", ALL);
    let before = kit.proxy.count();
    let digest = kit.mirror(&["pull", &file, "whole"]);
    let once = kit.proxy.count() - before;
    for part in [10, 50, 90] {
        let directory = format!("out-{part}");
        let before = kit.proxy.count();
        let mut child = start(&kit, &["pull", &file, &directory, "--limit-rate", "8M", "--jobs", "2"]);
        wait_for_part(&kit, before, once * part / 100, &mut child);
        let running = child.try_wait().unwrap().is_none();
        kit.source.as_mut().unwrap().stop();
        kit.proxy.disconnect();
        std::thread::sleep(Duration::from_secs(5));
        kit.source.as_mut().unwrap().restart();
        kit.proxy.restore();
        let output = child.wait_with_output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(running && output.status.success(), "{part}: {messages}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), digest, "{part}: {messages}");
        let fetched = kit.proxy.count() - before;
        assert!(
            fetched < once + 200_000 + 2 * IN_FLIGHT,
            "{part}: {fetched} bytes, {once} without a restart: {messages}"
        );
        assert_eq!(kit.mirror(&["verify", &directory]), digest);
    }
}

#[test]
fn m9_another_registry_of_the_pool_continues_where_one_failed() {
    let Some(kit) = Kit::with_layers_of(1_500_000) else { return };
    let file = kit.set("set.yaml", ALL);
    let before = kit.proxy.count();
    let digest = kit.mirror(&["pull", &file, "whole"]);
    let once = kit.proxy.count() - before;
    // Two registries with the same content; the first fails in the middle and stays down.
    let source = kit.source.as_ref().unwrap().host();
    let (first, second) = (Proxy::start(source), Proxy::start(source));
    let mut conf = format!("[[registry]]\nprefix = {:?}\nlocation = {:?}\n", kit.host, kit.host);
    for pool in [&first, &second] {
        conf += &format!("\n[[registry.mirror]]\nlocation = {:?}\ninsecure = true\n", pool.host);
    }
    fs::write(kit.path("registries.conf"), conf).unwrap();
    let words = ["pull", &file, "out", "--limit-rate", "8M", "--jobs", "2"];
    let mut command = kit.command(&mirror(&words));
    command.env("CONTAINERS_REGISTRIES_CONF", kit.path("registries.conf"));
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    while first.count() < once / 2 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    first.disconnect();
    let output = child.wait_with_output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), digest);
    // Blobs resume at the other registry.
    let fetched = first.count() + second.count();
    assert!(
        second.count() > once / 5 && fetched < once + 300_000 + 2 * IN_FLIGHT,
        "{fetched} bytes, {once} without a failure"
    );
}

#[test]
fn m10_a_source_that_stays_dead_is_reported_by_cause_and_the_next_run_fetches_the_rest() {
    let Some(mut kit) = Kit::with_layers_of(1_500_000) else { return };
    let file = kit.set("set.yaml", ALL);
    let before = kit.proxy.count();
    let digest = kit.mirror(&["pull", &file, "whole"]);
    let once = kit.proxy.count() - before;
    let before = kit.proxy.count();
    let mut child = start(&kit, &["pull", &file, "out", "--limit-rate", "8M", "--jobs", "2"]);
    wait_for_part(&kit, before, once / 2, &mut child);
    kit.source.as_mut().unwrap().stop();
    kit.proxy.disconnect();
    let begun = Instant::now();
    let output = child.wait_with_output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(begun.elapsed() < Duration::from_secs(90), "{:?}: {messages}", begun.elapsed());
    assert!(messages.contains("failed images: ") && messages.contains("the set is incomplete"), "{messages}");
    assert!(!kit.path("out/mirror/lock.json").exists());
    // The number of attempts, and what to do, for users and programs.
    assert!(messages.contains(" times): ") && messages.contains("help: run the command again"), "{messages}");
    let report: serde_json::Value = serde_json::from_str(&kit.read("out/mirror/report.json")).unwrap();
    let missing = report["missing"].as_array().unwrap();
    let complete = |one: &serde_json::Value| {
        one["cause"].is_string() && one["tries"].as_u64() > Some(0) && one["help"].is_string()
    };
    assert!(!missing.is_empty() && missing.iter().all(complete), "{report}");
    assert!(missing.iter().any(|one| one["tries"].as_u64() > Some(5)), "{report}");
    assert!(kit.mirror_fails(&["push", "out", &kit.to()]).contains("the set is incomplete"));
    kit.source.as_mut().unwrap().restart();
    kit.proxy.restore();
    assert_eq!(kit.mirror(&["pull", &file, "out"]), digest);
    let fetched = kit.proxy.count() - before;
    assert!(fetched < once + 400_000 + 2 * IN_FLIGHT, "{fetched} bytes, {once} without a failure");
    assert!(!kit.path("out/mirror/report.json").exists());
}

#[test]
fn m11_a_destination_that_dies_keeps_the_old_catalog_until_the_new_one_is_complete() {
    let Some(mut kit) = Kit::with_layers_of(1_500_000) else { return };
    let to = kit.to();
    let old = kit.set("old.yaml", "    - name: alpha\n      maxVersion: 1.0.0\n");
    kit.mirror(&["copy", &old, &to, "--lock", "old.json"]);
    let first = kit.closed_digest("m/ns/index:v1").unwrap();
    let file = kit.set("set.yaml", ALL);
    let digest = kit.mirror(&["pull", &file, "out"]);
    let begun = Instant::now();
    kit.mirror(&["push", "out", &format!("{}/first", kit.closed.host())]);
    let taken = begun.elapsed();
    for part in [0.2, 0.5, 0.8, 0.95] {
        let mut child = start(&kit, &["push", "out", &to]);
        std::thread::sleep(taken.mul_f64(part));
        kit.closed.stop();
        // The push does not wait forever.
        let output = child.wait_with_output_within(Duration::from_secs(120));
        kit.closed.restart();
        let current = kit.closed_digest("m/ns/index:v1").unwrap();
        let whole = kit.run(&mirror(&["verify", &to, "--lock", "out/mirror/lock.json"])).status.success();
        assert!(current == first || whole, "{part}: {output}");
        kit.mirror(&["verify", &to, "--lock", if current == first { "old.json" } else { "out/mirror/lock.json" }]);
    }
    assert_eq!(kit.mirror(&["push", "out", &to]), digest);
    kit.mirror(&["verify", &to, "--lock", "out/mirror/lock.json", "--deep"]);
}

trait Within {
    fn wait_with_output_within(&mut self, timeout: Duration) -> String;
}

impl Within for Child {
    /// Waits for the exit and returns the messages; fails after `timeout`.
    fn wait_with_output_within(&mut self, timeout: Duration) -> String {
        let begun = Instant::now();
        while self.try_wait().unwrap().is_none() {
            if begun.elapsed() > timeout {
                let _ = self.kill();
                panic!("the process does not exit");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut messages = String::new();
        let _ = self.stderr.take().unwrap().read_to_string(&mut messages);
        messages
    }
}
