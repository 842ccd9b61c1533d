use std::fs;
use std::path::Path;

use crate::env::{SMALL, TestEnv};

/// Builds `directory` into the layout `out` and returns the digest.
fn digest(env: &TestEnv, arguments: &[&str]) -> String {
    env.stdout(&[&["build"], arguments].concat()).trim().to_owned()
}

fn json(env: &TestEnv, layout: &str, digest: &str) -> serde_json::Value {
    let path = format!("{layout}/blobs/sha256/{}", digest.trim_start_matches("sha256:"));
    serde_json::from_str(&env.read(&path)).unwrap()
}

/// Returns the header of a program, which is all that opm reads.
fn program(machine: u8) -> Vec<u8> {
    let mut bytes = vec![0; 120];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18] = machine;
    bytes[32] = 64;
    bytes[54] = 56;
    bytes[56] = 1;
    bytes[64] = 1;
    bytes
}

#[test]
fn the_same_catalog_gives_the_same_image_at_any_path_and_time() {
    let (env, other) = (TestEnv::new(), TestEnv::new());
    env.file("catalog/foo/catalog.yaml", SMALL)
        .file("catalog/foo/README.md", "")
        .file("catalog/.indexignore", "*.md\n");
    other
        .file("deep/er/.indexignore", "*.md\n")
        .file("deep/er/foo/README.md", "")
        .file("deep/er/foo/catalog.yaml", SMALL);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(other.path("deep/er/foo/catalog.yaml"), mode).unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::open(other.path("deep/er/foo/catalog.yaml")).unwrap().set_modified(long_ago).unwrap();
    let first = digest(&env, &["catalog", "--data-only", "-t", "quay.io/me/catalog:v1", "-o", "oci:out"]);
    assert_eq!(first, digest(&other, &["deep/er", "--data-only", "-o", "oci:elsewhere:v1"]));
    assert_eq!(first, digest(&env, &["catalog", "--data-only", "-o", "oci-archive:out.tar"]));
    let later = other
        .command()
        .env("SOURCE_DATE_EPOCH", "86400")
        .args(["build", "deep/er", "--data-only", "-o", "oci:later"])
        .output();
    let later = String::from_utf8(later.unwrap().stdout).unwrap();
    assert_ne!(first, later.trim());
    let config = json(&other, "later", json(&other, "later", later.trim())["config"]["digest"].as_str().unwrap());
    assert_eq!(config["created"], "1970-01-02T00:00:00Z");
}

#[test]
fn an_image_of_the_program_alone_has_its_names_and_no_catalog() {
    let env = TestEnv::new();
    env.file("opm-amd64", program(0x3e));
    let arguments = ["--program-only", "--platform", "linux/amd64", "--binary", "linux/amd64=opm-amd64"];
    let manifest = json(&env, "out", &digest(&env, &[&arguments[..], &["-o", "oci:out"]].concat()));
    let config = json(&env, "out", manifest["config"]["digest"].as_str().unwrap());
    let start = &config["config"];
    assert_eq!(start["Entrypoint"], serde_json::json!(["/bin/opm"]));
    assert_eq!(start["User"], "1001");
    assert!(start["Cmd"].is_null() && start["ExposedPorts"].is_null() && start["Labels"].is_null(), "{start}");
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1);
    let blob = format!("out/blobs/sha256/{}", layers[0]["digest"].as_str().unwrap().trim_start_matches("sha256:"));
    let listed = std::process::Command::new("tar").arg("-tzf").arg(env.path(&blob)).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for name in ["bin/opm", "bin/oc-mirror", "bin/grpc_health_probe", "bin/operator-sdk"] {
        assert!(listed.lines().any(|line| line == name), "{listed}");
    }
    assert!(env.opm(&["build", "--program-only", "catalog", "-o", "oci:other"]).contains("cannot be used with"));
    assert!(env.opm(&["build", "-o", "oci:other"]).contains("DIR"));
}

