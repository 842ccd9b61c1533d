//! Operators that OLM v1 installs from images of `opm build`.

use cluster::ResourceKind;
use serde_json::json;

use crate::operator::Operator;
use crate::run_bundle::catalog_of;
use crate::stage::until;
use crate::stage_v1::{StageV1, condition};

/// Returns an operator for all namespaces; OLM v1 installs no others.
fn operator(stage: &StageV1, version: &str) -> Operator {
    let mut operator = stage.stage.operator("quux", version);
    operator.more = json!({"installModes": [{"type": "AllNamespaces", "supported": true}]});
    operator
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_is_installed_and_removed_from_an_image_of_opm() {
    let Some(stage) = StageV1::shared().await else { return };
    let quux = operator(&stage, "1.0.0");
    stage.stage.env.file("catalog/quux.yaml", catalog_of(&stage.stage, &quux));
    stage.catalog("catalog", json!({})).await;
    stage.account().await;
    stage.extension("quux", "quux", json!({})).await;
    let status = stage.decided("quux", |status| condition(status, "Installed")["status"] == "True").await;
    assert_eq!(status["install"]["bundle"], json!({"name": "quux.v1.0.0", "version": "1.0.0"}));
    assert_eq!(condition(&status, "Progressing")["reason"], "Succeeded", "{status:#}");
    let deployment = stage.stage.get(ResourceKind::DEPLOYMENT, "quux-controller").await;
    assert!(deployment.is_some(), "{status:#}");
    assert!(stage.stage.get(ResourceKind::CRD, &quux.crd_name()).await.is_some());
    stage.remove(&["quux"], &["catalog"]).await;
    // OLM removes the extension, and deletes its objects a moment later.
    until("its deployment goes", || async {
        let left = stage.stage.get(ResourceKind::DEPLOYMENT, "quux-controller").await;
        left.is_none_or(|left| left["metadata"]["deletionTimestamp"].is_string()).then_some(())
    })
    .await;
}
