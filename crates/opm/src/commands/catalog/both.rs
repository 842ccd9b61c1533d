//! One list of the catalogs of both OLM generations.

use cluster::{CatalogState, ClusterCatalogState, ResourceKind};
use serde_json::{Value, json};

use super::v1;
use crate::cluster_flags::failure;
use crate::exit::Failure;
use crate::table;

/// The CatalogSources and ClusterCatalogs of a cluster.
pub(super) struct CatalogList {
    sources: Vec<CatalogState>,
    clusters: Vec<ClusterCatalogState>,
}

type ListResult<T> = Result<Vec<T>, cluster::Error>;

/// Combines both lists. Omits a kind that the cluster does not have or the user may not list; fails if that applies to
/// both.
pub(super) fn combine(
    sources: ListResult<CatalogState>,
    clusters: ListResult<ClusterCatalogState>,
) -> Result<CatalogList, Failure> {
    let can_omit = |error: &cluster::Error| error.is_missing() || error.is_forbidden();
    match (sources, clusters) {
        (Ok(sources), Ok(clusters)) => Ok(CatalogList { sources, clusters }),
        (Ok(sources), Err(error)) if can_omit(&error) => Ok(CatalogList { sources, clusters: Vec::new() }),
        (Err(error), Ok(clusters)) if can_omit(&error) => Ok(CatalogList { sources: Vec::new(), clusters }),
        (Err(error), _) | (_, Err(error)) => Err(failure(error)),
    }
}

impl CatalogList {
    pub(super) fn table(&self) -> String {
        let source = |state: &CatalogState| {
            let from = if state.image.is_empty() { state.address.clone() } else { Some(state.image.clone()) };
            let shown = if state.state.is_empty() { "unknown" } else { &state.state };
            let cells = [
                ResourceKind::CATALOG_SOURCE.kind,
                &state.namespace,
                &state.name,
                shown,
                &from.unwrap_or_default(),
                &state.display_name,
            ];
            cells.map(str::to_owned).to_vec()
        };
        let cluster = |state: &ClusterCatalogState| {
            [ResourceKind::CLUSTER_CATALOG.kind, "", &state.name, v1::serving_state(state), &state.image, ""]
                .map(str::to_owned)
                .to_vec()
        };
        let rows = self.sources.iter().map(source).chain(self.clusters.iter().map(cluster));
        table::text(&["KIND", "NAMESPACE", "NAME", "STATE", "FROM", "DISPLAY NAME"], rows.collect())
    }

    pub(super) fn json(&self) -> Result<Value, Failure> {
        let wrong = |error: serde_json::Error| Failure::message(error.to_string());
        let mut all = Vec::new();
        for state in &self.sources {
            let mut value = serde_json::to_value(state).map_err(wrong)?;
            value["kind"] = json!(ResourceKind::CATALOG_SOURCE.kind);
            // Lists do not read pods.
            value.as_object_mut().map(|value| value.remove("pods"));
            all.push(value);
        }
        for state in &self.clusters {
            let mut value = serde_json::to_value(state).map_err(wrong)?;
            value["kind"] = json!(ResourceKind::CLUSTER_CATALOG.kind);
            all.push(value);
        }
        Ok(Value::Array(all))
    }
}
