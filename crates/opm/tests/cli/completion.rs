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
fn the_version_is_printed() {
    let env = TestEnv::new();
    assert!(env.stdout(&["version"]).starts_with("Version: "));
}

/// Returns the completions of bash for a command line with the cursor at its end.
fn completions(env: &TestEnv, line: &str) -> Option<Vec<String>> {
    let words: Vec<&str> = line.split(' ').collect();
    let script = format!(
        "source opm.bash\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_opm_names {} '{}' '{}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
        words.len() - 1,
        words[0],
        words[words.len() - 1],
        words[words.len() - 2],
    );
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_opm")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let bash = std::process::Command::new("bash")
        .args(["--norc", "-c", &script])
        .current_dir(env.path("."))
        .env("PATH", path)
        .output();
    let output = bash.ok()?;
    assert!(output.status.success(), "{}", env.show(output));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn names_come_from_the_catalog_on_the_line() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    env.file("opm.bash", env.stdout(&["completion", "bash"]));
    let completions = |line: &str| completions(&env, line).expect("bash");
    assert_eq!(completions("opm graph catalog -p l"), ["lantern"]);
    assert_eq!(completions("opm list bundles catalog "), ["buoy", "lantern", "tide-gauge", "weather-vane"]);
    assert_eq!(completions("opm edit set-default catalog lantern "), ["candidate", "stable"]);
    assert_eq!(
        completions("opm edit set-edge --package lantern catalog lantern.v1.1"),
        ["lantern.v1.1.0", "lantern.v1.1.1"]
    );
    assert_eq!(completions("opm edit remove catalog --package buoy --channel "), ["stable"]);
    assert!(completions("opm graph catalog -o ").contains(&"svg".to_owned()));
    assert!(completions("opm li").contains(&"list".to_owned()));
    assert_eq!(env.stdout(&["__complete", "--", "graph", "nosuch", "-p", ""]), "");
}
