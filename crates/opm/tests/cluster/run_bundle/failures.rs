//! Failures are reported with their reasons, and leave nothing behind.

use cluster::ResourceKind;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::stage::{DATABASE, Running, Stage, create, delete, plan_status, set_status, steps, until};

/// The image of the serving pod, as a node reports it.
const IMAGE: &str = "quay.io/operator-framework/opm:v1";

/// Waits for the pod of a run, and returns its name.
async fn pod(stage: &Stage) -> String {
    let found = until(|| async { stage.list(ResourceKind::POD).await.into_iter().next() }).await;
    found["metadata"]["name"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled_is_reported() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let mut command = stage.kit.command(&["run", "bundle", &bundle, "--use-http", "--timeout", "12s"]);
    let running = Running::start(&mut command);
    let pod = pod(&stage).await;
    let message = format!("Back-off pulling image {IMAGE:?}");
    let status = json!({"phase": "Pending", "containerStatuses": [{"name": "registry-grpc", "image": IMAGE, "imageID": "",
        "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff", "message": message}}}]});
    set_status(&stage.kit.cluster, ResourceKind::POD, &pod, status).await;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "pulling"}, "type": "Warning",
        "involvedObject": {"kind": "Pod", "name": pod, "namespace": stage.kit.cluster.namespace},
        "reason": "Failed", "message": "manifest unknown"});
    create(&stage.kit.cluster, ResourceKind::EVENT, &event).await;
    insta::assert_snapshot!(steps(&stage.shown(running.end())));
    assert!(stage.left().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crashing_pod_ends_the_run_immediately() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let running = Running::start(&mut stage.command(&["run", "bundle", &bundle]));
    let pod = pod(&stage).await;
    let status = json!({"phase": "Running", "podIP": "10.0.0.9", "containerStatuses": [{"name": "registry-grpc",
        "image": "x", "imageID": "", "ready": false, "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}]});
    set_status(&stage.kit.cluster, ResourceKind::POD, &pod, status).await;
    let printed = stage.shown(running.end());
    assert!(
        printed.contains("registry pod REGISTRY-foo-bundle-v1-0-0 does not serve: container registry-grpc: CrashLoopBackOff: back-off 10s restarting failed container; it ended with code 1"),
        "{printed}"
    );
    assert!(stage.left().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_index_whose_image_has_no_shell_is_reported_with_the_way_out() {
    let stage = Stage::new().await;
    let (bundle, old) = (stage.bundle("1.0.0"), stage.bundle("0.9.0"));
    stage.kit.env.stdout(&["registry", "add", "-d", "index.db", "-b", &old, "--use-http"]);
    let content = std::fs::read(stage.kit.env.path("index.db")).unwrap();
    let index = stage.push("database:v1", &[("/db/index.db", &content)], &[(DATABASE, "/db/index.db")]);
    let status = |reason: &str, message: &str| {
        json!({"phase": "Running", "podIP": "10.0.0.9", "containerStatuses": [{"name": "registry-grpc",
            "image": "x", "imageID": "", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}},
            "lastState": {"terminated": {"exitCode": 128, "reason": reason, "message": message}}}]})
    };
    let advice =
        "help: the index image needs a shell and opm to add the bundle to its database; --sqlite migrate serves";
    // The advice is for a container that did not start, not for a script that failed.
    for (reason, advised) in [("StartError", true), ("Error", false)] {
        let run = ["run", "bundle", &bundle, "--index-image", &index];
        let running = Running::start(&mut stage.command(&run));
        let pod = pod(&stage).await;
        let missing = "exec: \"sh\": executable file not found in $PATH";
        set_status(&stage.kit.cluster, ResourceKind::POD, &pod, status(reason, missing)).await;
        let printed = stage.shown(running.end());
        assert!(printed.starts_with("exit 1") && printed.contains("executable file not found"), "{printed}");
        assert_eq!(printed.contains(advice), advised, "{printed}");
        assert!(stage.left().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_of_the_subscription_are_reported() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let _kubelet = stage.kubelet();
    let mut command = stage.kit.command(&["run", "bundle", &bundle, "--use-http", "--timeout", "12s"]);
    let running = Running::start(&mut command);
    until(|| stage.get(ResourceKind::SUBSCRIPTION, "foo-v1-0-0-sub")).await;
    let status = json!({"conditions": [
        {"type": "CatalogSourcesUnhealthy", "status": "False", "reason": "AllCatalogSourcesHealthy"},
        {"type": "ResolutionFailed", "status": "True", "reason": "ConstraintsNotSatisfiable",
            "message": "constraints not satisfiable: bundle foo.v1.0.0 requires an operator with package: bar"}]});
    set_status(&stage.kit.cluster, ResourceKind::SUBSCRIPTION, "foo-v1-0-0-sub", status).await;
    let printed = stage.shown(running.end());
    assert!(
        printed.contains("error: Failed to run bundle: install plan is not available for the subscription foo-v1-0-0-sub: the dependencies could not be resolved (ResolutionFailed): ConstraintsNotSatisfiable: constraints not satisfiable: bundle foo.v1.0.0 requires an operator with package: bar\nall created objects were rolled back\n"),
        "{printed}"
    );
    assert!(stage.left().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_the_cluster_cannot_unpack_is_reported() {
    use sha2::Digest;
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let digest = sha2::Sha256::digest(bundle.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "unpack", "labels": {"operatorframework.io/bundle-unpack-ref": hex[..63]}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "pull", "image": "x"}]}}}});
    create(&stage.kit.cluster, ResourceKind::JOB, &job).await;
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "DeadlineExceeded",
            "message": "Job was active longer than specified deadline"})
    };
    let status = json!({
        "startTime": "2026-01-01T00:00:00Z", "uncountedTerminatedPods": {},
        "conditions": [condition("FailureTarget"), condition("Failed")],
    });
    set_status(&stage.kit.cluster, ResourceKind::JOB, "unpack", status).await;
    let _kubelet = stage.kubelet();
    let printed = stage.opm(&["run", "bundle", &bundle, "--timeout", "20s"]);
    assert!(
        printed.contains("the job unpack that unpacks the bundle failed: DeadlineExceeded: Job was active longer than specified deadline"),
        "{printed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_csv_that_fails_is_reported_with_its_requirements_and_removed() {
    let stage = Stage::new().await;
    let more = r#"{"install": {"strategy": "deployment", "spec": {"deployments": [{"name": "foo", "spec": {}}, {"name": "bar", "spec": {}}]}}}"#;
    let bundle = stage.bundle_with("1.0.0", more);
    let _kubelet = stage.kubelet();
    let running = Running::start(&mut stage.command(&["run", "bundle", &bundle]));
    until(|| stage.get(ResourceKind::SUBSCRIPTION, "foo-v1-0-0-sub")).await;
    let cluster = &stage.kit.cluster;
    let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "plan"}, "spec": {"approved": false}});
    create(cluster, ResourceKind::INSTALL_PLAN, &plan).await;
    set_status(cluster, ResourceKind::SUBSCRIPTION, "foo-v1-0-0-sub", json!({"installPlanRef": {"name": "plan"}}))
        .await;
    until(|| async {
        stage.get(ResourceKind::INSTALL_PLAN, "plan").await.filter(|plan| plan["spec"]["approved"] == true)
    })
    .await;
    create(cluster, ResourceKind::CRD, &stage.crd()).await;
    create(cluster, ResourceKind::CSV, &stage.csv("1.0.0", more)).await;
    let deployed = pod_without_image(&stage).await;
    let status = plan_status(&stage.csv("1.0.0", more), &stage.crd(), "Created");
    set_status(cluster, ResourceKind::INSTALL_PLAN, "plan", status).await;
    let status = json!({"phase": "Failed", "reason": "RequirementsNotMet", "message": "requirements no longer met",
        "requirementStatus": [
            {"kind": "CustomResourceDefinition", "name": "bars.example.com", "status": "NotPresent", "message": "CRD is not present"},
            {"kind": "ServiceAccount", "name": "foo", "status": "PresentNotSatisfied", "dependents": [
                {"kind": "PolicyRule", "status": "NotSatisfied", "message": "namespaced rule:{\"verbs\":[\"get\"]}"}]}]});
    set_status(cluster, ResourceKind::CSV, "foo.v1.0.0", status).await;
    insta::assert_snapshot!(steps(&stage.shown(running.end())));
    for (kind, name) in deployed {
        delete(cluster, kind, name).await;
    }
    assert!(stage.left().await.is_empty());
}

