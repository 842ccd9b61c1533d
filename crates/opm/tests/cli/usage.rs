use crate::env::TestEnv;

#[test]
fn a_command_that_groups_others_shows_them() {
    let env = TestEnv::new();
    for arguments in [&[][..], &["alpha"], &["list"], &["generate"]] {
        let shown = env.opm(arguments);
        assert!(shown.starts_with("exit 0\n--- stdout\n"), "{shown}");
        assert!(shown.contains("Usage: opm"), "{shown}");
    }
}

#[test]
fn invalid_arguments_are_reported() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.opm(&["render", "x", "-o", "toml"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: invalid value 'toml' for '--output <json|yaml>'
      [possible values: json, yaml]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(env.opm(&["validat", "x"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: unrecognized subcommand 'validat'

      tip: a similar subcommand exists: 'validate'

    Usage: opm [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn switches_accept_values_as_in_go_programs() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    let plain = env.stdout(&["render", "catalog"]);
    assert_eq!(env.stdout(&["render", "--migrate=false", "catalog", "--output=json"]), plain);
    assert_ne!(env.stdout(&["render", "--migrate", "-o", "json", "catalog"]), plain);
    assert_eq!(env.stdout(&["render", "--migrate=T", "catalog"]), env.stdout(&["render", "catalog", "--migrate=1"]));
    assert!(env.opm(&["render", "catalog", "--migrate=maybe"]).starts_with("exit 1"));
}

#[test]
fn command_names_of_older_tools_are_hidden_by_default() {
    let env = TestEnv::new();
    assert!(!env.stdout(&["--help"]).contains("\n  alpha"));
    let output = env.command().env("HELP_ALPHA", "true").arg("--help").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("\n  alpha"));
}

#[test]
fn every_alpha_command_has_a_stable_name() {
    let env = TestEnv::new();
    let help = |arguments: &[&str]| env.stdout(&[arguments, &["--help"]].concat());
    // Each command of alpha with its stable name.
    for (alpha, stable) in [
        (&["render-graph"][..], &["graph"][..]),
        (&["render-template"], &["template", "render"]),
        (&["convert-template"], &["template", "convert"]),
        (&["bundle", "build"], &["bundle", "build"]),
        (&["bundle", "generate"], &["bundle", "generate"]),
        (&["bundle", "validate"], &["bundle", "validate"]),
        (&["bundle", "unpack"], &["bundle", "unpack"]),
        (&["bundle", "extract"], &["bundle", "extract"]),
        (&["list"], &["list"]),
        (&["diff"], &["diff"]),
        (&["generate"], &["generate"]),
        (&["add"], &["edit", "add-bundle"]),
    ] {
        assert!(help(&[&["alpha"], alpha].concat()).contains("Usage: opm alpha"));
        assert!(help(stable).contains(&format!("Usage: opm {}", stable.join(" "))), "{stable:?}");
        let (name, groups) = stable.split_last().unwrap();
        assert!(help(groups).contains(&format!("\n  {name} ")), "{stable:?} is not listed");
    }
    let alpha = help(&["alpha"]);
    let listed = alpha.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert_eq!(listed.lines().filter(|line| !line.trim_start().starts_with("help ")).count(), 8, "{listed}");
}

#[test]
fn a_misplaced_subcommand_suggests_the_right_command() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.opm(&["render-graph", "x"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: unrecognized subcommand 'render-graph'

      tip: a similar subcommand exists: 'opm graph'

    Usage: opm [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    let shown = env.opm(&["prune"]);
    for command in ["opm index prune", "opm registry prune"] {
        assert!(shown.contains(&format!("'{command}'")), "{shown}");
    }
    let shown = env.opm(&["convert-templat"]);
    assert!(shown.contains("'opm template convert'"), "{shown}");
    let shown = env.opm(&["lsit"]);
    assert!(shown.contains("tip: a similar subcommand exists: 'list'\n"), "{shown}");
    let shown = env.opm(&["index", "list"]);
    assert!(shown.starts_with("exit 1\n") && shown.contains("unrecognized subcommand 'list'"), "{shown}");
    let tip = |words: &[&str]| {
        let shown = env.opm(words);
        let tip = shown.lines().find_map(|line| line.trim().strip_prefix("tip: ").map(str::to_owned));
        format!("{}: {}", words.join(" "), tip.as_deref().and_then(|tip| tip.split_once(": ")).map_or("-", |tip| tip.1))
    };
    let tips: Vec<String> = [
        &["prune"] as &[&str],
        &["alpha", "prune"],
        &["edit", "prne"],
        &["help", "edit", "prne"],
        &["edit", "add"],
        &["add"],
        &["list", "bundle"],
        &["bundles"],
        &["bundle", "buld"],
        &["inspect"],
        &["upgrade"],
        &["template", "semver"],
        &["install"],
        &["fmt"],
    ]
    .map(tip)
    .to_vec();
    insta::assert_snapshot!(tips.join("\n"), @r"
    prune: 'opm edit filter', 'opm mirror prune', 'opm index prune', 'opm registry prune'
    alpha prune: 'opm edit filter', 'opm mirror prune', 'opm index prune', 'opm registry prune'
    edit prne: 'filter'
    help edit prne: 'filter'
    edit add: 'add-bundle'
    add: 'opm alpha add', 'opm index add', 'opm registry add', 'opm edit add-bundle'
    list bundle: 'bundles'
    bundles: 'opm list bundles'
    bundle buld: 'build'
    inspect: 'opm index inspect'
    upgrade: 'upgrade-path'
    template semver: 'opm template render semver'
    install: 'opm run bundle'
    fmt: -
    ");
}

#[test]
fn examples_are_not_wrapped_on_narrow_terminals() {
    let env = TestEnv::new();
    for command in [&["build"] as &[&str], &["edit", "add-bundle"], &["rehearse"], &["mirror"], &["serve"]] {
        let output = env.command().env("COLUMNS", "40").args(command).arg("--help").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{command:?}: {help}"));
        for line in examples.lines().filter(|line| line.starts_with(' ')) {
            let text = line.trim_start();
            assert!(
                text.starts_with("opm ") || text.starts_with("--") || text.starts_with('#'),
                "{command:?}: {line:?}"
            );
        }
        assert!(!help.contains('\u{a0}'));
    }
}

#[test]
fn only_commands_that_use_registries_have_registry_flags() {
    let env = TestEnv::new();
    let offline = [
        &["schema"] as &[&str],
        &["explain"],
        &["edit", "set-default"],
        &["version"],
        &["catalog", "list"],
        &["bundle", "generate"],
        &["bundle", "extract"],
        &["registry", "rm"],
        &["registry", "prune"],
        &["alpha", "generate", "dockerfile"],
        &["alpha", "bundle", "extract"],
        &["controller", "manifests"],
    ];
    for command in offline {
        assert!(!env.stdout(&[command, &["--help"]].concat()).contains("--use-http"), "{command:?}");
    }
    for command in [&["render"] as &[&str], &["edit", "add-bundle"], &["build"], &["registry", "add"], &["controller"]]
    {
        assert!(env.stdout(&[command, &["--help"]].concat()).contains("--use-http"), "{command:?}");
    }
    assert!(env.stdout(&["version", "--use-http"]).starts_with("Version: "));
    assert!(env.stdout(&["--use-http", "version"]).starts_with("Version: "));
}

#[test]
fn arguments_that_do_not_fit_together_are_reported_as_errors() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog").copy_of("examples/bundles/lantern/1.3.0");
    insta::assert_snapshot!(env.opm(&["crd-diff", "1.3.0", "catalog"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: compare a catalog with another catalog, or use --package, --from and --to
    ");
}
