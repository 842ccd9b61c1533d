use crate::env::TestEnv;

#[test]
fn an_unpacked_image_builds_to_the_same_image() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    let build = |directory: &str, output: &str| env.stdout(&["build", directory, "--data-only", "-o", output]);
    let first = build("catalog", "oci:index:v1");
    env.stdout(&["unpack", "oci:index:v1"]);
    // README.md is listed in .indexignore.
    assert_eq!(
        env.names("index.unpacked"),
        [".indexignore", "buoy", "lantern", "site.yaml", "tide-gauge", "weather-vane"]
    );
    assert_eq!(first, build("index.unpacked", "oci:again"));
    env.stdout(&["unpack", "--image=oci:index:v1", "--unpack-dir", "some/where"]);
    assert_eq!(first, build("some/where", "oci:again"));
}

#[test]
fn a_failed_unpack_leaves_nothing_behind() {
    let env = TestEnv::new();
    env.file("mine/file", "").file("m/csv.yaml", "kind: ClusterServiceVersion\nmetadata: {name: x}\n");
    let bundle = ["--directory", "m", "--package", "x", "--channels", "a", "--tag", "localhost/x:v1"];
    env.stdout(&[&["alpha", "bundle", "build"], &bundle[..], &["-b", "none", "--image-output", "oci:bundle"]].concat());
    let failing = |arguments: &[&str], text: &str| {
        let shown = env.opm(&[&["unpack"], arguments].concat());
        assert!(shown.starts_with("exit 1\n--- stdout\n--- stderr\n") && shown.contains(text), "{shown}");
        assert!(!env.path("out").exists() && !env.path("bundle.unpacked").exists());
    };
    failing(&[], "exactly one image is required");
    failing(&["oci:bundle", "--image=oci:bundle"], "exactly one image is required");
    failing(&["oci:bundle"], "missing label \"operators.operatorframework.io.index.configs.v1\"");
    failing(&["oci:bundle", "--unpack-dir", "mine"], "output dir \"mine\" must be empty");
    failing(&["oci:none", "--unpack-dir", "out"], "error pulling image from remote registry. Error:");
    failing(&["Not A Reference"], "error pulling image from remote registry. Error:");
    assert_eq!(env.names("mine"), ["file"]);
}

#[test]
fn a_database_becomes_a_file_for_each_package() {
    let env = TestEnv::new();
    for version in ["1.0.0", "1.1.0"] {
        let csv = format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {{name: foo.v{version}}}\n\
             spec: {{version: {version}}}\n"
        );
        let annotations = "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n  \
            operators.operatorframework.io.bundle.channels.v1: stable\n";
        env.file(&format!("{version}/manifests/csv.yaml"), csv);
        env.file(&format!("{version}/metadata/annotations.yaml"), annotations);
        env.stdout(&["registry", "add", "-d", "index.db", "-b", &format!("./{version}"), "--mode", "semver"]);
    }
    let store = image::Store::open(&env.path("index")).unwrap();
    let mut layer = image::Layer::new();
    layer.file("/database/index.db", &env.path("index.db"), 0o644).unwrap();
    let layer = layer.write(&store, 0, &|_| {}).unwrap();
    let label = "operators.operatorframework.io.index.database.v1";
    let plan = image::ImagePlan {
        labels: [(label.to_owned(), "/database/index.db".to_owned())].into(),
        ..image::ImagePlan::default()
    };
    let built = image::build(&store, &plan, &[layer], None).unwrap();
    env.file("index/index.json", serde_json::json!({"schemaVersion": 2, "manifests": [built]}).to_string());

    env.stdout(&["unpack", "oci:index", "--unpack-dir", "catalog"]);
    assert_eq!(env.names("catalog"), ["foo"]);
    assert_eq!(env.names("catalog/foo"), [".indexignore", "foo.json", "objects"]);
    let file = "catalog/foo/objects/foo.v1.1.0/foo.v1.1.0_operators.coreos.com_v1alpha1_clusterserviceversion.yaml";
    assert!(env.read(file).contains("version: 1.1.0\n"));
    env.stdout(&["validate", "catalog"]);
    assert_eq!(env.stdout(&["list", "bundles", "catalog"]), env.stdout(&["list", "bundles", "index.db"]));
}

