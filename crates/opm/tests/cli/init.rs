use crate::env::TestEnv;

#[test]
fn init_prints_the_blob_of_a_package() {
    let env = TestEnv::new();
    env.file("README.md", "Floats.\n").file("logo", "<svg>*</svg>");
    insta::assert_snapshot!(env.opm(&["init", "buoy", "-c", "stable", "-d", "README.md", "-i", "logo", "-o", "yaml"]), @r"
    exit 0
    --- stdout
    ---
    defaultChannel: stable
    description: |
      Floats.
    icon:
      base64data: PHN2Zz4qPC9zdmc+
      mediatype: image/svg+xml
    name: buoy
    schema: olm.package
    --- stderr
    ");
}

#[test]
fn an_icon_must_be_an_image() {
    let env = TestEnv::new();
    env.file("logo.png", "not one").file("empty", "");
    insta::assert_snapshot!(env.opm(&["init", "buoy", "-i", "logo.png"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: logo.png: detected invalid type "": not an image
    "#);
    assert!(env.opm(&["init", "buoy", "-i", "empty"]).contains("empty is empty"));
    assert!(env.opm(&["init", "buoy", "-i", "nosuch"]).contains("open icon file: nosuch: No such file"));
}
