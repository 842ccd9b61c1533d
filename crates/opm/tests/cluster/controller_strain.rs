//! `opm controller` under strain: changing permissions, restarts of the API server, many catalogs, a killed leader. The
//! status is correct again within seconds, and the load on the API server stays bounded.

use std::time::{Duration, Instant};

use cluster::{Access, ResourceKind};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::KubeApi;

use crate::controller_faults::{Stage, get, image};
use crate::env::TestEnv;
use crate::kit::Kit;

/// The number of catalogs.
const MANY: usize = 200;

/// Creates a stage with an exclusive API server.
async fn own() -> Stage {
    let api = tokio::task::block_in_place(KubeApi::start);
    let namespace = Some(api.namespace().await);
    let access = Access { kubeconfig: Some(api.kubeconfig()), context: None, namespace };
    let cluster = access.connect().await.expect("a cluster");
    Stage::with(Kit { env: TestEnv::new(), cluster, api }).await
}

/// Returns the value of a replica's counter.
fn count(health: &str, name: &str) -> u64 {
    let port = health.rsplit(':').next().unwrap();
    let metrics = get(&format!("127.0.0.1:{port}"), "/metrics").1;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {metrics}"));
    line.trim().parse().unwrap()
}

/// Returns how many requests about catalogs a replica sends in an interval.
async fn requests_within(health: &str, time: Duration) -> u64 {
    let before = count(health, "opm_controller_requests_total ");
    tokio::time::sleep(time).await;
    count(health, "opm_controller_requests_total ") - before
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_and_restored_permissions_are_reported_in_the_status() {
    let stage = Stage::new().await;
    let (_replica, health) = stage.start("a");
    stage.catalog("before", image()).await;
    stage.until("a pod", || async { stage.pods().await.len() == 1 }).await;
    // From now on the controller may read, and create nothing.
    let mut looking = stage.rules.clone();
    for rule in looking.as_array_mut().unwrap() {
        if rule["resources"] == json!(["pods"]) {
            rule["verbs"] = json!(["get", "list", "watch"]);
        }
    }
    stage.allow(&looking).await;
    stage.catalog("denied", image()).await;
    let says = |status: Value| status["message"].as_str().unwrap_or_default().contains("is forbidden");
    stage.until("denied", || async { says(stage.status("denied").await) }).await;
    let sent = requests_within(&health, Duration::from_secs(6)).await;
    assert!(sent < 60, "{sent} requests in 6 s\n{}", stage.log("a"));
    assert_eq!(stage.pods().await.len(), 1, "a pod was created or removed");
    stage.allow(&stage.rules).await;
    stage.until("a pod of each", || async { stage.pods().await.len() == 2 }).await;
    stage.until("no complaint", || async { stage.status("denied").await["message"].is_null() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_catalogs_survive_restarts_and_a_killed_leader() {
    let mut stage = own().await;
    let (first, health) = stage.start("a");
    let (second, next) = stage.start("b");
    for number in 0..MANY {
        stage.catalog(&format!("c{number}"), json!({"sourceType": "grpc", "address": "127.0.0.1:1"})).await;
    }
    let state = |status: &Value| status["connectionState"]["lastObservedState"].clone();
    let start = Instant::now();
    let mut left = MANY;
    while left > 0 {
        assert!(start.elapsed() < Duration::from_secs(90), "{left} have no status\n{}", stage.log("a"));
        tokio::time::sleep(Duration::from_millis(200)).await;
        let all =
            stage.kit.cluster.objects(ResourceKind::CATALOG_SOURCE).list(&ListParams::default()).await.expect("a list");
        left = all.items.iter().filter(|one| state(&one.data["status"]) != "TRANSIENT_FAILURE").count();
    }
    // Each catalog is probed every 15 seconds, with one read each.
    let sent = requests_within(&health, Duration::from_secs(5)).await;
    assert!(sent < 3 * MANY as u64, "{sent} requests in 5 s for {MANY} catalogs where nothing happens");
    let change = |name: &'static str, spec: Value| {
        let sources = stage.kit.cluster.objects(ResourceKind::CATALOG_SOURCE);
        async move {
            let patch = Patch::Merge(json!({"spec": spec}));
            sources.patch(name, &PatchParams::default(), &patch).await.expect("changed");
        }
    };
    let invalid = json!({"address": null, "image": null});
    let complains = |status: Value| status["reason"] == "SpecInvalidError";
    change("c7", invalid.clone()).await;
    stage.until("the truth about one of many", || async { complains(stage.status("c7").await) }).await;

    tokio::task::block_in_place(|| {
        stage.kit.api.stop_server();
        std::thread::sleep(Duration::from_secs(3));
        stage.kit.api.start_server();
    });
    let change = |name: &'static str, spec: Value| {
        let sources = stage.kit.cluster.objects(ResourceKind::CATALOG_SOURCE);
        async move {
            let patch = Patch::Merge(json!({"spec": spec}));
            sources.patch(name, &PatchParams::default(), &patch).await.expect("changed");
        }
    };
    change("c8", invalid.clone()).await;
    stage.until("the truth after a restart", || async { complains(stage.status("c8").await) }).await;
    let leads = |health: &str| count(health, "opm_controller_leading ") == 1;
    stage.until("one of them leads", || async { leads(&health) || leads(&next) }).await;

    let (killed, next, _follower) = if leads(&health) { (first, next, second) } else { (second, health, first) };
    drop(killed);
    change("c9", invalid).await;
    stage.until("the truth after the leader", || async { complains(stage.status("c9").await) }).await;
    let sent = requests_within(&next, Duration::from_secs(5)).await;
    assert!(sent < 4 * MANY as u64, "{sent} requests in 5 s of a new leader");
}
