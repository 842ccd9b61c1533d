//! Killed at any moment, a set is what it should be in the end.

use std::fs;
use std::time::{Duration, Instant};

use image::Digest;

use crate::kit::{Kit, mirror, names};

/// How often, unless `OPM_KILL_ROUNDS` says so.
fn rounds() -> u64 {
    match std::env::var_os("OPM_KILL_ROUNDS") {
        Some(_) => testkit::kill_rounds(),
        None => 5,
    }
}

/// Every blob under its name is what the name says.
fn check(kit: &Kit) {
    for name in names(&kit.path("out/blobs/sha256")) {
        let content = fs::read(kit.path("out/blobs/sha256").join(&name)).unwrap();
        assert_eq!(Digest::of(&content).hex(), name);
    }
}

#[test]
fn t12_killed_anywhere_the_next_run_goes_on() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n      minVersion: 1.0.0\n    - name: beta\n");
    let pull = ["pull", &file, "whole", "--volumes", "1MiB", "--to", "expected"];
    let before = kit.proxy.count();
    let start = Instant::now();
    let digest = kit.mirror(&pull);
    let taken = start.elapsed();
    let to = kit.to();
    let run_killed = |words: &[&str], round: u64, taken: Duration| {
        let mut child = kit
            .command(&mirror(words))
            .stderr(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(taken.mul_f64((round * 37 % 100) as f64 / 100.0));
        let _ = child.kill();
        child.wait().unwrap();
    };
    let once = kit.proxy.count() - before;
    for round in 1..=rounds() {
        run_killed(&["pull", &file, "out", "--volumes", "1MiB", "--to", "volumes"], round, taken);
        check(&kit);
    }
    assert_eq!(kit.mirror(&["pull", &file, "out", "--volumes", "1MiB", "--to", "volumes"]), digest);
    check(&kit);
    // Nothing is fetched twice but manifests, and what was on its way when it was killed.
    let fetched = kit.proxy.count() - before - once;
    assert!(fetched < once + rounds() * 400_000, "{fetched} beside {once}");
    assert_eq!(names(&kit.path("out")), names(&kit.path("whole")));
    assert_eq!(names(&kit.path("out/mirror")), names(&kit.path("whole/mirror")));
    assert_eq!(names(&kit.path("out/blobs/sha256")), names(&kit.path("whole/blobs/sha256")));
    assert_eq!(names(&kit.path("volumes")), names(&kit.path("expected")));
    for name in names(&kit.path("expected")) {
        assert_eq!(
            fs::read(kit.path("volumes").join(&name)).unwrap(),
            fs::read(kit.path("expected").join(&name)).unwrap()
        );
    }
    // T-11: the catalog gets its name when all else is there.
    for round in 1..=rounds() {
        run_killed(&["push", "out", &to], round, taken);
        if kit.closed_digest("m/ns/index:v1").is_some() {
            kit.mirror(&["verify", &to, "--lock", "out/mirror/lock.json"]);
        }
    }
    assert_eq!(kit.mirror(&["push", "out", &to]), digest);
    kit.mirror(&["verify", &to, "--lock", "out/mirror/lock.json", "--deep"]);
}

#[test]
fn t9_a_source_that_comes_and_goes_is_fetched_once() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n      minVersion: 1.0.0\n    - name: beta\n");
    let before = kit.proxy.count();
    let digest = kit.mirror(&["pull", &file, "whole"]);
    let once = kit.proxy.count() - before;
    for part in [10, 50, 90] {
        let directory = format!("out-{part}");
        let before = kit.proxy.count();
        let child = kit.command(&mirror(&["pull", &file, &directory])).stderr(std::process::Stdio::piped()).spawn();
        let mut child = child.unwrap();
        while kit.proxy.count() - before < once * part / 100 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        kit.proxy.cut();
        std::thread::sleep(Duration::from_secs(1));
        kit.proxy.mend();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Where it asked for a manifest just then it may give up; the next run goes on.
        if !output.status.success() {
            assert_eq!(kit.mirror(&["pull", &file, &directory]), digest, "{said}");
        }
        let fetched = kit.proxy.count() - before;
        assert!(fetched < once + once / 2, "{part}: {fetched} beside {once}: {said}");
        assert_eq!(kit.mirror(&["verify", &directory]), digest);
    }
}
