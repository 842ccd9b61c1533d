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
    for round in 1..=rounds() {
        run_killed(&["pull", &file, "out", "--volumes", "1MiB", "--to", "volumes"], round, taken);
        check(&kit);
    }
    assert_eq!(kit.mirror(&["pull", &file, "out", "--volumes", "1MiB", "--to", "volumes"]), digest);
    check(&kit);
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