/// Writes two packages and a blob without a package to one file.
fn single_file(env: &TestEnv) {
    let small = crate::env::SMALL;
    let object = "- type: olm.bundle.object\n  value: {data: eyJraW5kIjoiQSIsIm1ldGFkYXRhIjp7Im5hbWUiOiJiIn19}\n";
    let text = format!(
        "{small}{object}---\n{}---\nschema: example.com/thing\nname: x\ncolour: red\n",
        small.replace("foo", "bar").replace("defaultChannel", "vendor: me\ndefaultChannel")
    );
    env.file("catalog/all.yaml", text);
    env.stdout(&["build", "catalog", "--data-only", "-o", "oci:index:v1"]);
}

#[test]
fn a_catalog_in_one_file_is_split_by_package() {
    let env = TestEnv::new();
    single_file(&env);
    env.stdout(&["unpack", "oci:index:v1", "--unpack-dir", "split"]);
    assert_eq!(env.names("split"), ["__global.json", "bar", "foo"]);
    assert_eq!(
        (env.names("split/foo"), env.names("split/bar")),
        (vec![".indexignore".into(), "foo.json".into(), "objects".into()], vec!["bar.json".into()])
    );
    assert_eq!(env.names("split/foo/objects/foo.v1.0.0"), ["b___a.yaml"]);
    assert!(env.read("split/bar/bar.json").contains("\"vendor\": \"me\""), "unknown fields are lost");
    assert!(env.read("split/__global.json").contains("\"colour\": \"red\""));
    assert_eq!(env.opm(&["validate", "split"]), "exit 0\n--- stdout\n--- stderr\n");
    assert_eq!(env.stdout(&["list", "bundles", "split"]), env.stdout(&["list", "bundles", "catalog"]));
}

#[test]
fn the_layout_can_be_chosen() {
    let env = TestEnv::new();
    single_file(&env);
    let unpack = |layout: &str| env.stdout(&["unpack", "oci:index:v1", "--layout", layout, "--unpack-dir", layout]);
    for layout in ["image", "single", "package", "bundle"] {
        unpack(layout);
        assert_eq!(env.opm(&["validate", layout]), "exit 0\n--- stdout\n--- stderr\n", "{layout}");
        assert_eq!(env.stdout(&["list", "bundles", layout]), env.stdout(&["list", "bundles", "catalog"]), "{layout}");
    }
    assert_eq!(env.names("image"), ["all.yaml"]);
    assert_eq!(env.read("image/all.yaml"), env.read("catalog/all.yaml"));
    assert_eq!(env.names("single"), ["catalog.json"]);
    assert_eq!(env.names("bundle/foo"), [".indexignore", "bundles", "foo.json"]);
    assert_eq!(env.names("bundle/foo/bundles"), ["foo.v1.0.0.json", "objects"]);
    let rendered = |source: &str| env.stdout(&["render", source]);
    assert_eq!(rendered("single"), rendered("catalog"));
    let printed = env.opm(&["unpack", "oci:index:v1", "--layout", "some", "--unpack-dir", "out"]);
    assert!(printed.contains("possible values: image, single, package, bundle"), "{printed}");
}

/// Builds an image with these files and one label into the layout `hostile`.
fn hostile(env: &TestEnv, label: (&str, &str), files: &[(&str, &str)]) {
    let store = image::Store::open(&env.path("hostile")).unwrap();
    let mut layer = image::Layer::new();
    for (number, (path, text)) in files.iter().enumerate() {
        let source = format!("sources/{number}");
        match text.strip_prefix("-> ") {
            Some(target) => layer.symlink(path, target),
            None => layer.file(path, &env.file(&source, text).path(&source), 0o644).unwrap(),
        }
    }
    let layer = layer.write(&store, 0, &|_| {}).unwrap();
    let labels = [(label.0.to_owned(), label.1.to_owned())].into();
    let plan = image::ImagePlan { labels, ..image::ImagePlan::default() };
    let built = image::build(&store, &plan, &[layer], None).unwrap();
    env.file("hostile/index.json", serde_json::json!({"schemaVersion": 2, "manifests": [built]}).to_string());
}

