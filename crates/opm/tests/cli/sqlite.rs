use std::fs;
use std::os::unix::fs::symlink;

use crate::env::TestEnv;

/// Writes a bundle of package `etcd`.
fn bundle(env: &TestEnv, version: &str, channels: &str, replaces: &str) {
    let replaces = if replaces.is_empty() { String::new() } else { format!("  replaces: etcdoperator.v{replaces}\n") };
    env.file(
        &format!("{version}/manifests/csv.yaml"),
        format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  \
             name: etcdoperator.v{version}\nspec:\n  version: {version}\n  displayName: etcd\n{replaces}"
        ),
    );
    env.file(
        &format!("{version}/metadata/annotations.yaml"),
        format!(
            "annotations:\n  operators.operatorframework.io.bundle.package.v1: etcd\n  \
             operators.operatorframework.io.bundle.channels.v1: {channels}\n  \
             operators.operatorframework.io.bundle.channel.default.v1: alpha\n"
        ),
    );
}

fn etcd() -> TestEnv {
    let env = TestEnv::new();
    bundle(&env, "0.6.1", "alpha", "");
    bundle(&env, "0.9.0", "alpha,stable", "0.6.1");
    bundle(&env, "0.9.2", "alpha,stable", "0.9.0");
    env
}

#[test]
fn a_database_is_built_read_and_migrated() {
    let env = etcd();
    env.stdout(&["registry", "add", "-b", "./0.6.1,./0.9.0", "-b", "./0.9.2"]);
    let before = fs::read(env.path("bundles.db")).unwrap();
    assert_eq!(
        env.stdout(&["alpha", "list", "channels", "bundles.db"]),
        "PACKAGE  CHANNEL  HEAD\netcd     alpha    etcdoperator.v0.9.2\netcd     stable   etcdoperator.v0.9.2\n"
    );
    env.stdout(&["migrate", "bundles.db", "catalog"]);
    assert_eq!(env.names("catalog"), ["etcd"]);
    assert_eq!(env.stdout(&["render", "bundles.db"]), env.stdout(&["render", "catalog"]));
    env.stdout(&["validate", "catalog"]);
    assert!(env.stdout(&["alpha", "render-graph", "bundles.db"]).contains("etcdoperator.v0.9.0"));
    assert!(env.stdout(&["resolve", "bundles.db", "--installed", "etcd=0.6.1"]).contains("to etcdoperator.v0.9.0"));
    env.stdout(&["edit", "filter", "bundles.db", "--channel", "etcd/alpha", "--to", "small"]);
    assert_eq!(env.stdout(&["list", "bundles", "small", "-o", "csv"]).lines().count(), 4);
    assert_eq!(fs::read(env.path("bundles.db")).unwrap(), before, "reading changed the file");
    assert_eq!(env.names("."), ["0.6.1", "0.9.0", "0.9.2", "bundles.db", "catalog", "small"]);
}

#[test]
fn the_exit_code_reports_bundles_that_exist_already() {
    let env = etcd();
    env.stdout(&["registry", "add", "-b", "./0.6.1"]);
    let shown = env.opm(&["registry", "add", "-b", "./0.6.1"]);
    assert!(shown.starts_with("exit 3\n"), "{shown}");
    assert!(shown.contains("already added that provides package and csv"), "{shown}");
    let shown = env.opm(&["registry", "add", "-b", "./0.9.2"]);
    assert!(shown.starts_with("exit 1\n"), "{shown}");
    assert!(shown.contains("replaces nonexistent bundle etcdoperator.v0.9.0"), "{shown}");
    let shown = env.opm(&["registry", "add", "-b", "./0.9.2", "--mode", "newest"]);
    assert!(shown.contains("Invalid channel update mode newest specified"), "{shown}");
}

