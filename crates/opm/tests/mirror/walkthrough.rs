//! The walkthrough in docs/mirror.md shows the real output of its commands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::kit::Kit;

/// Runs a line in a shell and returns its output.
fn run(command: &str, kit: &Kit) -> String {
    let path = format!("{}:{}", kit.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(kit.path(""))
        .env("PATH", path)
        .env("HOME", kit.path("home"))
        .env("LC_ALL", "C")
        .output()
        .expect("a shell");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns whether a text matches, where `[...]` matches anything within a line.
fn matches(text: &str, expected: &str) -> bool {
    let line = |(text, expected): (&str, &str)| {
        let mut rest = text;
        let parts: Vec<&str> = expected.split("[...]").collect();
        parts.iter().enumerate().all(|(number, part)| {
            let at = if number == 0 { rest.starts_with(part).then_some(0) } else { rest.find(part) };
            at.is_some_and(|at| {
                rest = &rest[at + part.len()..];
                number + 1 < parts.len() || number == 0 && parts.len() > 1 || part.is_empty() || rest.is_empty()
            })
        })
    };
    text.lines().count() == expected.lines().count() && text.lines().zip(expected.lines()).all(line)
}

#[test]
fn commands_of_the_walkthrough_print_what_it_shows() {
    let Some(kit) = Kit::new() else { return };
    kit.image("ns/tools:v1", &[b"tools"]);
    kit.sign("ns/shared", kit.digest_of("ns/shared:v1").unwrap(), true);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mirror.md");
    let page = fs::read_to_string(page).unwrap();
    let page = page.replace("quay.example.com", &kit.host).replace("registry.example.com:5000", kit.closed.host());
    let file = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    fs::write(kit.path("imageset.yaml"), file).unwrap();
    // These registries have no certificates.
    let program = env!("CARGO_BIN_EXE_opm");
    let script = format!(
        "#!/bin/sh\n\
         case \"$1\" in mirror) set -- \"$@\" --use-http;; esac\nexec {program} \"$@\"\n"
    );
    fs::create_dir(kit.path("bin")).unwrap();
    fs::write(kit.path("bin/opm"), script).unwrap();
    fs::set_permissions(kit.path("bin/opm"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut commands = 0;
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for step in block.split("$ ").skip(1) {
            let (command, expected) = step.split_once('\n').unwrap();
            let output = run(command, &kit);
            assert!(matches(&output, expected), "{command}\n--- output\n{output}--- expected\n{expected}");
            commands += 1;
        }
    }
    assert!(commands >= 8, "{commands}");
}
