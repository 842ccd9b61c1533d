//! `opm catalog --olm v1` with the real catalogd.

use crate::stage_v1::{CATALOG, StageV1};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_catalog_is_created_changed_and_deleted() {
    let Some(stage) = StageV1::shared().await else { return };
    let env = &stage.stage.env;
    env.copy_of("examples/catalog");
    let image = stage.build("catalog");
    let name = stage.name("made");
    let kubeconfig = stage.stage.olm.api.kubeconfig().display().to_string();
    let opm = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        all.extend(["--olm", "v1", "--kubeconfig", &kubeconfig]);
        env.opm(&all).replace(&name, "[NAME]")
    };
    let apply = |more: &[&str]| opm(&[&["catalog", "apply", &name], more].concat());
    let created = apply(&["--image", &image, "--poll", "10m", "--priority", "5", "--wait", "--timeout", "2m"]);
    assert!(created.starts_with("exit 0") && created.contains("ClusterCatalog [NAME] is served from"), "{created}");
    let object = stage.stage.get(CATALOG, &name).await.expect("the catalog exists");
    assert_eq!(object["spec"]["source"]["image"]["pollIntervalMinutes"], 10);
    assert_eq!(object["spec"]["priority"], 5);
    let status = opm(&["catalog", "status", &name]);
    assert!(status.contains("Available") && status.contains("every 10m") && !status.contains("Complaint"), "{status}");
    assert!(opm(&["catalog", "list"]).contains("[NAME]"));
    // Without `--olm`, both kinds are listed.
    stage.stage.source("source", "127.0.0.1:1", serde_json::json!({})).await;
    let both = stage.stage.opm(&["catalog", "list"]).await;
    let line = |kind: &str, name: &str| both.lines().any(|line| line.starts_with(kind) && line.contains(name));
    assert!(line("ClusterCatalog", "-made") && line("CatalogSource", "source"), "{both}");
    // Fields that are no longer requested are removed; an unavailable catalog is not served any more.
    let disabled = apply(&["--image", &image, "--unavailable", "--wait", "--timeout", "2m"]);
    assert!(disabled.contains("ClusterCatalog [NAME] is no longer served"), "{disabled}");
    let object = stage.stage.get(CATALOG, &name).await.expect("the catalog exists");
    assert!(object["spec"]["source"]["image"]["pollIntervalMinutes"].is_null(), "{object:#}");
    // A missing image is reported with the message of catalogd.
    let missing = apply(&["--image", &format!("{image}-none"), "--wait", "--timeout", "15s"]);
    assert!(missing.starts_with("exit 3") && missing.contains("is not served after 15s: Retrying"), "{missing}");
    assert!(opm(&["catalog", "delete", &name]).contains("ClusterCatalog [NAME] deleted"));
    crate::stage::until("it is gone", || async { stage.stage.get(CATALOG, &name).await.is_none().then_some(()) }).await;
    assert!(opm(&["catalog", "delete", &name]).starts_with("exit 1"));
    assert!(opm(&["catalog", "delete", &name, "--ignore-not-found"]).starts_with("exit 0"));
}
