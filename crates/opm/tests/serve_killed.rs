//! Cache builds that are killed at any moment.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn write_catalog(root: &Path, round: usize) {
    let mut text = String::new();
    for package in 0..40 {
        writeln!(text, r#"{{"schema":"olm.package","name":"p{package}","defaultChannel":"c"}}"#).unwrap();
        writeln!(
            text,
            r#"{{"schema":"olm.channel","package":"p{package}","name":"c","entries":[{{"name":"p{package}.v1"}}]}}"#
        )
        .unwrap();
        let noise = format!("{package} {round} ").repeat(4000);
        writeln!(
            text,
            r#"{{"schema":"olm.bundle","package":"p{package}","name":"p{package}.v1","image":"r.test/p:v1","properties":[{{"type":"olm.package","value":{{"packageName":"p{package}","version":"1.0.0"}}}},{{"type":"olm.csv.metadata","value":{{"description":"{noise}"}}}}]}}"#
        )
        .unwrap();
    }
    fs::write(root.join("catalog.json"), text).unwrap();
}

fn build(root: &Path, cache: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opm"));
    command.arg("serve").arg(root).arg("--cache-dir").arg(cache).arg("--cache-only").args(more);
    command.arg("-t").arg(root.with_file_name("termination-log")).stderr(Stdio::null());
    command
}

fn rounds(count: u64) {
    let scratch = tempfile::tempdir().unwrap();
    let (root, cache) = (scratch.path().join("catalog"), scratch.path().join("cache"));
    fs::create_dir(&root).unwrap();
    write_catalog(&root, 0);
    let start = Instant::now();
    assert!(build(&root, &cache, &[]).status().unwrap().success());
    let whole = start.elapsed();
    for round in 1..=count {
        write_catalog(&root, round as usize);
        let mut child = build(&root, &cache, &[]).spawn().unwrap();
        std::thread::sleep(whole.mul_f64((round * 37 % 100) as f64 / 100.0) + Duration::from_micros(round));
        let _ = child.kill();
        child.wait().unwrap();
        assert!(build(&root, &cache, &[]).status().unwrap().success(), "round {round}");
        let checked = build(&root, &cache, &["--cache-enforce-integrity"]).status().unwrap();
        assert!(checked.success(), "round {round}: the cache is invalid");
        assert_eq!(fs::read_dir(cache.join("opm.v1")).unwrap().count(), 1, "round {round}: the build left other files");
    }
}

#[test]
fn a_killed_build_leaves_no_invalid_cache_and_no_other_files() {
    rounds(testkit::kill_rounds());
}
