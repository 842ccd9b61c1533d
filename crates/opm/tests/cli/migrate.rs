use crate::env::{SMALL, TestEnv};

#[test]
fn packages_get_directories_of_their_own() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    env.stdout(&["migrate", "catalog", "new/place", "-o", "yaml"]);
    assert_eq!(env.names("new/place"), ["buoy", "catalog.yaml", "lantern", "tide-gauge", "weather-vane"]);
    assert_eq!(env.stdout(&["render", "new/place"]), env.stdout(&["render", "catalog"]));
}

#[test]
fn what_fails_leaves_nothing_behind() {
    let env = TestEnv::new();
    env.file(
        "catalog/c.yaml",
        SMALL.replace("name: foo\n", "name: ../foo\n").replace("package: foo", "package: ../foo"),
    );
    let told = env.opm(&["migrate", "catalog", "out"]);
    assert!(told.contains("invalid package name \"../foo\": must be a single local path element"), "{told}");
    assert_eq!(env.names("."), ["catalog"]);
    env.file("full/file", "");
    assert!(env.opm(&["migrate", "catalog", "full"]).contains("output dir \"full\" must be empty"));
}
