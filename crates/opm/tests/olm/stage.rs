//! A namespace of a cluster with OLM, a registry with images, and a node.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::{Access, Cluster, ClusterObject, ResourceKind};
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use testkit::{DockerRegistry, Node, Olm, RegistryPlan};

pub(crate) use testkit::Running;

use crate::env::{Stopped, TestEnv};
use crate::operator::Operator;

/// How long OLM may take for any step.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Kinds of objects that a run or OLM creates.
const KINDS: [ResourceKind; 17] = [
    ResourceKind::CATALOG_SOURCE,
    ResourceKind::SUBSCRIPTION,
    ResourceKind::INSTALL_PLAN,
    ResourceKind::CSV,
    ResourceKind::OPERATOR_GROUP,
    ResourceKind { kind: "OperatorCondition", plural: "operatorconditions", version: "v2", ..ResourceKind::CSV },
    ResourceKind::CONFIG_MAP,
    ResourceKind::POD,
    ResourceKind::SERVICE,
    ResourceKind::SERVICE_ACCOUNT,
    ResourceKind::SECRET,
    ResourceKind::DEPLOYMENT,
    ResourceKind { kind: "ReplicaSet", plural: "replicasets", ..ResourceKind::DEPLOYMENT },
    ResourceKind::JOB,
    ResourceKind { group: "rbac.authorization.k8s.io", kind: "Role", plural: "roles", ..ResourceKind::POD },
    ResourceKind {
        group: "rbac.authorization.k8s.io",
        kind: "RoleBinding",
        plural: "rolebindings",
        ..ResourceKind::POD
    },
    ResourceKind::NETWORK_POLICY,
];

pub(crate) struct Stage {
    pub(crate) env: TestEnv,
    pub(crate) olm: Olm,
    pub(crate) cluster: Cluster,
    pub(crate) registry: Arc<DockerRegistry>,
    pub(crate) node: Option<Node>,
}

impl Stage {
    /// Creates a stage with the shared OLM; `None` if its programs are missing.
    pub(crate) async fn shared() -> Option<Stage> {
        let olm = tokio::task::block_in_place(Olm::shared)?;
        Stage::with(olm).await
    }

    /// Creates a stage on a cluster.
    pub(crate) async fn with(olm: Olm) -> Option<Stage> {
        let registry = Arc::new(DockerRegistry::start(RegistryPlan::default())?);
        let namespace = olm.api.namespace().await;
        let node = olm.node(&namespace, Path::new(env!("CARGO_BIN_EXE_opm"))).await;
        let access = Access { kubeconfig: Some(olm.api.kubeconfig()), context: None, namespace: Some(namespace) };
        let cluster = access.connect().await.expect("a cluster");
        let env = TestEnv::new();
        // The serving image is looked up here, and never in its real registry.
        let place = format!("location = \"{}/opm\"\ninsecure = true\n", registry.host());
        let settings = format!("[[registry]]\nprefix = \"quay.io/operator-framework/opm\"\n{place}");
        env.file("home/.config/containers/registries.conf", settings);
        Some(Stage { env, olm, cluster, registry, node: Some(node) })
    }

    /// Creates a stage in another namespace of the shared cluster, without a node.
    pub(crate) async fn in_another_namespace(&self) -> Option<Stage> {
        let olm = tokio::task::block_in_place(Olm::shared)?;
        let namespace = Some(olm.api.namespace().await);
        let access = Access { kubeconfig: Some(olm.api.kubeconfig()), context: None, namespace };
        let cluster = access.connect().await.expect("a cluster");
        Some(Stage { env: TestEnv::new(), olm, cluster, registry: self.registry.clone(), node: None })
    }

    /// Deletes objects that OLM would continue to reconcile, and the namespace.
    pub(crate) async fn end(self) {
        for kind in [ResourceKind::SUBSCRIPTION, ResourceKind::CATALOG_SOURCE, ResourceKind::CSV] {
            let all = self.cluster.objects(kind);
            // Everything else is deleted with the namespace.
            let _ = all.delete_collection(&Default::default(), &ListParams::default()).await;
        }
        let _ = self.cluster.objects(ResourceKind::NAMESPACE).delete(self.namespace(), &Default::default()).await;
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.cluster.namespace
    }

