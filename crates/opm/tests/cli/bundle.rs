use crate::env::TestEnv;

const CSV: &str = "\
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: foo.v1.0.0
spec:
  version: 1.0.0
  displayName: Foo
  minKubeVersion: 1.20.0
  installModes: [{type: AllNamespaces, supported: true}]
  install: {strategy: deployment, spec: {deployments: [{name: foo}]}}
";

fn with_manifests() -> TestEnv {
    let env = TestEnv::new();
    env.file("foo/manifests/csv.yaml", CSV);
    env
}

const GENERATE: &[&str] = &["--directory", "foo/manifests", "--package", "foo", "--channels", "stable,beta"];

#[test]
fn generate_writes_annotations_and_a_dockerfile() {
    let env = with_manifests();
    insta::assert_snapshot!(env.opm(&[&["alpha", "bundle", "generate"], GENERATE, &["--default", "stable"]].concat()), @r"
    exit 0
    --- stdout
    --- stderr
    ");
    insta::assert_snapshot!(env.read("foo/metadata/annotations.yaml"), @r"
    annotations:
      operators.operatorframework.io.bundle.channel.default.v1: stable
      operators.operatorframework.io.bundle.channels.v1: stable,beta
      operators.operatorframework.io.bundle.manifests.v1: manifests/
      operators.operatorframework.io.bundle.mediatype.v1: registry+v1
      operators.operatorframework.io.bundle.metadata.v1: metadata/
      operators.operatorframework.io.bundle.package.v1: foo
    ");
    insta::assert_snapshot!(env.read("bundle.Dockerfile"), @r"
    FROM scratch

    LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
    LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
    LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
    LABEL operators.operatorframework.io.bundle.package.v1=foo
    LABEL operators.operatorframework.io.bundle.channels.v1=stable,beta
    LABEL operators.operatorframework.io.bundle.channel.default.v1=stable

    COPY foo/manifests /manifests/
    COPY foo/metadata /metadata/
    ");
    let elsewhere = [&["alpha", "bundle", "generate"], GENERATE, &["-u", "out", "--base-image", "base:1"]].concat();
    env.file("foo/manifests/sub/deep/note.txt", "x");
    env.stdout(&elsewhere);
    assert_eq!(env.read("out/manifests/csv.yaml"), CSV);
    assert_eq!(env.read("out/manifests/sub/deep/note.txt"), "x");
    assert!(env.read("bundle.Dockerfile").starts_with("FROM base:1\n"));
    assert!(env.read("bundle.Dockerfile").ends_with("COPY out/manifests /manifests/\nCOPY out/metadata /metadata/\n"));
}

#[test]
fn generate_reports_missing_arguments() {
    let env = with_manifests();
    let generate = |arguments: &[&str]| env.opm(&[&["alpha", "bundle", "generate"], arguments].concat());
    assert!(generate(&["-d", "foo/manifests"]).contains("please manually input channels and packageName"));
    std::fs::create_dir(env.path("empty")).unwrap();
    assert!(generate(&["-d", "empty", "-p", "a", "-c", "b"]).contains("contains no yaml files"));
    assert!(generate(&["-d", "none", "-p", "a", "-c", "b"]).contains("is not a directory"));
    assert!(!env.path("bundle.Dockerfile").exists());
    env.file("foo/foo.package.yaml", "packageName: foo\nchannels: [{name: only, currentCSV: foo.v1.0.0}]\n");
    env.stdout(&["alpha", "bundle", "generate", "-d", "foo/manifests"]);
    env.stdout(&["alpha", "bundle", "generate", "-d", "foo/manifests"]);
    assert!(env.read("foo/metadata/annotations.yaml").contains("bundle.channel.default.v1: only"));
}

#[test]
fn a_bundle_image_is_built_checked_and_unpacked_without_other_programs() {
    let env = with_manifests();
    let build = [&["alpha", "bundle", "build"], GENERATE, &["--tag", "quay.io/me/foo:v1", "-b", "none"]].concat();
    assert!(env.opm(&build).contains("no destination for the image"));
    let digest = env.stdout(&[&build[..], &["--image-output", "oci:image"]].concat());
    assert!(digest.starts_with("sha256:"), "{digest}");
    env.stdout(&["bundle", "validate", "oci:image:v1"]);
    env.stdout(&["alpha", "bundle", "validate", "--tag", "oci:image", "--image-builder", "none"]);
    env.stdout(&["alpha", "bundle", "unpack", "oci:image", "--out", "out"]);
    assert_eq!(env.names("out"), ["manifests", "metadata"]);
    assert_eq!(env.read("out/manifests/csv.yaml"), CSV);
    // The same files in another directory, written later, give the same image.
    let other = with_manifests();
    assert_eq!(digest, other.stdout(&[&build[..], &["--image-output", "oci:image"]].concat()));
    assert!(env.opm(&["render", "oci:image"]).contains("\"image\": \"oci:image\""));
}

#[test]
fn different_annotations_are_preserved_and_reported() {
    let env = with_manifests();
    env.file("foo/metadata/annotations.yaml", "annotations: {operators.operatorframework.io.bundle.package.v1: bar}\n");
    let build = [
        &["alpha", "bundle", "build"],
        GENERATE,
        &["-t", "localhost/foo:v1", "-b", "none", "--image-output", "oci:image"],
    ]
    .concat();
    let shown = env.opm(&build);
    assert!(shown.contains("Missing field: operators.operatorframework.io.bundle.mediatype.v1, "), "{shown}");
    assert!(shown.contains("to have value \"foo\" instead of \"bar\""), "{shown}");
    assert!(!env.path("image").exists() && !env.path("bundle.Dockerfile").exists());
    env.stdout(&[&build[..], &["--overwrite"]].concat());
}

#[test]
fn container_engines_build_if_installed() {
    let env = with_manifests();
    env.file("bin/podman", "#!/bin/sh\necho \"$0\" \"$@\"\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(env.path("bin/podman"), mode).unwrap();
    let build = |builder: &str| {
        let output = env
            .command()
            .env("PATH", env.path("bin"))
            .args([&["alpha", "bundle", "build"], GENERATE, &["-t", "localhost/foo:v1", "-b", builder]].concat())
            .output();
        env.show(output.unwrap())
    };
    assert!(build("podman").contains("/podman build -f bundle.Dockerfile -t localhost/foo:v1 .\n"));
    assert!(build("buildah").contains("Failed to exec [\"buildah\", \"bud\", \"--format=docker\","));
    assert!(build("kaniko").contains("invalid value 'kaniko'"));
}

#[test]
fn invalid_bundles_are_not_unpacked() {
    let env = with_manifests();
    env.file("foo/manifests/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n");
    let make = [
        &["alpha", "bundle", "build"],
        GENERATE,
        &["-t", "localhost/foo:v1", "-b", "none", "--image-output", "oci:image"],
    ];
    env.stdout(&make.concat());
    insta::assert_snapshot!(env.opm(&["bundle", "validate", "foo"]), @"
    exit 1
    --- stdout
    --- stderr
    warning: Value : (foo.v1.0.0) annotations not found
    error: Pod is not supported type for registryV1 bundle: pod.yaml
    ");
    let unpack = ["alpha", "bundle", "unpack", "oci:image", "-o", "out"];
    assert!(
        env.opm(&unpack).contains("bundle content validation failed: Bundle validation errors: Pod is not supported")
    );
    assert!(!env.path("out").exists());
    env.stdout(&[&unpack[..], &["--skip-validation"]].concat());
    assert!(
        env.opm(&["alpha", "bundle", "unpack", "oci:image", "-o", "out/manifests/csv.yaml"])
            .contains("is not a directory")
    );
}

#[test]
fn rules_of_a_bundle_are_compiled() {
    let env = TestEnv::new();
    env.copy_of("examples/bundles/lantern/1.3.0");
    let dependencies = |rule: &str| {
        format!("dependencies:\n- type: olm.constraint\n  value: {{failureMessage: why, cel: {{rule: \"{rule}\"}}}}\n")
    };
    env.file("1.3.0/metadata/dependencies.yaml", dependencies("properties.exists(p, p.type == 'a')"));
    insta::assert_snapshot!(env.opm(&["bundle", "validate", "1.3.0"]), @"
    exit 0
    --- stdout
    --- stderr
    warning: Value : (lantern.v1.3.0) example annotations not found
    warning: Value : (lantern.v1.3.0) csv.Spec.minKubeVersion is not informed. It is recommended you provide this information. Otherwise, it would mean that your operator project can be distributed and installed in any cluster version available, which is not necessarily the case for all projects.
    ");
    env.file("1.3.0/metadata/dependencies.yaml", dependencies("property.exists(p, p.type == 'a')"));
    insta::assert_snapshot!(env.opm(&["bundle", "validate", "1.3.0"]), @r#"
    exit 1
    --- stdout
    --- stderr
    warning: Value : (lantern.v1.3.0) example annotations not found
    warning: Value : (lantern.v1.3.0) csv.Spec.minKubeVersion is not informed. It is recommended you provide this information. Otherwise, it would mean that your operator project can be distributed and installed in any cluster version available, which is not necessarily the case for all projects.
    error: Invalid CEL expression "property.exists(p, p.type == 'a')": undeclared reference to 'property'
    "#);
}

#[test]
fn a_complete_bundle_is_built_without_flags_of_generate() {
    let env = TestEnv::new();
    env.copy_of("examples/bundles/lantern/1.3.0");
    let build = |directory: &str| {
        let arguments = ["bundle", "build", "-t", "r.test/b:v1", "-b", "none", "--image-output", "oci:image"];
        let output = env.command().current_dir(env.path(directory)).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", env.show(output));
        String::from_utf8(output.stdout).unwrap()
    };
    let whole = build("1.3.0");
    assert!(whole.starts_with("sha256:"), "{whole}");
    let listed = env.stdout(&["render", "oci:1.3.0/image"]);
    assert!(listed.contains("lantern.v1.3.0"), "{listed}");
}

#[test]
fn the_names_of_a_neighbouring_bundle_are_not_taken() {
    let env = TestEnv::new();
    env.copy_of("examples/bundles/lantern/1.3.0").file("here/notes.yaml", "a: note\n");
    let output = env.command().current_dir(env.path("here")).args(["bundle", "generate"]).output().unwrap();
    insta::assert_snapshot!(env.show(output), @r"
    exit 1
    --- stdout
    --- stderr
    error: please manually input channels and packageName, error interpreting bundle from directory [SCRATCH]/here, it contains no ClusterServiceVersion
    ");
    assert_eq!(env.names("."), ["1.3.0", "here"]);
    assert_eq!(env.names("here"), ["notes.yaml"]);
}

#[test]
fn a_missing_path_is_not_mistaken_for_an_image() {
    let env = TestEnv::new();
    env.file("a file", "x");
    let refused = |arguments: &[&str], why: &str| {
        let text = format!("exit 1\n--- stdout\n--- stderr\nerror: \"{}\": {why}\n", arguments[arguments.len() - 1]);
        assert_eq!(env.opm(arguments), text, "{arguments:?}");
    };
    for path in ["/no/such/bundle", "./nothing", "../nothing"] {
        for command in [&["bundle", "validate"][..], &["rehearse"], &["security"]] {
            refused(&[command, &[path]].concat(), "the path does not exist");
        }
    }
    refused(&["bundle", "validate", "a file"], "the path is not a directory");
    let no_image = "invalid reference format: repository name (My) must be lowercase";
    refused(
        &["bundle", "validate", "My"],
        &format!("the path does not exist, and it is not an image reference: {no_image}"),
    );
}

#[test]
fn a_kept_dockerfile_decides_what_is_packed() {
    let env = with_manifests();
    env.file("foo/tests/scorecard/config.yaml", "kind: Configuration\n")
        .file("foo/manifests/.gitkeep", "")
        .file("foo/manifests/.git/config", "")
        .file("LICENSE", "text\n");
    let build = |more: &[&str]| {
        let none = ["-t", "localhost/foo:v1", "-b", "none", "--image-output", "oci:image"];
        env.opm(&[&["bundle", "build"], GENERATE, &none, more].concat())
    };
    let dockerfile = "FROM scratch\nLABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1\n\
        LABEL operators.operatorframework.io.test.config.v1=tests/scorecard/ team=\"the team\"\n\
        COPY foo/manifests /manifests/\nCOPY foo/metadata /metadata/\nCOPY foo/tests/scorecard /tests/scorecard/\n\
        COPY LICENSE /licenses/\n";
    env.file("bundle.Dockerfile", dockerfile);
    let shown = build(&[]);
    assert!(shown.starts_with("exit 0\n"), "{shown}");
    assert!(shown.contains("keeping the existing bundle.Dockerfile"), "{shown}");
    assert!(shown.contains("warning: foo/manifests/.gitkeep: left out: is hidden\n"), "{shown}");
    env.stdout(&["bundle", "unpack", "oci:image", "--out", "out"]);
    assert_eq!(env.names("out"), ["manifests", "metadata", "tests"]);
    assert_eq!(env.names("out/manifests"), ["csv.yaml"]);
    assert_eq!(env.read("out/tests/scorecard/config.yaml"), "kind: Configuration\n");
    let blobs = |text: &str| {
        let names = env.names("image/blobs/sha256");
        names.iter().any(|name| {
            std::fs::read(env.path(&format!("image/blobs/sha256/{name}")))
                .is_ok_and(|blob| String::from_utf8_lossy(&blob).contains(text))
        })
    };
    assert!(blobs("\"team\":\"the team\""), "the labels of the Dockerfile are lost");

    env.file("bundle.Dockerfile", format!("{dockerfile}RUN make\n"));
    insta::assert_snapshot!(build(&[]), @r"
    exit 1
    --- stdout
    --- stderr
    error: bundle.Dockerfile: line 8: RUN is not supported
    help: build it with a container engine (--image-builder docker, podman or buildah), or replace it with --overwrite
    ");
    assert!(build(&["--overwrite"]).starts_with("exit 0\n"));
    assert!(!env.read("bundle.Dockerfile").contains("RUN"));
    // Another bundle in the same directory is not mistaken for this one.
    env.file("bar/manifests/csv.yaml", CSV.replace("foo", "bar"));
    let bar = ["bundle", "build", "--directory", "bar/manifests", "--package", "bar", "--channels", "stable"];
    let shown = env.opm(&[&bar[..], &["-t", "localhost/bar:v1", "-b", "none", "--image-output", "oci:bar"]].concat());
    assert!(shown.contains("bundle.Dockerfile is for another bundle"), "{shown}");
    assert!(env.stdout(&["render", "oci:bar"]).contains("\"package\": \"bar\""));
    // A link out of a copied directory could disclose anything.
    std::os::unix::fs::symlink("../../LICENSE", env.path("foo/manifests/x.yaml")).unwrap();
    assert!(build(&[]).contains("foo/manifests/x.yaml is a symbolic link that leads out of the directory"));
}

#[test]
fn a_bundle_with_two_csvs_is_an_error_and_every_command_reads_the_same_one() {
    let env = with_manifests();
    env.stdout(&[&["bundle", "generate"], GENERATE].concat());
    env.file("foo/manifests/old.csv.yaml", CSV.replace("1.0.0", "0.9.0"));
    for command in
        [&["bundle", "validate", "foo"][..], &["rehearse", "foo"], &["bundle", "validate", "foo", "--suite", "all"]]
    {
        let shown = env.opm(command);
        assert!(shown.starts_with("exit 1\n"), "{shown}");
        let text = "invalid bundle: contains multiple CSVs: manifests/csv.yaml, manifests/old.csv.yaml";
        assert!(shown.contains(text), "{command:?}: {shown}");
    }
    assert!(env.stdout(&["render", "foo"]).contains("\"name\": \"foo.v1.0.0\""));
    let rehearsed = env.opm(&["rehearse", "foo"]);
    assert!(rehearsed.contains("foo.v1.0.0") && !rehearsed.contains("foo.v0.9.0"), "{rehearsed}");
}
