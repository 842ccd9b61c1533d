//! Interrupted runs roll back the objects that they created.

use std::time::Duration;

use cluster::ResourceKind;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::stage::{Running, Stage, until};
use crate::late::DelayingProxy;

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_leaves_nothing_behind() {
    for (signal, code) in [("-INT", "exit 130"), ("-TERM", "exit 143")] {
        let stage = Stage::new().await;
        let bundle = stage.bundle("1.0.0");
        let _kubelet = stage.kubelet();
        let running = Running::start(&mut stage.command(&["run", "bundle", &bundle]));
        until(|| stage.get(ResourceKind::SUBSCRIPTION, "foo-v1-0-0-sub")).await;
        running.signal(signal);
        let output = stage.shown(running.end());
        assert!(output.starts_with(code), "{output}");
        assert!(output.contains("interrupted\nall created objects were rolled back"), "{output}");
        let taken: Vec<&str> = output.lines().filter_map(|line| line.strip_prefix("Rolled back: ")).collect();
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
    let late = DelayingProxy::start(stage.kit.cluster.client.clone(), "/catalogsources", pause).await;
    stage.kit.env.file("late", late.kubeconfig());
    let mut command = stage.kit.env.command();
    command.args(["run", "bundle", &bundle, "--use-http", "--timeout", "60s", "-n", &stage.kit.cluster.namespace]);
    command.arg("--kubeconfig").arg(stage.kit.env.path("late"));
    let running = Running::start(&mut command);
    late.arrived.notified().await;
    running.signal("-INT");
    let output = stage.shown(tokio::task::spawn_blocking(move || running.end()).await.expect("no panic"));
    assert!(output.starts_with("exit 130"), "{output}");
    assert!(output.contains("Rolled back: CatalogSource [NAMESPACE]/foo-catalog"), "{output}");
    tokio::time::sleep(pause).await;
    assert_eq!(stage.left().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_interrupt_ends_immediately_and_reports_remaining_objects() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let running = Running::start(&mut stage.command(&["run", "bundle", &bundle]));
    until(|| async { stage.list(ResourceKind::POD).await.into_iter().next() }).await;
    // A finalizer holds the CatalogSource, so it cannot be rolled back.
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    let sources = stage.kit.cluster.objects(ResourceKind::CATALOG_SOURCE);
    sources.patch("foo-catalog", &PatchParams::default(), &held).await.unwrap();
    running.signal("-INT");
    until(|| async {
        stage
            .list(ResourceKind::CATALOG_SOURCE)
            .await
            .into_iter()
            .find(|one| one["metadata"]["deletionTimestamp"].is_string())
    })
    .await;
    running.signal("-INT");
    let output = stage.shown(running.end());
    assert!(
        output.ends_with("failed to roll back:\n  CatalogSource [NAMESPACE]/foo-catalog: interrupted\n"),
        "{output}"
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    sources.patch("foo-catalog", &PatchParams::default(), &free).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_api_server_is_reported_with_the_remaining_objects() {
    let mut stage = Stage::own().await;
    let bundle = stage.bundle("1.0.0");
    let running = Running::start(&mut stage.command(&["run", "bundle", &bundle]));
    until(|| async { stage.list(ResourceKind::POD).await.into_iter().next() }).await;
    tokio::task::block_in_place(|| stage.kit.api.stop_server());
    running.signal("-INT");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    running.signal("-INT");
    let output = stage.shown(running.end());
    assert!(output.starts_with("exit 130"), "{output}");
    assert!(
        output.ends_with(
            "failed to roll back:\n  CatalogSource [NAMESPACE]/foo-catalog: interrupted\n  \
             ConfigMap [NAMESPACE]/foo-catalog-configmap-partition-1: interrupted\n  \
             Pod [NAMESPACE]/REGISTRY-foo-bundle-v1-0-0: interrupted\n"
        ),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn created_objects_can_be_kept() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let output = stage.opm(&["run", "bundle", &bundle, "--timeout", "10s", "--keep"]);
    assert!(output.contains("\nkept these objects, with the label opm.run/id="), "{output}");
    assert_eq!(stage.left().await.len(), 3);
    let run = stage.list(ResourceKind::POD).await[0]["metadata"]["labels"]["opm.run/id"].as_str().unwrap().to_owned();
    assert!(output.contains(&run), "{output}");
    let output = stage.opm(&["cleanup", "foo"]);
    assert!(output.contains("Operator \"foo\" uninstalled"), "{output}");
    assert!(stage.left().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_rolls_everything_back() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let _kubelet = stage.kubelet();
    let output = stage.opm(&["run", "bundle", &bundle, "--timeout", "10s"]);
    assert!(output.contains("OLM has not reported on the catalog source: does its catalog operator run?"), "{output}");
    assert!(stage.left().await.is_empty());
}
