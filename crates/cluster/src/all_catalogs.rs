//! Catalogs of both generations of OLM: their list, and the templates in files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::{CatalogState, list_catalogs};
use crate::cluster_catalog::{ClusterCatalogState, list_cluster_catalogs};
use crate::views::{CatalogSource, ClusterCatalog, Identity};
use crate::{Cluster, Error, ResourceKind};

/// A catalog of either generation of OLM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ListedCatalog {
    /// A CatalogSource.
    Source(OfKind<CatalogState>),
    /// A ClusterCatalog.
    Cluster(OfKind<ClusterCatalogState>),
}

/// The state of an object, with its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OfKind<T> {
    #[serde(flatten)]
    pub state: T,
    pub kind: &'static str,
}

/// Lists the catalogs of both generations. Omits a kind that the cluster does not have or the user may not list.
///
/// # Errors
/// Fails if that applies to both kinds, or the API server is unreachable.
pub async fn list_all_catalogs(cluster: &Cluster, everywhere: bool) -> Result<Vec<ListedCatalog>, Error> {
    let can_omit = |error: &Error| error.is_missing() || error.is_forbidden();
    let sources = list_catalogs(cluster, everywhere).await;
    let clusters = list_cluster_catalogs(cluster).await;
    let (sources, clusters) = match (sources, clusters) {
        (Ok(sources), Ok(clusters)) => (sources, clusters),
        (Ok(sources), Err(error)) if can_omit(&error) => (sources, Vec::new()),
        (Err(error), Ok(clusters)) if can_omit(&error) => (Vec::new(), clusters),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let source = |state| ListedCatalog::Source(OfKind { state, kind: ResourceKind::CATALOG_SOURCE.kind });
    let of_cluster = |state| ListedCatalog::Cluster(OfKind { state, kind: ResourceKind::CLUSTER_CATALOG.kind });
    Ok(sources.into_iter().map(source).chain(clusters.into_iter().map(of_cluster)).collect())
}

/// What an object in a file says about a catalog to apply; empty where it says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogTemplate {
    /// Whether it is a ClusterCatalog.
    pub is_v1: bool,
    pub name: String,
    pub namespace: Option<String>,
    pub image: String,
    pub priority: Option<i64>,
    /// The poll interval of a ClusterCatalog, in minutes.
    pub poll_minutes: Option<u64>,
    /// Whether a ClusterCatalog is set to unavailable.
    pub unavailable: bool,
}

/// Why an object in a file cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum CatalogTemplateError {
    /// It is no catalog.
    #[error("expected a CatalogSource or a ClusterCatalog, found {0:?}")]
    Kind(String),
    /// A field is missing, and no flag replaces it.
    #[error("the object has no {0}")]
    Missing(&'static str),
    /// It has no image, and can have none.
    #[error("only a CatalogSource of sourceType grpc has an image")]
    NoImage,
    /// A field has another type than its kind defines.
    #[error(transparent)]
    Field(#[from] serde_json::Error),
}

impl CatalogTemplate {
    /// Reads a CatalogSource or a ClusterCatalog.
    ///
    /// # Errors
    /// Fails if the object is of another kind, or a catalog without an image.
    pub fn read(object: &Value) -> Result<CatalogTemplate, CatalogTemplateError> {
        let Identity { kind, .. } = Identity::deserialize(object)?;
        if kind == ResourceKind::CLUSTER_CATALOG.kind {
            let ClusterCatalog { metadata, spec, .. } = ClusterCatalog::deserialize(object)?;
            return Ok(CatalogTemplate {
                is_v1: true,
                name: metadata.name.unwrap_or_default(),
                namespace: None,
                image: spec.source.image.reference,
                priority: spec.priority.filter(|priority| *priority != 0),
                poll_minutes: spec.source.image.poll_interval_minutes,
                unavailable: spec.availability_mode == "Unavailable",
            });
        }
        if kind != ResourceKind::CATALOG_SOURCE.kind {
            return Err(CatalogTemplateError::Kind(kind));
        }
        let CatalogSource { metadata, spec, .. } = CatalogSource::deserialize(object)?;
        if !matches!(spec.source_type.as_str(), "" | "grpc") {
            return Err(CatalogTemplateError::NoImage);
        }
        Ok(CatalogTemplate {
            name: metadata.name.unwrap_or_default(),
            namespace: metadata.namespace,
            image: spec.image,
            priority: Some(spec.priority).filter(|priority| *priority != 0),
            ..CatalogTemplate::default()
        })
    }
}
