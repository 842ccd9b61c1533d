use crate::env::TestEnv;

#[test]
fn an_unpacked_image_builds_to_the_same_image() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    let build = |directory: &str, output: &str| env.stdout(&["build", directory, "--data-only", "-o", output]);
    let first = build("catalog", "oci:index:v1");
    env.stdout(&["unpack", "oci:index:v1"]);
    assert_eq!(env.names("index.unpacked"), env.names("catalog"));
    assert_eq!(first, build("index.unpacked", "oci:again"));
    env.stdout(&["unpack", "--image=oci:index:v1", "--unpack-dir", "some/where"]);
    assert_eq!(first, build("some/where", "oci:again"));
}

#[test]
fn what_cannot_be_unpacked_leaves_nothing_behind() {
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
