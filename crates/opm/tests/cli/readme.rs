//! README and pages show the real output of their commands.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::env::{TestEnv, project};

/// Returns an environment with the files that a reader of the project has.
fn tour() -> TestEnv {
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
    env
}

#[test]
fn commands_of_the_readme_print_what_it_shows() {
    let env = tour();

    // The README asks the reader to break this catalog.
    let catalog = fs::read_to_string(env.path("examples/catalog/lantern/catalog.yaml")).unwrap();
    let edge = "  replaces: lantern.v1.1.1\n";
    let at = catalog.rfind(edge).unwrap();
    env.file("my-catalog/lantern/catalog.yaml", format!("{}{}", &catalog[..at], &catalog[at + edge.len()..]));

    let commands = run_page("README.md", &env);
    assert!(commands >= 5, "the README has {commands} commands");
}

/// Pages whose commands need a cluster or registries; other tests run them.
const NEED_MORE: [&str; 2] = ["cluster.md", "mirror.md"];

#[test]
fn commands_of_pages_print_what_they_show() {
    let mut commands = 0;
    for entry in fs::read_dir(project("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") && !NEED_MORE.contains(&name.as_str()) {
            commands += run_page(&format!("docs/{name}"), &tour());
        }
    }
    assert!(commands >= 5, "the pages have {commands} commands");
}

/// Runs the commands of a page, which must print what it shows; returns their number.
fn run_page(page: &str, env: &TestEnv) -> usize {
    let text = fs::read_to_string(project(page)).unwrap();
    let mut commands = 0;
    for block in text.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for step in block.split("$ ").skip(1) {
            let (command, expected) = step.split_once('\n').unwrap();
            // The reader creates the file that the page shows.
            if let Some(file) = command.strip_prefix("cat ") {
                env.file(file, expected);
            }
            assert_eq!(run(command, &env.path("")), expected, "{page}: {command}");
            commands += 1;
        }
    }
    commands
}

/// Runs a line in a shell and returns its output.
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
