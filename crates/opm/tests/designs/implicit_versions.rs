//! Update graphs by semantic version.

use crate::Stage;

#[test]
fn mode() {
    let Some(stage) = Stage::new() else { return };
    stage.push_bundle("namespace/my-operator:latest", "0.9.0", "alpha", "alpha");
    for mode in ["semver", "semver-skippatch"] {
        stage.ok(&format!("opm index add --use-http HOST/namespace/my-operator --mode={mode} --generate"));
        let packages = stage.ok("opm index inspect packages");
        assert!(packages.contains("\"etcd\""), "{packages}");
        std::fs::remove_dir_all(stage.env.path("database")).unwrap();
    }
}

#[test]
fn tooling() {
    let Some(stage) = Stage::new() else { return };
    // The example of the design: 0.6.1 is in one channel, and names the other as default.
    let bundles = [
        stage.push_bundle("etcd/bundle:v0.6.1", "0.6.1", "alpha", "stable"),
        stage.push_bundle("etcd/bundle:v0.9.0", "0.9.0", "alpha,stable", "stable"),
        stage.push_bundle("etcd/bundle:v0.9.2", "0.9.2", "alpha,stable", "stable"),
    ];
    stage.ok(&format!("opm index add --use-http --bundles {} --mode=semver --generate", bundles.join(",")));
    let packages = stage.ok("opm index inspect packages");
    assert!(packages.contains("\"defaultChannel\": \"stable\""), "{packages}");
    let package = stage.ok("opm index inspect package etcd");
    for version in ["0.6.1", "0.9.0", "0.9.2"] {
        assert!(package.contains(&format!("\"etcdoperator.v{version}\"")), "{package}");
    }
    stage.ok(&format!("opm index rmb --use-http {} --mode=semver", bundles[1]));
    let package = stage.ok("opm index inspect package etcd");
    assert!(!package.contains("etcdoperator.v0.9.0"), "{package}");
}

#[test]
fn index_images_change_without_a_container_engine() {
    let Some(stage) = Stage::new() else { return };
    for version in ["0.6.1", "0.9.0", "0.9.2"] {
        stage.push_bundle(&format!("etcd:v{version}"), version, "stable", "stable");
    }
    let none = "--use-http --container-tool none --binary-image scratch --push";
    stage.ok(&format!(
        "opm index add -b HOST/etcd:v0.6.1,HOST/etcd:v0.9.0,HOST/etcd:v0.9.2 --mode=semver -t HOST/index:v1 {none}"
    ));
    let versions = |index: &str| {
        let found = stage.ok(&format!("opm index inspect package etcd --use-http -f HOST/index:{index}"));
        ["0.6.1", "0.9.0", "0.9.2"]
            .into_iter()
            .filter(|version| found.contains(&format!("\"{version}\"")))
            .collect::<Vec<_>>()
    };
    assert_eq!(versions("v1"), ["0.6.1", "0.9.0", "0.9.2"]);
    let digest =
        stage.ok(&format!("opm index rmb HOST/etcd:v0.9.0 --mode=semver -f HOST/index:v1 -t HOST/index:v2 {none}"));
    assert!(digest.starts_with("sha256:"), "{digest}");
    assert_eq!(versions("v2"), ["0.6.1", "0.9.2"]);
    stage.ok(&format!("opm index deprecatetruncate -b HOST/etcd:v0.9.0 -f HOST/index:v1 -t HOST/index:v3 {none}"));
    assert_eq!(versions("v3"), ["0.9.0", "0.9.2"]);
}
