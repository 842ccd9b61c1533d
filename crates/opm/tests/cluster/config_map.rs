//! `operator-registry configmap` and `configmap-server`.

use std::process::Stdio;

use cluster::ResourceKind;
use serde_json::json;

use crate::kit::Kit;

const CSVS: &str = "- apiVersion: operators.coreos.com/v1alpha1\n  kind: ClusterServiceVersion\n  \
    metadata: {name: foo.v1.0.0}\n  spec: {version: 1.0.0}\n";
const PACKAGES: &str = "- packageName: foo\n  channels: [{name: stable, currentCSV: foo.v1.0.0}]\n";

async fn kit() -> Kit {
    let kit = Kit::new().await;
    let data = json!({"customResourceDefinitions": "[]", "clusterServiceVersions": CSVS, "packages": PACKAGES});
    kit.create(ResourceKind::CONFIG_MAP, json!({"metadata": {"name": "catalog"}, "data": data})).await;
    kit
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_is_loaded_into_a_database() {
    let kit = kit().await;
    let shown = kit.opm(&["operator-registry", "configmap", "catalog", "-o", "index.db"]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    let listed = kit.env.stdout(&["alpha", "list", "bundles", "index.db"]);
    assert!(listed.contains("foo.v1.0.0"), "{listed}");
    kit.create(ResourceKind::CONFIG_MAP, json!({"metadata": {"name": "empty"}})).await;
    insta::assert_snapshot!(kit.opm(&["operator-registry", "configmap", "empty", "-o", "other.db"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: couldn't find expected key customResourceDefinitions in configmap
    "#);
    assert!(!kit.env.path("other.db").exists());
    insta::assert_snapshot!(kit.opm(&["operator-registry", "configmap", "nothing"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: ConfigMap [NAMESPACE]/nothing: configmaps "nothing" not found
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_becomes_a_directory_again() {
    let kit = kit().await;
    let csv = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: foo.v1}\n";
    let annotations = "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n";
    kit.env
        .file("bundle/manifests/csv.yaml", csv)
        .file("bundle/metadata/annotations.yaml", annotations)
        .file("bundle/metadata/dependencies.yaml", "dependencies: []\n");
    kit.create(ResourceKind::CONFIG_MAP, json!({"metadata": {"name": "map"}})).await;
    kit.opm(&["alpha", "bundle", "extract", "-m", "bundle", "-c", "map", "-z"]);
    insta::assert_snapshot!(kit.opm(&["operator-registry", "configmap", "map"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: ConfigMap map contains a bundle: use --bundle DIR
    "#);
    let shown = kit.opm(&["operator-registry", "configmap", "map", "--bundle", "copy"]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert_eq!(kit.env.names("copy/manifests"), ["csv.yaml"]);
    assert_eq!(kit.env.names("copy/metadata"), ["annotations.yaml", "dependencies.yaml"]);
    assert_eq!(kit.env.read("copy/manifests/csv.yaml"), csv);
    insta::assert_snapshot!(kit.env.read("copy/metadata/annotations.yaml"), @r#"
    annotations:
      operators.operatorframework.io.bundle.package.v1: "foo"
    "#);
    insta::assert_snapshot!(kit.opm(&["operator-registry", "configmap", "map", "--bundle", "copy"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: copy already exists
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_is_served() {
    let kit = kit().await;
    let mut command = kit.command(&["configmap-server", "-c", "catalog", "-d", "served.db", "-p", "0", "-t", ""]);
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let log = std::io::BufReader::new(server.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(log).map_while(Result::ok);
    let address = lines.find_map(|line| {
        let (_, rest) = line.split_once("address=")?;
        Some(rest.split(' ').next().unwrap_or_default().trim_matches('"').to_owned())
    });
    let port = address.expect("an address").rsplit(':').next().unwrap().to_owned();
    let probe = kit.env.opm(&["grpc_health_probe", &format!("-addr=127.0.0.1:{port}")]);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(probe.starts_with("exit 0"), "{probe}");
}
