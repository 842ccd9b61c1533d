//! `opm controller`: catalogs on a cluster without OLM's catalog operator.

use std::collections::{BTreeMap, HashMap};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cluster::{Access, ClusterObject, ResourceKind};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use serve::probe::Probe;
use testkit::{DockerRegistry, KubeApi, RegistryPlan, User};

use crate::env::TestEnv;
use crate::kit::{Kit, apply};
use crate::node::{Node, everywhere, resolve};

/// A replica that is killed on drop.
struct Replica(Child);

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a replica with this identity.
fn replica(env: &TestEnv, name: &str, kubeconfig: &std::path::Path, more: &[&str]) -> Replica {
    let log = std::fs::File::create(env.path(&format!("{name}.log"))).unwrap();
    let mut command: Command = env.command();
    command.args(["controller", "--kubeconfig"]).arg(kubeconfig).args(["--lease-duration", "2s", "--overlap", "1s"]);
    Replica(command.args(more).env("POD_NAME", name).stderr(log).stdout(Stdio::null()).spawn().unwrap())
}

/// Polls until a condition holds; otherwise fails and shows the logs.
async fn until<F: Future<Output = bool>>(what: &str, seconds: u64, env: &TestEnv, mut holds: impl FnMut() -> F) {
    let start = Instant::now();
    while !holds().await {
        if start.elapsed() > Duration::from_secs(seconds) {
            let logs: String =
                env.names("").iter().filter(|name| name.ends_with(".log")).map(|name| env.read(name)).collect();
            panic!("timeout after {seconds} s: {what}\n{}", &logs[logs.len().saturating_sub(6000)..]);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn push(env: &TestEnv, reference: &str, version: u32) {
    let text = format!(
        "schema: olm.package\nname: p\ndefaultChannel: c\n---\nschema: olm.channel\npackage: p\nname: c\nentries:\n- name: \
         p.v{version}.0.0\n---\nschema: olm.bundle\nname: p.v{version}.0.0\npackage: p\nimage: r.test/p:v{version}\nproperties:\n\
         - type: olm.package\n  value:\n    packageName: p\n    version: {version}.0.0\n"
    );
    env.file("catalog/catalog.yaml", text);
    env.stdout(&["build", "catalog", "-t", reference, "--data-only", "--push", "--use-http"]);
}

fn source(name: &str, namespace: &str, spec: Value) -> ClusterObject {
    serde_json::from_value(json!({
        "apiVersion": ResourceKind::CATALOG_SOURCE.api_version(), "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    }))
    .unwrap()
}

fn is_ready(pod: &ClusterObject) -> bool {
    let conditions = pod.data.pointer("/status/conditions").and_then(Value::as_array);
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

/// Returns the ready pods that a service selects, by the name of the catalog.
async fn selected(client: &kube::Client) -> Option<BTreeMap<String, Vec<ClusterObject>>> {
    let pods = everywhere(client, ResourceKind::POD).list(&ListParams::default()).await.ok()?;
    let mut selected: BTreeMap<String, Vec<ClusterObject>> = BTreeMap::new();
    for pod in pods.items.into_iter().filter(is_ready) {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let name = labels.get("olm.catalogSource").filter(|name| !name.is_empty()).cloned();
        if let (Some(name), true) = (name, labels.get("olm.managed").is_some_and(|value| value == "true")) {
            selected.entry(name).or_default().push(pod);
        }
    }
    Some(selected)
}

async fn responds(node: &Node, pods: &[ClusterObject]) -> bool {
    for pod in pods {
        let Some(address) = node.address(pod.metadata.name.as_deref().unwrap()) else { continue };
        let wait = Duration::from_secs(5);
        let probe = Probe {
            address: address.to_string(),
            service: String::new(),
            connect_timeout: wait,
            rpc_timeout: wait,
            tls: None,
        };
        if probe.run().await.is_ok() {
            return true;
        }
    }
    false
}

/// Applies the output of `opm controller manifests`, and returns the user that the controller runs as.
async fn install(api: &KubeApi, env: &TestEnv) -> User {
    let client = api.client().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "olm"}});
    let namespace: ClusterObject = serde_json::from_value(namespace).unwrap();
    everywhere(&client, ResourceKind::NAMESPACE).create(&PostParams::default(), &namespace).await.unwrap();
    let printed = env.stdout(&["controller", "manifests", "--image", "r.test/opm:v1"]);
    apply(&client, &printed).await;
    let rule = json!({"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["patch"]});
    api.wait_until_allowed("system:serviceaccount:olm:opm-controller", "olm", &rule).await;
    api.user("system:serviceaccount:olm:opm-controller", &["system:serviceaccounts", "system:serviceaccounts:olm"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogs_follow_their_images_without_an_outage_while_the_leader_is_killed() {
    const REPOSITORIES: usize = 3;
    let count = std::env::var("OPM_CONTROLLER_CATALOGS").map_or(6, |text| text.parse().expect("a number"));
    let registry = DockerRegistry::start(RegistryPlan::default()).expect("docker-registry, of Debian, is installed");
    let mut api = KubeApi::start();
    let env = TestEnv::new();
    std::fs::create_dir_all(env.path("home")).unwrap();
    let user = install(&api, &env).await;
    let client = api.client().await;
    let image = |number: usize| format!("{}/team/catalog-{}:latest", registry.host(), number % REPOSITORIES);
    for number in 0..REPOSITORIES {
        push(&env, &image(number), 1);
    }
    let node = Arc::new(Node::start(client.clone(), env.path("home")));
    let arguments = ["--lease-namespace", "olm"];
    let mut replicas = HashMap::from([
        ("a".to_owned(), replica(&env, "a", &user.kubeconfig, &arguments)),
        ("b".to_owned(), replica(&env, "b", &user.kubeconfig, &arguments)),
    ]);
    let cluster = Access { kubeconfig: Some(api.kubeconfig()), context: None, namespace: Some("olm".into()) };
    let cluster = cluster.connect().await.unwrap();
    let catalogs = cluster.objects(ResourceKind::CATALOG_SOURCE);
    for number in 0..count {
        let spec = json!({
            "sourceType": "grpc", "image": image(number), "updateStrategy": {"registryPoll": {"interval": "8s"}},
        });
        let name = format!("catalog-{number}");
        catalogs.create(&PostParams::default(), &source(&name, "olm", spec)).await.unwrap();
    }
    // An invalid catalog, and one with a missing image, do not affect the others.
    let wrong = source("wrong", "olm", json!({"sourceType": "grpc"}));
    catalogs.create(&PostParams::default(), &wrong).await.unwrap();
    let missing =
        source("missing", "olm", json!({"sourceType": "grpc", "image": format!("{}/none:v1", registry.host())}));
    catalogs.create(&PostParams::default(), &missing).await.unwrap();
    until("all are served", 120, &env, || async { selected(&client).await.is_some_and(|all| all.len() == count) })
        .await;

    // From now on every catalog must respond at any time.
    let (over, checks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let checker = tokio::spawn({
        let (over, checks, node, client) = (over.clone(), checks.clone(), node.clone(), client.clone());
        async move {
            let mut number = 0;
            while !over.load(Ordering::Relaxed) {
                // The API server itself may be unreachable.
                let Some(all) = selected(&client).await else {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let silent: Vec<usize> =
                    (0..count).filter(|number| !all.contains_key(&format!("catalog-{number}"))).collect();
                assert!(silent.is_empty(), "no pod is selected and ready for {silent:?}");
                for _ in 0..5 {
                    number = (number + 7) % count;
                    let name = format!("catalog-{number}");
                    let mut responded = responds(&node, &all[&name]).await;
                    if !responded {
                        // Pods that were selected a moment ago may have ended; then others are selected now.
                        let Some(now) = selected(&client).await else { continue };
                        responded = responds(&node, now.get(&name).map_or(&[], Vec::as_slice)).await;
                    }
                    assert!(responded, "{name} does not respond");
                    checks.fetch_add(1, Ordering::Relaxed);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    });

    let newest = |version: u32| {
        for number in 0..REPOSITORIES {
            push(&env, &image(number), version);
        }
        (0..REPOSITORIES).map(|number| resolve(&image(number)).unwrap()).collect::<Vec<_>>()
    };
    let all_at = |ids: Vec<String>| {
        let client = client.clone();
        async move {
            let Some(all) = selected(&client).await else { return false };
            (0..count).all(|number| {
                let pods = all.get(&format!("catalog-{number}")).map_or(&[][..], Vec::as_slice);
                let id = |pod: &ClusterObject| pod.data["status"]["containerStatuses"][0]["imageID"].clone();
                !pods.is_empty() && pods.iter().all(|pod| id(pod) == ids[number % REPOSITORIES].as_str())
            })
        }
    };
    let ids = newest(2);
    tokio::time::sleep(Duration::from_secs(3)).await;
    // The leader is killed.
    let lease = cluster.get(ResourceKind::LEASE, "opm-controller").await.unwrap();
    let holder = lease.data["spec"]["holderIdentity"].as_str().unwrap().split('_').next().unwrap().to_owned();
    drop(replicas.remove(&holder).expect("one of the two leads"));
    until("all are at the second image", 120, &env, || all_at(ids.clone())).await;
    let lease = cluster.get(ResourceKind::LEASE, "opm-controller").await.unwrap();
    let other = lease.data["spec"]["holderIdentity"].as_str().unwrap().split('_').next().unwrap().to_owned();
    assert!(other != holder && replicas.contains_key(&other), "{other} leads after {holder}");
    // The API server stops during the takeover.
    let ids = newest(3);
    tokio::time::sleep(Duration::from_secs(2)).await;
    api.stop_server();
    tokio::time::sleep(Duration::from_secs(1)).await;
    tokio::task::block_in_place(|| api.start_server());
    until("all are at the third image", 120, &env, || all_at(ids.clone())).await;
    over.store(true, Ordering::Relaxed);
    checker.await.expect("no gap");
    assert!(checks.load(Ordering::Relaxed) > 50, "only {checks:?} checks ran");

    let status = |name: &'static str| {
        let cluster = cluster.clone();
        async move { cluster.get(ResourceKind::CATALOG_SOURCE, name).await.unwrap().data["status"].clone() }
    };
    let shown = status("wrong").await;
    assert_eq!(shown["reason"], "SpecInvalidError");
    assert_eq!(shown["message"], "image and address unset: at least one must be set for sourcetype: grpc");
    let shown = status("missing").await;
    assert_eq!(shown["reason"], "RegistryServerError");
    assert!(shown["message"].as_str().unwrap().contains("cannot be pulled"), "{shown}");
    let shown = status("catalog-4").await;
    assert_eq!(shown["registryService"]["serviceName"], "catalog-4");
    assert_eq!(shown["connectionState"]["address"], "catalog-4.olm.svc:50051");
    assert!(shown["latestImageRegistryPoll"].is_string(), "{shown}");
    // On SIGTERM the leader releases the lease.
    let mut last = replicas.remove(&other).unwrap();
    assert!(Command::new("kill").arg(last.0.id().to_string()).status().unwrap().success());
    assert!(tokio::task::block_in_place(|| last.0.wait()).unwrap().success());
    let lease = cluster.get(ResourceKind::LEASE, "opm-controller").await.unwrap();
    assert_eq!(lease.data["spec"]["holderIdentity"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_and_status_follow_the_catalog() {
    let kit = Kit::new().await;
    let namespace = kit.cluster.namespace.clone();
    let _replica = replica(&kit.env, "one", &kit.api.kubeconfig(), &["-n", &namespace, "--http", "127.0.0.1:0"]);
    let config = json!({
        "securityContextConfig": "restricted", "nodeSelector": {"disk": "fast"}, "priorityClassName": "",
        "extractContent": {"catalogDir": "/configs", "cacheDir": "/cache"}, "memoryTarget": "40Mi",
    });
    let spec = json!({
        "sourceType": "grpc", "image": "r.test/catalog:v1", "secrets": ["s", ""], "grpcPodConfig": config,
        "updateStrategy": {"registryPoll": {"interval": "often"}},
    });
    kit.create(ResourceKind::CATALOG_SOURCE, json!({"metadata": {"name": "dotted.name"}, "spec": spec})).await;
    let pods = kit.cluster.objects(ResourceKind::POD);
    until("there is a pod", 30, &kit.env, || async {
        pods.list(&ListParams::default()).await.is_ok_and(|pods| !pods.items.is_empty())
    })
    .await;
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0);
    let labels = pod.metadata.labels.unwrap();
    assert_eq!(labels["olm.catalogSource"], "dotted.name");
    assert_eq!(pod.metadata.owner_references.unwrap()[0].name, "dotted.name");
    assert_eq!(pod.data["spec"]["nodeSelector"], json!({"disk": "fast"}));
    assert_eq!(pod.data["spec"]["initContainers"][1]["image"], "r.test/catalog:v1");
    let service = kit.get(ResourceKind::SERVICE, "dotted-name").await;
    let selector = service.data["spec"]["selector"].as_object().unwrap().clone();
    assert!(selector.iter().all(|(key, value)| labels[key] == *value), "{selector:?}");
    let account = kit.get(ResourceKind::SERVICE_ACCOUNT, "dotted.name").await;
    assert_eq!(account.data["imagePullSecrets"], json!([{"name": "s"}]));
    kit.get(ResourceKind::NETWORK_POLICY, "dotted.name-grpc-server").await;
    until("the status is told", 10, &kit.env, || async {
        let status = kit.get(ResourceKind::CATALOG_SOURCE, "dotted.name").await.data["status"].clone();
        status["reason"] == "InvalidIntervalError" && status["connectionState"]["lastObservedState"] == "CONNECTING"
    })
    .await;
    // Health and metrics are served.
    let log = kit.env.read("one.log");
    let address = log.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().trim_matches('"').to_owned();
    let get = |path: &str| {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    };
    assert!(get("/healthz").starts_with("HTTP/1.1 200"));
    assert!(get("/readyz").starts_with("HTTP/1.1 200"));
    assert!(get("/metrics").contains("opm_controller_leading 1"));
    // A deleted service is created again.
    kit.cluster.objects(ResourceKind::SERVICE).delete("dotted-name", &Default::default()).await.unwrap();
    until("the service is back", 30, &kit.env, || async {
        kit.cluster.get(ResourceKind::SERVICE, "dotted-name").await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_with_an_address_is_probed_there() {
    let kit = Kit::new().await;
    kit.env.file("catalog/catalog.yaml", crate::env::SMALL);
    let mut command = kit.env.command();
    command.args(["serve", "catalog", "--address", "127.0.0.1", "--port", "0", "-t", ""]).stderr(Stdio::piped());
    let mut server = Replica(command.spawn().unwrap());
    let log = std::io::BufReader::new(server.0.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(log).map_while(Result::ok);
    let address = lines.find_map(|line| Some(line.split_once("address=")?.1.split(' ').next()?.to_owned())).unwrap();
    std::thread::spawn(move || lines.for_each(drop));
    let namespace = kit.cluster.namespace.clone();
    let _replica = replica(&kit.env, "one", &kit.api.kubeconfig(), &["-n", &namespace]);
    let spec = json!({"sourceType": "grpc", "address": address});
    kit.create(ResourceKind::CATALOG_SOURCE, json!({"metadata": {"name": "cat"}, "spec": spec})).await;
    let state =
        || async { kit.get(ResourceKind::CATALOG_SOURCE, "cat").await.data["status"]["connectionState"].clone() };
    until("it is connected", 30, &kit.env, || async { state().await["lastObservedState"] == "READY" }).await;
    assert_eq!(state().await["address"], address.as_str());
    let shown = kit.opm(&["catalog", "status", "cat"]);
    assert!(shown.contains("READY"), "{shown}");
    server.0.kill().unwrap();
    kit.opm(&["catalog", "apply", "other", "--image", "r.test/other:v1"]);
    // A change of the catalog makes the controller check immediately.
    let patch = Patch::Merge(json!({"spec": {"displayName": "gone"}}));
    kit.cluster.objects(ResourceKind::CATALOG_SOURCE).patch("cat", &PatchParams::default(), &patch).await.unwrap();
    until("it is known to be gone", 30, &kit.env, || async {
        state().await["lastObservedState"] == "TRANSIENT_FAILURE"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_template_follows_the_version_of_the_cluster() {
    let kit = Kit::new().await;
    let namespace = kit.cluster.namespace.clone();
    let version = kit.api.client().await.apiserver_version().await.expect("a version");
    let image = format!("r.test/catalog:v{}.{}", version.major, version.minor.trim_end_matches('+'));
    let _replica = replica(&kit.env, "one", &kit.api.kubeconfig(), &["-n", &namespace]);
    let annotations = json!({"olm.catalogImageTemplate": "r.test/catalog:v{kube_major_version}.{kube_minor_version}"});
    let metadata = json!({"name": "cat", "annotations": annotations});
    kit.create(ResourceKind::CATALOG_SOURCE, json!({"metadata": metadata, "spec": {"sourceType": "grpc"}})).await;
    let object = || kit.get(ResourceKind::CATALOG_SOURCE, "cat");
    until("the image is known", 30, &kit.env, || async { object().await.data["spec"]["image"] == image.as_str() })
        .await;
    until("that is told", 30, &kit.env, || async {
        let conditions = object().await.data["status"]["conditions"].clone();
        conditions[0]["status"] == "True" && conditions[1]["message"] == image.as_str()
    })
    .await;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"olm.catalogImageTemplate": "r.test/{unknown}"}}}));
    kit.cluster.objects(ResourceKind::CATALOG_SOURCE).patch("cat", &PatchParams::default(), &patch).await.unwrap();
    until("what is wrong is told", 30, &kit.env, || async {
        let conditions = object().await.data["status"]["conditions"].clone();
        conditions[0]["message"] == "nothing is known of {unknown}"
    })
    .await;
    assert_eq!(object().await.data["spec"]["image"], image.as_str());
}
