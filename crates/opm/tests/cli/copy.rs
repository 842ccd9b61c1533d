use crate::env::TestEnv;

/// Writes an image layout with one empty image, named `v1`.
fn layout(env: &TestEnv) {
    let config = "{}";
    let config_hex = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:{config_hex}","size":2}},"layers":[]}}"#
    );
    let hex = "f20c43161d73848408ef247f0ec7111b19fe58ffebc0cbcaa0d2c8bda4967268";
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:{hex}","size":{},"annotations":{{"org.opencontainers.image.ref.name":"v1"}}}}]}}"#,
        manifest.len()
    );
    env.file("layout/oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#)
        .file("layout/index.json", index)
        .file(&format!("layout/blobs/sha256/{config_hex}"), config)
        .file(&format!("layout/blobs/sha256/{hex}"), manifest);
}

#[test]
fn an_image_is_copied_between_formats_and_back() {
    let env = TestEnv::new();
    layout(&env);
    insta::assert_snapshot!(env.opm(&["copy", "oci:layout:v1", "oci-archive:a.tar:v2"]), @r"
    exit 0
    --- stdout
    sha256:f20c43161d73848408ef247f0ec7111b19fe58ffebc0cbcaa0d2c8bda4967268
    --- stderr
    manifests: 1, blobs: 1 (0.0 MB), already present: 0, referrers: 0
    ");
    insta::assert_snapshot!(env.opm(&["copy", "oci-archive:a.tar:v2", "oci:again:v3"]), @r"
    exit 0
    --- stdout
    sha256:f20c43161d73848408ef247f0ec7111b19fe58ffebc0cbcaa0d2c8bda4967268
    --- stderr
    manifests: 1, blobs: 1 (0.0 MB), already present: 0, referrers: 0
    ");
    assert_eq!(env.names("again"), ["blobs", "index.json", "oci-layout"]);
    assert_eq!(env.names("layout"), ["blobs", "index.json", "oci-layout"]);
}

#[test]
fn failed_copies_are_reported() {
    let env = TestEnv::new();
    layout(&env);
    insta::assert_snapshot!(env.opm(&["copy", "oci:layout:v9", "oci:again:v1"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: failed to copy "oci:layout:v9" to "oci:again:v1": oci:layout:v9: no image named "v9" in the layout
      help: it has v1
    "#);
    // The configuration of this machine must not matter.
    env.file("registries.conf", "");
    let mut short = env.command();
    short.env("CONTAINERS_REGISTRIES_CONF", "registries.conf").args(["copy", "etcd:v1", "oci:again:v1"]);
    insta::assert_snapshot!(env.show(short.output().expect("opm runs")), @r#"
    exit 2
    --- stdout
    --- stderr
    error: failed to copy "etcd:v1" to "oci:again:v1": repository name must be canonical, with registry and full path, such as docker.io/library/etcd
      help: write "etcd:v1" with its registry, or give it an alias in registries.conf
    "#);
    insta::assert_snapshot!(env.opm(&["copy", "oci:layout:v1", "reg.test/a"]), @r#"
    exit 2
    --- stdout
    --- stderr
    error: "reg.test/a": Docker reference reg.test/a is not for an unknown digest case; tag or digest is needed, such as reg.test/a:latest
    "#);
    insta::assert_snapshot!(env.opm(&["copy", "--offline", "reg.test/a:v1", "oci:again:v1"]), @r#"
    exit 2
    --- stdout
    --- stderr
    error: --offline requires an image cache: set OLM_CACHE_DIR or --image-cache
    "#);
    assert!(!env.path("again").exists());
}

#[test]
fn an_interrupt_erases_the_progress_line() {
    if !testkit::installed("script") {
        return;
    }
    let env = TestEnv::new();
    // It accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let opm = env!("CARGO_BIN_EXE_opm");
    let line = format!("timeout -s INT 3 {opm} copy 127.0.0.1:{port}/a:v1 oci:out --use-http");
    let output = std::process::Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(env.path(""))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("copying: ") && text.ends_with("\r\x1b[K"), "{text:?}");
    assert!(!env.path("out").exists());
}
