//! The README shows what really comes out.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::env::{TestEnv, project};

#[test]
fn the_tour_in_the_readme_is_true() {
    let env = TestEnv::new();
    fs::create_dir(env.path("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_opm"), env.path("bin/opm")).unwrap();
    for directory in ["examples/catalog", "examples/bundles"] {
        env.copy_of(directory);
    }
    fs::create_dir(env.path("examples")).unwrap();
    for name in ["catalog", "bundles"] {
        fs::rename(env.path(name), env.path("examples").join(name)).unwrap();
    }
    // The catalog that the README asks the reader to break.
    let catalog = fs::read_to_string(env.path("examples/catalog/lantern/catalog.yaml")).unwrap();
    let edge = "  replaces: lantern.v1.1.1\n";
    let at = catalog.rfind(edge).unwrap();
    env.file("my-catalog/lantern/catalog.yaml", format!("{}{}", &catalog[..at], &catalog[at + edge.len()..]));

    let readme = fs::read_to_string(project("README.md")).unwrap();
    let mut commands = 0;
    for block in readme.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for step in block.split("$ ").skip(1) {
            let (command, expected) = step.split_once('\n').unwrap();
            assert_eq!(run(command, &env.path("")), expected, "{command}");
            commands += 1;
        }
    }
    assert!(commands >= 5, "the README has {commands} commands");
}

/// Runs a line in a shell and returns everything it prints.
fn run(command: &str, directory: &Path) -> String {
    let path = format!("{}:{}", directory.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(directory)
        .env("PATH", path)
        .output()
        .expect("a shell");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