/// Returns all paths below a directory, with the kind of everything that is neither a file nor a directory.
fn everything(env: &TestEnv, directory: &str) -> Vec<String> {
    let output = std::process::Command::new("find")
        .args([".", "-mindepth", "1", "-printf", "%P %y\n"])
        .current_dir(env.path(directory))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<String> = text.lines().filter(|line| !line.ends_with(" d")).map(str::to_owned).collect();
    lines.sort();
    lines.into_iter().map(|line| line.strip_suffix(" f").map_or(line.clone(), str::to_owned)).collect()
}

#[test]
fn only_the_files_of_the_catalog_leave_an_image() {
    let env = TestEnv::new();
    let referring = format!("{}- type: olm.bundle.object\n  value: {{ref: objects/a.yaml}}\n", crate::env::SMALL);
    hostile(
        &env,
        ("operators.operatorframework.io.index.configs.v1", "/configs"),
        &[
            ("configs/foo/catalog.yaml", &referring),
            ("configs/foo/objects/a.yaml", "kind: A\nmetadata: {name: a}\n"),
            ("configs/foo/objects/unused.yaml", "kind: A\n"),
            ("configs/foo/.indexignore", "objects\n"),
            ("configs/.indexignore", "*.md\n.*\n"),
            ("configs/.git/config", "[core]\nfsmonitor = touch /tmp/owned\n"),
            ("configs/foo/.git", "gitdir: ../.git\n"),
            ("configs/foo/.hg/hgrc", "[hooks]\n"),
            ("configs/.envrc", "touch /tmp/owned\n"),
            ("configs/README.md", "text\n"),
            ("configs/.hidden/x.yaml", "schema: example.com/x\n"),
            ("configs/linked.yaml", "-> ../shared/x.yaml"),
            ("configs/host", "-> /etc/hostname"),
            ("shared/x.yaml", "schema: example.com/x\n"),
        ],
    );
    let shown = env.opm(&["unpack", "oci:hostile", "--unpack-dir", "out", "--layout", "image"]);
    insta::assert_snapshot!(shown, @r#"
    exit 0
    --- stdout
    --- stderr
    warning: left out: read host: broken symbolic link: No such file or directory (os error 2)
    "#);
    let catalog = [".indexignore", "foo/.indexignore", "foo/catalog.yaml", "foo/objects/a.yaml", "linked.yaml"];
    assert_eq!(everything(&env, "out"), catalog);
    assert_eq!(env.opm(&["validate", "out"]), "exit 0\n--- stdout\n--- stderr\n");

    hostile(
        &env,
        ("operators.operatorframework.io.index.configs.v1", "/configs"),
        &[("configs/c.yaml", crate::env::SMALL), ("configs/.vscode/tasks.json", "{\"schema\": \"x\"}")],
    );
    let shown = env.opm(&["unpack", "oci:hostile", "--unpack-dir", "other"]);
    assert_eq!(shown, "exit 0\n--- stdout\n--- stderr\nwarning: .vscode/tasks.json: left out: is hidden\n");
    assert_eq!(everything(&env, "other"), ["c.yaml"]);
}

#[test]
fn only_the_files_of_the_bundle_leave_an_image_and_none_is_overwritten() {
    let env = TestEnv::new();
    hostile(
        &env,
        ("operators.operatorframework.io.bundle.manifests.v1", "manifests/"),
        &[
            ("manifests/csv.yaml", "kind: ClusterServiceVersion\n"),
            ("manifests/.hidden", "x"),
            ("manifests/link.yaml", "-> ../shared"),
            ("metadata/annotations.yaml", "annotations: {}\n"),
            ("tests/scorecard/config.yaml", "kind: Configuration\n"),
            ("shared", "kind: Shared\n"),
            (".git/config", "[core]\nfsmonitor = touch /tmp/owned\n"),
            (".bashrc", "touch /tmp/owned\n"),
            ("Makefile", "all:\n"),
        ],
    );
    env.file("work/.git/config", "[core]\n").file("work/README.md", "mine\n");
    let unpack = |out: &str| env.opm(&["bundle", "unpack", "oci:hostile", "--skip-validation", "--out", out]);
    let warned = "exit 0\n--- stdout\n--- stderr\nwarning: manifests/.hidden: left out: is hidden\n";
    assert_eq!(unpack("work"), warned);
    let bundle =
        ["manifests/csv.yaml", "manifests/link.yaml", "metadata/annotations.yaml", "tests/scorecard/config.yaml"];
    assert_eq!(everything(&env, "work"), [&[".git/config", "README.md"], &bundle[..]].concat());
    assert_eq!((env.read("work/.git/config"), env.read("work/README.md")), ("[core]\n".into(), "mine\n".into()));
    assert_eq!(env.read("work/manifests/link.yaml"), "kind: Shared\n");
    assert_eq!(unpack("new/directory"), warned);
    assert_eq!(everything(&env, "new/directory"), bundle);

    // All files that are in the way are named, and nothing is written.
    env.file("taken/manifests/csv.yaml", "mine\n").file("taken/tests", "mine\n");
    let shown = unpack("taken");
    insta::assert_snapshot!(shown, @r"
    exit 1
    --- stdout
    --- stderr
    warning: manifests/.hidden: left out: is hidden
    error: opm does not overwrite existing files:
      taken/manifests/csv.yaml
      taken/tests
    help: remove them, or choose another directory
    ");
    assert_eq!(everything(&env, "taken"), ["manifests/csv.yaml", "tests"]);
    // A link in the way is not followed.
    env.file("linked/elsewhere/x", "");
    std::os::unix::fs::symlink("elsewhere", env.path("linked/manifests")).unwrap();
    assert!(unpack("linked").contains("  linked/manifests\n"));
    assert_eq!(everything(&env, "linked"), ["elsewhere/x", "manifests l"]);
}

#[test]
fn an_export_overwrites_nothing() {
    let env = TestEnv::new();
    let csv = "kind: ClusterServiceVersion\nmetadata: {name: foo.v1.0.0}\nspec: {version: 1.0.0}\n";
    env.file("1.0.0/manifests/csv.yaml", csv);
    let names = ["--package", "foo", "--channels", "stable", "-t", "localhost/foo:v1", "-b", "none"];
    let make = [&["bundle", "build", "--directory", "1.0.0/manifests"], &names[..]].concat();
    env.stdout(&[&make[..], &["--image-output", "oci:foo"]].concat());
    env.stdout(&["registry", "add", "-d", "index.db", "-b", "oci:foo"]);
    let store = image::Store::open(&env.path("index")).unwrap();
    let mut layer = image::Layer::new();
    layer.file("/database/index.db", &env.path("index.db"), 0o644).unwrap();
    let layer = layer.write(&store, 0, &|_| {}).unwrap();
    let label = ("operators.operatorframework.io.index.database.v1".to_owned(), "/database/index.db".to_owned());
    let plan = image::ImagePlan { labels: [label].into(), ..image::ImagePlan::default() };
    let built = image::build(&store, &plan, &[layer], None).unwrap();
    env.file("index/index.json", serde_json::json!({"schemaVersion": 2, "manifests": [built]}).to_string());

    let export = || env.opm(&["index", "export", "-i", "oci:index", "-f", "packages"]);
    env.file("packages/bar/package.yaml", "mine\n");
    assert!(export().starts_with("exit 0\n"), "{}", export());
    assert_eq!(everything(&env, "packages"), ["bar/package.yaml", "foo/1.0.0/csv.yaml", "foo/package.yaml"]);
    env.file("packages/foo/package.yaml", "mine\n");
    let shown = export();
    for part in ["exit 1\n", "opm does not overwrite existing files:", "packages/foo/package.yaml\n"] {
        assert!(shown.contains(part), "{shown}");
    }
    assert_eq!(env.read("packages/foo/package.yaml"), "mine\n");
}

#[test]
fn no_package_is_written_to_a_hidden_directory() {
    let env = TestEnv::new();
    for name in [".git", ".hidden", "CVS", "a/b", ".."] {
        env.file(
            "catalog/c.yaml",
            crate::env::SMALL
                .replace("name: foo\n", &format!("name: {name}\n"))
                .replace("package: foo\n", &format!("package: {name}\n"))
                .replace("packageName: foo", &format!("packageName: {name}")),
        );
        let shown = env.opm(&["migrate", "catalog", "out"]);
        assert!(shown.contains("must be a single local path element"), "{shown}");
        assert!(!env.path("out").exists());
    }
}
