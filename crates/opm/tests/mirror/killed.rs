//! Killed at any moment, a set is what it should be in the end; so it is when registries are.

use std::fs;
use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use image::Digest;

use crate::kit::{Kit, mirror, names};
use crate::proxy::Proxy;

const ALL: &str = "    - name: alpha\n      minVersion: 1.0.0\n    - name: beta\n";
/// What may be on its way, and lost, when a connection is killed.
const UNDER_WAY: u64 = 1 << 20;

/// How often, unless `OPM_KILL_ROUNDS` says so.
fn rounds() -> u64 {
    match std::env::var_os("OPM_KILL_ROUNDS") {
        Some(_) => testkit::kill_rounds(),
        None => 30,
    }
}

/// Every blob under its name is what the name says.
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

/// Runs a command and kills it at a moment between 0 and `span`; returns whether it was done before.
fn run_killed(kit: &Kit, words: &[&str], seed: u64, span: Duration) -> bool {
    let mut child = start(kit, words);
    // Moments that look like chance and are the same each time.
    let chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    std::thread::sleep(span.mul_f64(chance as f64 / f64::from(1 << 24)));
    let done = child.try_wait().unwrap().is_some_and(|status| status.success());
    let _ = child.kill();
    child.wait().unwrap();
    done
}

#[test]
fn t12_killed_anywhere_the_next_run_goes_on() {
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
    // Nothing is fetched twice but manifests and the catalog, and what was on its way on two connections.
    let fetched = kit.proxy.count() - before;
    let small = 150_000 * (runs + 1);
    assert!(fetched < once + small + kills * 2 * UNDER_WAY, "{fetched} beside {once}, {kills} kills");
    // No file is left that a later run does not use.
    assert_eq!(names(&kit.path("out")), names(&kit.path("whole")));
    assert_eq!(names(&kit.path("out/mirror")), names(&kit.path("whole/mirror")));
    assert_eq!(names(&kit.path("out/blobs/sha256")), names(&kit.path("whole/blobs/sha256")));
    assert_eq!(names(&kit.path("volumes")), names(&kit.path("expected")));
    for name in names(&kit.path("expected")) {
        let read = |place: &str| fs::read(kit.path(place).join(&name)).unwrap();
        assert!(read("volumes") == read("expected"), "{name}");
    }
    // The catalog gets its name when all else is there.
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

/// Waits until a part of what a whole pull takes has come, or the pull has ended.
fn wait_for_part(kit: &Kit, before: u64, part: u64, child: &mut Child) {
    while kit.proxy.count() - before < part && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn t9_a_source_that_dies_and_comes_back_is_fetched_once() {
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
        kit.proxy.cut();
        std::thread::sleep(Duration::from_secs(5));
        kit.source.as_mut().unwrap().restart();
        kit.proxy.restore();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(running && output.status.success(), "{part}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), digest, "{part}: {said}");
        let fetched = kit.proxy.count() - before;
        assert!(fetched < once + 200_000 + 2 * UNDER_WAY, "{part}: {fetched} beside {once}: {said}");
        assert_eq!(kit.mirror(&["verify", &directory]), digest);
    }
}

#[test]
fn t9_another_of_the_pool_goes_on_where_one_died() {
    let Some(kit) = Kit::with_layers_of(1_500_000) else { return };
    let file = kit.set("set.yaml", ALL);
    let before = kit.proxy.count();
    let digest = kit.mirror(&["pull", &file, "whole"]);
    let once = kit.proxy.count() - before;
    // Two ways to the same content; the first is cut in the middle and stays so.
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
    first.cut();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), digest);
    // Blobs go on where they were, at the other one.
    let fetched = first.count() + second.count();
    assert!(second.count() > once / 5 && fetched < once + 300_000 + 2 * UNDER_WAY, "{fetched} beside {once}");
}

#[test]
fn t10_a_source_that_stays_dead_is_reported_by_bundle_and_the_next_run_fetches_the_rest() {
    let Some(mut kit) = Kit::with_layers_of(1_500_000) else { return };
    let file = kit.set("set.yaml", ALL);
    let before = kit.proxy.count();
    let digest = kit.mirror(&["pull", &file, "whole"]);
    let once = kit.proxy.count() - before;
    let before = kit.proxy.count();
    let mut child = start(&kit, &["pull", &file, "out", "--limit-rate", "8M", "--jobs", "2"]);
    wait_for_part(&kit, before, once / 2, &mut child);
    kit.source.as_mut().unwrap().stop();
    kit.proxy.cut();
    let begun = Instant::now();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(90), "{:?}: {said}", begun.elapsed());
    assert!(said.contains("  bundle ") && said.contains("the set is incomplete"), "{said}");
    assert!(!kit.path("out/mirror/lock.json").exists());
    // D-40: how often it was tried, and what to do, for people and programs.
    assert!(said.contains(" times)\n") && said.contains("help: run the command again"), "{said}");
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
    assert!(fetched < once + 400_000 + 2 * UNDER_WAY, "{fetched} beside {once}");
    assert!(!kit.path("out/mirror/report.json").exists());
}

#[test]
fn t11_a_destination_that_dies_keeps_the_old_catalog_until_the_new_one_is_whole() {
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
        // It does not wait for ever.
        let output = child.wait_with_output_within(Duration::from_secs(120));
        kit.closed.restart();
        let there = kit.closed_digest("m/ns/index:v1").unwrap();
        let whole = kit.run(&mirror(&["verify", &to, "--lock", "out/mirror/lock.json"])).status.success();
        assert!(there == first || whole, "{part}: {output}");
        kit.mirror(&["verify", &to, "--lock", if there == first { "old.json" } else { "out/mirror/lock.json" }]);
    }
    assert_eq!(kit.mirror(&["push", "out", &to]), digest);
    kit.mirror(&["verify", &to, "--lock", "out/mirror/lock.json", "--deep"]);
}

trait Within {
    fn wait_with_output_within(&mut self, most: Duration) -> String;
}

impl Within for Child {
    /// Waits for the end and returns the messages; fails when it takes too long.
    fn wait_with_output_within(&mut self, most: Duration) -> String {
        let begun = Instant::now();
        while self.try_wait().unwrap().is_none() {
            if begun.elapsed() > most {
                let _ = self.kill();
                panic!("it waits for ever");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut said = String::new();
        let _ = self.stderr.take().unwrap().read_to_string(&mut said);
        said
    }
}
