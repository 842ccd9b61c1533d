//! Catalogs of a cluster, from a user's side: made, looked at and taken away.

mod pods;
mod state;

use std::time::Duration;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Map, Value, json};

use crate::catalog_source::CatalogSpec;
use crate::error::has_code;
use crate::{Cluster, Error, Kind, Object};

pub use pods::{PodRole, PodState};
pub(crate) use pods::{condition, is_ready};
pub use state::{CatalogState, catalog_state};

/// Who owns the fields that we set.
const MANAGER: &str = "opm";
/// How often a catalog is looked at that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A catalog to be made or changed.
#[derive(Debug, Clone, Default)]
pub struct CatalogPlan {
    /// Its name.
    pub name: String,
    /// The image that serves it.
    pub image: String,
    /// How often the cluster looks for a newer image, as Go writes durations.
    pub poll: Option<String>,
    /// What people read.
    pub display_name: Option<String>,
    /// Who made it.
    pub publisher: Option<String>,
    /// Which catalog is preferred, the higher.
    pub priority: Option<i64>,
    /// Secrets to pull images with.
    pub secrets: Vec<String>,
}

impl CatalogPlan {
    /// Returns the object, with nothing in it that was not asked for.
    pub fn object(&self, namespace: &str) -> Value {
        let mut spec = Map::new();
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
        json!({
            "apiVersion": Kind::CATALOG_SOURCE.api_version(),
            "kind": Kind::CATALOG_SOURCE.kind,
            "metadata": {"name": self.name, "namespace": namespace},
            "spec": spec,
        })
    }
}

/// Makes a catalog, or changes it: what was set by an earlier call and is not asked for any more goes away.
///
/// # Errors
/// Fails if somebody else has set a field to another value, unless `force` takes it over.
pub async fn apply_catalog(cluster: &Cluster, plan: &CatalogPlan, force: bool) -> Result<Object, Error> {
    let mut how = PatchParams::apply(MANAGER);
    how.force = force;
    let object = plan.object(&cluster.namespace);
    let catalogs = cluster.objects(Kind::CATALOG_SOURCE);
    catalogs.patch(&plan.name, &how, &Patch::Apply(&object)).await.map_err(|error| {
        let help = match &error {
            error if has_code(error, 404) => "; is OLM, or at least its CatalogSource kind, installed?",
            error if has_code(error, 409) => "; --force-conflicts takes over what others have set",
            _ => "",
        };
        let error = Error::api(format!("catalog {}/{}", cluster.namespace, plan.name))(error);
        Error::Message(format!("{error}{help}"))
    })
}

/// Waits until a catalog answers from the image that it asks for.
///
/// # Errors
/// Fails when the time is over, and says what keeps it from answering.
pub async fn wait_for_catalog(cluster: &Cluster, name: &str, timeout: Duration) -> Result<CatalogState, Error> {
    let end = tokio::time::Instant::now() + timeout;
    loop {
        let state = catalog_state(cluster, name).await?;
        if state.answers() {
            return Ok(state);
        }
        if tokio::time::Instant::now() >= end {
            let why = state.trouble();
            return Err(Error::Message(format!("catalog {name} does not answer after {timeout:?}: {why}")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
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
    let found = catalogs.list(&ListParams::default()).await.map_err(Error::api("catalogs"))?;
    let mut all: Vec<CatalogState> = found.items.iter().map(|object| CatalogState::of(object, &[])).collect();
    all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(all)
}

/// Takes a catalog away; what belongs to it goes with it.
///
/// # Errors
/// Fails if there is none of that name.
pub async fn delete_catalog(cluster: &Cluster, name: &str) -> Result<(), Error> {
    let what = format!("catalog {}/{name}", cluster.namespace);
    let catalogs = cluster.objects(Kind::CATALOG_SOURCE);
    catalogs.delete(name, &DeleteParams::background()).await.map(drop).map_err(Error::api(what))
}

/// Lists the packages that the cluster knows from a catalog; nothing if nobody on the cluster can tell.
///
/// # Errors
/// Fails if the API server refuses or cannot be asked.
pub async fn packages_of(cluster: &Cluster, name: &str) -> Result<Option<Vec<String>>, Error> {
    let which = ListParams::default().labels(&format!("catalog={name},catalog-namespace={}", cluster.namespace));
    match cluster.objects(Kind::PACKAGE_MANIFEST).list(&which).await {
        Ok(found) => {
            let mut names: Vec<String> = found.items.into_iter().filter_map(|object| object.metadata.name).collect();
            names.sort();
            Ok(Some(names))
        }
        // There is no package server, or it is away.
        Err(error) if has_code(&error, 404) || has_code(&error, 503) => Ok(None),
        Err(error) => Err(Error::api("packages")(error)),
    }
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
