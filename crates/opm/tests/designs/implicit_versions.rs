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
    // The example: 0.6.1 is in one channel, and names the other as default.
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
