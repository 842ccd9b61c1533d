//! Removing operators.

use std::time::Duration;

use cluster::{Cluster, ResourceKind};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::stage::{Stage, create, delete, steps};

fn crd(name: &str) -> Value {
    let (plural, group) = name.split_once('.').unwrap();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Foo", "plural": plural},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
}

async fn installed(stage: &Stage) {
    let bundle = stage.bundle("1.0.0");
    let _emulation = stage.emulate(&["1.0.0"]);
    let shown = stage.opm(&["run", "bundle", &bundle]);
    assert!(shown.starts_with("exit 0"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_removed_with_all_its_objects() {
    let stage = Stage::new().await;
    installed(&stage).await;
    let required = format!("bars.{}", stage.api.trim_start_matches("foos."));
    create(&stage.kit.cluster, ResourceKind::CRD, &crd(&required)).await;
    let status = json!({"requirementStatus": [
        {"kind": "CustomResourceDefinition", "name": stage.api, "status": "Present"},
        {"kind": "CustomResourceDefinition", "name": required, "status": "Present"}]});
    stage.kit.set_status(ResourceKind::CSV, "foo.v1.0.0", status).await;
    insta::assert_snapshot!(steps(&stage.opm(&["cleanup", "foo"])));
    assert_eq!(stage.left().await, ["InstallPlan install-1"]);
    assert!(stage.get(ResourceKind::CRD, &required).await.is_some(), "an object of another owner was removed");
    delete(&stage.kit.cluster, ResourceKind::CRD, &required).await;
    let shown = stage.opm(&["cleanup", "foo"]);
    assert_eq!(shown, "exit 0\n--- stdout\n--- stderr\nwarning: Cleanup operator: package \"foo\" not found\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_names_the_deleted_objects() {
    let stage = Stage::new().await;
    installed(&stage).await;
    let report = stage.kit.report("cleanup", &["cleanup", "foo"]);
    assert_eq!(report["found"], true);
    let namespace = &stage.kit.cluster.namespace;
    let deleted: Vec<String> = serde_json::from_value(report["deleted"].clone()).expect("names");
    for object in
        ["Subscription NS/foo-v1-0-0-sub", "ClusterServiceVersion NS/foo.v1.0.0", "CatalogSource NS/foo-catalog"]
    {
        let object = object.replace("NS", namespace);
        assert!(deleted.contains(&object), "{object}: {deleted:?}");
    }
    let report = stage.kit.report("cleanup", &["cleanup", "foo"]);
    assert_eq!(report, json!({"package": "foo", "found": false, "deleted": []}));
}

/// Creates objects a second after the operator was removed. OLM works from caches: it may execute an InstallPlan again
/// that has just become `Complete`.
fn created_again(cluster: Cluster, objects: Vec<(ResourceKind, Value)>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let csvs = cluster.objects(ResourceKind::CSV);
        while csvs.get_opt("foo.v1.0.0").await.expect("a response").is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        for (kind, object) in &objects {
            create(&cluster, *kind, object).await;
        }
    })
}

/// Returns the operator's CRD and CSV, as OLM creates them.
fn operator(stage: &Stage) -> Vec<(ResourceKind, Value)> {
    let (csv, mut crd) = (stage.csv("1.0.0", ""), stage.crd());
    let alongside = format!("{}/foo.v1.0.0", stage.kit.cluster.namespace);
    crd["metadata"]["annotations"] = json!({"operatorframework.io/installed-alongside-1": alongside});
    vec![(ResourceKind::CRD, crd), (ResourceKind::CSV, csv)]
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_olm_creates_again_are_removed_too() {
    let stage = Stage::new().await;
    installed(&stage).await;
    let cluster = stage.kit.cluster.clone();
    // The plan also installed a dependency.
    let mut needed = stage.csv("1.0.0", "");
    needed["metadata"]["name"] = json!("bar.v2.0.0");
    let subscription = json!({"apiVersion": ResourceKind::SUBSCRIPTION.api_version(), "kind": "Subscription",
        "metadata": {"name": "bar-stable"}, "spec": {"name": "bar", "channel": "stable", "source": "foo-catalog",
        "sourceNamespace": cluster.namespace, "startingCSV": "bar.v2.0.0"}});
    create(&cluster, ResourceKind::SUBSCRIPTION, &subscription).await;
    create(&cluster, ResourceKind::CSV, &needed).await;
    let mut plan = stage.get(ResourceKind::INSTALL_PLAN, "install-1").await.expect("the plan")["status"].clone();
    for (kind, name) in [("Subscription", "bar-stable"), ("ClusterServiceVersion", "bar.v2.0.0")] {
        let mut step = plan["plan"][0].clone();
        step["resolving"] = json!("bar.v2.0.0");
        step["status"] = json!("Created");
        step["resource"]["kind"] = json!(kind);
        step["resource"]["name"] = json!(name);
        plan["plan"].as_array_mut().expect("steps").push(step);
    }
    stage.kit.set_status(ResourceKind::INSTALL_PLAN, "install-1", plan).await;
    let mut objects = operator(&stage);
    objects.extend([(ResourceKind::SUBSCRIPTION, subscription), (ResourceKind::CSV, needed)]);
    let again = created_again(cluster, objects);
    let shown = tokio::task::block_in_place(|| stage.opm(&["cleanup", "foo"]));
    assert!(shown.starts_with("exit 0"), "{shown}");
    again.await.unwrap();
    assert_eq!(stage.left().await, ["InstallPlan install-1"], "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_foreign_operator_that_olm_creates_again_are_removed_too() {
    let stage = Stage::new().await;
    installed(&stage).await;
    let cluster = stage.kit.cluster.clone();
    // Nothing shows that `run bundle` created the catalog and the Subscription.
    let change = |spec: Value| Patch::Merge(json!({"metadata": {"labels": null}, "spec": spec}));
    for (kind, name, spec) in [
        (ResourceKind::CATALOG_SOURCE, "foo-catalog", json!({"publisher": "somebody"})),
        (ResourceKind::SUBSCRIPTION, "foo-v1-0-0-sub", json!({})),
    ] {
        cluster.objects(kind).patch(name, &PatchParams::default(), &change(spec)).await.expect("a changed object");
    }
    let again = created_again(cluster, operator(&stage));
    let shown = tokio::task::block_in_place(|| stage.opm(&["cleanup", "foo", "--force"]));
    assert!(shown.starts_with("exit 0"), "{shown}");
    again.await.unwrap();
    let left = stage.left().await;
    assert!(
        !left.iter().any(|one| one.starts_with("ClusterServiceVersion") || one.starts_with("CustomResource")),
        "{left:?}\n{shown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_requested_objects_are_removed() {
    let stage = Stage::new().await;
    installed(&stage).await;
    let shown = stage.opm(&["cleanup", "foo", "--delete-all=false"]);
    assert!(shown.contains("Skipping CRD deletion") && shown.contains("Skipping Operator Groups deletion"), "{shown}");
    assert_eq!(
        stage.left().await,
        ["OperatorGroup operator-sdk-og", "InstallPlan install-1", "CustomResourceDefinition"]
    );
    delete(&stage.kit.cluster, ResourceKind::CRD, &stage.api).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_group_that_others_need_is_kept() {
    let stage = Stage::new().await;
    installed(&stage).await;
    let other = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "bar"}, "spec": {"name": "bar", "source": "x"}});
    create(&stage.kit.cluster, ResourceKind::SUBSCRIPTION, &other).await;
    let shown = stage.opm(&["cleanup", "foo"]);
    assert!(shown.contains("Skipping Operator Groups deletion"), "{shown}");
    assert_eq!(stage.left().await, ["OperatorGroup operator-sdk-og", "Subscription bar", "InstallPlan install-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_cannot_be_removed_are_reported() {
    let stage = Stage::new().await;
    installed(&stage).await;
    let csvs = stage.kit.cluster.objects(ResourceKind::CSV);
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    csvs.patch("foo.v1.0.0", &PatchParams::default(), &held).await.unwrap();
    let shown = stage.opm(&["cleanup", "foo", "--timeout", "10s"]);
    assert!(
        shown.contains("Cleanup operator: deleting ClusterServiceVersion [NAMESPACE]/foo.v1.0.0: timed out: blocked by finalizers: example.com/held"),
        "{shown}"
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    csvs.patch("foo.v1.0.0", &PatchParams::default(), &free).await.unwrap();
    delete(&stage.kit.cluster, ResourceKind::CRD, &stage.api).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_record_of_created_objects_ends_a_cleanup_before_anything_is_deleted() {
    let stage = Stage::new().await;
    installed(&stage).await;
    let before = stage.left().await;
    let sources = stage.kit.cluster.objects(ResourceKind::CATALOG_SOURCE);
    let record = |text: Value| Patch::Merge(json!({"metadata": {"annotations": {"opm.run/created": text}}}));
    sources.patch("foo-catalog", &PatchParams::default(), &record("[{".into())).await.unwrap();
    let shown = stage.opm(&["cleanup", "foo"]);
    assert!(
        shown.contains("annotation opm.run/created of CatalogSource [NAMESPACE]/foo-catalog cannot be read")
            && shown.contains("kubectl annotate -n [NAMESPACE] catalogsource foo-catalog opm.run/created-"),
        "{shown}"
    );
    assert_eq!(stage.left().await, before);
    sources.patch("foo-catalog", &PatchParams::default(), &record(Value::Null)).await.unwrap();
    assert!(stage.opm(&["cleanup", "foo"]).starts_with("exit 0"));
}