#[test]
fn every_command_has_a_manual_page() {
    let env = TestEnv::new();
    env.stdout(&["man", "--to", "man"]);
    let page = env.read("man/opm-mirror-plan.1");
    assert!(page.contains(".TH") && page.contains("opm mirror plan") && page.contains("SYNOPSIS"), "{page}");
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli");
    let mut commands = 0;
    for file in std::fs::read_dir(reference).expect("the reference").map(|file| file.expect("a file").path()) {
        let text = std::fs::read_to_string(&file).expect("a page");
        for command in text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(" opm ")) {
            let page = format!("man/opm-{}.1", command.replace(' ', "-"));
            assert!(env.path(&page).is_file(), "{page}");
            commands += 1;
        }
    }
    assert!(commands > 50, "{commands}");
    assert!(!env.path("man/opm-__reference.1").exists());

    assert_eq!(env.stdout(&["man", "edit", "add-bundle"]), env.read("man/opm-edit-add-bundle.1"));
    let unknown = env.opm(&["man", "check-upgrades", "all"]);
    assert!(unknown.starts_with("exit 2"), "{unknown}");
    assert!(unknown.contains("'opm check-upgrades' has no command \"all\""), "{unknown}");
}

#[test]
fn an_image_starts_like_its_dockerfile() {
    let env = TestEnv::new();
    env.file("catalog/c.yaml", SMALL).file("opm-amd64", program(0x3e)).file("opm-arm64", program(0xb7));
    let platforms = ["--platform", "linux/amd64,linux/arm64", "--binary", "linux/amd64=opm-amd64"];
    let arguments =
        [&["catalog", "-t", "quay.io/me/catalog:v1", "-o", "oci:out", "-l", "team=storage"][..], &platforms].concat();
    assert!(env.opm(&[&["build"], &arguments[..]].concat()).contains("pass another with --binary linux/arm64=FILE"));
    let both = [&arguments[..], &["--binary", "linux/arm64=opm-arm64"]].concat();
    let index = json(&env, "out", &digest(&env, &both));
    let images = index["manifests"].as_array().unwrap();
    assert_eq!(images.len(), 2);
    for image in images {
        let manifest = json(&env, "out", image["digest"].as_str().unwrap());
        let config = json(&env, "out", manifest["config"]["digest"].as_str().unwrap());
        assert_eq!(config["architecture"], image["platform"]["architecture"]);
        let start = &config["config"];
        assert_eq!(start["Entrypoint"], serde_json::json!(["/bin/opm"]));
        assert_eq!(start["Cmd"], serde_json::json!(["serve", "/configs", "--cache-dir=/tmp/cache"]));
        assert_eq!(start["Labels"]["operators.operatorframework.io.index.configs.v1"], "/configs");
        assert_eq!(start["Labels"]["team"], "storage");
        assert_eq!(manifest["layers"].as_array().unwrap().len(), 3);
    }
    // Catalog and cache are the same for both platforms.
    let layers = |image: &serde_json::Value| json(&env, "out", image["digest"].as_str().unwrap())["layers"].clone();
    assert_eq!(layers(&images[0])[1], layers(&images[1])[1]);
    assert_ne!(layers(&images[0])[0], layers(&images[1])[0]);
}

