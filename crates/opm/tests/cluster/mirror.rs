//! `opm mirror` for a cluster, and the objects that it writes for clusters.

use cluster::ResourceKind;
use serde_json::json;

use crate::kit::Kit;
use crate::mirror_kit::{self, Bundle};

/// A package that no other test uses.
const LAGOON: &[Bundle] = &[
    ("lagoon", "1.0.0", "", &["ns/lagoon:v1"]),
    ("lagoon", "1.1.0", "1.0.0", &["ns/lagoon:v2"]),
    ("lagoon", "2.0.0", "1.1.0", &["ns/lagoon:v3"]),
    ("reef", "1.0.0", "", &["ns/reef:v1"]),
];

/// M-26.
#[tokio::test(flavor = "multi_thread")]
async fn the_needs_of_a_cluster_are_read_from_it() {
    let kit = Kit::new().await;
    let Some(registries) = tokio::task::block_in_place(|| mirror_kit::Kit::with(LAGOON)) else { return };
    let spec = json!({"name": "lagoon", "channel": "stable", "source": "c", "sourceNamespace": "olm"});
    kit.create(ResourceKind::SUBSCRIPTION, json!({"metadata": {"name": "lagoon"}, "spec": spec})).await;
    kit.set_status(
        ResourceKind::SUBSCRIPTION,
        "lagoon",
        json!({"installedCSV": "lagoon.v1.1.0", "lastUpdated": "2026-01-01T00:00:00Z"}),
    )
    .await;
    let file = registries.set("set.yaml", "").clone();
    let text = registries.read(&file).replace("    packages:\n", "");
    std::fs::write(registries.path(&file), text).unwrap();
    let config = kit.api.kubeconfig().display().to_string();
    let plan = |more: &[&str]| {
        let words = ["mirror", "--use-http", "plan", &file, "--installed", "cluster", "--kubeconfig", &config];
        tokio::task::block_in_place(|| registries.run(&[&words[..], more].concat()))
    };
    let output = plan(&["--lock", "lock.json"]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(shown.contains("lagoon   stable (default)  lagoon.v1.1.0 lagoon.v2.0.0\n"), "{shown}");
    assert!(!shown.contains("reef"), "{shown}");
    // The same cluster gives the same lock; an unreachable one gives none.
    plan(&["--lock", "again.json"]);
    assert_eq!(registries.read("lock.json"), registries.read("again.json"));
    let output = tokio::task::block_in_place(|| {
        registries.run(&["mirror", "--use-http", "plan", &file, "--installed", "cluster", "--kubeconfig", "none"])
    });
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("none"), "{output:?}");
}

/// M-4.
#[tokio::test(flavor = "multi_thread")]
async fn written_objects_are_applied_to_a_cluster() {
    let kit = Kit::new().await;
    let Some(registries) = tokio::task::block_in_place(|| mirror_kit::Kit::with(LAGOON)) else { return };
    let template = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata:\n  labels: {team: sea}\nspec:\n  \
        displayName: Lagoons\n  priority: -50\n  grpcPodConfig: {securityContextConfig: restricted}\n  updateStrategy: \
        {registryPoll: {interval: 30m}}\n";
    std::fs::write(registries.path("cs.yaml"), template).unwrap();
    let file =
        registries.set_of("set.yaml", "v1", "    - name: lagoon\n", "    targetCatalogSourceTemplate: cs.yaml\n");
    let to = registries.to();
    tokio::task::block_in_place(|| registries.mirror(&["copy", &file, &to]));
    let source = registries.path("cluster-resources/cs-index-v1.yaml").display().to_string();
    let applied = kit.opm(&["catalog", "apply", "-f", &source]);
    assert!(applied.contains("catalog [NAMESPACE]/cs-index-v1 applied"), "{applied}");
    let created = kit.get(ResourceKind::CATALOG_SOURCE, "cs-index-v1").await;
    let spec = json!({
        "displayName": "Lagoons", "priority": -50, "image": format!("{to}/ns/index:v1"), "sourceType": "grpc",
        "grpcPodConfig": {"securityContextConfig": "restricted", "extractContent": {"catalogDir": "/configs"}},
        "updateStrategy": {"registryPoll": {"interval": "30m"}},
    });
    assert_eq!(created.data["spec"], spec);
    assert_eq!(created.metadata.labels.unwrap()["team"], "sea");
    // Flags override the file.
    let applied = kit.opm(&["catalog", "apply", "mine", "-f", &source, "--poll", "1h", "--dry-run"]);
    assert!(applied.contains("  name: mine\n") && applied.contains("interval: 1h\n"), "{applied}");
    // OLM v1 has its own object.
    let second = registries.path("cluster-resources/cc-index-v1.yaml").display().to_string();
    let env = crate::env::TestEnv::new();
    let shown = env.opm(&["catalog", "apply", "-f", &second, "--dry-run"]);
    assert!(shown.contains("kind: ClusterCatalog\n") && shown.contains("pollIntervalMinutes: 30\n"), "{shown}");
    assert!(shown.contains("  priority: -50\n") && shown.contains(&format!("ref: {to}/ns/index:v1\n")), "{shown}");
    // Other objects are rejected.
    env.file("pod.yaml", "kind: Pod\n").file("two.yaml", "kind: A\n---\nkind: B\n");
    assert!(env.opm(&["catalog", "apply", "-f", "pod.yaml"]).contains("expected a CatalogSource or a ClusterCatalog"));
    assert!(env.opm(&["catalog", "apply", "-f", "two.yaml"]).contains("expected one object, found 2"));
}
