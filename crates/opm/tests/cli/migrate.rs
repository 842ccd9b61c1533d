use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::env::{SMALL, TestEnv};

#[test]
fn an_interruption_leaves_nothing_behind() {
    let env = TestEnv::new();
    let big: String = (0..20_000)
        .map(|i| format!("{{\"schema\":\"x.io/note\",\"package\":\"p{i}\",\"text\":\"{}\"}}\n", "x".repeat(500)))
        .collect();
    env.file("catalog/c.json", big);
    let mut child =
        env.command().args(["migrate", "catalog", "out"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let writing = || env.names(".").iter().any(|name| name.starts_with(".opm-migrate-"));
    let start = Instant::now();
    while !writing() && start.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(writing(), "nothing was being written");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert!(!status.success(), "the signal came too late");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2));
    assert_eq!(env.names("."), ["catalog"]);
}

#[test]
fn packages_get_directories_of_their_own() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    env.stdout(&["migrate", "catalog", "new/place", "-o", "yaml"]);
    assert_eq!(env.names("new/place"), ["buoy", "catalog.yaml", "lantern", "tide-gauge", "weather-vane"]);
    assert_eq!(env.stdout(&["render", "new/place"]), env.stdout(&["render", "catalog"]));
}

#[test]
fn what_fails_leaves_nothing_behind() {
    let env = TestEnv::new();
    env.file(
        "catalog/c.yaml",
        SMALL.replace("name: foo\n", "name: ../foo\n").replace("package: foo", "package: ../foo"),
    );
    let told = env.opm(&["migrate", "catalog", "out"]);
    assert!(told.contains("invalid package name \"../foo\": must be a single local path element"), "{told}");
    assert_eq!(env.names("."), ["catalog"]);
    env.file("full/file", "");
    assert!(env.opm(&["migrate", "catalog", "full"]).contains("output dir \"full\" must be empty"));
}