    /// Returns an operator of this namespace.
    pub(crate) fn operator(&self, package: &str, version: &str) -> Operator {
        Operator::new(package, version, self.namespace())
    }

    /// Pushes an image with files, and returns its name.
    pub(crate) fn push(&self, name: &str, files: &[(String, Vec<u8>)], labels: &[(String, String)]) -> String {
        let scratch = tempfile::tempdir().expect("scratch directory");
        let store = image::Store::open(&scratch.path().join("store")).expect("store");
        let mut layer = image::Layer::new();
        for (number, (path, content)) in files.iter().enumerate() {
            let file = scratch.path().join(number.to_string());
            std::fs::write(&file, content).expect("file");
            let mode = if path.starts_with("/bin/") { 0o755 } else { 0o644 };
            layer.file(path, &file, mode).expect("file of a layer");
        }
        let layer = layer.write(&store, 0, &|_| {}).expect("layer");
        let plan = image::ImagePlan { labels: labels.iter().cloned().collect(), ..image::ImagePlan::default() };
        let built = image::build(&store, &plan, &[layer], None).expect("image");
        let mut options = image::ClientOptions::new(store);
        options.use_http = true;
        let client = image::Client::new(options).expect("client");
        let name = format!("{}/{name}", self.registry.host());
        let push = || client.push(&built.digest, &image::Location::parse(&name).expect("a name"));
        // The caller may be inside a runtime already.
        std::thread::scope(|scope| scope.spawn(push).join().expect("no panic")).expect("pushed");
        name
    }

    /// Pushes the image of a bundle, and returns its name.
    pub(crate) fn bundle(&self, operator: &Operator) -> String {
        let name = format!("{}-bundle:v{}", operator.package, operator.version);
        self.push(&name, &operator.files(), &operator.labels())
    }

