use crate::env::TestEnv;

#[test]
fn every_shell_gets_a_script() {
    let env = TestEnv::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(env.stdout(&["completion", shell]).contains("validate"), "{shell}");
    }
    assert!(env.opm(&["completion", "csh"]).starts_with("exit 2"));
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
    for line in [
        "opm why catalog l",
        "opm why catalog -p l",
        "opm rehearse catalog l",
        "opm resolve catalog --install l",
        "opm security catalog -p l",
        "opm crd-diff catalog -p l",
        "opm upgrade-path catalog l",
    ] {
        assert_eq!(completions(line), ["lantern"], "{line}");
    }
    assert_eq!(completions("opm upgrade-path catalog buoy --from "), ["buoy-v1.0.0-1", "buoy-v1.0.0-2"]);
    assert!(completions("opm graph catalog -o ").contains(&"svg".to_owned()));
    assert!(completions("opm li").contains(&"list".to_owned()));
    assert_eq!(env.stdout(&["__complete", "--", "graph", "nosuch", "-p", ""]), "");
}

#[test]
fn choices_are_offered_that_clap_does_not_know() {
    let env = TestEnv::new();
    env.file("opm.bash", env.stdout(&["completion", "bash"]));
    let completions = |line: &str| completions(&env, line).expect("bash");
    for command in ["registry add", "index add"] {
        assert_eq!(completions(&format!("opm {command} --mode sem")), ["semver", "semver-skippatch"]);
    }
    assert_eq!(completions("opm template render s"), ["semver", "substitutes"]);
    assert_eq!(completions("opm alpha render-template ba"), ["basic"]);
    assert_eq!(completions("opm run bundle r.test/b:v1 --install-mode Own"), ["OwnNamespace"]);
    assert_eq!(completions("opm schema olm.c"), ["olm.channel", "olm.composite", "olm.composite.catalogs"]);
    assert_eq!(completions("opm explain channel-s"), ["channel-single-head"]);
    assert!(completions("opm explain olm.").contains(&"olm.bundle".to_owned()));
    assert!(completions("opm explain rights-").contains(&"rights-secrets".to_owned()));
    assert_eq!(completions("opm security catalog --install-mode a"), ["all"]);
}
