//! `opm alpha bundle extract`, and its predecessor `operator-registry serve`.

use cluster::{ResourceKind, StoredBundle};
use serde_json::json;

use crate::kit::Kit;

const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: foo.v1}\n";
const ANNOTATIONS: &str = "annotations:\n  \
    operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
    operators.operatorframework.io.bundle.manifests.v1: manifests/\n  \
    operators.operatorframework.io.bundle.metadata.v1: metadata/\n  \
    operators.operatorframework.io.bundle.package.v1: foo\n  \
    operators.operatorframework.io.bundle.channels.v1: stable\n  \
    another: left out\n";

/// Returns a kit with a bundle directory and a ConfigMap that was used before.
async fn kit() -> Kit {
    let kit = Kit::new().await;
    kit.env
        .file("bundle/manifests/foo csv.yaml", CSV)
        .file("bundle/manifests/secret.yaml", "kind: Secret\napiVersion: v1\nmetadata: {name: s}\n")
        .file("bundle/metadata/annotations.yaml", ANNOTATIONS)
        .file("bundle/metadata/dependencies.yaml", "dependencies: []\n");
    let before = json!({
        "metadata": {"name": "map", "labels": {"keep": "me"}, "annotations": {"forget": "me"}},
        "data": {"old": "value"},
        "binaryData": {"older": "AAAA"},
    });
    kit.create(ResourceKind::CONFIG_MAP, before).await;
    kit
}

