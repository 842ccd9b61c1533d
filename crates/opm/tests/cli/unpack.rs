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
