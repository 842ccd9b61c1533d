//! `opm controller --olm v1`: ClusterCatalogs without catalogd.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cluster::{ClusterObject, ResourceKind};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::{DockerRegistry, RegistryPlan, Response, plain_client, post, request};

use crate::kit::{Kit, apply};

/// A replica that is killed on drop.
struct Replica {
    child: Child,
    log: String,
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a replica that serves on a free port.
fn replica(kit: &Kit, name: &str) -> Replica {
    replica_as(kit, name, "v1", &kit.api.kubeconfig())
}

/// Starts a replica with the permissions of a user.
fn replica_as(kit: &Kit, name: &str, lease: &str, kubeconfig: &Path) -> Replica {
    let log = format!("{name}.log");
    let file = std::fs::File::create(kit.env.path(&log)).unwrap();
    let mut command = kit.env.command();
    command.args(["controller", "--olm", "v1", "--use-http", "--catalogs-address", "127.0.0.1:0"]);
    command.args(["--external-address", "catalogs.test", "--lease-duration", "2s", "--lease-name", lease]);
    command.args(["--lease-namespace", &kit.cluster.namespace, "--kubeconfig"]).arg(kubeconfig);
    let child = command.env("POD_NAME", name).stderr(file).stdout(Stdio::null()).spawn().unwrap();
    Replica { child, log }
}

/// Polls until `poll` returns a value; otherwise fails and shows the logs.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, kit: &Kit, mut poll: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = poll().await {
            return found;
        }
        if start.elapsed() > Duration::from_secs(60) {
            let logs = kit.env.names("").into_iter().filter(|name| name.ends_with(".log"));
            let logs: String = logs.map(|name| kit.env.read(&name)).collect();
            panic!("timeout: {what}\n{}", &logs[logs.len().saturating_sub(6000)..]);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn address(kit: &Kit, replica: &Replica) -> String {
    until("it listens", kit, || async {
        let log = kit.env.read(&replica.log);
        let (_, rest) = log.lines().find(|line| line.contains("\"serving catalogs\""))?.split_once("127.0.0.1:")?;
        let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some(format!("127.0.0.1:{port}"))
    })
    .await
}

/// Creates the CRD, with the fields that these tests use.
async fn define(kit: &Kit) {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clustercatalogs.olm.operatorframework.io"},
        "spec": {
            "group": "olm.operatorframework.io", "scope": "Cluster",
            "names": {"kind": "ClusterCatalog", "listKind": "ClusterCatalogList", "plural": "clustercatalogs",
                "singular": "clustercatalog"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema":
                {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let crds = kit.cluster.objects(ResourceKind::CRD);
    let name = "clustercatalogs.olm.operatorframework.io";
    crds.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&crd)).await.expect("the kind");
    until("the kind is served", kit, || async {
        kit.cluster.objects(ResourceKind::CLUSTER_CATALOG).list(&Default::default()).await.ok()
    })
    .await;
}

fn push(kit: &Kit, reference: &str, package: &str) {
    kit.env.file("catalog/catalog.yaml", format!(
        "schema: olm.package\nname: {package}\ndefaultChannel: c\n---\nschema: olm.channel\npackage: {package}\nname: c\nentries:\n- \
         name: {package}.v1.0.0\n---\nschema: olm.bundle\nname: {package}.v1.0.0\npackage: {package}\nimage: r.test/p:v1\nproperties:\n\
         - type: olm.package\n  value:\n    packageName: {package}\n    version: 1.0.0\n"
    ));
    kit.env.stdout(&["build", "catalog", "-t", reference, "--data-only", "--push", "--use-http"]);
}

async fn get(kit: &Kit, name: &str) -> Option<ClusterObject> {
    kit.cluster.objects(ResourceKind::CLUSTER_CATALOG).get_opt(name).await.expect("a response")
}

/// Returns a condition as `STATUS REASON`, if it has the current generation of the object.
fn condition(object: &ClusterObject, kind: &str) -> Option<String> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let one = conditions.iter().find(|one| one["type"] == kind)?;
    let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    (one["observedGeneration"].as_i64() == object.metadata.generation)
        .then(|| format!("{} {}", text("status"), text("reason")))
}

/// Waits until both conditions of a ClusterCatalog have these values.
async fn wait_for_conditions(kit: &Kit, name: &str, serving: &str, progressing: &str) -> ClusterObject {
    until(&format!("{name} is {serving}, {progressing}"), kit, || async {
        let object = get(kit, name).await?;
        let now = (condition(&object, "Serving")?, condition(&object, "Progressing")?);
        (now == (serving.to_owned(), progressing.to_owned())).then_some(object)
    })
    .await
}

async fn change(kit: &Kit, name: &str, spec: Value) {
    let catalogs = kit.cluster.objects(ResourceKind::CLUSTER_CATALOG);
    catalogs.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.expect("changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_replica_serves_cluster_catalogs_with_the_status_of_catalogd() {
    let kit = Kit::new().await;
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    define(&kit).await;
    let name = &format!("c-{}", kit.cluster.namespace);
    let image = |tag: &str| format!("{}/catalog:{tag}", registry.host());
    push(&kit, &image("v1"), "one");
    push(&kit, &image("v2"), "two");
    let object: ClusterObject = serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": image("v1")}}},
    }))
    .unwrap();
    kit.cluster.objects(ResourceKind::CLUSTER_CATALOG).create(&PostParams::default(), &object).await.expect("created");
    let (first, second) = (replica(&kit, "first"), replica(&kit, "second"));
    let clients = [plain_client(&address(&kit, &first).await), plain_client(&address(&kit, &second).await)];
    let all = |client: kube::Client| {
        let path = format!("/catalogs/{name}/api/v1/all");
        async move { request(&client, "GET", &path).await }
    };
    let shows = async |package: &str| {
        for client in &clients {
            until(package, &kit, || async {
                let response: Response = all(client.clone()).await;
                (response.status == 200 && response.body.contains(&format!("\"name\":\"{package}\""))).then_some(())
            })
            .await;
        }
    };

    // Both replicas serve the catalog.
    let object = wait_for_conditions(&kit, name, "True Available", "True Succeeded").await;
    assert_eq!(object.metadata.labels.unwrap()["olm.operatorframework.io/metadata.name"], *name);
    assert_eq!(object.metadata.finalizers.unwrap(), ["olm.operatorframework.io/delete-server-cache"]);
    assert_eq!(object.data["status"]["urls"]["base"], format!("http://catalogs.test/catalogs/{name}"));
    assert!(object.data["status"]["resolvedSource"]["image"]["ref"].as_str().unwrap().contains("/catalog@sha256:"));
    assert!(object.data["status"]["lastUnpacked"].is_string());
    shows("one").await;
    let metas = request(&clients[0], "GET", &format!("/catalogs/{name}/api/v1/metas?schema=olm.package")).await;
    assert_eq!(metas.body.lines().count(), 1, "{}", metas.body);
    let query = r#"{"query": "{ olmbundles { name } }"}"#;
    let response = post(&clients[1], &format!("/catalogs/{name}/api/v1/graphql"), query).await;
    assert!(response.status == 200 && response.body.contains("one.v1.0.0"), "{}", response.body);
    assert_eq!(request(&clients[0], "GET", "/catalogs/other/api/v1/all").await.status, 404);

    // A new image that fails leaves the old one in place.
    change(&kit, name, json!({"source": {"image": {"ref": image("missing")}}})).await;
    let object = wait_for_conditions(&kit, name, "True Available", "True Retrying").await;
    let message = object.data["status"]["conditions"].to_string();
    assert!(message.contains("source catalog content: "), "{message}");
    shows("one").await;
    change(&kit, name, json!({"source": {"image": {"ref": image("v2")}}})).await;
    wait_for_conditions(&kit, name, "True Available", "True Succeeded").await;
    shows("two").await;

    // The leader ends, and the other replica takes over.
    drop(first);
    change(&kit, name, json!({"availabilityMode": "Unavailable"})).await;
    let object = wait_for_conditions(&kit, name, "False UserSpecifiedUnavailable", "True Succeeded").await;
    assert!(object.data["status"]["urls"].is_null() && object.data["status"]["resolvedSource"].is_null());
    until("it is gone", &kit, || async { (all(clients[1].clone()).await.status == 404).then_some(()) }).await;
    change(&kit, name, json!({"availabilityMode": "Available"})).await;
    wait_for_conditions(&kit, name, "True Available", "True Succeeded").await;

    // A deleted catalog is removed with its content.
    kit.cluster.objects(ResourceKind::CLUSTER_CATALOG).delete(name, &DeleteParams::default()).await.expect("deleted");
    until("it is deleted", &kit, || async { get(&kit, name).await.is_none().then_some(()) }).await;
    until("its content is gone", &kit, || async { (all(clients[1].clone()).await.status == 404).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_grant_a_controller_of_cluster_catalogs_the_permissions_that_it_uses() {
    let kit = Kit::own().await;
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    define(&kit).await;
    let namespace = kit.cluster.namespace.as_str();
    let printed = kit.env.stdout(&[
        "controller",
        "manifests",
        "--olm",
        "v1",
        "--image",
        "r.test/opm:v1",
        "--to",
        namespace,
        "--tls-secret",
        "catalogs-tls",
    ]);
    assert!(!printed.contains("catalogsources") && !printed.contains("pods\n"), "{printed}");
    apply(&kit.cluster.client, &printed).await;
    let service = kit.get(ResourceKind::SERVICE, "opm-controller").await;
    assert_eq!(service.data["spec"]["ports"][0]["port"], 443);
    let deployment = kit.get(ResourceKind::DEPLOYMENT, "opm-controller").await;
    let container = &deployment.data["spec"]["template"]["spec"]["containers"][0];
    let arguments: Vec<&str> = container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    // The program accepts these arguments; only a cluster is missing here.
    let shown = kit.env.opm(&arguments);
    assert!(shown.contains("no cluster configured"), "{shown}");
    assert!(arguments.contains(&&*format!("--external-address=opm-controller.{namespace}.svc")), "{arguments:?}");

    let account = format!("system:serviceaccount:{namespace}:opm-controller");
    let rule = json!({"apiGroups": ["olm.operatorframework.io"], "resources": ["clustercatalogs"], "verbs": ["patch"]});
    kit.api.wait_until_allowed(&account, namespace, &rule).await;
    let user = kit.api.user(&account, &["system:serviceaccounts"]);
    let replica = replica_as(&kit, "only", "opm-controller", &user.kubeconfig);
    address(&kit, &replica).await;
    let image = format!("{}/catalog:v1", registry.host());
    push(&kit, &image, "one");
    let spec = json!({"source": {"type": "Image", "image": {"ref": image}}});
    kit.create(ResourceKind::CLUSTER_CATALOG, json!({"metadata": {"name": "one"}, "spec": spec})).await;
    wait_for_conditions(&kit, "one", "True Available", "True Succeeded").await;
    kit.cluster.objects(ResourceKind::CLUSTER_CATALOG).delete("one", &DeleteParams::default()).await.expect("deleted");
    until("it is deleted", &kit, || async { get(&kit, "one").await.is_none().then_some(()) }).await;
    let log = kit.env.read(&replica.log);
    assert!(!log.contains("forbidden"), "{log}");

    let output = kit.env.opm(&["controller", "manifests", "--image", "r.test/opm:v1", "--tls-secret", "x"]);
    assert!(output.contains("--tls-secret requires --olm v1"), "{output}");
    let output = kit.env.opm(&["controller", "manifests", "--olm", "v1", "--image", "r.test/opm:v1", "-n", "x"]);
    assert!(output.contains("--namespace cannot be used with --olm v1"), "{output}");
}
