use crate::env::TestEnv;

#[test]
fn a_command_that_groups_others_shows_them() {
    let env = TestEnv::new();
    for arguments in [&[][..], &["alpha"], &["list"], &["generate"]] {
        let told = env.opm(arguments);
        assert!(told.starts_with("exit 0\n--- stdout\n"), "{told}");
        assert!(told.contains("Usage: opm"), "{told}");
    }
}

#[test]
fn arguments_that_make_no_sense_are_named() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.opm(&["render", "x", "-o", "toml"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: invalid value 'toml' for '--output <json|yaml>': expected json or yaml

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(env.opm(&["validat", "x"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: unrecognized subcommand 'validat'

      tip: a similar subcommand exists: 'validate'

    Usage: opm [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn switches_are_written_as_users_of_go_programs_write_them() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    let plain = env.stdout(&["render", "catalog"]);
    assert_eq!(env.stdout(&["render", "--migrate=false", "catalog", "--output=json"]), plain);
    assert_ne!(env.stdout(&["render", "--migrate", "-o", "json", "catalog"]), plain);
    assert_eq!(env.stdout(&["render", "--migrate=T", "catalog"]), env.stdout(&["render", "catalog", "--migrate=1"]));
    assert!(env.opm(&["render", "catalog", "--migrate=maybe"]).starts_with("exit 1"));
}

#[test]
fn what_may_still_change_is_hidden_unless_asked_for() {
    let env = TestEnv::new();
    assert!(!env.stdout(&["--help"]).contains("\n  alpha"));
    let output = env.command().env("HELP_ALPHA", "true").arg("--help").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("\n  alpha"));
}
