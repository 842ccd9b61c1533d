//! CatalogSources for users: create, read and delete.

mod pods;
mod state;

use std::time::{Duration, Instant};

use kube::api::ListParams;
use serde_json::{Map, Value, json};

use crate::apply::{self, TIMEOUT};
use crate::catalog_source::{SERVING_LABEL, UPDATE_LABEL};
use crate::error::has_code;
use crate::request::{ObjectName, Requests};
use crate::views::{CatalogSource, View};
use crate::watch::Watch;
use crate::watcher::NoReports;
use crate::{Cluster, ClusterObject, Error, ResourceKind};

pub(crate) use pods::is_ready;
pub use pods::{PodRole, PodState};
pub use state::CatalogState;

/// A CatalogSource to create or update.
#[derive(Debug, Clone, Default)]
pub struct CatalogPlan {
    /// Its name.
    pub name: String,
    /// Its namespace; defaults to that of the context.
    pub namespace: Option<String>,
    /// The catalog image.
    pub image: String,
    /// The poll interval for a newer image, as a Go duration.
    pub poll: Option<String>,
    pub display_name: Option<String>,
    pub publisher: Option<String>,
    /// The priority; higher values are preferred.
    pub priority: Option<i64>,
    /// The pull secrets.
    pub secrets: Vec<String>,
    /// The directory of the catalog in an image without a program: the cluster extracts it and serves it itself.
    pub extract_content: Option<String>,
    /// The other fields of its spec.
    pub spec: Map<String, Value>,
    /// Its labels and annotations.
    pub metadata: Map<String, Value>,
}

impl CatalogPlan {
    /// Keeps what a template sets and the plan has no field for. The API server owns the other metadata.
    pub(crate) fn keep(&mut self, mut template: Value) {
        let mut of = |name: &str| match template.get_mut(name).map(Value::take) {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        (self.spec, self.metadata) = (of("spec"), of("metadata"));
        self.metadata.retain(|name, _| matches!(name.as_str(), "labels" | "annotations"));
    }

    /// Returns the object, with only the requested fields.
    pub fn object(&self, namespace: &str) -> Value {
        let mut spec = self.spec.clone();
        spec.insert("sourceType".into(), "grpc".into());
        spec.insert("image".into(), self.image.as_str().into());
        let texts = [("displayName", &self.display_name), ("publisher", &self.publisher)];
        for (field, text) in texts {
            if let Some(text) = text {
                spec.insert(field.into(), text.as_str().into());
            }
        }
        if let Some(priority) = self.priority {
            spec.insert("priority".into(), priority.into());
        }
        if !self.secrets.is_empty() {
            spec.insert("secrets".into(), json!(self.secrets));
        }
        // OLM cannot parse an update strategy without an interval.
        if let Some(interval) = &self.poll {
            spec.insert("updateStrategy".into(), json!({"registryPoll": {"interval": interval}}));
        }
        if let Some(directory) = &self.extract_content {
            let config = spec.entry("grpcPodConfig").or_insert_with(|| json!({}));
            config["extractContent"]["catalogDir"] = directory.as_str().into();
        }
        let mut metadata = Map::new();
        metadata.insert("name".into(), self.name.as_str().into());
        metadata.insert("namespace".into(), namespace.into());
        metadata.extend(self.metadata.clone());
        json!({
            "apiVersion": ResourceKind::CATALOG_SOURCE.api_version(),
            "kind": ResourceKind::CATALOG_SOURCE.kind,
            "metadata": metadata,
            "spec": spec,
        })
    }
}

/// Creates or updates a catalog: fields that an earlier call set and this one omits are removed.
///
/// # Errors
/// Fails on a timeout, or if another manager owns a field with a different value, unless `force` takes it over.
pub(crate) async fn apply_catalog(
    cluster: &Cluster,
    plan: &CatalogPlan,
    force: bool,
    deadline: Instant,
) -> Result<ClusterObject, Error> {
    let name = ObjectName::new(ResourceKind::CATALOG_SOURCE, &cluster.namespace, &plan.name);
    apply::apply(cluster, &name, &plan.object(&cluster.namespace), "OLM", force, deadline).await
}

/// Waits until a catalog serves the requested image.
///
/// # Errors
/// Fails on a timeout, with the reason. Waits for an API server that is temporarily unreachable.
pub(crate) async fn wait_for_catalog(
    cluster: &Cluster,
    name: &str,
    timeout: Duration,
    deadline: Instant,
) -> Result<CatalogState, Error> {
    let requests = Requests::new(cluster, &NoReports, deadline);
    let object = ObjectName::new(ResourceKind::CATALOG_SOURCE, &cluster.namespace, name);
    let labels = [SERVING_LABEL, UPDATE_LABEL].map(|label| format!("{label}={name}"));
    let mut watch = Watch::with_labels(&requests, &object, ResourceKind::POD, &labels);
    let mut last = None;
    loop {
        let state = match (state::read(&requests, name).await, last.take()) {
            (Ok(state), _) => state,
            // A slow API server does not hide a reason that is already known.
            (Err(Error::NoResponse { .. }), Some(last)) if requests.is_over() => last,
            (Err(error), _) => return Err(error),
        };
        if state.answers() {
            return Ok(state);
        }
        if requests.is_over() {
            let why = state.problem();
            return Err(Error::Failed(format!("catalog {name} does not answer after {timeout:?}: {why}")));
        }
        last = Some(state);
        watch.changed().await;
    }
}

/// Reads the state of a catalog and its pods.
///
/// # Errors
/// Fails if the catalog does not exist, or the API server refuses or is unreachable.
pub(crate) async fn catalog_state(cluster: &Cluster, name: &str) -> Result<CatalogState, Error> {
    state::read(&Requests::within(cluster, &NoReports, TIMEOUT), name).await
}

/// Lists the catalogs of one namespace or of all namespaces.
///
/// # Errors
/// Fails if the API server refuses or is unreachable.
pub(crate) async fn list_catalogs(cluster: &Cluster, everywhere: bool) -> Result<Vec<CatalogState>, Error> {
    let catalogs = if everywhere {
        kube::Api::all_with(cluster.client.clone(), &ResourceKind::CATALOG_SOURCE.resource())
    } else {
        cluster.objects(ResourceKind::CATALOG_SOURCE)
    };
    let requests = Requests::within(cluster, &NoReports, TIMEOUT);
    let which = ListParams::default();
    let found = requests.retry("catalogs", |_| catalogs.list(&which)).await?;
    let listed = |catalog| CatalogState { pods: None, ..CatalogState::of(catalog, &[]) };
    let all = found.items.iter().map(|object| CatalogSource::of(object).map(listed));
    let mut all = all.collect::<Result<Vec<_>, Error>>()?;
    all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(all)
}

/// Deletes a catalog and its dependents.
///
/// # Errors
/// Fails if the catalog does not exist.
pub(crate) async fn delete_catalog(cluster: &Cluster, name: &str) -> Result<(), Error> {
    apply::delete(cluster, &ObjectName::new(ResourceKind::CATALOG_SOURCE, &cluster.namespace, name)).await
}

/// Lists the packages of a catalog from the package server; `None` if there is no package server.
///
/// # Errors
/// Fails if the API server refuses or is unreachable.
pub(crate) async fn packages_of(cluster: &Cluster, name: &str) -> Result<Option<Vec<String>>, Error> {
    let which = ListParams::default().labels(&format!("catalog={name},catalog-namespace={}", cluster.namespace));
    let packages = cluster.objects(ResourceKind::PACKAGE_MANIFEST);
    let requests = Requests::within(cluster, &NoReports, TIMEOUT);
    let found = requests.retry("packages", |_| async {
        match packages.list(&which).await {
            // The package server is missing or unavailable.
            Err(error) if has_code(&error, 404) || has_code(&error, 503) => Ok(None),
            found => found.map(Some),
        }
    });
    let Some(found) = found.await? else { return Ok(None) };
    let mut names: Vec<String> = found.items.into_iter().filter_map(|object| object.metadata.name).collect();
    names.sort();
    Ok(Some(names))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response, Uri};
    use kube::client::Body;

