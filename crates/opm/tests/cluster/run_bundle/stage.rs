//! A namespace, a registry with images, and somebody who stands in for kubelet and OLM.

use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cluster::{Access, Cluster, Kind};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::{DockerRegistry, KubeApi, RegistryPlan};

use crate::env::TestEnv;
use crate::kit::Kit;

pub(super) const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
pub(super) const DATABASE: &str = "operators.operatorframework.io.index.database.v1";
/// All kinds of objects that runs make in a namespace.
pub(super) const KINDS: [Kind; 7] = [
    Kind::CATALOG_SOURCE,
    Kind::CONFIG_MAP,
    Kind::POD,
    Kind::OPERATOR_GROUP,
    Kind::SUBSCRIPTION,
    Kind::INSTALL_PLAN,
    Kind::CSV,
];

pub(super) struct Stage {
    pub(super) kit: Kit,
    pub(super) registry: DockerRegistry,
    /// The API that the operator owns; definitions of it are known to the whole cluster.
    pub(super) api: String,
}

impl Stage {
    pub(super) async fn new() -> Stage {
        Stage::with(Kit::new().await)
    }

    /// Makes a stage with an API server that can be stopped.
    pub(super) async fn own() -> Stage {
        let api = tokio::task::block_in_place(KubeApi::start);
        let namespace = Some(api.namespace().await);
        let access = Access { kubeconfig: Some(api.kubeconfig()), context: None, namespace };
        let cluster = access.connect().await.expect("a cluster");
        Stage::with(Kit { env: TestEnv::new(), cluster, api })
    }

    fn with(kit: Kit) -> Stage {
        let registry = DockerRegistry::start(RegistryPlan::default()).expect("docker-registry is installed");
        let api = format!("foos.{}.example.com", kit.cluster.namespace);
        let stage = Stage { kit, registry, api };
        // The image that serves catalogs is asked for here, and never where it really is.
        let place = format!("location = \"{}/opm\"\ninsecure = true\n", stage.registry.host());
        let settings = format!("[[registry]]\nprefix = \"quay.io/operator-framework/opm\"\n{place}");
        stage.kit.env.file("home/.config/containers/registries.conf", settings);
        stage.push("opm:latest", &[("/bin/opm", b"opm")], &[]);
        stage
    }

    /// Pushes an image of files, and returns its name.
    pub(super) fn push(&self, name: &str, files: &[(&str, &[u8])], labels: &[(&str, &str)]) -> String {
        let scratch = tempfile::tempdir().expect("scratch directory");
        let store = image::Store::open(&scratch.path().join("store")).expect("store");
        let mut layer = image::Layer::new();
        for (number, (path, content)) in files.iter().enumerate() {
            let file = scratch.path().join(number.to_string());
            std::fs::write(&file, content).expect("file");
            layer.file(path, &file, 0o644).expect("file of a layer");
        }
        let layer = layer.write(&store, 0, &|_| {}).expect("layer");
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let plan = image::ImagePlan { labels, ..image::ImagePlan::default() };
        let built = image::build(&store, &plan, &[layer], None).expect("image");
        let mut options = image::Options::new(store);
        options.use_http = true;
        let client = image::Client::new(options).expect("client");
        let name = format!("{}/{name}", self.registry.host());
        let push = || client.push(&built.digest, &image::Location::parse(&name).expect("a name"));
        // The caller may be inside of a runtime already.
        std::thread::scope(|scope| scope.spawn(push).join().expect("no panic")).expect("pushed");
        name
    }

    /// Pushes the bundle of a version of the package foo, and returns its name.
    pub(super) fn bundle(&self, version: &str) -> String {
        self.bundle_with(version, "")
    }

    /// Pushes a bundle whose CSV has more fields in its spec, as JSON behind a comma.
    pub(super) fn bundle_with(&self, version: &str, more: &str) -> String {
        let csv = self.csv(version, more);
        let crd = self.crd();
        let annotations = "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n  \
            operators.operatorframework.io.bundle.channels.v1: stable,beta\n  \
            operators.operatorframework.io.bundle.channel.default.v1: stable\n  \
            operators.operatorframework.io.bundle.manifests.v1: manifests/\n";
        self.push(
            &format!("foo-bundle:v{version}"),
            &[
                ("/manifests/csv.json", csv.to_string().as_bytes()),
                ("/manifests/crd.json", crd.to_string().as_bytes()),
                ("/metadata/annotations.yaml", annotations.as_bytes()),
            ],
            &[
                ("operators.operatorframework.io.bundle.package.v1", "foo"),
                ("operators.operatorframework.io.bundle.manifests.v1", "manifests/"),
            ],
        )
    }

