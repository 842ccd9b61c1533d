//! Bundles installed, upgraded and removed, by OLM itself.

use cluster::Kind;

use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_installed_upgraded_and_removed() {
    let Some(stage) = Stage::shared().await else { return };
    let before = stage.everything().await;
    let (first, second) = (stage.operator("foo", "1.0.0"), stage.operator("foo", "1.1.0"));
    let told = stage.opm(&["run", "bundle", &stage.bundle(&first)]).await;
    assert!(told.starts_with("exit 0"), "{told}");
    let csv = stage.get(Kind::CSV, "foo.v1.0.0").await.expect("a CSV");
    assert_eq!(csv["status"]["phase"], "Succeeded");

    let told = stage.opm(&["run", "bundle-upgrade", &stage.bundle(&second)]).await;
    assert!(told.starts_with("exit 0"), "{told}");
    let csv = stage.get(Kind::CSV, "foo.v1.1.0").await.expect("a CSV");
    assert_eq!((&csv["status"]["phase"], &csv["spec"]["replaces"]), (&"Succeeded".into(), &"foo.v1.0.0".into()));

    let told = stage.opm(&["cleanup", "foo"]).await;
    assert!(told.starts_with("exit 0"), "{told}");
    stage.only(&before).await;
}