    /// Returns a command that works in the namespace.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.env.command();
        command.args(arguments).arg("--kubeconfig").arg(self.olm.api.kubeconfig()).args(["-n", self.namespace()]);
        if arguments.first() == Some(&"run") {
            command.arg("--use-http");
        }
        command
    }

    /// Runs a command in the namespace and returns its output.
    pub(crate) async fn opm(&self, arguments: &[&str]) -> String {
        let mut command = self.command(arguments);
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        self.shown(output.expect("no panic").expect("opm runs"))
    }

    /// Returns the report of a run from its output.
    pub(crate) fn report(output: &str) -> Value {
        let printed = output.split_once("--- stdout\n").and_then(|(_, rest)| rest.split_once("--- stderr\n"));
        let (report, _) = printed.unwrap_or_else(|| panic!("{output}"));
        testkit::assert_report("run", report.as_bytes());
        serde_json::from_str(report).unwrap_or_else(|error| panic!("{error}: {output}"))
    }

    /// Returns the output of a command, without the parts that differ between runs.
    pub(crate) fn shown(&self, output: Output) -> String {
        let dashed = self.registry.host().replace(['.', ':'], "-");
        self.env
            .show(output)
            .replace(self.registry.host(), "[REGISTRY]")
            .replace(&dashed, "REGISTRY")
            .replace(self.namespace(), "[NAMESPACE]")
    }

    pub(crate) async fn get(&self, kind: ResourceKind, name: &str) -> Option<Value> {
        let found = self.cluster.objects(kind).get_opt(name).await.expect("a response");
        found.map(|found| serde_json::to_value(found).expect("JSON"))
    }

    pub(crate) async fn list(&self, kind: ResourceKind) -> Vec<Value> {
        let found = self.cluster.objects(kind).list(&ListParams::default()).await.expect("a list");
        found.items.into_iter().map(|one| serde_json::to_value(one).expect("JSON")).collect()
    }

    pub(crate) async fn create(&self, kind: ResourceKind, object: &Value) -> ClusterObject {
        let mut object: ClusterObject = serde_json::from_value(object.clone()).expect("an object");
        object.types = Some(kube::api::TypeMeta { api_version: kind.api_version(), kind: kind.kind.into() });
        self.cluster.objects(kind).create(&PostParams::default(), &object).await.expect("created")
    }

    /// Returns the objects of the API that an operator owns.
    pub(crate) fn resources(&self, operator: &Operator) -> Api<DynamicObject> {
        let types = operator.resource("x");
        let resource = ApiResource {
            group: operator.group.clone(),
            version: "v1".into(),
            api_version: types["apiVersion"].as_str().expect("a version").into(),
            kind: types["kind"].as_str().expect("a kind").into(),
            plural: format!("{}s", operator.package),
        };
        Api::namespaced_with(self.cluster.client.clone(), self.namespace(), &resource)
    }

    /// Returns an object of the API that an operator owns.
    pub(crate) fn resource(&self, operator: &Operator, name: &str) -> DynamicObject {
        serde_json::from_value(operator.resource(name)).expect("an object")
    }

    /// Serves a directory of the temporary directory until the server is dropped; returns its address.
    pub(crate) async fn serve(&self, directory: &str) -> (Stopped, String) {
        self.serve_with(&[directory], "listening").await
    }

    /// Serves with additional arguments; returns the address from the line of the log that contains `words`.
    pub(crate) async fn serve_with(&self, arguments: &[&str], words: &'static str) -> (Stopped, String) {
        let mut command = self.env.command();
        command.arg("serve").args(arguments).args(["--address", "127.0.0.1", "--port", "0", "-t", ""]);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("opm runs");
        let mut log = BufReader::new(child.stderr.take().expect("a log"));
        let server = Stopped(child);
        let found = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            loop {
                let start = text.len();
                assert!(log.read_line(&mut text).expect("a log") > 0, "the server does not start:\n{text}");
                let address = text[start..].split_once("address=127.0.0.1:").filter(|_| text[start..].contains(words));
                if let Some((_, rest)) = address {
                    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
                    // Drain the log, or the server blocks when the pipe is full.
                    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
                    return format!("127.0.0.1:{port}");
                }
            }
        });
        (server, found.await.expect("an address"))
    }

    /// Creates a CatalogSource with an address.
    pub(crate) async fn source(&self, name: &str, address: &str, more: Value) {
        let mut spec = json!({"sourceType": "grpc", "address": address});
        spec.as_object_mut().expect("a spec").extend(more.as_object().expect("fields").clone());
        self.create(ResourceKind::CATALOG_SOURCE, &json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    /// Creates an OperatorGroup for the namespace itself.
    pub(crate) async fn group(&self) {
        let spec = json!({"targetNamespaces": [self.namespace()]});
        self.create(ResourceKind::OPERATOR_GROUP, &json!({"metadata": {"name": "group"}, "spec": spec})).await;
    }

    /// Creates a Subscription to the channel stable of a package.
    pub(crate) async fn subscribe(&self, package: &str, source: &str, more: Value) {
        let mut spec = json!({
            "name": package, "channel": "stable", "source": source, "sourceNamespace": self.namespace(),
        });
        spec.as_object_mut().expect("a spec").extend(more.as_object().expect("fields").clone());
        self.create(ResourceKind::SUBSCRIPTION, &json!({"metadata": {"name": package}, "spec": spec})).await;
    }

    /// Returns the names of all objects in the namespace, and of CRDs and cluster-scoped objects that belong to it.
    pub(crate) async fn everything(&self) -> Vec<String> {
        let mut all = Vec::new();
        for kind in KINDS {
            for object in self.list(kind).await {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let usual =
                    matches!((kind.kind, name), ("ConfigMap", "kube-root-ca.crt") | ("ServiceAccount", "default"));
                // Objects that are being deleted do not count.
                if !usual {
                    all.push(format!("{} {name}", kind.kind));
                }
            }
        }
        for crd in self.list(ResourceKind::CRD).await {
            let name = crd["metadata"]["name"].as_str().unwrap_or_default();
            if name.contains(self.namespace()) {
                all.push(format!("CustomResourceDefinition {name}"));
            }
        }
        all.sort();
        all
    }

    /// Waits until the namespace has only these objects; the garbage collector takes a moment.
    pub(crate) async fn wait_until_only(&self, expected: &[String]) {
        let start = Instant::now();
        loop {
            let found = self.everything().await;
            if found == expected {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "found {found:#?}\nexpected {expected:#?}");
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
}

/// Polls until `poll` returns a value.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut poll: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = poll().await {
            return found;
        }
        assert!(start.elapsed() < TIMEOUT, "timeout: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
