//! Two parallel runs of one operator, of which one is killed: the other succeeds, and foreign objects are not changed.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{ClusterObject, ResourceKind};
use kube::Api;
use kube::discovery::{Discovery, Scope, verbs};
use serde_json::{Value, json};

use crate::stage::{Running, Stage, until};

/// The variable with the number of rounds.
const ROUNDS: &str = "OPM_RUN_ROUNDS";
/// Fits into a full test run.
const DEFAULT: u64 = 1;

/// Creates objects in a namespace that neither run uses, of the kinds that runs create and delete.
async fn create_foreign_objects(stage: &Stage) {
    stage.group().await;
    let namespace = stage.namespace();
    let (group, plural) = (format!("{namespace}.example.com"), "bystanders");
    let definition = json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Bystander", "plural": plural, "singular": "bystander", "listKind": "BystanderList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let created = [
        (ResourceKind::CRD, definition),
        (ResourceKind::CONFIG_MAP, json!({"metadata": {"name": "foo-catalog-configs"}, "data": {"a": "b"}})),
        (ResourceKind::SERVICE_ACCOUNT, json!({"metadata": {"name": "foo"}})),
        (
            ResourceKind::CATALOG_SOURCE,
            json!({"metadata": {"name": "foo-catalog"},
            "spec": {"sourceType": "grpc", "address": "127.0.0.1:1"}}),
        ),
    ];
    for (kind, object) in created {
        stage.create(kind, &object).await;
    }
}

/// Returns the content of all objects in a namespace, of any kind, and of cluster-scoped objects named after it.
async fn snapshot(stage: &Stage) -> BTreeMap<String, Value> {
    let client = stage.cluster.client.clone();
    // A group may disappear during the query when another test deletes its last CRD.
    let discovery = until("the kinds of the API", || async { Discovery::new(client.clone()).run().await.ok() }).await;
    let mut all = BTreeMap::new();
    for (resource, capabilities) in discovery.groups().flat_map(|group| group.resources_by_stability()) {
        if !capabilities.supports_operation(verbs::LIST) || matches!(&*resource.kind, "Event" | "PackageManifest") {
            continue;
        }
        let objects: Api<ClusterObject> = match capabilities.scope {
            Scope::Namespaced => Api::namespaced_with(client.clone(), stage.namespace(), &resource),
            Scope::Cluster => Api::all_with(client.clone(), &resource),
        };
        let list = match objects.list(&Default::default()).await {
            Ok(list) => list,
            // Another test deleted their CRD.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => panic!("{}: {error}", resource.kind),
        };
        for object in list {
            let name = object.metadata.name.clone().unwrap_or_default();
            if capabilities.scope == Scope::Cluster && !name.contains(stage.namespace()) {
                continue;
            }
            let output = json!({
                "uid": object.metadata.uid, "labels": object.metadata.labels, "deleted": object.metadata.deletion_timestamp,
                "spec": object.data.get("spec"), "data": object.data.get("data"), "rules": object.data.get("rules"),
            });
            all.insert(format!("{} {name}", resource.kind), output);
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_run_does_not_affect_another() {
    let rounds = std::env::var(ROUNDS).map_or(DEFAULT, |text| text.parse().expect("a number of rounds"));
    let Some(bystander) = Stage::shared().await else { return };
    create_foreign_objects(&bystander).await;
    // OLM takes a moment to reconcile an OperatorGroup.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let others = snapshot(&bystander).await;
    for kind in ["CustomResourceDefinition", "ConfigMap", "CatalogSource", "OperatorGroup", "Namespace"] {
        assert!(others.keys().any(|name| name.starts_with(kind)), "{kind} is among {:?}", others.keys());
    }
    for round in 0..rounds {
        let (Some(one), Some(other)) = (Stage::shared().await, Stage::shared().await) else { return };
        let before = one.everything().await;
        // Both operators own the same API.
        let main = one.operator("foo", "1.0.0");
        let (first, second) = (one.bundle(&main), other.bundle(&main));
        let killed = Running::start(&mut one.command(&["run", "bundle", &first]));
        let lives = Running::start(&mut other.command(&["run", "bundle", &second]));
        // Any moment between the first object and the end, with a signal that can be handled or not.
        let moment = round.wrapping_mul(7919).wrapping_add(u64::from(std::process::id())) % 16;
        tokio::time::sleep(Duration::from_millis(1500 + moment * 800)).await;
        killed.signal(if moment % 2 == 0 { "-KILL" } else { "-INT" });
        let end = tokio::task::spawn_blocking(move || (killed.end(), lives.end())).await.expect("no panic");
        let output = other.shown(end.1);
        assert!(output.starts_with("exit 0"), "round {round}, moment {moment}:\n{}\n{output}", one.shown(end.0));
        let created = other.resources(&main).create(&Default::default(), &other.resource(&main, "theirs")).await;
        let created = created.expect("an object");
        // cleanup removes objects of a killed run; objects of the other run stay.
        let cleaned = one.opm(&["cleanup", "foo"]).await;
        assert!(cleaned.starts_with("exit 0"), "round {round}, moment {moment}:\n{cleaned}");
        let remaining = other.resources(&main).get("theirs").await.expect("the object still exists");
        assert_eq!(remaining.metadata.uid, created.metadata.uid);
        let csv = other.get(ResourceKind::CSV, "foo.v1.0.0").await.expect("a CSV");
        assert_eq!(csv["status"]["phase"], "Succeeded");
        // The first run owns the CRD, and the second one needs it.
        let definition = format!("CustomResourceDefinition {}", main.crd_name());
        let expected: Vec<String> = before.iter().cloned().chain([definition]).collect();
        one.wait_until_only(&expected).await;
        let output = other.opm(&["cleanup", "foo"]).await;
        assert!(output.starts_with("exit 0"), "{output}");
        let definitions = one.cluster.objects(ResourceKind::CRD);
        // The CRD was removed with its owner, or it is kept.
        let _ = definitions.delete(&main.crd_name(), &Default::default()).await;
        assert_eq!(snapshot(&bystander).await, others, "round {round}: a foreign object changed");
    }
}
