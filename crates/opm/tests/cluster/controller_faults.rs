//! `opm controller` with missing permissions, rejected objects and failures: status and readiness report them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cluster::ResourceKind;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use testkit::User;

use crate::env::{SMALL, Stopped};
use crate::kit::Kit;

/// How long a status may be stale.
const STALE_LIMIT: Duration = Duration::from_secs(10);

/// A controller for the namespace of a test, with the permissions that `controller manifests` grants.
pub(crate) struct Stage {
    pub(crate) kit: Kit,
    user: User,
    pub(crate) rules: Value,
}

fn rbac(kind: &str, plural: &str) -> ApiResource {
    let version = "rbac.authorization.k8s.io/v1".to_owned();
    let group = "rbac.authorization.k8s.io".to_owned();
    ApiResource { group, version: "v1".into(), api_version: version, kind: kind.into(), plural: plural.into() }
}

impl Stage {
    pub(crate) async fn new() -> Stage {
        Stage::with(Kit::new().await).await
    }

    pub(crate) async fn with(kit: Kit) -> Stage {
        let namespace = kit.cluster.namespace.clone();
        let printed = kit.env.stdout(&[
            "controller",
            "manifests",
            "--image",
            "r.test/opm:v1",
            "--to",
            &namespace,
            "-n",
            &namespace,
        ]);
        let documents = fbc::stream::documents(printed.as_bytes(), &fbc::Limits::default()).unwrap();
        let roles: Vec<Value> = documents.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        let rules = |name: &str| {
            let role = roles.iter().find(|one| one["kind"] == "Role" && one["metadata"]["name"] == name).unwrap();
            role["rules"].as_array().unwrap().clone()
        };
        let rules = json!([rules("opm-controller"), rules("opm-controller-lease")].concat());
        let user = kit.api.user_with_role(&format!("controller-{namespace}"), &namespace, rules.clone()).await;
        Stage { kit, user, rules }
    }

    /// Replaces the rules of the controller's role.
    pub(crate) async fn allow(&self, rules: &Value) {
        let name = format!("controller-{}", self.kit.cluster.namespace);
        let roles: kube::Api<cluster::ClusterObject> = kube::Api::namespaced_with(
            self.kit.cluster.client.clone(),
            &self.kit.cluster.namespace,
            &rbac("Role", "roles"),
        );
        let patch = Patch::Merge(json!({"rules": rules}));
        roles.patch(&name, &PatchParams::default(), &patch).await.expect("the role is updated");
    }

