//! Runs that are interrupted roll back what they made.

use std::time::Duration;

use cluster::Kind;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::stage::{Running, Stage, until};
use crate::late::Late;

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_leaves_nothing_behind() {
    for (signal, code) in [("-INT", "exit 130"), ("-TERM", "exit 143")] {
        let stage = Stage::new().await;
        let bundle = stage.bundle("1.0.0");
        let _kubelet = stage.kubelet();
        let running = Running::start(&mut stage.command(&["run", "bundle", &bundle]));
        until(|| stage.get(Kind::SUBSCRIPTION, "foo-v1-0-0-sub")).await;
        running.signal(signal);
        let told = stage.shown(running.end());
        assert!(told.starts_with(code), "{told}");
        assert!(told.contains("interrupted\nall created objects were rolled back"), "{told}");
        let taken: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("Rolled back: ")).collect();
        assert_eq!(
            taken,
            [
                "Subscription [NAMESPACE]/foo-v1-0-0-sub",
                "OperatorGroup [NAMESPACE]/operator-sdk-og",
                "Pod [NAMESPACE]/REGISTRY-foo-bundle-v1-0-0",
                "ConfigMap [NAMESPACE]/foo-catalog-configmap-partition-1",
                "CatalogSource [NAMESPACE]/foo-catalog",
            ]
        );
        assert!(stage.left().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_arrives_after_an_interrupt_leaves_nothing_behind() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let pause = Duration::from_secs(2);
    let late = Late::start(stage.kit.cluster.client.clone(), "/catalogsources", pause).await;
    stage.kit.env.file("late", late.kubeconfig());
    let mut command = stage.kit.env.command();
    command.args(["run", "bundle", &bundle, "--use-http", "--timeout", "60s", "-n", &stage.kit.cluster.namespace]);
    command.arg("--kubeconfig").arg(stage.kit.env.path("late"));
    let running = Running::start(&mut command);
    late.arrived.notified().await;
    running.signal("-INT");
    let told = stage.shown(tokio::task::spawn_blocking(move || running.end()).await.expect("no panic"));
    assert!(told.starts_with("exit 130"), "{told}");
    assert!(told.contains("Rolled back: CatalogSource [NAMESPACE]/foo-catalog"), "{told}");
    tokio::time::sleep(pause).await;
    assert_eq!(stage.left().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_interrupt_ends_at_once_and_tells_what_is_left() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let running = Running::start(&mut stage.command(&["run", "bundle", &bundle]));
    until(|| async { stage.list(Kind::POD).await.into_iter().next() }).await;
    // Somebody holds the CatalogSource, so that it cannot be rolled back.
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    let sources = stage.kit.cluster.objects(Kind::CATALOG_SOURCE);
    sources.patch("foo-catalog", &PatchParams::default(), &held).await.unwrap();
    running.signal("-INT");
    until(|| async {
        stage.list(Kind::CATALOG_SOURCE).await.into_iter().find(|one| one["metadata"]["deletionTimestamp"].is_string())
    })
    .await;
    running.signal("-INT");
    let told = stage.shown(running.end());
    assert!(told.ends_with("failed to roll back:\n  CatalogSource [NAMESPACE]/foo-catalog: interrupted\n"), "{told}");
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    sources.patch("foo-catalog", &PatchParams::default(), &free).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_stays_away_is_reported_with_what_is_left() {
    let mut stage = Stage::own().await;
    let bundle = stage.bundle("1.0.0");
    let running = Running::start(&mut stage.command(&["run", "bundle", &bundle]));
    until(|| async { stage.list(Kind::POD).await.into_iter().next() }).await;
    tokio::task::block_in_place(|| stage.kit.api.stop_server());
    running.signal("-INT");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    running.signal("-INT");
    let told = stage.shown(running.end());
    assert!(told.starts_with("exit 130"), "{told}");
    assert!(
        told.ends_with(
            "failed to roll back:\n  CatalogSource [NAMESPACE]/foo-catalog: interrupted\n  \
             ConfigMap [NAMESPACE]/foo-catalog-configmap-partition-1: interrupted\n  \
             Pod [NAMESPACE]/REGISTRY-foo-bundle-v1-0-0: interrupted\n"
        ),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_can_be_kept() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let told = stage.opm(&["run", "bundle", &bundle, "--timeout", "10s", "--keep"]);
    assert!(told.contains("\nkept these objects, with the label opm.run/id="), "{told}");
    assert_eq!(stage.left().await.len(), 3);
    let run = stage.list(Kind::POD).await[0]["metadata"]["labels"]["opm.run/id"].as_str().unwrap().to_owned();
    assert!(told.contains(&run), "{told}");
    let told = stage.opm(&["cleanup", "foo"]);
    assert!(told.contains("Operator \"foo\" uninstalled"), "{told}");
    assert!(stage.left().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_out_takes_everything_back() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let _kubelet = stage.kubelet();
    let told = stage.opm(&["run", "bundle", &bundle, "--timeout", "10s"]);
    assert!(told.contains("OLM has not reported on the catalog source: does its catalog operator run?"), "{told}");
    assert!(stage.left().await.is_empty());
}
