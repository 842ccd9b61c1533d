//! Bundle images and the database that is built of them.

use crate::Stage;

#[test]
fn implementation_details() {
    let Some(stage) = Stage::new() else { return };
    stage.push_bundle("community-operators/foo:v1", "0.9.0", "alpha", "alpha");
    stage.push_bundle("community-operators/bar:latest", "0.9.2", "alpha", "alpha");
    stage.ok("operator-registry create example.db");
    // `foo:sha256@abcd123` is how the design writes a digest.
    let digest = stage.ok("opm copy --use-http HOST/community-operators/foo:v1 oci:foo");
    let digest = digest.trim().trim_start_matches("sha256:").to_owned();
    stage.ok(&format!(
        "operator-registry add --use-http --mode semver HOST/community-operators/foo:sha256@{digest} example.db"
    ));
    stage.ok("operator-registry add --batch --use-http --mode semver HOST/community-operators/bar example.db");
    let manifest = stage.ok("operator-registry manifest example.db");
    assert!(manifest.contains("community-operators/bar:latest"), "{manifest}");
    assert!(manifest.contains(&format!("community-operators/foo@sha256:{digest}")), "{manifest}");
    stage.ok("operator-registry delete-latest --use-http etcd example.db");
    let manifest = stage.ok("operator-registry manifest example.db");
    assert!(!manifest.contains("bar"), "{manifest}");
    stage.ok("operator-registry delete etcd example.db");
    assert!(!stage.ok("operator-registry manifest example.db").contains("foo"));
}

#[test]
fn ci_story() {
    let Some(stage) = Stage::new() else { return };
    stage.push_bundle("community-operators/foo:v1", "0.9.0", "alpha", "alpha");
    stage.ok("operator-registry add --use-http HOST/community-operators/foo:v1 exampledb.db");
    let served = stage.run("registry-server --database exampledb.db -p 0 -t= --timeout-seconds 0");
    assert!(served.status.success(), "{}", stage.env.show(served));
}
