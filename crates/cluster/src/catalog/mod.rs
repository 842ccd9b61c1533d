//! Catalogs of a cluster, from a user's side: made, read and deleted.

mod pods;
mod state;

use std::time::{Duration, Instant};

use kube::api::ListParams;
use serde_json::{Map, Value, json};

use crate::apply::{self, PATIENCE};
use crate::catalog_source::{CatalogSpec, SERVING_LABEL, UPDATE_LABEL};
use crate::error::has_code;
use crate::request::{Named, Requests};
use crate::watch::Watch;
use crate::watcher::Quiet;
use crate::{Cluster, Error, Kind, Object};

pub use pods::{PodRole, PodState};
pub(crate) use pods::{condition, is_ready};
pub use state::CatalogState;

/// A catalog to be made or changed.
#[derive(Debug, Clone, Default)]
pub struct CatalogPlan {
    /// Its name.
    pub name: String,
    /// The image that serves it.
    pub image: String,
    /// How often the cluster polls for a newer image, as Go writes durations.
    pub poll: Option<String>,
    /// What people read.
    pub display_name: Option<String>,
    /// Who made it.
    pub publisher: Option<String>,
    /// Which catalog is preferred, the higher.
    pub priority: Option<i64>,
    /// Secrets to pull images with.
    pub secrets: Vec<String>,
    /// A CatalogSource to start from: what it says beside the fields above stays. Nothing if it is null.
    pub base: Value,
}

impl CatalogPlan {
    /// Returns the object, with nothing in it that was not asked for.
    pub fn object(&self, namespace: &str) -> Value {
        let of = |name: &str| self.base[name].as_object().cloned().unwrap_or_default();
        let (mut spec, given) = (of("spec"), of("metadata"));
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
        // OLM cannot read an update strategy without an interval.
        if let Some(interval) = &self.poll {
            spec.insert("updateStrategy".into(), json!({"registryPoll": {"interval": interval}}));
        }
        let mut metadata = Map::new();
        metadata.insert("name".into(), self.name.as_str().into());
        metadata.insert("namespace".into(), namespace.into());
        // What else is there is the API server's.
        metadata.extend(given.into_iter().filter(|(name, _)| matches!(name.as_str(), "labels" | "annotations")));
        json!({
            "apiVersion": Kind::CATALOG_SOURCE.api_version(),
            "kind": Kind::CATALOG_SOURCE.kind,
            "metadata": metadata,
            "spec": spec,
        })
    }
}

/// Makes a catalog, or changes it: what was set by an earlier call and is not asked for any more goes away.
///
/// # Errors
/// Fails if somebody else has set a field to another value, unless `force` takes it over, and when the time is over.
pub async fn apply_catalog(
    cluster: &Cluster,
    plan: &CatalogPlan,
    force: bool,
    deadline: Instant,
) -> Result<Object, Error> {
    let name = Named::new(Kind::CATALOG_SOURCE, &cluster.namespace, &plan.name);
    apply::apply(cluster, &name, &plan.object(&cluster.namespace), "OLM", force, deadline).await
}

/// Waits until a catalog answers from the image that it asks for.
///
/// # Errors
/// Fails when the time is over, and says what keeps it from answering. An API server that is away meanwhile is waited for.
pub async fn wait_for_catalog(
    cluster: &Cluster,
    name: &str,
    timeout: Duration,
    deadline: Instant,
) -> Result<CatalogState, Error> {
    let requests = Requests::new(cluster, &Quiet, deadline);
    let object = Named::new(Kind::CATALOG_SOURCE, &cluster.namespace, name);
    let labels = [SERVING_LABEL, UPDATE_LABEL].map(|label| format!("{label}={name}"));
    let mut watch = Watch::with_labels(&requests, &object, Kind::POD, &labels);
    loop {
        let state = state::read(&requests, name).await?;
        if state.answers() {
            return Ok(state);
        }
        if requests.is_over() {
            let why = state.trouble();
            return Err(Error::Message(format!("catalog {name} does not answer after {timeout:?}: {why}")));
        }
        watch.changed().await;
    }
}

/// Reads how a catalog and its pods are.
///
/// # Errors
/// Fails if there is none of that name, and if the API server refuses or cannot be asked.
pub async fn catalog_state(cluster: &Cluster, name: &str) -> Result<CatalogState, Error> {
    state::read(&Requests::within(cluster, &Quiet, PATIENCE), name).await
}

/// Lists the catalogs of a namespace, or of all.
///
/// # Errors
/// Fails if the API server refuses or cannot be asked.
pub async fn list_catalogs(cluster: &Cluster, everywhere: bool) -> Result<Vec<CatalogState>, Error> {
    let catalogs = if everywhere {
        kube::Api::all_with(cluster.client.clone(), &Kind::CATALOG_SOURCE.resource())
    } else {
        cluster.objects(Kind::CATALOG_SOURCE)
    };
    let requests = Requests::within(cluster, &Quiet, PATIENCE);
    let which = ListParams::default();
    let found = requests.persist("catalogs", |_| catalogs.list(&which)).await?;
    let mut all: Vec<CatalogState> = found.items.iter().map(|object| CatalogState::of(object, &[])).collect();
    all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(all)
}

/// Deletes a catalog; what belongs to it goes with it.
///
/// # Errors
/// Fails if there is none of that name.
pub async fn delete_catalog(cluster: &Cluster, name: &str) -> Result<(), Error> {
    apply::delete(cluster, &Named::new(Kind::CATALOG_SOURCE, &cluster.namespace, name)).await
}

/// Lists the packages that the cluster knows from a catalog; nothing if nobody on the cluster knows.
///
/// # Errors
/// Fails if the API server refuses or cannot be asked.
pub async fn packages_of(cluster: &Cluster, name: &str) -> Result<Option<Vec<String>>, Error> {
    let which = ListParams::default().labels(&format!("catalog={name},catalog-namespace={}", cluster.namespace));
    let packages = cluster.objects(Kind::PACKAGE_MANIFEST);
    let requests = Requests::within(cluster, &Quiet, PATIENCE);
    let found = requests.persist("packages", |_| async {
        match packages.list(&which).await {
            // There is no package server, or it is away.
            Err(error) if has_code(&error, 404) || has_code(&error, 503) => Ok(None),
            found => found.map(Some),
        }
    });
    let Some(found) = found.await? else { return Ok(None) };
    let mut names: Vec<String> = found.items.into_iter().filter_map(|object| object.metadata.name).collect();
    names.sort();
    Ok(Some(names))
}

/// Reads what a catalog asks for.
pub(crate) fn spec_of(object: &Object) -> CatalogSpec {
    CatalogSpec::of(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_set() {
        let plan = CatalogPlan { name: "a".into(), image: "r.test/a:v1".into(), ..CatalogPlan::default() };
        assert_eq!(plan.object("ns")["spec"], json!({"sourceType": "grpc", "image": "r.test/a:v1"}));
        let plan = CatalogPlan {
            poll: Some("10m".into()),
            display_name: Some("A".into()),
            publisher: Some("P".into()),
            priority: Some(-1),
            secrets: vec!["s".into()],
            ..plan
        };
        assert_eq!(
            plan.object("ns")["spec"],
            json!({
                "sourceType": "grpc", "image": "r.test/a:v1", "displayName": "A", "publisher": "P", "priority": -1,
                "secrets": ["s"], "updateStrategy": {"registryPoll": {"interval": "10m"}},
            })
        );
    }
}