#[test]
fn a_program_that_needs_libraries_is_left_out_unless_it_is_requested() {
    let env = TestEnv::new();
    let mut dynamic = program(0x3e);
    dynamic[64] = 3;
    env.file("catalog/c.yaml", SMALL).file("dynamic", dynamic);
    let data_only = digest(&env, &["catalog", "--data-only", "-o", "oci:data-only"]);
    // The program under test is dynamically linked.
    let output = env.command().args(["build", "catalog", "-o", "oci:out"]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(stdout.trim(), data_only, "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for part in
        ["note: the image contains the catalog but no program", "is dynamically linked", "--binary", "--base-image"]
    {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    // With another image as the base, it is included.
    let based = digest(&env, &["catalog", "-o", "oci:based", "--base-image", "oci:data-only"]);
    let config = json(&env, "based", json(&env, "based", &based)["config"]["digest"].as_str().unwrap());
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/bin/opm"]));
    // A requested one is an error, with flags that this command has.
    let requested = ["catalog", "-o", "oci:none", "--platform", "linux/amd64", "--binary", "linux/amd64=dynamic"];
    for arguments in [&requested[..], &["--program-only", "-o", "oci:none"]] {
        let shown = env.opm(&[&["build"], arguments].concat());
        assert!(shown.starts_with("exit 1\n--- stdout\n--- stderr\n"), "{shown}");
        for part in ["is dynamically linked", "help: pass a static program", "=FILE", "--base-image REF"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("--data-only") && !env.path("none").exists(), "{shown}");
    }
}

#[test]
fn an_image_can_be_based_on_another() {
    let env = TestEnv::new();
    env.file("catalog/c.yaml", SMALL).file("base/c.yaml", SMALL.replace("foo", "bar")).file("opm", program(0x3e));
    digest(&env, &["base", "--data-only", "-o", "oci:base-image", "-l", "from=base"]);
    let image = digest(
        &env,
        &[
            "catalog",
            "-o",
            "oci:out",
            "--base-image",
            "oci:base-image",
            "--platform",
            "linux/amd64",
            "--binary",
            "linux/amd64=opm",
        ],
    );
    let manifest = json(&env, "out", &image);
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 5);
    let config = json(&env, "out", manifest["config"]["digest"].as_str().unwrap());
    assert_eq!(config["config"]["Labels"]["from"], "base");
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/bin/opm"]));
    assert_eq!(env.names("out/blobs/sha256").len(), 7, "five layers, a config and a manifest");
}

/// Lists a layer as `tar` prints it: modes and names.
fn listed(env: &TestEnv, layout: &str, layer: &serde_json::Value) -> Vec<String> {
    let digest = layer["digest"].as_str().unwrap().trim_start_matches("sha256:").to_owned();
    let blob = env.path(&format!("{layout}/blobs/sha256/{digest}"));
    let output = std::process::Command::new("tar").arg("-tvzf").arg(blob).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            format!("{} {}", words[0], words.last().unwrap())
        })
        .collect()
}

#[test]
fn an_image_can_contain_the_cache_of_the_existing_tool_too() {
    let env = TestEnv::new();
    env.file("catalog/c.yaml", SMALL);
    let plain = digest(&env, &["catalog", "--data-only", "-o", "oci:plain"]);
    let image = digest(&env, &["catalog", "--data-only", "--upstream-cache", "-o", "oci:out"]);
    assert_eq!(image, digest(&env, &["catalog", "--data-only", "--upstream-cache", "-o", "oci:again"]));
    let (plain, both) = (json(&env, "plain", &plain), json(&env, "out", &image));
    assert_eq!(plain["layers"][0], both["layers"][0], "the catalog layer differs");
    let theirs: Vec<String> =
        listed(&env, "out", &both["layers"][1]).into_iter().filter(|line| !line.contains("opm.v1")).collect();
    let modes_and_names = [
        "drwxrwxrwt tmp/",
        "drwxrwxr-x tmp/cache/",
        "drwxr-xr-x tmp/cache/cache/",
        "-rw-r----- tmp/cache/cache/foo_stable_foo.v1.0.0.json",
        "-rw-r----- tmp/cache/cache/packages.json",
        "-rw-r----- tmp/cache/digest",
    ];
    assert_eq!(theirs, modes_and_names);
    let mine: Vec<String> = listed(&env, "plain", &plain["layers"][1]);
    let all = listed(&env, "out", &both["layers"][1]);
    assert!(mine.iter().all(|line| all.contains(line)), "{mine:?}");
}

