//! Two runs of one operator at once, of which one is killed: the other succeeds, and nothing of others is touched.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{Kind, Object};
use kube::Api;
use kube::discovery::{Discovery, Scope, verbs};
use serde_json::{Value, json};

use crate::stage::{Running, Stage, until};

/// Names how often it is done.
const ROUNDS: &str = "OPM_RUN_ROUNDS";
/// What fits into a run of all tests.
const DEFAULT: u64 = 1;

/// Puts objects into a namespace that neither run knows of, of the kinds that runs make and delete.
async fn settle(stage: &Stage) {
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
    let made = [
        (Kind::CRD, definition),
        (Kind::CONFIG_MAP, json!({"metadata": {"name": "foo-catalog-configs"}, "data": {"a": "b"}})),
        (Kind::SERVICE_ACCOUNT, json!({"metadata": {"name": "foo"}})),
        (
            Kind::CATALOG_SOURCE,
            json!({"metadata": {"name": "foo-catalog"},
            "spec": {"sourceType": "grpc", "address": "127.0.0.1:1"}}),
        ),
    ];
    for (kind, object) in made {
        stage.create(kind, &object).await;
    }
}

/// Returns what everything in a namespace says, of whatever kind, and the clusterwide objects named after it.
async fn snapshot(stage: &Stage) -> BTreeMap<String, Value> {
    let client = stage.cluster.client.clone();
    // A group goes while it is asked for when others delete the last definition in it.
    let discovery = until("the kinds of the API", || async { Discovery::new(client.clone()).run().await.ok() }).await;
    let mut all = BTreeMap::new();
    for (resource, capabilities) in discovery.groups().flat_map(|group| group.resources_by_stability()) {
        if !capabilities.supports_operation(verbs::LIST) || matches!(&*resource.kind, "Event" | "PackageManifest") {
            continue;
        }
        let objects: Api<Object> = match capabilities.scope {
            Scope::Namespaced => Api::namespaced_with(client.clone(), stage.namespace(), &resource),
            Scope::Cluster => Api::all_with(client.clone(), &resource),
        };
        // A definition that others delete takes its objects along.
        let Ok(list) = objects.list(&Default::default()).await else { continue };
        for object in list {
            let name = object.metadata.name.clone().unwrap_or_default();
            if capabilities.scope == Scope::Cluster && !name.contains(stage.namespace()) {
                continue;
            }
            let said = json!({
                "uid": object.metadata.uid, "labels": object.metadata.labels, "deleted": object.metadata.deletion_timestamp,
                "spec": object.data.get("spec"), "data": object.data.get("data"), "rules": object.data.get("rules"),
            });
            all.insert(format!("{} {name}", resource.kind), said);
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_killed_leaves_another_alone() {
    let rounds = std::env::var(ROUNDS).map_or(DEFAULT, |text| text.parse().expect("a number of rounds"));
    let Some(bystander) = Stage::shared().await else { return };
    settle(&bystander).await;
    // What OLM makes of a group of operators takes a moment.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let others = snapshot(&bystander).await;
    for kind in ["CustomResourceDefinition", "ConfigMap", "CatalogSource", "OperatorGroup", "Namespace"] {
        assert!(others.keys().any(|name| name.starts_with(kind)), "{kind} is among {:?}", others.keys());
    }
    for round in 0..rounds {
        let (Some(one), Some(other)) = (Stage::shared().await, Stage::shared().await) else { return };
        let before = one.everything().await;
        // Both own the same API.
        let main = one.operator("foo", "1.0.0");
        let (first, second) = (one.bundle(&main), other.bundle(&main));
        let killed = Running::start(&mut one.command(&["run", "bundle", &first]));
        let lives = Running::start(&mut other.command(&["run", "bundle", &second]));
        // Anywhere between the first object and the end, by a signal that can be handled or not.
        let moment = round.wrapping_mul(7919).wrapping_add(u64::from(std::process::id())) % 16;
        tokio::time::sleep(Duration::from_millis(1500 + moment * 800)).await;
        killed.signal(if moment % 2 == 0 { "-KILL" } else { "-INT" });
        let end = tokio::task::spawn_blocking(move || (killed.end(), lives.end())).await.expect("no panic");
        let told = other.shown(end.1);
        assert!(told.starts_with("exit 0"), "round {round}, moment {moment}:\n{}\n{told}", one.shown(end.0));
        let made = other.resources(&main).create(&Default::default(), &other.resource(&main, "theirs")).await;
        let made = made.expect("an object");
        // What a killed run left, cleanup removes; what the other made stays.
        let cleaned = one.opm(&["cleanup", "foo"]).await;
        assert!(cleaned.starts_with("exit 0"), "round {round}, moment {moment}:\n{cleaned}");
        let kept = other.resources(&main).get("theirs").await.expect("it is still there");
        assert_eq!(kept.metadata.uid, made.metadata.uid);
        let csv = other.get(Kind::CSV, "foo.v1.0.0").await.expect("a CSV");
        assert_eq!(csv["status"]["phase"], "Succeeded");
        // The definition is in the name of the first, and the second needs it.
        let definition = format!("CustomResourceDefinition {}", main.crd_name());
        let expected: Vec<String> = before.iter().cloned().chain([definition]).collect();
        one.only(&expected).await;
        let told = other.opm(&["cleanup", "foo"]).await;
        assert!(told.starts_with("exit 0"), "{told}");
        let definitions = one.cluster.objects(Kind::CRD);
        // It went with whoever made it, or it stays.
        let _ = definitions.delete(&main.crd_name(), &Default::default()).await;
        assert_eq!(snapshot(&bystander).await, others, "round {round}: nothing foreign is touched");
    }
}
