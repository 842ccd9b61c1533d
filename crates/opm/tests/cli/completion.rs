use crate::env::TestEnv;

#[test]
fn every_shell_gets_a_script() {
    let env = TestEnv::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(env.stdout(&["completion", shell]).contains("validate"), "{shell}");
    }
    assert!(env.opm(&["completion", "csh"]).starts_with("exit 1"));
}

#[test]
fn the_version_is_told() {
    let env = TestEnv::new();
    assert!(env.stdout(&["version"]).starts_with("Version: "));
}