/// Creates a deployment of an operator and its pod, whose image cannot be pulled.
async fn pod_without_image(stage: &Stage) -> [(ResourceKind, &'static str); 2] {
    let (cluster, labels) = (&stage.kit.cluster, json!({"app": "bar"}));
    let containers = json!([{"name": "controller", "image": "r.test/bar:v1"}]);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "bar"}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}});
    create(cluster, ResourceKind::DEPLOYMENT, &deployment).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bar-1", "labels": labels},
        "spec": {"containers": containers}});
    create(cluster, ResourceKind::POD, &pod).await;
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "manifest unknown"}});
    let status = json!({"containerStatuses": [{"name": "controller", "image": "r.test/bar:v1", "imageID": "",
        "ready": false, "restartCount": 0, "state": waiting}]});
    set_status(cluster, ResourceKind::POD, "bar-1", status).await;
    [(ResourceKind::DEPLOYMENT, "bar"), (ResourceKind::POD, "bar-1")]
}

/// OLM may execute a plan twice, and a dependency may come from the plan of another user.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_removes_what_its_plan_creates_again_and_keeps_objects_of_other_plans() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let _kubelet = stage.kubelet();
    let running = Running::start(&mut stage.command(&["run", "bundle", &bundle]));
    until(|| stage.get(ResourceKind::SUBSCRIPTION, "foo-v1-0-0-sub")).await;
    let (cluster, csv) = (stage.kit.cluster.clone(), stage.csv("1.0.0", ""));
    let mut needed = csv.clone();
    needed["metadata"]["name"] = json!("bar.v2.0.0");
    let subscription = json!({"apiVersion": ResourceKind::SUBSCRIPTION.api_version(), "kind": "Subscription",
        "metadata": {"name": "bar-stable"}, "spec": {"name": "bar", "channel": "stable", "source": "other"}});
    let step = |resolving: &str, kind: &str, name: &str, status: &str| {
        json!({"resolving": resolving, "status": status, "resource": {"kind": kind, "name": name, "group": "",
            "version": "v1", "manifest": "", "sourceName": "", "sourceNamespace": ""}})
    };
    let dependency = |status: &str| {
        let one = |kind: &str, name: &str| step("bar.v2.0.0", kind, name, status);
        vec![one("ClusterServiceVersion", "bar.v2.0.0"), one("Subscription", "bar-stable")]
    };
    let all = |status: &str| {
        [vec![step("foo.v1.0.0", "ClusterServiceVersion", "foo.v1.0.0", status)], dependency(status)].concat()
    };
    for (name, approved) in [("plan", false), ("other", true)] {
        let plan = json!({"apiVersion": ResourceKind::INSTALL_PLAN.api_version(), "kind": "InstallPlan",
            "metadata": {"name": name}, "spec": {"approved": approved}});
        create(&cluster, ResourceKind::INSTALL_PLAN, &plan).await;
    }
    set_status(
        &cluster,
        ResourceKind::INSTALL_PLAN,
        "plan",
        json!({"phase": "RequiresApproval", "plan": all("Unknown")}),
    )
    .await;
    set_status(&cluster, ResourceKind::SUBSCRIPTION, "foo-v1-0-0-sub", json!({"installPlanRef": {"name": "plan"}}))
        .await;
    until(|| async {
        stage.get(ResourceKind::INSTALL_PLAN, "plan").await.filter(|plan| plan["spec"]["approved"] == true)
    })
    .await;
    create(&cluster, ResourceKind::CSV, &needed).await;
    create(&cluster, ResourceKind::SUBSCRIPTION, &subscription).await;
    set_status(
        &cluster,
        ResourceKind::INSTALL_PLAN,
        "other",
        json!({"phase": "Complete", "plan": dependency("Created")}),
    )
    .await;
    create(&cluster, ResourceKind::CSV, &csv).await;
    set_status(&cluster, ResourceKind::INSTALL_PLAN, "plan", json!({"phase": "Complete", "plan": all("Present")}))
        .await;
    let again = tokio::spawn(async move {
        let csvs = cluster.objects(ResourceKind::CSV);
        set_status(
            &cluster,
            ResourceKind::CSV,
            "foo.v1.0.0",
            json!({"phase": "Failed", "reason": "InstallCheckFailed"}),
        )
        .await;
        while csvs.get_opt("foo.v1.0.0").await.expect("a response").is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        create(&cluster, ResourceKind::CSV, &csv).await;
    });
    let printed = tokio::task::block_in_place(|| stage.shown(running.end()));
    assert!(printed.ends_with("all created objects were rolled back\n"), "{printed}");
    again.await.unwrap();
    let left = ["Subscription bar-stable", "InstallPlan other", "ClusterServiceVersion bar.v2.0.0"];
    assert_eq!(stage.left().await, left, "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_are_reported_before_anything_is_created() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let namespace = &stage.kit.cluster.namespace;
    let rules = json!([
        {"apiGroups": ["operators.coreos.com"], "resources": ["*"], "verbs": ["get", "list", "create"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let user = stage.kit.api.user_with_role(&format!("some-{namespace}"), namespace, rules).await;
    let mut command = stage.kit.env.command();
    command.args(["run", "bundle", &bundle, "--use-http", "-n", namespace, "--kubeconfig"]).arg(&user.kubeconfig);
    let printed = stage.shown(command.output().unwrap());
    assert!(
        printed.contains("not allowed in namespace \"[NAMESPACE]\": update catalogsources.operators.coreos.com, create configmaps, list configmaps, create pods, update installplans.operators.coreos.com, delete catalogsources.operators.coreos.com, delete configmaps, delete pods, delete subscriptions.operators.coreos.com, delete installplans.operators.coreos.com, delete clusterserviceversions.operators.coreos.com; nothing was created"),
        "{printed}"
    );
    assert!(stage.left().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_does_not_exist_is_reported() {
    let stage = Stage::new().await;
    let bundle = stage.bundle("1.0.0");
    let mut command = stage.kit.env.command();
    command.args(["run", "bundle", &bundle, "--use-http", "-n", "nowhere", "--kubeconfig"]);
    let printed = stage.shown(command.arg(stage.kit.api.kubeconfig()).output().unwrap());
    assert!(printed.contains("namespace \"nowhere\" does not exist: create it first"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_no_bundle_is_reported() {
    let stage = Stage::new().await;
    let none = stage.push("none:v1", &[("/etc/x", b"x")], &[]);
    let printed = stage.opm(&["run", "bundle", &none]);
    assert!(
        printed.contains("Failed to run bundle: load bundle metadata: metadata not found in [REGISTRY]/none:v1"),
        "{printed}"
    );
    let missing = format!("{}/missing:v1", stage.registry.host());
    let printed = stage.opm(&["run", "bundle", &missing]);
    assert!(printed.contains("Failed to run bundle: pull bundle image: failed to pull image"), "{printed}");
    let modeless = stage.bundle_with("1.0.0", r#"{"installModes": []}"#);
    let printed = stage.opm(&["run", "bundle", &modeless]);
    assert!(printed.contains("operator \"foo.v1.0.0\" is not installable: no supported install modes"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_survives_a_restart_of_the_api_server() {
    let mut stage = Stage::own().await;
    let bundle = stage.bundle("1.0.0");
    let mut command = stage.kit.command(&["run", "bundle", &bundle, "--use-http", "--timeout", "110s"]);
    let running = Running::start(&mut command);
    until(|| async { stage.list(ResourceKind::POD).await.into_iter().next() }).await;
    tokio::task::block_in_place(|| {
        stage.kit.api.stop_server();
        running.wait_for("API server: retrying");
        stage.kit.api.start_server();
    });
    // kubelet and OLM act after the restart.
    let cluster = &stage.kit.cluster;
    let pod = until(|| async { stage.list(ResourceKind::POD).await.into_iter().next() }).await;
    let pod = pod["metadata"]["name"].as_str().unwrap().to_owned();
    set_status(cluster, ResourceKind::POD, &pod, json!({"phase": "Running", "podIP": "10.0.0.9"})).await;
    until(|| stage.get(ResourceKind::SUBSCRIPTION, "foo-v1-0-0-sub")).await;
    let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "plan"}, "spec": {"approved": false}});
    create(cluster, ResourceKind::INSTALL_PLAN, &plan).await;
    set_status(cluster, ResourceKind::SUBSCRIPTION, "foo-v1-0-0-sub", json!({"installPlanRef": {"name": "plan"}}))
        .await;
    until(|| async {
        stage.get(ResourceKind::INSTALL_PLAN, "plan").await.filter(|plan| plan["spec"]["approved"] == true)
    })
    .await;
    create(cluster, ResourceKind::CSV, &stage.csv("1.0.0", "")).await;
    let succeeded = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    cluster.objects(ResourceKind::CSV).patch_status("foo.v1.0.0", &PatchParams::default(), &succeeded).await.unwrap();
    let printed = stage.shown(running.end());
    assert!(printed.starts_with("exit 0"), "{printed}");
}