    /// Starts a replica, and returns it with the address of its health endpoint.
    pub(crate) fn start(&self, name: &str) -> (Stopped, String) {
        let path = self.kit.env.path(&format!("{name}.log"));
        let log = std::fs::File::create(&path).unwrap();
        let mut command = self.kit.env.command();
        command.args(["controller", "--kubeconfig"]).arg(&self.user.kubeconfig);
        command.args(["-n", &self.kit.cluster.namespace, "--lease-duration", "2s", "--overlap", "1s", "--http", ":0"]);
        let replica = Stopped(command.env("POD_NAME", name).stderr(log).stdout(Stdio::null()).spawn().unwrap());
        let start = Instant::now();
        loop {
            let text = std::fs::read_to_string(&path).unwrap();
            if let Some((_, rest)) = text.split_once("msg=\"health and metrics\" address=") {
                let address = rest.split_whitespace().next().unwrap().to_owned();
                return (replica, address);
            }
            assert!(start.elapsed() < STALE_LIMIT, "the replica does not start:\n{text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn log(&self, name: &str) -> String {
        self.kit.env.read(&format!("{name}.log"))
    }

    pub(crate) async fn catalog(&self, name: &str, spec: Value) {
        self.kit.create(ResourceKind::CATALOG_SOURCE, json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    pub(crate) async fn status(&self, name: &str) -> Value {
        self.kit.get(ResourceKind::CATALOG_SOURCE, name).await.data["status"].clone()
    }

    pub(crate) async fn pods(&self) -> Vec<cluster::ClusterObject> {
        self.kit.cluster.objects(ResourceKind::POD).list(&ListParams::default()).await.expect("pods").items
    }

    /// Polls until a condition holds, at most as long as a status may be stale.
    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, mut holds: impl FnMut() -> F) {
        let start = Instant::now();
        while !holds().await {
            assert!(start.elapsed() < STALE_LIMIT * 2, "timeout: {what}\n{}", self.log("a"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(start.elapsed() < STALE_LIMIT, "{what} took {:?}", start.elapsed());
    }
}

/// Sends an HTTP request, and returns status and body.
pub(crate) fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

pub(crate) fn image() -> Value {
    json!({"sourceType": "grpc", "image": "r.test/catalog:v1"})
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_watches_affect_readiness() {
    let stage = Stage::new().await;
    let blind: Vec<Value> =
        stage.rules.as_array().unwrap().iter().filter(|rule| rule["resources"] != json!(["pods"])).cloned().collect();
    stage.allow(&json!(blind)).await;
    let (_replica, address) = stage.start("a");
    let port = address.rsplit(':').next().unwrap().to_owned();
    stage.until("denied", || async { get(&format!("127.0.0.1:{port}"), "/readyz").1.contains("forbidden") }).await;
    let (code, why) = get(&format!("[::1]:{port}"), "/readyz");
    assert!(code == 503 && why.starts_with("not ok: watching fails: "), "{code} {why}");
    let metrics = get(&format!("127.0.0.1:{port}"), "/metrics").1;
    assert!(!metrics.contains("opm_controller_watch_errors_total 0\n"), "{metrics}");
    assert!(stage.log("a").contains("a watch failed"), "{}", stage.log("a"));
    stage.allow(&stage.rules).await;
    let given = Instant::now();
    while get(&format!("127.0.0.1:{port}"), "/readyz").0 != 200 {
        assert!(given.elapsed() < STALE_LIMIT + Duration::from_secs(5), "{}", stage.log("a"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_pod_is_reported_in_the_status() {
    let stage = Stage::new().await;
    let quotas = ResourceKind { kind: "ResourceQuota", plural: "resourcequotas", ..ResourceKind::POD };
    let hard = json!({"pods": "0"});
    stage.kit.create(quotas, json!({"metadata": {"name": "none"}, "spec": {"hard": hard}})).await;
    stage.kit.set_status(quotas, "none", json!({"hard": hard, "used": {"pods": "0"}})).await;
    let (_replica, _) = stage.start("a");
    stage.catalog("refused", image()).await;
    let says = |status: Value| status["message"].as_str().unwrap_or_default().contains("exceeded quota");
    stage.until("refused", || async { says(stage.status("refused").await) }).await;
    assert_eq!(stage.status("refused").await["reason"], "RegistryServerError");
    let shown = stage.kit.opm(&["catalog", "status", "refused"]);
    assert!(shown.contains("exceeded quota") && !shown.contains("no controller of catalogs runs"), "{shown}");
    stage.kit.cluster.objects(quotas).delete("none", &DeleteParams::default()).await.expect("deleted");
    stage.until("a pod", || async { !stage.pods().await.is_empty() }).await;
    stage.until("no complaint", || async { stage.status("refused").await["message"].is_null() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_fail_immediately_are_not_recreated_in_a_loop() {
    let stage = Stage::new().await;
    let (_replica, _) = stage.start("a");
    stage.catalog("failing", image()).await;
    let mut created = std::collections::BTreeSet::new();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(14) {
        for pod in stage.pods().await {
            let name = pod.metadata.name.clone().unwrap();
            if created.insert(name.clone()) {
                let status = json!({"phase": "Failed", "reason": "Evicted", "message": "no room"});
                let patch = Patch::Merge(json!({"status": status}));
                let pods = stage.kit.cluster.objects(ResourceKind::POD);
                // The pod may be deleted already.
                let _ = pods.patch_status(&name, &PatchParams::default(), &patch).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!((1..=3).contains(&created.len()), "{} pods\n{}", created.len(), stage.log("a"));
    let status = stage.status("failing").await;
    assert!(status["message"].as_str().unwrap_or_default().contains("Evicted: no room"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_replaces_an_image() {
    let stage = Stage::new().await;
    let (_replica, _) = stage.start("a");
    stage.catalog("moved", image()).await;
    let exists = |kind: ResourceKind, name: &'static str| {
        let objects = stage.kit.cluster.objects(kind);
        async move { objects.get_opt(name).await.expect("a response").is_some() }
    };
    stage.until("a service", || exists(ResourceKind::SERVICE, "moved")).await;
    stage.until("a pod", || async { !stage.pods().await.is_empty() }).await;
    let patch = Patch::Merge(json!({"spec": {"image": null, "address": "127.0.0.1:1"}}));
    let sources = stage.kit.cluster.objects(ResourceKind::CATALOG_SOURCE);
    sources.patch("moved", &PatchParams::default(), &patch).await.expect("the source is updated");
    stage.until("no service", || async { !exists(ResourceKind::SERVICE, "moved").await }).await;
    stage.until("no account", || async { !exists(ResourceKind::SERVICE_ACCOUNT, "moved").await }).await;
    stage
        .until("no pods", || async { stage.pods().await.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()) })
        .await;
    let state = |status: Value| status["connectionState"]["lastObservedState"].clone();
    stage.until("no answer", || async { state(stage.status("moved").await) == "TRANSIENT_FAILURE" }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_namespace_gets_restricted_pods() {
    let stage = Stage::new().await;
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let namespaces = stage.kit.cluster.objects(ResourceKind::NAMESPACE);
    let namespace = stage.kit.cluster.namespace.clone();
    namespaces.patch(&namespace, &PatchParams::default(), &Patch::Merge(&labels)).await.expect("labelled");
    // The same holds if the controller may not read the labels.
    for unread in [false, true] {
        if unread {
            let all = stage.rules.as_array().unwrap().iter();
            let blind: Vec<Value> = all.filter(|rule| rule["resources"] != json!(["namespaces"])).cloned().collect();
            stage.allow(&json!(blind)).await;
        }
        let name = if unread { "unread" } else { "read" };
        let (_replica, _) = stage.start("a");
        stage.catalog(name, image()).await;
        let is_of = |pod: &cluster::ClusterObject| {
            pod.metadata.labels.clone().unwrap_or_default().get("olm.catalogSource").is_some_and(|of| of == name)
        };
        stage.until("a pod", || async { stage.pods().await.iter().any(is_of) }).await;
        let pods = stage.pods().await;
        let pod = pods.iter().find(|pod| is_of(pod)).unwrap();
        assert_eq!(pod.data["spec"]["securityContext"]["runAsNonRoot"], true, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_does_not_rewrite_an_unchanged_status() {
    let stage = Stage::new().await;
    stage.kit.env.file("catalog/catalog.yaml", SMALL);
    let mut serve = stage.kit.env.command();
    serve.args(["serve", "catalog", "--address", "127.0.0.1", "--port", "0", "-t", ""]);
    let log = std::fs::File::create(stage.kit.env.path("serve.txt")).unwrap();
    let _server = Stopped(serve.stderr(log).stdout(Stdio::null()).spawn().unwrap());
    let address = loop {
        let text = stage.kit.env.read("serve.txt");
        if let Some((_, rest)) = text.split_once("address=127.0.0.1:") {
            let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
            break format!("127.0.0.1:{port}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let (first, _) = stage.start("a");
    stage.catalog("steady", json!({"sourceType": "grpc", "address": address})).await;
    let state = |status: Value| status["connectionState"]["lastObservedState"].clone();
    stage.until("ready", || async { state(stage.status("steady").await) == "READY" }).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = stage.kit.get(ResourceKind::CATALOG_SOURCE, "steady").await.metadata.resource_version;
    let (_second, health) = stage.start("b");
    drop(first);
    let port = health.rsplit(':').next().unwrap().to_owned();
    let leads = || async { get(&format!("127.0.0.1:{port}"), "/metrics").1.contains("opm_controller_leading 1") };
    stage.until("the other leads", leads).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let after = stage.kit.get(ResourceKind::CATALOG_SOURCE, "steady").await;
    assert_eq!(after.metadata.resource_version, before, "{}", after.data["status"]);
}

#[test]
fn manifests_pass_images_and_users_to_the_controller() {
    let env = crate::env::TestEnv::new();
    let flags = ["--opm-image", "r.test/o:v1", "--util-image", "r.test/u:v1", "--set-workload-user-id=false"];
    let printed = env.stdout(&[&["controller", "manifests", "--image", "r.test/opm:v1"][..], &flags].concat());
    for word in ["--opm-image=r.test/o:v1", "--util-image=r.test/u:v1", "--set-workload-user-id=false"] {
        assert!(printed.contains(word), "{printed}");
    }
    assert!(!printed.contains("runAsUser"), "{printed}");
}
