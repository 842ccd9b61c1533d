//! Properties of the API server that other tests rely on.

use cluster::{Access, ResourceKind};
use kube::api::{DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};
use testkit::KubeApi;

fn catalog(name: &str, spec: Value) -> DynamicObject {
    let kind = ResourceKind::CATALOG_SOURCE;
    let object = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name}, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

#[tokio::test]
async fn objects_of_olm_are_stored_and_validated() {
    let api = KubeApi::shared();
    let namespace = Some(api.namespace().await);
    let cluster = Access { kubeconfig: Some(api.kubeconfig()), context: None, namespace }.connect().await.unwrap();
    let catalogs = cluster.objects(ResourceKind::CATALOG_SOURCE);
    let good = catalog("good", json!({"sourceType": "grpc", "image": "r.test/catalog:v1", "unknown": 1}));
    let stored = catalogs.create(&PostParams::default(), &good).await.unwrap();
    assert_eq!(stored.data["spec"], json!({"sourceType": "grpc", "image": "r.test/catalog:v1"}));
    let bad = catalog("bad", json!({"image": "r.test/catalog:v1"}));
    let denied = catalogs.create(&PostParams::default(), &bad).await.unwrap_err().to_string();
    assert!(denied.contains("spec.sourceType: Required value"), "{denied}");
}

#[tokio::test]
async fn permissions_are_enforced() {
    let api = KubeApi::shared();
    let namespace = api.namespace().await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    let reader = api.user_with_role("reader", &namespace, rules).await;
    let access = Access { kubeconfig: Some(reader.kubeconfig), context: None, namespace: Some(namespace) };
    let cluster = access.connect().await.unwrap();
    cluster.objects(ResourceKind::CONFIG_MAP).list(&ListParams::default()).await.unwrap();
    let denied = cluster.objects(ResourceKind::POD).list(&ListParams::default()).await.unwrap_err().to_string();
    assert!(denied.contains("forbidden"), "{denied}");
}

#[tokio::test]
async fn an_exclusive_server_keeps_its_objects_when_it_restarts() {
    let mut api = KubeApi::start();
    let namespace = api.namespace().await;
    let access = Access { kubeconfig: Some(api.kubeconfig()), ..Access::default() };
    let namespaces = access.connect().await.unwrap().objects(ResourceKind::NAMESPACE);
    api.stop_server();
    assert!(namespaces.get(&namespace).await.is_err(), "the server still responds");
    api.start_server();
    namespaces.get(&namespace).await.unwrap();
}