    use super::*;

    /// An API server that responds to the first read of a catalog and its pods, and to nothing afterwards.
    async fn respond_once(uri: Uri, read: &AtomicUsize) -> String {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        if query.contains("limit=") || query.contains("watch=") || read.fetch_add(1, Ordering::Relaxed) >= 3 {
            return std::future::pending().await;
        }
        let metadata = json!({"name": "cat", "namespace": "ns"});
        match path.ends_with("/pods") {
            true => json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}).to_string(),
            false => json!({
                "kind": ResourceKind::CATALOG_SOURCE.kind, "apiVersion": ResourceKind::CATALOG_SOURCE.api_version(),
                "metadata": metadata, "status": {"message": "the image is missing"},
            })
            .to_string(),
        }
    }

    #[tokio::test]
    async fn a_timeout_has_the_last_known_reason_if_the_api_server_becomes_slow() {
        let read: &AtomicUsize = Box::leak(Box::default());
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let text = respond_once(request.uri().clone(), read).await;
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(text.into_bytes())))
        });
        let cluster = Cluster {
            client: kube::Client::new(service, "ns"),
            namespace: "ns".into(),
            server: crate::access::ApiServer::default(),
        };
        let timeout = Duration::from_secs(2);
        let waited = wait_for_catalog(&cluster, "cat", timeout, Instant::now() + timeout).await;
        let expected = "catalog cat does not answer after 2s: the image is missing";
        assert_eq!(waited.expect_err("a timeout").to_string(), expected);
        assert!(read.load(Ordering::Relaxed) > 3, "the API server was fast");
    }

    #[test]
    fn only_requested_fields_are_set() {
        let plan = CatalogPlan { name: "a".into(), image: "r.test/a:v1".into(), ..CatalogPlan::default() };
        assert_eq!(plan.object("ns")["spec"], json!({"sourceType": "grpc", "image": "r.test/a:v1"}));
        let plan = CatalogPlan {
            poll: Some("10m".into()),
            display_name: Some("A".into()),
            publisher: Some("P".into()),
            priority: Some(-1),
            secrets: vec!["s".into()],
            extract_content: Some("/configs".into()),
            ..plan
        };
        assert_eq!(
            plan.object("ns")["spec"],
            json!({
                "sourceType": "grpc", "image": "r.test/a:v1", "displayName": "A", "publisher": "P", "priority": -1,
                "secrets": ["s"], "updateStrategy": {"registryPoll": {"interval": "10m"}},
                "grpcPodConfig": {"extractContent": {"catalogDir": "/configs"}},
            })
        );
        let base = json!({"spec": {"grpcPodConfig": {"memoryTarget": "1Gi", "extractContent": {"catalogDir": "/a"}}}});
        let mut plan = plan;
        plan.keep(base);
        assert_eq!(
            plan.object("ns")["spec"]["grpcPodConfig"],
            json!({"memoryTarget": "1Gi", "extractContent": {"catalogDir": "/configs"}})
        );
    }
}