    /// The definition that the operator owns.
    pub(super) fn crd(&self) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.api},
            "spec": {"group": self.api.trim_start_matches("foos."), "scope": "Namespaced",
                "names": {"kind": "Foo", "plural": "foos"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]},
        })
    }

    /// The CSV of a version.
    pub(super) fn csv(&self, version: &str, more: &str) -> Value {
        let mut csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("foo.v{version}")},
            "spec": {
                "version": version,
                "displayName": "Foo",
                "installModes": [
                    {"type": "OwnNamespace", "supported": true},
                    {"type": "SingleNamespace", "supported": true},
                    {"type": "MultiNamespace", "supported": false},
                    {"type": "AllNamespaces", "supported": true},
                ],
                "customresourcedefinitions": {"owned": [{"name": self.api, "kind": "Foo", "version": "v1"}]},
            },
        });
        if !more.is_empty() {
            let more: Value = serde_json::from_str(more).expect("JSON");
            csv["spec"].as_object_mut().expect("a spec").extend(more.as_object().expect("an object").clone());
        }
        csv
    }

    /// Returns a command that works on the namespace and pulls from the registry.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.kit.command(arguments);
        command.args(["--use-http", "--timeout", "60s"]);
        command
    }

    /// Runs a command and shows what came of it, without what differs from run to run.
    pub(super) fn opm(&self, arguments: &[&str]) -> String {
        let mut command = self.kit.command(arguments);
        if arguments[0] != "cleanup" {
            command.arg("--use-http");
        }
        if !arguments.contains(&"--timeout") {
            command.args(["--timeout", "60s"]);
        }
        self.shown(command.output().expect("opm runs"))
    }

    pub(super) fn shown(&self, output: Output) -> String {
        self.hide(&self.kit.env.show(output))
    }

    /// Hides what differs from run to run.
    pub(super) fn hide(&self, text: &str) -> String {
        let dashed = self.registry.host().replace(['.', ':'], "-");
        hide_digests(text)
            .replace(self.registry.host(), "[REGISTRY]")
            .replace(&dashed, "REGISTRY")
            .replace(&self.api, "foos.example.com")
            .replace(&self.kit.cluster.namespace, "[NAMESPACE]")
    }

    pub(super) async fn list(&self, kind: Kind) -> Vec<Value> {
        list(&self.kit.cluster, kind).await
    }

    pub(super) async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        let found = self.kit.cluster.objects(kind).get_opt(name).await.expect("an answer");
        found.map(|found| serde_json::to_value(found).expect("JSON"))
    }

    /// Returns the names of everything that a run could have left behind.
    pub(super) async fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for kind in KINDS {
            let names = self.list(kind).await;
            // Every namespace gets one where a controller does that.
            let names = names.iter().filter_map(|object| object["metadata"]["name"].as_str());
            left.extend(names.filter(|name| *name != "kube-root-ca.crt").map(|name| format!("{} {name}", kind.kind)));
        }
        if self.get(Kind::CRD, &self.api).await.is_some() {
            left.push("CustomResourceDefinition".into());
        }
        left
    }

    /// Shows objects as they were sent, without what the API server adds, one after the other.
    pub(super) async fn objects(&self, kinds: &[Kind]) -> String {
        let mut text = String::new();
        for kind in kinds {
            for mut object in self.list(*kind).await {
                if object["metadata"]["name"] == "kube-root-ca.crt" {
                    continue;
                }
                clean(&mut object);
                text += &serde_json::to_string_pretty(&object).expect("JSON");
                text.push('\n');
            }
        }
        self.hide(&text)
    }

    /// Returns the catalog that ConfigMaps carry, part by part.
    pub(super) async fn catalog(&self) -> Vec<Vec<u8>> {
        let mut maps = self.list(Kind::CONFIG_MAP).await;
        maps.retain(|map| map["binaryData"]["extraFBC"].is_string());
        let number = |map: &Value| {
            let name = map["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            name.rsplit('-').next().and_then(|number| number.parse::<usize>().ok())
        };
        maps.sort_by_key(number);
        let unpack = |map: &Value| {
            let packed = fbc::base64::decode(map["binaryData"]["extraFBC"].as_str().expect("text")).expect("base64");
            cluster::run::partition::unpack(&packed).expect("gzip")
        };
        maps.iter().map(unpack).collect()
    }

    /// Stands in for kubelet and OLM until the value is dropped. OLM finds these versions, one for each bundle added.
    pub(super) fn stand_in(&self, versions: &[&str]) -> StandIn {
        StandIn::start(
            self,
            StandInPlan { csvs: versions.iter().map(|one| self.csv(one, "")).collect(), crd: self.crd() },
        )
    }

    /// Stands in for the kubelet only.
    pub(super) fn kubelet(&self) -> StandIn {
        StandIn::start(self, StandInPlan { csvs: Vec::new(), crd: self.crd() })
    }
}

