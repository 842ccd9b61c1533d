//! The server itself: what tests rely on.

use cluster::{Access, Kind};
use kube::api::{DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};
use testkit::KubeApi;

fn catalog(name: &str, spec: Value) -> DynamicObject {
    let kind = Kind::CATALOG_SOURCE;
    let object = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name}, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

#[tokio::test]
async fn objects_of_olm_are_kept_and_checked() {
    let api = KubeApi::shared();
    let namespace = Some(api.namespace().await);
    let cluster = Access { kubeconfig: Some(api.kubeconfig()), context: None, namespace }.connect().await.unwrap();
    let catalogs = cluster.objects(Kind::CATALOG_SOURCE);
    let good = catalog("good", json!({"sourceType": "grpc", "image": "r.test/catalog:v1", "unknown": 1}));
    let kept = catalogs.create(&PostParams::default(), &good).await.unwrap();
    assert_eq!(kept.data["spec"], json!({"sourceType": "grpc", "image": "r.test/catalog:v1"}));
    let bad = catalog("bad", json!({"image": "r.test/catalog:v1"}));
    let refused = catalogs.create(&PostParams::default(), &bad).await.unwrap_err().to_string();
    assert!(refused.contains("spec.sourceType: Required value"), "{refused}");
}

#[tokio::test]
async fn who_may_do_what_is_checked() {
    let api = KubeApi::shared();
    let namespace = api.namespace().await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    let reader = api.user_with_role("reader", &namespace, rules).await;
    let access = Access { kubeconfig: Some(reader.kubeconfig), context: None, namespace: Some(namespace) };
    let cluster = access.connect().await.unwrap();
    cluster.objects(Kind::CONFIG_MAP).list(&ListParams::default()).await.unwrap();
    let refused = cluster.objects(Kind::POD).list(&ListParams::default()).await.unwrap_err().to_string();
    assert!(refused.contains("forbidden"), "{refused}");
}

#[tokio::test]
async fn a_server_of_ones_own_keeps_its_objects_when_it_restarts() {
    let mut api = KubeApi::start();
    let namespace = api.namespace().await;
    let access = Access { kubeconfig: Some(api.kubeconfig()), ..Access::default() };
    let namespaces = access.connect().await.unwrap().objects(Kind::NAMESPACE);
    api.stop_server();
    assert!(namespaces.get(&namespace).await.is_err(), "the server still answers");
    api.start_server();
    namespaces.get(&namespace).await.unwrap();
}