#[test]
fn a_failed_build_leaves_nothing_behind() {
    let env = TestEnv::new();
    env.file("wrong/c.yaml", SMALL.replace("defaultChannel: stable", "defaultChannel: none"))
        .file("catalog/c.yaml", SMALL);
    env.file("full/file", "mine");
    let scratch = env.path("scratch");
    fs::create_dir(&scratch).unwrap();
    let failing = |arguments: &[&str], code: u8, text: &str| {
        let output = env.command().env("TMPDIR", &scratch).arg("build").args(arguments).output().unwrap();
        let shown = env.show(output);
        let start = format!("exit {code}\n--- stdout\n--- stderr\n");
        assert!(shown.starts_with(&start) && shown.contains(text), "{shown}");
        assert_eq!(env.names("scratch"), [""; 0], "{arguments:?}");
        assert!(!env.path("out").exists());
    };
    failing(&["wrong", "--data-only", "-o", "oci:out"], 1, "c.yaml:3:");
    failing(&["none", "--data-only", "-o", "oci:out"], 1, "is not a directory");
    failing(&["catalog", "--data-only"], 2, "no destination for the image");
    failing(&["catalog", "--data-only", "--push"], 2, "use -t REF");
    let digest = format!("r.test/a@sha256:{}", "0".repeat(64));
    let arguments = ["catalog", "--data-only", "--push", "-t", &digest];
    failing(&arguments, 2, "-t cannot contain a digest before the image is built: use REPOSITORY:TAG");
    failing(&["--program-only", "-o", "oci:out"], 1, "is dynamically linked");
    failing(&["catalog", "--data-only", "-o", "registry.example.com/x:y"], 2, "expected oci:DIR");
    failing(&["catalog", "-o", "oci:out", "--base-image", "oci:none"], 1, "base image \"oci:none\"");
    std::os::unix::fs::symlink("/etc", env.path("catalog/link")).unwrap();
    failing(&["catalog", "--data-only", "-o", "oci:out"], 1, "link");
    assert_eq!(fs::read_to_string(Path::new(&env.path("full/file"))).unwrap(), "mine");
}

/// Builds a catalog and returns the names in its catalog layer.
fn packed(env: &TestEnv, directory: &str) -> Vec<String> {
    let manifest = json(env, "out", &digest(env, &[directory, "--data-only", "-o", "oci:out"]));
    let layer = manifest["layers"][0]["digest"].as_str().unwrap().trim_start_matches("sha256:");
    let listed = std::process::Command::new("tar")
        .arg("-tzf")
        .arg(env.path(&format!("out/blobs/sha256/{layer}")))
        .output()
        .unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
}

const REFERRING: &str = "- type: olm.bundle.object\n  value: {ref: objects/a.yaml}\n";

#[test]
fn an_image_contains_the_files_of_the_catalog_and_no_others() {
    let env = TestEnv::new();
    env.file("catalog/foo/catalog.yaml", format!("{SMALL}{REFERRING}"))
        .file("catalog/foo/objects/a.yaml", "kind: A\nmetadata: {name: a}\n")
        .file("catalog/foo/objects/unused.yaml", "kind: B\n")
        .file("catalog/foo/.indexignore", "objects\n")
        .file("catalog/.indexignore", "*.md\n.*\nnode_modules\n")
        .file("catalog/README.md", "")
        .file("catalog/.env", "TOKEN=secret\n")
        .file("catalog/.github/workflow.yaml", "")
        .file("catalog/node_modules/x.js", "");
    let expected = [
        "configs/",
        "configs/.indexignore",
        "configs/foo/",
        "configs/foo/.indexignore",
        "configs/foo/catalog.yaml",
        "configs/foo/objects/",
        "configs/foo/objects/a.yaml",
    ];
    assert_eq!(packed(&env, "catalog"), expected);
    let clean = digest(&env, &["catalog", "--data-only", "-o", "oci:out"]);
    // Two clones of one commit differ in the files of git.
    env.file("catalog/.git/config", "[remote \"origin\"]\nurl = https://user:token@example.com/\n")
        .file("catalog/foo/.git", "gitdir: ../.git/modules/foo\n");
    std::os::unix::fs::symlink("nowhere", env.path("catalog/dangling.md")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(env.path("catalog/pipe.md")).status().unwrap().success());
    assert_eq!(packed(&env, "catalog"), expected);
    assert_eq!(digest(&env, &["catalog", "--data-only", "-o", "oci:out"]), clean);
    // The server in the image finds its cache current.
    env.stdout(&["unpack", "oci:out", "--unpack-dir", "back"]);
    assert_eq!(digest(&env, &["back", "--data-only", "-o", "oci:out"]), clean);
}