#[tokio::test(flavor = "multi_thread")]
async fn files_become_keys_and_annotations_replace_annotations() {
    let kit = kit().await;
    // A path without a trailing slash failed once.
    let mut command = kit.command(&["alpha", "bundle", "extract", "-m", "bundle", "-c", "map"]);
    let output = command.env("CONTAINER_IMAGE", "r.test/foo-bundle:v1").output().unwrap();
    assert!(output.status.success(), "{}", kit.env.show(output));
    let map = kit.get(ResourceKind::CONFIG_MAP, "map").await;
    assert_eq!(map.metadata.labels.unwrap()["keep"], "me");
    let prefix = "operators.operatorframework.io.bundle.";
    assert_eq!(
        json!(map.metadata.annotations),
        json!({
            format!("{prefix}channel.default.v1"): "",
            format!("{prefix}channels.v1"): "stable",
            format!("{prefix}manifests.v1"): "manifests/",
            format!("{prefix}mediatype.v1"): "registry+v1",
            format!("{prefix}metadata.v1"): "metadata/",
            format!("{prefix}package.v1"): "foo",
            "olm.sourceImage": "r.test/foo-bundle:v1",
        })
    );
    assert_eq!(
        map.data["data"],
        json!({
            "dependencies.yaml": "dependencies: []\n",
            "foo-csv.yaml": CSV,
            "secret.yaml": "kind: Secret\napiVersion: v1\nmetadata: {name: s}\n",
        })
    );
    assert_eq!(map.data.get("binaryData"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_files_are_read_back_unchanged() {
    let kit = kit().await;
    let shown = kit.opm(&["alpha", "bundle", "extract", "-m", "bundle/", "-c", "map", "-z", "--debug"]);
    assert!(shown.starts_with("exit 0") && shown.contains("3 files, "), "{shown}");
    let map = kit.get(ResourceKind::CONFIG_MAP, "map").await;
    assert_eq!(map.data.get("data"), None);
    assert_eq!(map.metadata.annotations.as_ref().unwrap()["olm.contentEncoding"], "gzip+base64");
    let bundle = StoredBundle::of_map(&map).unwrap();
    assert_eq!(bundle.files["foo-csv.yaml"], CSV.as_bytes());
    let objects = bundle.objects(&fbc::Limits::default());
    assert_eq!(objects.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["foo-csv.yaml", "secret.yaml"]);
    assert_eq!(bundle.csv(&fbc::Limits::default()).unwrap()["metadata"]["name"], "foo.v1");
    // A second time without compression: no annotation marks it as compressed.
    kit.opm(&["alpha", "bundle", "extract", "-m", "bundle/", "-c", "map"]);
    let map = kit.get(ResourceKind::CONFIG_MAP, "map").await;
    assert_eq!(map.metadata.annotations.unwrap().get("olm.contentEncoding"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_bundles_and_links_that_lead_outside_change_nothing() {
    let kit = kit().await;
    let before = kit.get(ResourceKind::CONFIG_MAP, "map").await;
    let extract =
        |more: &[&str]| kit.opm(&[&["alpha", "bundle", "extract", "-m", "bundle", "-c", "map"], more].concat());
    insta::assert_snapshot!(extract(&["-l", "100"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: error loading manifests from directory: bundle files exceeded 100 bytes limit
    "#);
    std::os::unix::fs::symlink("/etc/passwd", kit.env.path("bundle/manifests/zz")).unwrap();
    insta::assert_snapshot!(extract(&[]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: error loading manifests from directory: bundle/manifests/zz: the link leads out of the bundle
    "#);
    std::fs::remove_file(kit.env.path("bundle/manifests/zz")).unwrap();
    std::fs::create_dir(kit.env.path("bundle/manifests/deeper")).unwrap();
    insta::assert_snapshot!(extract(&["--gzip"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: error loading manifests from directory: bundle/manifests/deeper: not a file
    "#);
    std::fs::remove_dir(kit.env.path("bundle/manifests/deeper")).unwrap();
    kit.env.file("bundle/manifests/zz", b"\xff\xfe");
    insta::assert_snapshot!(extract(&[]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: error loading manifests from directory: bundle/manifests/zz: not UTF-8 text, which only --gzip can store
    "#);
    let after = kit.get(ResourceKind::CONFIG_MAP, "map").await;
    assert_eq!(before.metadata.resource_version, after.metadata.resource_version);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_map_or_cluster_is_reported() {
    let kit = kit().await;
    insta::assert_snapshot!(kit.opm(&["alpha", "bundle", "extract", "-m", "bundle", "-c", "other"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: error loading manifests from directory: ConfigMap [NAMESPACE]/other: configmaps "other" not found
    "#);
    insta::assert_snapshot!(kit.env.opm(&["alpha", "bundle", "extract", "-m", "bundle", "-c", "map", "-k", "nowhere"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: cluster config failed: Cannot load config for REST client: no cluster configured: kubeconfig nowhere does not exist
    "#);
    kit.env.file(
        "away",
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:9"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        })
        .to_string(),
    );
    insta::assert_snapshot!(kit.env.opm(&["alpha", "bundle", "extract", "-m", "bundle", "-c", "map", "-k", "away"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: error loading manifests from directory: ConfigMap openshift-operator-lifecycle-manager/map: the API server http://127.0.0.1:9 (context "a") cannot be reached: Connection refused (os error 111)
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_permissions_that_olm_grants_suffice() {
    let kit = kit().await;
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["map"], "verbs": ["create", "get", "update"]},
    ]);
    let user = kit.api.user_with_role("unpacker", &kit.cluster.namespace, rules).await;
    let mut command = kit.env.command();
    command.args(["alpha", "bundle", "extract", "-m", "bundle/", "-c", "map", "-z", "-k"]).arg(user.kubeconfig);
    let output = command.args(["-n", &kit.cluster.namespace]).output().unwrap();
    assert!(output.status.success(), "{}", kit.env.show(output));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_manifests_names_its_bundle() {
    let kit = kit().await;
    for (directory, written) in [("./bundle/manifests/", "-manifestdir"), ("bundle", "--manifestdir")] {
        kit.set_data_empty().await;
        let shown = kit.opm(&["operator-registry", "serve", written, directory, "-c", "map"]);
        assert!(shown.starts_with("exit 0"), "{shown}");
        let map = kit.get(ResourceKind::CONFIG_MAP, "map").await;
        assert_eq!(map.data["data"]["foo-csv.yaml"], CSV);
    }
}
