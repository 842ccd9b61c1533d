//! Messages about the world around a command: they name what failed, where, and the way out.

use std::fs::OpenOptions;

use crate::env::TestEnv;

#[test]
fn a_full_output_is_not_a_full_temporary_folder() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    let commands: [&[&str]; 4] = [
        &["list", "packages", "catalog"],
        &["list", "packages", "catalog", "-o", "json"],
        &["render", "catalog"],
        &["graph", "catalog"],
    ];
    for arguments in commands {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = env.command().args(arguments).stdout(full).output().unwrap();
        let code = output.status.code();
        assert!(code == Some(3) || arguments[0] == "render" && code == Some(1), "{arguments:?}: {code:?}");
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "error: writing to standard output: No space left on device (os error 28)\n",
            "{arguments:?}"
        );
    }
}