#[test]
fn an_index_is_generated_completely_or_not_at_all() {
    let env = etcd();
    env.file("cache/mine", "keep me");
    env.stdout(&["index", "add", "./0.6.1", "-b", "./0.9.0", "--generate"]);
    let generated = ["0.6.1", "0.9.0", "0.9.2", "cache", "database", "index.Dockerfile"];
    assert_eq!(env.names("."), generated);
    assert!(env.read("index.Dockerfile").contains("ADD database/index.db /database/index.db\n"));
    assert_eq!(env.names("cache"), ["mine"]);
    let before = fs::read(env.path("database/index.db")).unwrap();
    let shown = env.opm(&["index", "add", "-b", "./0.9.2", "--generate", "--overwrite", "-d", "Other.Dockerfile"]);
    assert!(shown.starts_with("exit 1\n") && shown.contains("etcdoperator.v0.9.0"), "{shown}");
    assert_eq!(env.names("."), generated);
    assert_eq!(fs::read(env.path("database/index.db")).unwrap(), before);
    let shown = env.opm(&["index", "add", "-b", "./0.9.2", "--build-tool", "none"]);
    assert!(shown.contains("no destination for the image: use --push or --image-output oci:DIR"), "{shown}");
}

#[test]
fn an_existing_index_is_overwritten_only_on_request() {
    let env = etcd();
    env.file("index.Dockerfile", "FROM mine\n");
    let shown = env.opm(&["index", "add", "-b", "./0.6.1", "--generate"]);
    assert!(
        shown.starts_with("exit 1\n") && shown.contains("index.Dockerfile already exists: use --overwrite"),
        "{shown}"
    );
    assert_eq!(env.names("."), ["0.6.1", "0.9.0", "0.9.2", "index.Dockerfile"]);
    env.stdout(&["index", "add", "-b", "./0.6.1", "--generate", "--overwrite"]);
    let before = fs::read(env.path("database/index.db")).unwrap();
    let shown = env.opm(&["index", "add", "-b", "./0.6.1,./0.9.0", "--generate"]);
    assert!(shown.starts_with("exit 1\n") && shown.contains("database/index.db already exists"), "{shown}");
    assert_eq!(fs::read(env.path("database/index.db")).unwrap(), before);
    env.stdout(&["index", "add", "-b", "./0.6.1,./0.9.0", "--generate", "--overwrite"]);
    assert!(env.stdout(&["list", "bundles", "database/index.db"]).contains("etcdoperator.v0.9.0"));
    let shown = env.opm(&["index", "add", "-b", "./0.6.1", "--overwrite", "-t", "x:y"]);
    assert!(shown.contains("--generate"), "{shown}");
}

