//! A namespace of a cluster with OLM v0 and OLM v1.

use cluster::ResourceKind;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::OlmV1;

use crate::operator::Operator;
use crate::stage::{Stage, until};

pub(crate) const EXTENSION: ResourceKind = ResourceKind::CLUSTER_EXTENSION;
pub(crate) const CATALOG: ResourceKind = ResourceKind::CLUSTER_CATALOG;

pub(crate) struct StageV1 {
    pub(crate) stage: Stage,
    pub(crate) v1: OlmV1,
}

impl StageV1 {
    /// Creates a stage on the shared cluster; `None` if its programs are missing.
    pub(crate) async fn shared() -> Option<StageV1> {
        let v1 = tokio::task::block_in_place(OlmV1::shared)?;
        let stage = Stage::shared().await?;
        Some(StageV1 { stage, v1 })
    }

    /// Returns a unique name for a cluster-scoped object.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.stage.namespace())
    }

    /// Builds and pushes the image of a catalog in the temporary directory, and returns its name.
    pub(crate) fn build(&self, directory: &str) -> String {
        let image = format!("{}/{directory}:v1", self.stage.registry.host());
        self.stage.env.stdout(&["build", directory, "-t", &image, "--data-only", "--push", "--use-http"]);
        image
    }

    /// Creates a ClusterCatalog from a directory, which extensions of this stage select, and waits until it is served.
    pub(crate) async fn catalog(&self, directory: &str, spec: Value) -> Value {
        let image = self.build(directory);
        self.v1.catalog(&self.name(directory), &image, spec, &[("stage", self.stage.namespace())]).await
    }

    /// Creates an account with all permissions.
    pub(crate) async fn account(&self) {
        let stage = &self.stage;
        stage.create(ResourceKind::SERVICE_ACCOUNT, &json!({"metadata": {"name": "installer"}})).await;
        let binding = json!({
            "metadata": {"name": self.name("installer")},
            "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": stage.namespace()}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"},
        });
        stage.create(ResourceKind::CLUSTER_ROLE_BINDING, &binding).await;
    }

    /// Creates a ClusterExtension that selects the catalogs of this stage, with additional fields of its source.
    pub(crate) async fn extension(&self, name: &str, package: &str, source: Value) {
        let mut catalog =
            json!({"packageName": package, "selector": {"matchLabels": {"stage": self.stage.namespace()}}});
        catalog.as_object_mut().expect("a source").extend(source.as_object().expect("fields").clone());
        let object = json!({"metadata": {"name": self.name(name)}, "spec": {
            "namespace": self.stage.namespace(), "serviceAccount": {"name": "installer"},
            "source": {"sourceType": "Catalog", "catalog": catalog},
        }});
        self.stage.create(EXTENSION, &object).await;
    }

    /// Changes the source of a ClusterExtension.
    pub(crate) async fn change(&self, name: &str, source: Value) {
        let patch = Patch::Merge(json!({"spec": {"source": {"catalog": source}}}));
        let extensions = self.stage.cluster.objects(EXTENSION);
        extensions.patch(&self.name(name), &PatchParams::default(), &patch).await.expect("changed");
    }

    /// Waits until operator-controller has decided about the current generation of a ClusterExtension; returns the
    /// status.
    pub(crate) async fn decided(&self, name: &str, is_decided: impl Fn(&Value) -> bool) -> Value {
        let name = self.name(name);
        let mut last = Value::Null;
        let start = std::time::Instant::now();
        loop {
            if let Some(found) = self.stage.get(EXTENSION, &name).await {
                let generation = &found["metadata"]["generation"];
                let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let seen = conditions
                    .iter()
                    .any(|one| one["type"] == "Progressing" && one["observedGeneration"] == *generation);
                if seen && is_decided(&found["status"]) {
                    return found["status"].clone();
                }
                last = found["status"].clone();
            }
            assert!(
                start.elapsed().as_secs() < 300,
                "{name} is not decided: {last:#}\n{}",
                self.v1.log("operator-controller")
            );
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    /// Returns an operator that OLM v1 installs, of a package that no other test uses.
    pub(crate) fn operator(&self, version: &str) -> Operator {
        let mut operator = self.stage.operator(&format!("p-{}", self.stage.namespace()), version);
        operator.more = json!({"installModes": [{"type": "AllNamespaces", "supported": true}]});
        operator
    }

    /// Returns the names of all objects in the namespace, and of related objects elsewhere.
    pub(crate) async fn everything(&self) -> Vec<String> {
        let mut all = self.stage.everything().await;
        let namespace = self.stage.namespace();
        for kind in [
            EXTENSION,
            CATALOG,
            ResourceKind::CLUSTER_ROLE,
            ResourceKind::CLUSTER_ROLE_BINDING,
            ResourceKind::NAMESPACE,
        ] {
            for object in self.stage.list(kind).await {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                if name.contains(namespace) {
                    all.push(format!("{} {name}", kind.kind));
                }
            }
        }
        // Helm stores its releases in the namespace of the controller.
        let secrets = self.stage.cluster.objects_in(ResourceKind::SECRET, "olmv1-system");
        for secret in secrets.list(&Default::default()).await.expect("a list").items {
            let name = secret.metadata.name.unwrap_or_default();
            if name.contains(namespace) {
                all.push(format!("Secret olmv1-system/{name}"));
            }
        }
        all.sort();
        all
    }

    /// Waits until only these objects exist. The garbage collector takes a moment, and longer while other tests create
    /// and delete kinds: it waits for its watches of all of them.
    pub(crate) async fn wait_until_only(&self, expected: &[String]) {
        let start = std::time::Instant::now();
        loop {
            let found = self.everything().await;
            if found == expected {
                return;
            }
            assert!(start.elapsed().as_secs() < 120, "found {found:#?}\nexpected {expected:#?}");
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
    }

    /// Deletes cluster-scoped objects, and waits until the extensions are deleted.
    pub(crate) async fn remove(&self, extensions: &[&str], catalogs: &[&str]) {
        for (kind, names) in [(EXTENSION, extensions), (CATALOG, catalogs)] {
            let objects = self.stage.cluster.objects(kind);
            for name in names {
                let _ = objects.delete(&self.name(name), &DeleteParams::default()).await;
            }
            for name in names {
                until("it is gone", || async { self.stage.get(kind, &self.name(name)).await.is_none().then_some(()) })
                    .await;
            }
        }
    }
}

/// Returns a condition of a status.
pub(crate) fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let conditions = status["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|one| one["type"] == kind)).unwrap_or(&Value::Null)
}
