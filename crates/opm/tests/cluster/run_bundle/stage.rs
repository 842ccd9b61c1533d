//! A namespace, a registry with images, and an emulation of kubelet and OLM.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use cluster::{Cluster, ResourceKind};
use kube::api::ListParams;
use serde_json::{Value, json};
use testkit::{DockerRegistry, RegistryPlan};

pub(super) use testkit::Running;

use crate::kit::Kit;

use super::emulation::{Emulation, EmulationPlan};
pub(super) use super::emulation::{create, delete, plan_status, set_status};

pub(super) const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
pub(super) const DATABASE: &str = "operators.operatorframework.io.index.database.v1";
/// All kinds of objects that runs create in a namespace.
pub(super) const KINDS: [ResourceKind; 7] = [
    ResourceKind::CATALOG_SOURCE,
    ResourceKind::CONFIG_MAP,
    ResourceKind::POD,
    ResourceKind::OPERATOR_GROUP,
    ResourceKind::SUBSCRIPTION,
    ResourceKind::INSTALL_PLAN,
    ResourceKind::CSV,
];

pub(super) struct Stage {
    pub(super) kit: Kit,
    pub(super) registry: DockerRegistry,
    /// The API that the operator owns; its CRD is cluster-scoped.
    pub(super) api: String,
}

impl Stage {
    pub(super) async fn new() -> Stage {
        Stage::with(Kit::new().await)
    }

    /// Creates a stage with an API server that can be stopped.
    pub(super) async fn own() -> Stage {
        Stage::with(Kit::own().await)
    }

    fn with(kit: Kit) -> Stage {
        let registry = DockerRegistry::start(RegistryPlan::default()).expect("docker-registry is installed");
        let api = format!("foos.{}.example.com", kit.cluster.namespace);
        let stage = Stage { kit, registry, api };
        // The serving image is looked up here, and never in its real registry.
        let place = format!("location = \"{}/opm\"\ninsecure = true\n", stage.registry.host());
        let settings = format!("[[registry]]\nprefix = \"quay.io/operator-framework/opm\"\n{place}");
        stage.kit.env.file("home/.config/containers/registries.conf", settings);
        stage.push("opm:latest", &[("/bin/opm", b"opm")], &[]);
        stage
    }

    /// Pushes an image with files, and returns its name.
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
        let mut options = image::ClientOptions::new(store);
        options.use_http = true;
        let client = image::Client::new(options).expect("client");
        let name = format!("{}/{name}", self.registry.host());
        let push = || client.push(&built.digest, &image::Location::parse(&name).expect("a name"));
        // The caller may be inside a runtime already.
        std::thread::scope(|scope| scope.spawn(push).join().expect("no panic")).expect("pushed");
        name
    }

    /// Pushes the bundle of a version of the package foo, and returns its name.
    pub(super) fn bundle(&self, version: &str) -> String {
        self.bundle_with(version, "")
    }

    /// Pushes a bundle whose CSV has additional fields in its spec, as JSON after a comma.
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

    /// Returns the CRD that the operator owns.
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

    /// Returns the CSV of a version.
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

    /// Runs a command and returns its output, without the parts that differ between runs.
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

    /// Runs a command that must print the report of a run, and returns it.
    pub(super) fn report(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).args(["-o", "json"]).output().expect("opm runs");
        testkit::assert_report("run", &output.stdout);
        self.hide(&String::from_utf8_lossy(&output.stdout))
    }

    pub(super) fn shown(&self, output: Output) -> String {
        self.hide(&self.kit.env.show(output))
    }

    /// Replaces the parts that differ between runs.
    pub(super) fn hide(&self, text: &str) -> String {
        let dashed = self.registry.host().replace(['.', ':'], "-");
        hide_digests(text)
            .replace(self.registry.host(), "[REGISTRY]")
            .replace(&dashed, "REGISTRY")
            .replace(&self.api, "foos.example.com")
            .replace(&self.kit.cluster.namespace, "[NAMESPACE]")
    }

    pub(super) async fn list(&self, kind: ResourceKind) -> Vec<Value> {
        list(&self.kit.cluster, kind).await
    }

    pub(super) async fn get(&self, kind: ResourceKind, name: &str) -> Option<Value> {
        let found = self.kit.cluster.objects(kind).get_opt(name).await.expect("a response");
        found.map(|found| serde_json::to_value(found).expect("JSON"))
    }

    /// Returns the names of all objects that a run could have left behind.
    pub(super) async fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for kind in KINDS {
            // A failed request must not count as an empty list.
            let found = self.kit.cluster.objects(kind).list(&ListParams::default()).await.expect("a list");
            // A controller adds this object to every namespace.
            let names = found.items.into_iter().filter_map(|object| object.metadata.name);
            left.extend(names.filter(|name| name != "kube-root-ca.crt").map(|name| format!("{} {name}", kind.kind)));
        }
        if self.get(ResourceKind::CRD, &self.api).await.is_some() {
            left.push("CustomResourceDefinition".into());
        }
        left
    }

    /// Returns objects as they were sent, without the fields that the API server adds.
    pub(super) async fn objects(&self, kinds: &[ResourceKind]) -> String {
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

    /// Returns the catalog in the ConfigMaps, part by part.
    pub(super) async fn catalog(&self) -> Vec<Vec<u8>> {
        let mut maps = self.list(ResourceKind::CONFIG_MAP).await;
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

    /// Emulates kubelet and OLM until the value is dropped. OLM finds these versions, one for each added bundle.
    pub(super) fn emulate(&self, versions: &[&str]) -> Emulation {
        Emulation::start(
            self,
            EmulationPlan { csvs: versions.iter().map(|one| self.csv(one, "")).collect(), crd: self.crd() },
        )
    }

    /// Emulates only the kubelet.
    pub(super) fn kubelet(&self) -> Emulation {
        Emulation::start(self, EmulationPlan { csvs: Vec::new(), crd: self.crd() })
    }
}

/// Removes lines about states, because some last too short to be observed in every run.
pub(super) fn steps(shown: &str) -> String {
    let states = [
        "  Pod [",
        "  Subscription [",
        "  ConfigMaps:",
        "  Waiting for",
        "  ClusterServiceVersion [",
        "  CatalogSource [",
        "  OperatorGroup [",
        "  ConfigMap [",
        "  CustomResourceDefinition foos.example.com: ",
    ];
    let lasting = shown.lines().filter(|line| !states.iter().any(|state| line.starts_with(state)));
    lasting.map(|line| format!("{line}\n")).collect()
}

/// Removes the fields that the API server adds to objects.
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
    // Older servers set the seccomp profile of a pod in an annotation, too.
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

pub(super) async fn list(cluster: &Cluster, kind: ResourceKind) -> Vec<Value> {
    let found = cluster.objects(kind).list(&ListParams::default()).await.map(|found| found.items).unwrap_or_default();
    found.into_iter().map(|one| serde_json::to_value(one).expect("JSON")).collect()
}

/// Polls until `poll` returns a value.
pub(super) async fn until<T, F: Future<Output = Option<T>>>(mut poll: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = poll().await {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "timeout");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Replaces digests of images, which differ between runs because names are part of the content.
fn hide_digests(text: &str) -> String {
    let mut parts = text.split("@sha256:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        shown + "@sha256:[DIGEST]" + rest
    })
}
