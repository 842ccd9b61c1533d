//! An environment for commands, and the cluster they work on.

use cluster::{Access, Cluster, ClusterObject, ResourceKind};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::Value;
use testkit::KubeApi;

use crate::env::TestEnv;

/// A temporary directory, and a namespace of the shared API server.
pub(crate) struct Kit {
    pub(crate) env: TestEnv,
    pub(crate) api: KubeApi,
    pub(crate) cluster: Cluster,
}

/// Applies printed objects.
pub(crate) async fn apply(client: &kube::Client, printed: &str) {
    for document in fbc::stream::documents(printed.as_bytes(), &fbc::Limits::default()).expect("documents") {
        let object: ClusterObject = serde_json::from_str(&document).expect("an object");
        let types = object.types.clone().expect("its kind");
        let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
        let resource = kube::discovery::ApiResource {
            group: group.into(),
            version: version.into(),
            api_version: types.api_version.clone(),
            plural: format!("{}s", types.kind.to_lowercase()),
            kind: types.kind.clone(),
        };
        let objects: kube::Api<ClusterObject> = match &object.metadata.namespace {
            Some(namespace) => kube::Api::namespaced_with(client.clone(), namespace, &resource),
            None => kube::Api::all_with(client.clone(), &resource),
        };
        let name = object.metadata.name.clone().expect("a name");
        let how = PatchParams::apply("test");
        objects.patch(&name, &how, &Patch::Apply(&object)).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

impl Kit {
    pub(crate) async fn new() -> Kit {
        let api = KubeApi::shared();
        let namespace = Some(api.namespace().await);
        let access = Access { kubeconfig: Some(api.kubeconfig()), context: None, namespace };
        Kit { env: TestEnv::new(), cluster: access.connect().await.expect("a cluster"), api }
    }

    /// Creates a kit with an exclusive API server.
    pub(crate) async fn own() -> Kit {
        let api = tokio::task::block_in_place(KubeApi::start);
        let namespace = Some(api.namespace().await);
        let access = Access { kubeconfig: Some(api.kubeconfig()), context: None, namespace };
        Kit { env: TestEnv::new(), cluster: access.connect().await.expect("a cluster"), api }
    }

    /// Runs a command in the namespace, and returns exit code, stdout and stderr as text.
    pub(crate) fn opm(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("opm runs");
        self.env.show(output).replace(&self.cluster.namespace, "[NAMESPACE]")
    }

    /// Runs a command that must print a report as JSON, in the form of its schema.
    pub(crate) fn report(&self, name: &str, arguments: &[&str]) -> Value {
        let output = self.command(&[arguments, &["-o", "json"]].concat()).output().expect("opm runs");
        testkit::assert_report(name, &output.stdout);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Returns a command that works in the namespace.
    pub(crate) fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.env.command();
        command.args(arguments).arg("--kubeconfig").arg(self.api.kubeconfig());
        command.args(["-n", &self.cluster.namespace]);
        command
    }

    pub(crate) async fn create(&self, kind: ResourceKind, mut object: Value) -> ClusterObject {
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.into();
        let object: ClusterObject = serde_json::from_value(object).expect("an object");
        self.cluster.objects(kind).create(&PostParams::default(), &object).await.expect("created")
    }

    pub(crate) async fn get(&self, kind: ResourceKind, name: &str) -> ClusterObject {
        self.cluster.get(kind, name).await.expect("the object exists")
    }

    /// Sets fields of an object's status, as a controller does.
    pub(crate) async fn set_status(&self, kind: ResourceKind, name: &str, status: Value) {
        let patch = Patch::Merge(serde_json::json!({ "status": status }));
        let objects = self.cluster.objects(kind);
        objects.patch_status(name, &PatchParams::default(), &patch).await.expect("status is set");
    }
}

impl Kit {
    /// Empties the ConfigMap `map`.
    pub(crate) async fn set_data_empty(&self) {
        let patch = Patch::Merge(serde_json::json!({ "data": null, "binaryData": null }));
        let maps = self.cluster.objects(ResourceKind::CONFIG_MAP);
        maps.patch("map", &PatchParams::default(), &patch).await.expect("the ConfigMap is emptied");
    }
}
