//! `docs/exit-codes.md`: what each code means, and which commands keep those of the existing tools.

use std::collections::BTreeSet;
use std::fs;

use crate::env::{TestEnv, project};

/// Returns whether the page lists a command, given by its path, among those of the existing tools.
fn is_recorded(page: &str, command: &str) -> bool {
    let section = page.split("## Commands of the existing tools").nth(1).unwrap();
    let paragraph = section.split("\n\n").nth(2).unwrap();
    let (listed, except) = paragraph.split_once("(except").unwrap();
    let names = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let exceptions: BTreeSet<String> = names(except).into_iter().take(1).collect();
    let listed = names(listed).into_iter().chain(names(except.split_once(')').unwrap().1));
    listed.into_iter().any(|name| match name.strip_suffix(" ...") {
        Some(group) => command == group || command.starts_with(&format!("{group} ")),
        None => command == name,
    }) && !exceptions.contains(command)
}

#[test]
fn every_command_has_the_exit_code_for_wrong_arguments_that_the_page_states() {
    let env = TestEnv::new();
    let page = fs::read_to_string(project("docs/exit-codes.md")).unwrap();
    let (mut recorded, mut ours) = (0, 0);
    for command in env.commands(&[]).into_iter().chain(env.commands(&["alpha"])) {
        let words: Vec<&str> = command.split(' ').chain(["--no-such-flag"]).collect();
        let expected = if is_recorded(&page, &command) { "exit 1\n" } else { "exit 2\n" };
        let shown = env.opm(&words);
        assert!(shown.starts_with(expected), "{command}: {shown}");
        *if expected == "exit 1\n" { &mut recorded } else { &mut ours } += 1;
    }
    assert!(recorded > 20 && ours > 40, "{recorded} recorded, {ours} of ours");
    assert!(env.opm(&["no-such-command"]).starts_with("exit 2\n"));
    assert!(env.opm(&["operator-sdk", "run", "bundle", "--no-such-flag"]).starts_with("exit 1\n"));
}

#[test]
fn a_failure_has_the_code_of_its_class() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    env.file("folder/file", "");
    let cases: &[(&[&str], u8)] = &[
        // The answer is no.
        (&["edit", "set-default", "catalog", "lantern", "nowhere"], 1),
        (&["resolve", "catalog", "--install", "nobody"], 1),
        (&["upgrade-path", "catalog", "lantern", "--from", "9.9.9"], 1),
        (&["explain", "no-such-rule"], 1),
        (&["list", "packages", "nothing"], 1),
        (&["diff", "catalog", "nothing"], 1),
        // The call is wrong.
        (&["resolve", "catalog"], 2),
        (&["build", "catalog"], 2),
        (&["list", "packages"], 2),
        (&["why", "catalog", "lantern", "-o", "toml"], 2),
        (&["--skip-tls", "--use-http", "copy", "a.test/b:v1", "oci:out"], 2),
        // The world failed.
        (&["copy", "127.0.0.1:9/a/b:v1", "oci:out:v1"], 3),
        (&["verify", "127.0.0.1:9/a/b:v1"], 3),
        (&["registry", "doctor", "127.0.0.1:9/a/b:v1"], 3),
        (&["list", "packages", "127.0.0.1:9/a/b:v1"], 3),
        (&["edit", "filter", "catalog", "--package", "lantern", "--to", "folder/file/below"], 3),
        (&["check-upgrades", "catalog", "127.0.0.1:9/a/b:v1"], 3),
        // The same failures of commands that existing tools have.
        (&["render", "127.0.0.1:9/a/b:v1"], 1),
        (&["alpha", "list", "packages", "127.0.0.1:9/a/b:v1"], 1),
        (&["alpha", "list", "packages"], 1),
        (&["validate", "nothing"], 1),
    ];
    for (arguments, code) in cases {
        let shown = env.opm(arguments);
        assert!(shown.starts_with(&format!("exit {code}\n")), "{arguments:?}: {shown}");
    }
}
