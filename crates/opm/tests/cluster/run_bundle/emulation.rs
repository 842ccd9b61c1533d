//! Emulates kubelet and OLM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster::{Access, Cluster, ResourceKind};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::stage::{Stage, list};

pub(super) struct EmulationPlan {
    pub(super) csvs: Vec<Value>,
    /// The CRD that comes with them.
    pub(super) crd: Value,
}

/// A task that acts like kubelet and OLM until it is dropped.
pub(super) struct Emulation {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Emulation {
    pub(super) fn start(stage: &Stage, plan: EmulationPlan) -> Emulation {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, kubeconfig) = (Arc::clone(&stop), stage.kit.api.kubeconfig());
        let namespace = Some(stage.kit.cluster.namespace.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
            runtime.block_on(async {
                let access = Access { kubeconfig: Some(kubeconfig), context: None, namespace };
                let cluster = access.connect().await.expect("a cluster");
                while !stopped.load(Ordering::Relaxed) {
                    act(&cluster, &plan).await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        });
        Emulation { stop, thread: Some(thread) }
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(super) async fn set_status(cluster: &Cluster, kind: ResourceKind, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    let _ = cluster.objects(kind).patch_status(name, &PatchParams::default(), &patch).await;
}

async fn act(cluster: &Cluster, plan: &EmulationPlan) {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for pod in list(cluster, ResourceKind::POD).await {
        if pod["status"]["phase"] != "Running" && pod["metadata"]["deletionTimestamp"].is_null() {
            set_status(cluster, ResourceKind::POD, &name(&pod), json!({"phase": "Running", "podIP": "10.0.0.9"})).await;
        }
    }
    if plan.csvs.is_empty() {
        return;
    }
    let sources = list(cluster, ResourceKind::CATALOG_SOURCE).await;
    let added = sources.iter().find_map(|source| {
        source["spec"]["address"].as_str()?;
        let items = source["metadata"]["annotations"]["operators.operatorframework.io/injected-bundles"].as_str()?;
        serde_json::from_str::<Value>(items).ok()?.as_array().map(Vec::len)
    });
    let Some((added, csv)) = added.and_then(|added| Some((added, plan.csvs.get(added.checked_sub(1)?)?))) else {
        return;
    };
    for subscription in list(cluster, ResourceKind::SUBSCRIPTION).await {
        let plan_name = format!("install-{added}");
        if subscription["status"]["installPlanRef"]["name"] != plan_name.as_str() {
            let object = json!({"apiVersion": ResourceKind::INSTALL_PLAN.api_version(), "kind": "InstallPlan",
                "metadata": {"name": plan_name, "ownerReferences": [{
                    "apiVersion": subscription["apiVersion"], "kind": "Subscription",
                    "name": subscription["metadata"]["name"], "uid": subscription["metadata"]["uid"]}]},
                "spec": {"approval": "Manual", "approved": false, "clusterServiceVersionNames": [name(csv)]}});
            create(cluster, ResourceKind::INSTALL_PLAN, &object).await;
            let steps = plan_status(csv, &plan.crd, "Unknown");
            set_status(cluster, ResourceKind::INSTALL_PLAN, &plan_name, steps).await;
            let status = json!({"installPlanRef": {"name": plan_name}, "currentCSV": name(csv)});
            set_status(cluster, ResourceKind::SUBSCRIPTION, &name(&subscription), status).await;
        }
        let plans = list(cluster, ResourceKind::INSTALL_PLAN).await;
        let approved = plans.iter().any(|one| name(one) == plan_name && one["spec"]["approved"] == true);
        if approved && subscription["status"]["installedCSV"] != csv["metadata"]["name"] {
            create(cluster, ResourceKind::CRD, &plan.crd).await;
            let steps = plan_status(csv, &plan.crd, if added == 1 { "Created" } else { "Present" });
            set_status(cluster, ResourceKind::INSTALL_PLAN, &plan_name, steps).await;
            create(cluster, ResourceKind::CSV, csv).await;
            set_status(cluster, ResourceKind::CSV, &name(csv), json!({"phase": "Succeeded"})).await;
            set_status(cluster, ResourceKind::SUBSCRIPTION, &name(&subscription), json!({"installedCSV": name(csv)}))
                .await;
        }
    }
}

/// Returns the status that OLM sets on an InstallPlan with a CSV and a CRD.
pub(super) fn plan_status(csv: &Value, crd: &Value, crd_status: &str) -> Value {
    let step = |object: &Value, status: &str| {
        json!({"resolving": csv["metadata"]["name"], "status": status, "resource": {
            "kind": object["kind"], "name": object["metadata"]["name"], "group": "", "version": "v1",
            "manifest": "", "sourceName": "", "sourceNamespace": ""}})
    };
    let csv_status = if crd_status == "Unknown" { "Unknown" } else { "Created" };
    let phase = if crd_status == "Unknown" { "RequiresApproval" } else { "Complete" };
    json!({"phase": phase, "plan": [step(csv, csv_status), step(crd, crd_status)]})
}

pub(super) async fn create(cluster: &Cluster, kind: ResourceKind, object: &Value) {
    let object = serde_json::from_value(object.clone()).expect("an object");
    let _ = cluster.objects(kind).create(&PostParams::default(), &object).await;
}

pub(super) async fn delete(cluster: &Cluster, kind: ResourceKind, name: &str) {
    let _ = cluster.objects(kind).delete(name, &DeleteParams::default()).await;
}