/// Leaves out the lines that tell of states, since some of them last too short to be seen in every run.
pub(super) fn steps(told: &str) -> String {
    let states = [
        "  Pod [",
        "  Subscription [",
        "  ConfigMaps:",
        "  Waiting for",
        "  ClusterServiceVersion [",
        "  CatalogSource [",
    ];
    let lasting = told.lines().filter(|line| !states.iter().any(|state| line.starts_with(state)));
    lasting.map(|line| format!("{line}\n")).collect()
}

/// Removes what the API server adds to objects.
fn clean(object: &mut Value) {
    let managers: Vec<Value> = object["metadata"]["managedFields"]
        .as_array()
        .map(|fields| fields.iter().map(|field| field["manager"].clone()).collect())
        .unwrap_or_default();
    assert!(managers.contains(&json!("operator-sdk")) || object["kind"] == "InstallPlan", "{managers:?}");
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"] {
        metadata.remove(key);
    }
    // Older servers note the profile of a pod in an annotation, too.
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("seccomp.security.alpha.kubernetes.io/pod");
    }
    if let Some(created) = metadata.get_mut("annotations").and_then(|all| all.get_mut("opm.run/created")) {
        let mut list: Value = serde_json::from_str(created.as_str().expect("text")).expect("JSON");
        for one in list.as_array_mut().expect("a list") {
            assert!(one["uid"].is_string());
            one["uid"] = json!("[UID]");
        }
        *created = json!(list.to_string());
    }
    if metadata.get("annotations").is_some_and(|annotations| *annotations == json!({})) {
        metadata.remove("annotations");
    }
    metadata.sort_keys();
    if let Some(run) = metadata.get_mut("labels").and_then(|labels| labels.get_mut("opm.run/id")) {
        assert_eq!(run.as_str().map(str::len), Some(16));
        *run = json!("[RUN]");
    }
    for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
        assert!(owner["uid"].is_string());
        owner["uid"] = json!("[UID]");
    }
    if let Some(data) = object.get_mut("binaryData").and_then(|data| data.get_mut("extraFBC")) {
        *data = json!("[PACKED]");
    }
    object.as_object_mut().expect("object").remove("status");
}

pub(super) async fn list(cluster: &Cluster, kind: Kind) -> Vec<Value> {
    let found = cluster.objects(kind).list(&ListParams::default()).await.map(|found| found.items).unwrap_or_default();
    found.into_iter().map(|one| serde_json::to_value(one).expect("JSON")).collect()
}

struct StandInPlan {
    csvs: Vec<Value>,
    /// The definition that comes with them.
    crd: Value,
}

