//! Operators that are removed.

use cluster::Kind;
use serde_json::json;

use super::stage::{Stage, create, delete, steps};

fn crd(name: &str) -> serde_json::Value {
    let (plural, group) = name.split_once('.').unwrap();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Foo", "plural": plural},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
}

async fn installed(stage: &Stage) {
    let bundle = stage.bundle("1.0.0");
    let _stand_in = stage.stand_in(&["1.0.0"]);
    let told = stage.opm(&["run", "bundle", &bundle]);
    assert!(told.starts_with("exit 0"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_goes_with_everything_it_came_with() {
    let stage = Stage::new().await;
    installed(&stage).await;
    let required = format!("bars.{}", stage.api.trim_start_matches("foos."));
    create(&stage.kit.cluster, Kind::CRD, &crd(&required)).await;
    let status = json!({"requirementStatus": [
        {"kind": "CustomResourceDefinition", "name": stage.api, "status": "Present"},
        {"kind": "CustomResourceDefinition", "name": required, "status": "Present"}]});
    stage.kit.set_status(Kind::CSV, "foo.v1.0.0", status).await;
    insta::assert_snapshot!(steps(&stage.opm(&["cleanup", "foo"])));
    assert_eq!(stage.left().await, ["InstallPlan install-1"]);
    assert!(stage.get(Kind::CRD, &required).await.is_some(), "what others own stays");
    delete(&stage.kit.cluster, Kind::CRD, &required).await;
    let told = stage.opm(&["cleanup", "foo"]);
    assert_eq!(told, "exit 0\n--- stdout\n--- stderr\nwarning: Cleanup operator: package \"foo\" not found\n");
}

/// OLM works from copies: it may carry out a plan once more that has just become `Complete`.
#[tokio::test(flavor = "multi_thread")]
async fn what_olm_makes_again_goes_as_well() {
    let stage = Stage::new().await;
    installed(&stage).await;
    let (cluster, csv, mut crd) = (stage.kit.cluster.clone(), stage.csv("1.0.0", ""), stage.crd());
    let alongside = format!("{}/foo.v1.0.0", cluster.namespace);
    crd["metadata"]["annotations"] = json!({"operatorframework.io/installed-alongside-1": alongside});
    let again = tokio::spawn(async move {
        let csvs = cluster.objects(Kind::CSV);
        while csvs.get_opt("foo.v1.0.0").await.expect("an answer").is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        create(&cluster, Kind::CRD, &crd).await;
        create(&cluster, Kind::CSV, &csv).await;
    });
    let told = tokio::task::block_in_place(|| stage.opm(&["cleanup", "foo"]));
    assert!(told.starts_with("exit 0"), "{told}");
    again.await.unwrap();
    assert_eq!(stage.left().await, ["InstallPlan install-1"], "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_asked_for_is_removed() {
    let stage = Stage::new().await;
    installed(&stage).await;
    let told = stage.opm(&["cleanup", "foo", "--delete-all=false"]);
    assert!(told.contains("Skipping CRD deletion") && told.contains("Skipping Operator Groups deletion"), "{told}");
    assert_eq!(
        stage.left().await,
        ["OperatorGroup operator-sdk-og", "InstallPlan install-1", "CustomResourceDefinition"]
    );
    delete(&stage.kit.cluster, Kind::CRD, &stage.api).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_group_that_others_need_stays() {
    let stage = Stage::new().await;
    installed(&stage).await;
    let other = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "bar"}, "spec": {"name": "bar", "source": "x"}});
    create(&stage.kit.cluster, Kind::SUBSCRIPTION, &other).await;
    let told = stage.opm(&["cleanup", "foo"]);
    assert!(told.contains("Skipping Operator Groups deletion"), "{told}");
    assert_eq!(stage.left().await, ["OperatorGroup operator-sdk-og", "Subscription bar", "InstallPlan install-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_go_is_reported() {
    use kube::api::{Patch, PatchParams};
    let stage = Stage::new().await;
    installed(&stage).await;
    let csvs = stage.kit.cluster.objects(Kind::CSV);
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    csvs.patch("foo.v1.0.0", &PatchParams::default(), &held).await.unwrap();
    let told = stage.opm(&["cleanup", "foo", "--timeout", "10s"]);
    assert!(
        told.contains("Cleanup operator: deleting ClusterServiceVersion [NAMESPACE]/foo.v1.0.0: timed out: blocked by finalizers: example.com/held"),
        "{told}"
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    csvs.patch("foo.v1.0.0", &PatchParams::default(), &free).await.unwrap();
    delete(&stage.kit.cluster, Kind::CRD, &stage.api).await;
}