#[test]
fn files_that_an_image_cannot_contain_are_named() {
    let env = TestEnv::new();
    env.file("catalog/foo/catalog.yaml", SMALL).file("elsewhere/x.yaml", "schema: example.com/x\n");
    std::os::unix::fs::symlink("foo/catalog.yaml", env.path("catalog/.linked")).unwrap();
    env.file("catalog/.hidden/x.yaml", "schema: example.com/y\n").file("catalog/.indexignore", ".linked\n");
    std::os::unix::fs::symlink("../elsewhere/x.yaml", env.path("catalog/x.yaml")).unwrap();
    insta::assert_snapshot!(env.opm(&["build", "catalog", "--data-only", "-o", "oci:out"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: an image cannot contain all files of the catalog:
      catalog/.hidden/x.yaml is hidden
      catalog/x.yaml is a symbolic link that leads out of the directory
    help: replace links with copies and rename hidden files, or list them in .indexignore
    ");
    assert!(!env.path("out").exists());
    fs::remove_dir_all(env.path("catalog/.hidden")).unwrap();
    // A link inside the catalog becomes a file.
    env.file("catalog/foo/y", "schema: example.com/y\n");
    fs::remove_file(env.path("catalog/x.yaml")).unwrap();
    std::os::unix::fs::symlink("foo/y", env.path("catalog/x.yaml")).unwrap();
    assert_eq!(
        packed(&env, "catalog"),
        [
            "configs/",
            "configs/.indexignore",
            "configs/foo/",
            "configs/foo/catalog.yaml",
            "configs/foo/y",
            "configs/x.yaml"
        ]
    );
}

#[test]
fn a_directory_without_blobs_is_no_catalog_unless_that_is_allowed() {
    let env = TestEnv::new();
    env.file("wrong/.indexignore", "*.md\n").file("wrong/README.md", "");
    fs::create_dir(env.path("empty")).unwrap();
    insta::assert_snapshot!(env.opm(&["build", "wrong", "--data-only", "-o", "oci:out"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: "wrong" contains no catalog: opm found no blobs in it; check the path
    help: --allow-empty accepts a catalog without any blobs
    "#);
    insta::assert_snapshot!(env.opm(&["site", "build", "empty", "--to", "site"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: "empty" contains no catalog: opm found no blobs in it; check the path
    help: --allow-empty accepts a catalog without any blobs
    "#);
    assert!(!env.path("out").exists() && !env.path("site").exists());
    env.stdout(&["build", "wrong", "--data-only", "-o", "oci:out", "--allow-empty"]);
    env.stdout(&["site", "build", "empty", "--to", "site", "--allow-empty"]);
    // An image without content is no better.
    assert!(env.opm(&["site", "build", "oci:out", "--to", "other"]).contains("contains no catalog"));
}

#[test]
fn a_site_is_replaced_only_if_nothing_was_added_to_it() {
    let env = TestEnv::new();
    env.file("catalog/c.yaml", SMALL);
    let build = || env.opm(&["site", "build", "catalog", "--to", "site"]);
    assert!(build().starts_with("exit 0\n"));
    assert!(build().starts_with("exit 0\n"));
    env.file("site/.git/config", "[core]\n").file("site/CNAME", "example.com\n");
    insta::assert_snapshot!(build(), @r"
    exit 1
    --- stdout
    --- stderr
    error: site: the directory contains files that 'opm site build' did not write, and would be replaced:
      .git/config
      CNAME
    help: move them, or write to another directory
    ");
    assert_eq!(env.read("site/CNAME"), "example.com\n");
    // The marker of earlier versions has no list.
    fs::remove_file(env.path("site/CNAME")).unwrap();
    env.file("site/-/site.json", "{\"made\": \"opm site build\"}\n");
    assert!(build().contains(".git/config"));
    fs::remove_dir_all(env.path("site/.git")).unwrap();
    assert!(build().starts_with("exit 0\n"));
}
