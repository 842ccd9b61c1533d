//! Bundle images and the database that is built from them.

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
    // "a list of image SHAs for all of the bundle images the database was built from"
    assert!(manifest.contains("community-operators/bar:latest@sha256:"), "{manifest}");
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

#[test]
fn the_manifest_of_a_database_rebuilds_the_same_database() {
    let Some(stage) = Stage::new() else { return };
    let first = stage.push_bundle("community-operators/foo:v1", "0.9.0", "alpha", "alpha");
    stage.ok("operator-registry add --use-http --mode semver HOST/community-operators/foo:v1 example.db");
    let manifest = stage.ok("operator-registry manifest example.db");
    assert!(manifest.contains(&format!("{first}@sha256:")), "{manifest}");
    // The tag moves; the manifest still adds the original image.
    stage.push_bundle("community-operators/foo:v1", "0.9.2", "alpha", "alpha");
    stage.env.file("images.json", &manifest);
    let words = manifest.split('"').filter(|word| word.contains("@sha256:")).collect::<Vec<_>>().join(",");
    stage.ok(&format!("operator-registry add --use-http --mode semver {words} copy.db"));
    assert_eq!(stage.ok("operator-registry manifest copy.db"), manifest);
    assert_eq!(stage.ok("opm list bundles copy.db"), stage.ok("opm list bundles example.db"));

    // Databases of other programs record tags.
    stage.ok("opm registry add --use-http --mode semver -d tags.db -b HOST/community-operators/foo:v1");
    let output = stage.run("operator-registry manifest tags.db");
    let shown = stage.env.show(output);
    assert!(shown.contains("is recorded only by tag") && !shown.contains("@sha256:"), "{shown}");
    let pinned = stage.ok("operator-registry manifest --pin --use-http tags.db");
    assert!(pinned.contains(&format!("{first}@sha256:")) && pinned != manifest, "{pinned}");
    stage.ok("opm registry add --use-http --mode semver -d pinned.db --pin -b HOST/community-operators/foo:v1");
    assert_eq!(stage.ok("operator-registry manifest pinned.db"), pinned);
    stage.ok("operator-registry add --use-http --mode semver --pin=false HOST/community-operators/foo:v1 unpinned.db");
    assert!(!stage.ok("operator-registry manifest unpinned.db").contains('@'));
    // A bundle that is recorded with tag and digest can be named by either.
    stage.ok("opm index rmb HOST/community-operators/foo:v1 --use-http --mode semver --database pinned.db");
    assert!(!stage.ok("operator-registry manifest pinned.db").contains("foo"));
}