#[test]
fn an_index_is_inspected_as_designed() {
    let env = etcd();
    env.stdout(&["registry", "add", "-d", "index.db", "--mode", "semver", "-b", "./0.6.1,./0.9.0,./0.9.2"]);
    assert_eq!(
        env.stdout(&["index", "inspect", "packages"]),
        "{\n  \"packages\": [\n    {\n      \"name\": \"etcd\",\n      \"channels\": [\n        \"alpha\",\n        \
         \"stable\"\n      ],\n      \"defaultChannel\": \"alpha\"\n    }\n  ]\n}\n"
    );
    let shown = env.stdout(&["index", "inspect", "package", "etcd", "--database", "index.db"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let item = |version: &str| serde_json::json!({ "version": version, "csv": format!("etcdoperator.v{version}") });
    let bundle = |version: &str, below: &[&str], above: &[&str]| {
        let list = |versions: &[&str]| match versions {
            [] => serde_json::Value::Null,
            versions => versions.iter().map(|version| item(version)).collect(),
        };
        serde_json::json!({
            "version": version,
            "csv": format!("etcdoperator.v{version}"),
            "bundlePath": null,
            "replaces": list(below),
            "replacements": list(above),
        })
    };
    let expected = serde_json::json!({
        "name": "etcd",
        "defaultChannel": "alpha",
        "channels": [
            { "name": "alpha", "bundles": [
                bundle("0.6.1", &[], &["0.9.0", "0.9.2"]),
                bundle("0.9.0", &["0.6.1"], &["0.9.2"]),
                bundle("0.9.2", &["0.6.1", "0.9.0"], &[]),
            ] },
            { "name": "stable", "bundles": [bundle("0.9.0", &[], &["0.9.2"]), bundle("0.9.2", &["0.9.0"], &[])] },
        ],
    });
    assert_eq!(shown, expected);
    let shown = env.opm(&["index", "inspect", "package", "none"]);
    assert!(shown.starts_with("exit 1\n--- stdout\n--- stderr\n"), "{shown}");
    assert!(shown.contains("package \"none\" not found in index"), "{shown}");
}

#[test]
fn the_program_runs_as_registry_server_and_initializer_by_name() {
    let env = etcd();
    let run = |name: &str, arguments: &[&str]| {
        let link = env.path(name);
        if !link.exists() {
            symlink(env!("CARGO_BIN_EXE_opm"), &link).unwrap();
        }
        env.show(std::process::Command::new(link).current_dir(env.path("")).args(arguments).output().unwrap())
    };
    for version in ["0.6.1", "0.9.0"] {
        let csv = env.read(&format!("{version}/manifests/csv.yaml"));
        env.file(&format!("manifests/etcd/{version}/csv.yaml"), csv);
    }
    let package = "packageName: etcd\nchannels: [{name: alpha, currentCSV: etcdoperator.v0.9.0}]\n";
    env.file("manifests/etcd/etcd.package.yaml", package);
    // Dockerfiles of that time ran: RUN initializer -o ./bundles.db
    let shown = run("initializer", &["-o", "./bundles.db"]);
    assert!(shown.starts_with("exit 0\n"), "{shown}");
    assert!(env.stdout(&["list", "bundles", "bundles.db"]).contains("etcdoperator.v0.9.0"));
    let shown = run("registry-server", &["--database", "bundles.db", "-p", "0", "-t", "", "--timeout-seconds", "0"]);
    assert!(shown.starts_with("exit 0\n"), "{shown}");
    assert!(shown.contains("serving registry"), "{shown}");
    assert!(run("registry-server", &["--help"]).contains("Usage: registry-server"));
    assert!(run("initializer", &["--help"]).contains("Usage: initializer"));
    assert!(env.opm(&["registry-server", "--database", "no.db", "-t", ""]).contains("no.db"));
}

#[test]
fn only_deprecated_commands_print_a_notice() {
    let env = etcd();
    for command in ["registry add", "registry serve", "index add", "index rmb", "index prune", "index export"] {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        assert!(env.stdout(&words).contains("DEPRECATED"), "{command}");
    }
    for command in ["registry doctor", "index inspect", "render", "serve"] {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        assert!(!env.stdout(&words).contains("DEPRECATED"), "{command}");
    }
    env.file("catalog/c.yaml", crate::env::SMALL);
    env.stdout(&["build", "catalog", "--data-only", "-o", "oci:image:v1"]);
    let shown = env.opm(&["index", "inspect", "packages", "-f", "oci:image:v1"]);
    assert!(shown.starts_with("exit 0") && !shown.contains("DEPRECATION NOTICE"), "{shown}");
    env.stdout(&["registry", "add", "-b", "./0.6.1"]);
    assert!(env.opm(&["index", "inspect", "packages"]).contains("DEPRECATION NOTICE"));
}

#[test]
fn the_original_commands_print_the_notice_of_database_indexes() {
    let env = etcd();
    for command in [
        "create index.db",
        "add ./0.6.1 index.db",
        "manifest index.db",
        "delete-latest etcd index.db",
        "delete etcd index.db",
        "initializer -m none -o index.db",
    ] {
        let words: Vec<&str> = ["operator-registry"].into_iter().chain(command.split(' ')).collect();
        let shown = env.opm(&words);
        assert_eq!(shown.matches("DEPRECATION NOTICE").count(), 1, "{command}\n{shown}");
    }
}

#[test]
fn a_bundle_without_a_version_is_refused_or_reported() {
    let env = etcd();
    let csv = env.read("0.6.1/manifests/csv.yaml").replace("  version: 0.6.1\n", "");
    env.file("0.6.1/manifests/csv.yaml", csv);
    for mode in ["semver", "semver-skippatch"] {
        let shown = env.opm(&["registry", "add", "-b", "./0.6.1", "-d", "index.db", "--mode", mode]);
        let expected = "error: error loading bundle ./0.6.1: manifests/csv.yaml: spec.version is missing: write it in \
                        full, as in 1.2.3\n";
        assert!(shown.starts_with("exit 1") && shown.ends_with(expected), "{mode}\n{shown}");
    }
    // The existing tool accepts it.
    let shown = env.opm(&["registry", "add", "-b", "./0.6.1", "-d", "index.db", "--mode", "replaces"]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert!(
        shown.contains("manifests/csv.yaml: spec.version is missing: 'opm migrate' and OLM v1 refuse the bundle"),
        "{shown}"
    );
}

#[test]
fn the_directory_of_manifests_has_a_default() {
    let env = etcd();
    let shown = env.opm(&["operator-registry", "serve", "-c", "my-bundle", "--kubeconfig", "none"]);
    assert!(!shown.contains("--manifestdir"), "{shown}");
    assert!(env.opm(&["operator-registry", "serve", "--help"]).contains("[default: ./manifests/]"));
}

#[test]
fn the_program_runs_as_operator_registry_by_name() {
    let env = etcd();
    symlink(env!("CARGO_BIN_EXE_opm"), env.path("operator-registry")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env.path("operator-registry"));
        env.show(command.current_dir(env.path("")).args(arguments).output().unwrap())
    };
    assert!(run(&["create", "index.db"]).starts_with("exit 0\n"));
    assert!(run(&["create", "index.db"]).contains("database \"index.db\" already exists"));
    assert!(run(&["add", "--batch", "./0.6.1,./0.9.0", "index.db"]).starts_with("exit 0\n"));
    let shown = run(&["manifest", "index.db"]);
    assert!(shown.contains("{\n  \"bundles\": []\n}\n"), "{shown}");
    assert!(shown.contains("bundle etcdoperator.v0.6.1 has no image"), "{shown}");
    assert!(run(&["delete-latest", "etcd", "index.db", "--output", "new.db"]).starts_with("exit 0\n"));
    let rows = env.stdout(&["list", "bundles", "new.db", "-o", "csv"]);
    assert_eq!(rows.lines().count(), 3, "{rows}");
    assert!(env.stdout(&["list", "bundles", "index.db"]).contains("etcdoperator.v0.9.0"));
    let shown = run(&["delete", "none", "index.db"]);
    assert!(shown.contains("no package found for packagename none"), "{shown}");
    assert!(env.opm(&["operator-registry", "delete", "etcd", "index.db"]).starts_with("exit 0\n"));
    assert!(run(&["add", "foo:sha256@abcd123", "index.db"]).contains("invalid reference format"));
    assert_eq!(env.names("."), ["0.6.1", "0.9.0", "0.9.2", "index.db", "new.db", "operator-registry"]);
}

/// Runs `opm` without docker and podman on the path.
fn alone(env: &TestEnv, arguments: &[&str]) -> String {
    let output = env.command().env("PATH", env.path("no-programs")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", env.show(output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn an_index_image_is_built_without_other_programs() {
    let Some(registry) = testkit::DockerRegistry::start(testkit::RegistryPlan::default()) else { return };
    let env = etcd();
    let host = registry.host();
    let (base, first, second) = (format!("{host}/base:v1"), format!("{host}/index:v1"), format!("{host}/index:v2"));
    env.copy_of("examples/catalog");
    env.stdout(&["build", "catalog", "--data-only", "-t", &base, "--push", "--use-http"]);

    // Neither docker nor podman exists, so `none` is the default.
    let add = ["index", "add", "--mode", "semver", "-b", "./0.6.1,./0.9.0", "-i", &base, "--push", "--use-http"];
    let digest = alone(&env, &[&add[..], &["-t", &first]].concat());
    assert!(digest.starts_with("sha256:"), "{digest}");
    // Databases record in seconds when their schema was created.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(alone(&env, &[&add[..], &["-t", &second]].concat()), digest, "the same database gives another image");
    let from = |image: &str| ["-f".to_owned(), image.to_owned()];
    let names = |image: &str| {
        let found = env.stdout(&["index", "inspect", "package", "etcd", "-f", image, "--use-http"]);
        ["0.6.1", "0.9.0", "0.9.2"]
            .into_iter()
            .filter(|version| found.contains(&format!("\"{version}\"")))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&first), ["0.6.1", "0.9.0"]);

    let none = ["--container-tool", "none", "--push", "--use-http", "-i", &base];
    let run = |command: &[&str], from: &[String], tag: &str| {
        let from: Vec<&str> = from.iter().map(String::as_str).collect();
        env.stdout(&[&["index"], command, &from[..], &["-t", tag], &none[..]].concat())
    };
    run(&["add", "--mode", "semver", "-b", "./0.9.2"], &from(&first), &second);
    assert_eq!(names(&second), ["0.6.1", "0.9.0", "0.9.2"]);
    run(&["prune", "-p", "etcd"], &from(&second), &first);
    assert_eq!(names(&first), ["0.6.1", "0.9.0", "0.9.2"]);
    run(&["rm", "-o", "etcd"], &from(&second), &format!("{host}/index:v3"));
    let packages = env.stdout(&["index", "inspect", "packages", "-f", &format!("{host}/index:v3"), "--use-http"]);
    assert!(!packages.contains("etcd"), "{packages}");
    run(&["prune-stranded"], &from(&second), &format!("{host}/index:v4"));
    assert_eq!(names(&format!("{host}/index:v4")), ["0.6.1", "0.9.0", "0.9.2"]);

    // The image starts the program of its base image on the database.
    let output = ["index", "add", "--mode", "semver", "-b", "./0.6.1", "--container-tool", "none", "--use-http"];
    env.stdout(&[&output[..], &["-i", &base, "--image-output", "oci:from-base"]].concat());
    env.stdout(&[&output[..], &["-i", "scratch", "--image-output", "oci:from-scratch"]].concat());
    let config = |layout: &str| -> serde_json::Value {
        let read = |path: &str| -> serde_json::Value { serde_json::from_str(&env.read(path)).unwrap() };
        let blob = |digest: &serde_json::Value| {
            read(&format!("{layout}/blobs/{}", digest.as_str().unwrap().replace(':', "/")))
        };
        let manifest = blob(&read(&format!("{layout}/index.json"))["manifests"][0]["digest"]);
        blob(&manifest["config"]["digest"])["config"].clone()
    };
    let with_program = config("from-base");
    assert_eq!(with_program["Entrypoint"], serde_json::json!(["/bin/opm"]));
    assert_eq!(with_program["Cmd"], serde_json::json!(["registry", "serve", "--database", "/database/index.db"]));
    let label = "operators.operatorframework.io.index.database.v1";
    assert_eq!(with_program["Labels"][label], "/database/index.db");
    let data_only = config("from-scratch");
    assert_eq!(data_only["Labels"][label], "/database/index.db");
    assert!(data_only.get("Entrypoint").is_none_or(serde_json::Value::is_null), "{data_only}");
    assert_eq!(env.stdout(&["list", "packages", "oci:from-scratch"]).lines().count(), 2);
}

#[test]
fn an_index_image_without_a_destination_is_rejected_before_any_work() {
    let env = etcd();
    let shown = |arguments: &[&str]| {
        let shown = env.opm(&[&["index", "add", "-b", "./0.6.1"], arguments].concat());
        assert!(shown.starts_with("exit 1\n") && env.names(".") == ["0.6.1", "0.9.0", "0.9.2"], "{shown}");
        shown
    };
    let none = ["--container-tool", "none"];
    assert!(shown(&[&none[..], &["--push"]].concat()).contains("use -t REF"));
    assert!(shown(&[&none[..], &["--generate", "--push"]].concat()).contains("cannot be used with --generate"));
    assert!(shown(&["--container-tool", "docker", "--push"]).contains("require --container-tool none"));
    // The program under test is not static, so an image from scratch could not run it.
    let alone = shown(&[&none[..], &["--image-output", "oci:out"]].concat());
    assert!(alone.contains("--binary-image") && alone.contains("'scratch'"), "{alone}");
    for other in ["--data-only", "--base-image", "--binary "] {
        assert!(!alone.contains(other), "index add has no {other}: {alone}");
    }
    let shown = env.opm(&["index", "add", "-b", "./0.6.1", "--container-tool", "other"]);
    assert!(shown.contains("possible values: none, docker, podman"), "{shown}");
}

#[test]
fn inspecting_a_catalog_prints_no_notice_about_databases() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    env.stdout(&["build", "catalog", "--data-only", "-o", "oci:catalog-image"]);
    for arguments in [&["packages", "-f", "oci:catalog-image"][..], &["packages", "-f", "catalog"]] {
        let shown = env.opm(&[&["index", "inspect"], arguments].concat());
        assert!(shown.starts_with("exit 0\n") && shown.ends_with("--- stderr\n"), "{shown}");
    }
}

#[test]
fn help_of_database_commands_mentions_their_deprecation() {
    let env = TestEnv::new();
    for command in
        ["index add", "index rm", "index prune", "index rmb", "index export", "registry add", "registry serve"]
    {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = env.stdout(&words);
        assert!(help.starts_with("DEPRECATED: ") && help.contains("'opm migrate'"), "{help}");
    }
    for group in ["index", "registry"] {
        let help = env.stdout(&[group, "--help"]);
        assert!(help.starts_with("DEPRECATED: "), "{help}");
        assert!(help.contains("(deprecated)\n"), "{help}");
    }
    for current in [["index", "inspect"], ["registry", "doctor"]] {
        assert!(!env.stdout(&[current[0], current[1], "--help"]).contains("DEPRECATED"));
    }
}

#[test]
fn commands_that_remove_do_not_create_a_database() {
    let env = TestEnv::new();
    for arguments in [
        &["prune", "-p", "foo"] as &[&str],
        &["prune-stranded"],
        &["rm", "-o", "foo"],
        &["deprecatetruncate", "-b", "r.test/foo:v1"],
    ] {
        let shown = env.opm(&[&["registry"], arguments, &["-d", "nosuch.db"]].concat());
        assert!(shown.starts_with("exit 1\n") && shown.contains("error: nosuch.db: No such file"), "{shown}");
        assert_eq!(env.names("."), Vec::<String>::new());
    }
}

#[test]
fn a_wrong_argument_leaves_no_new_database() {
    let env = etcd();
    for command in ["registry add -d new.db -b ./0.6.1 --mode newest", "index add -b ./0.6.1 --generate --mode newest"]
    {
        let shown = env.opm(&command.split(' ').collect::<Vec<_>>());
        assert!(shown.starts_with("exit 1\n") && shown.contains("newest"), "{shown}");
        assert_eq!(env.names("."), ["0.6.1", "0.9.0", "0.9.2"], "{command}");
    }
}

#[test]
fn an_image_with_a_database_is_served() {
    let env = etcd();
    let arguments = ["index", "add", "--container-tool", "none", "--binary-image", "scratch", "-t", "r.test/index:v1"];
    let bundles = ["-b", "./0.6.1", "--image-output", "oci:index"];
    let added = env.command().args(arguments).args(bundles).output().unwrap();
    assert!(added.status.success(), "{}", env.show(added));
    let served = env.opm(&["serve", "oci:index", "--cache-dir", "cache", "--cache-only", "--termination-log", ""]);
    assert!(served.starts_with("exit 0\n"), "{served}");
    assert_eq!(env.names("cache").len(), 1, "{:?}", env.names("cache"));
}