/// Somebody who does what kubelet and OLM would do.
pub(super) struct StandIn {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl StandIn {
    fn start(stage: &Stage, plan: StandInPlan) -> StandIn {
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
        StandIn { stop, thread: Some(thread) }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(super) async fn set_status(cluster: &Cluster, kind: Kind, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    let _ = cluster.objects(kind).patch_status(name, &PatchParams::default(), &patch).await;
}

async fn act(cluster: &Cluster, plan: &StandInPlan) {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for pod in list(cluster, Kind::POD).await {
        if pod["status"]["phase"] != "Running" && pod["metadata"]["deletionTimestamp"].is_null() {
            set_status(cluster, Kind::POD, &name(&pod), json!({"phase": "Running", "podIP": "10.0.0.9"})).await;
        }
    }
    if plan.csvs.is_empty() {
        return;
    }
    let sources = list(cluster, Kind::CATALOG_SOURCE).await;
    let added = sources.iter().find_map(|source| {
        source["spec"]["address"].as_str()?;
        let items = source["metadata"]["annotations"]["operators.operatorframework.io/injected-bundles"].as_str()?;
        serde_json::from_str::<Value>(items).ok()?.as_array().map(Vec::len)
    });
    let Some((added, csv)) = added.and_then(|added| Some((added, plan.csvs.get(added.checked_sub(1)?)?))) else {
        return;
    };
    for subscription in list(cluster, Kind::SUBSCRIPTION).await {
        let plan_name = format!("install-{added}");
        if subscription["status"]["installPlanRef"]["name"] != plan_name.as_str() {
            let object = json!({"apiVersion": Kind::INSTALL_PLAN.api_version(), "kind": "InstallPlan",
                "metadata": {"name": plan_name, "ownerReferences": [{
                    "apiVersion": subscription["apiVersion"], "kind": "Subscription",
                    "name": subscription["metadata"]["name"], "uid": subscription["metadata"]["uid"]}]},
                "spec": {"approval": "Manual", "approved": false, "clusterServiceVersionNames": [name(csv)]}});
            create(cluster, Kind::INSTALL_PLAN, &object).await;
            let steps = plan_status(csv, &plan.crd, "Unknown");
            set_status(cluster, Kind::INSTALL_PLAN, &plan_name, steps).await;
            let status = json!({"installPlanRef": {"name": plan_name}, "currentCSV": name(csv)});
            set_status(cluster, Kind::SUBSCRIPTION, &name(&subscription), status).await;
        }
        let plans = list(cluster, Kind::INSTALL_PLAN).await;
        let approved = plans.iter().any(|one| name(one) == plan_name && one["spec"]["approved"] == true);
        if approved && subscription["status"]["installedCSV"] != csv["metadata"]["name"] {
            create(cluster, Kind::CRD, &plan.crd).await;
            let steps = plan_status(csv, &plan.crd, if added == 1 { "Created" } else { "Present" });
            set_status(cluster, Kind::INSTALL_PLAN, &plan_name, steps).await;
            create(cluster, Kind::CSV, csv).await;
            set_status(cluster, Kind::CSV, &name(csv), json!({"phase": "Succeeded"})).await;
            set_status(cluster, Kind::SUBSCRIPTION, &name(&subscription), json!({"installedCSV": name(csv)})).await;
        }
    }
}

/// Returns what OLM says of a plan that brings a version and a definition.
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

pub(super) async fn create(cluster: &Cluster, kind: Kind, object: &Value) {
    let object = serde_json::from_value(object.clone()).expect("an object");
    let _ = cluster.objects(kind).create(&PostParams::default(), &object).await;
}

pub(super) async fn delete(cluster: &Cluster, kind: Kind, name: &str) {
    let _ = cluster.objects(kind).delete(name, &DeleteParams::default()).await;
}

/// A command that runs, and is killed if the test ends before it.
pub(super) struct Running(pub(super) Option<Child>);

impl Running {
    pub(super) fn start(command: &mut Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().expect("opm runs")))
    }

    pub(super) fn signal(&self, signal: &str) {
        let id = self.0.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill runs").success());
    }

    pub(super) fn end(mut self) -> Output {
        self.0.take().expect("it runs").wait_with_output().expect("it ends")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until something is there.
pub(super) async fn until<T, F: Future<Output = Option<T>>>(mut look: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it does not happen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Hides digests of images, which differ from run to run with the names in them.
fn hide_digests(text: &str) -> String {
    let mut parts = text.split("@sha256:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        shown + "@sha256:[DIGEST]" + rest
    })
}
