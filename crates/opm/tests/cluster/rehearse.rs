//! `opm rehearse --against-cluster`, with a real API server.

use cluster::{ClusterObject, ResourceKind};
use kube::api::{Api, DeleteParams, PostParams};
use kube::discovery::ApiResource;
use serde_json::{Value, json};

use crate::kit::Kit;

/// Writes a bundle whose API group contains the namespace, so that tests do not conflict.
fn bundle(kit: &Kit, size: &str) -> String {
    let group = format!("{}.example.com", kit.cluster.namespace);
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "foo.v1.0.0"},
        "spec": {
            "version": "1.0.0", "displayName": "Foo", "installModes": [{"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {"owned": [{"name": format!("foos.{group}"), "kind": "Foo", "version": "v1"}]},
            "install": {"strategy": "deployment", "spec": {
                "permissions": [{"serviceAccountName": "foo", "rules": []}],
                "deployments": [{"name": "foo", "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"serviceAccountName": "foo", "containers": [{"name": "c", "image": "r.test/foo:v1"}]},
                }}}],
            }},
        },
    });
    kit.env.file("bundle/manifests/csv.json", csv.to_string());
    kit.env.file("bundle/manifests/crd.json", crd(&group, size).to_string());
    kit.env.file(
        "bundle/metadata/annotations.yaml",
        "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n",
    );
    group
}

fn crd(group: &str, size: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("foos.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Foo", "listKind": "FooList", "plural": "foos", "singular": "foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": size}}}}}}}],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_reports_its_objections_to_a_bundle() {
    let kit = Kit::new().await;
    let group = bundle(&kit, "integer");
    let rehearse = |more: &[&str]| kit.opm(&[&["rehearse", "bundle", "--against-cluster"], more].concat());
    // There is no conflict, and nothing is created.
    let shown = rehearse(&[]);
    assert!(shown.starts_with("exit 0") && !shown.contains("[cluster-"), "{shown}");
    assert!(kit.cluster.objects(ResourceKind::SERVICE_ACCOUNT).get_opt("foo").await.unwrap().is_none());
    assert!(kit.cluster.objects(ResourceKind::CRD).get_opt(&format!("foos.{group}")).await.unwrap().is_none());

    // A CRD with another type, a resource of it, and an account of another owner.
    let definition: ClusterObject = serde_json::from_value(crd(&group, "string")).unwrap();
    kit.cluster.objects(ResourceKind::CRD).create(&PostParams::default(), &definition).await.unwrap();
    kit.create(ResourceKind::SERVICE_ACCOUNT, json!({"metadata": {"name": "foo"}})).await;
    let resource = json!({"apiVersion": format!("{group}/v1"), "kind": "Foo", "metadata": {"name": "thing"}, "spec": {"size": "big"}});
    let resource: ClusterObject = serde_json::from_value(resource).unwrap();
    let kind = ApiResource {
        api_version: format!("{group}/v1"),
        group: group.clone(),
        version: "v1".into(),
        kind: "Foo".into(),
        plural: "foos".into(),
    };
    let things: Api<ClusterObject> = Api::namespaced_with(kit.cluster.client.clone(), &kit.cluster.namespace, &kind);
    let start = std::time::Instant::now();
    while let Err(error) = things.create(&PostParams::default(), &resource).await {
        assert!(start.elapsed().as_secs() < 30, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let shown = rehearse(&[]);
    assert!(shown.starts_with("exit 1"), "{shown}");
    for words in [
        "ServiceAccount [NAMESPACE]/foo exists and belongs to nobody",
        "[crd-upgrade-type]",
        "Foo [NAMESPACE]/thing does not match the new schema: spec.size: string instead of integer",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    let stored = rehearse(&["--olm", "v0"]);
    assert!(stored.contains("[cluster-stored-resource]"), "{stored}");
    // A rejection has the message of the API server, as has a missing namespace.
    bundle(&kit, "number");
    let text = kit.env.read("bundle/manifests/csv.json").replace("\"a\":\"b\"", "\"-a-\":\"b\"");
    kit.env.file("bundle/manifests/csv.json", text);
    let shown = rehearse(&[]);
    assert!(shown.contains("this cluster would refuse it") && shown.contains("[cluster-refused]"), "{shown}");
    kit.cluster.objects(ResourceKind::CRD).delete(&format!("foos.{group}"), &DeleteParams::default()).await.unwrap();
}
