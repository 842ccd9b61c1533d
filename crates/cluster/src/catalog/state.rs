//! The state of a catalog from the objects of the cluster.

use kube::api::ListParams;
use schemars::JsonSchema;
use serde::Serialize;

use super::pods::{PodRole, PodState};
use crate::catalog_source::{SERVING_LABEL, UPDATE_LABEL};
use crate::request::Requests;
use crate::views::{CatalogSource, PodView, Stored, View};
use crate::{Error, ResourceKind};

/// The state of a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogState {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub publisher: String,
    /// `grpc`, `configmap` or `internal`.
    pub source_type: String,
    /// The priority; higher values are preferred.
    pub priority: i64,
    /// The last observed connection state; empty if there is none.
    pub state: String,
    /// The address that serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The requested image.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// The image in use, by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_in_use: Option<String>,
    /// The poll interval for a newer image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_interval: Option<String>,
    /// The time of the last poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_poll: Option<String>,
    /// The reason in its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message in its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its pods, by name; lists do not read them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Vec<PodState>>,
    /// The packages of the catalog, if the package server is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<Vec<String>>,
    /// Why its packages cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages_error: Option<String>,
}

/// Reads a catalog and its pods.
pub(super) async fn read(requests: &Requests<'_>, name: &str) -> Result<CatalogState, Error> {
    let cluster = requests.cluster;
    let (catalogs, pods) = (cluster.objects(ResourceKind::CATALOG_SOURCE), cluster.objects(ResourceKind::POD));
    let what = format!("{} {}/{name}", ResourceKind::CATALOG_SOURCE.kind, cluster.namespace);
    let object = requests.retry(&what, |_| catalogs.get(name)).await?;
    let mut all = Vec::new();
    for label in [SERVING_LABEL, UPDATE_LABEL] {
        let which = ListParams::default().labels(&format!("{label}={name}"));
        let found = requests.retry(&format!("pods of {name}"), |_| pods.list(&which)).await?;
        all.extend(found.items);
    }
    let all = all.iter().map(PodView::of).collect::<Result<Vec<_>, Error>>()?;
    Ok(CatalogState::of(CatalogSource::of(&object)?, &all))
}

impl CatalogState {
    pub(crate) fn of(catalog: CatalogSource, pods: &[PodView]) -> CatalogState {
        let CatalogSource { metadata, spec, status, .. } = catalog;
        let name = metadata.name().to_owned();
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        let mut pods: Vec<PodState> = pods.iter().filter_map(|pod| PodState::of(pod, &name)).collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        pods.dedup_by(|a, b| a.name == b.name);
        let serving = || pods.iter().filter(|pod| pod.role == PodRole::Serving && pod.ready);
        let address = Some(spec.address.clone()).filter(|address| spec.image.is_empty() && !address.is_empty());
        CatalogState {
            namespace: metadata.namespace().to_owned(),
            state: status.connection_state.last_observed_state,
            address: given(status.connection_state.address).or(address),
            image_in_use: serving().find_map(|pod| pod.image_id.clone()),
            poll_interval: spec.update_strategy.and_then(|strategy| Some(strategy.registry_poll?.interval)),
            last_poll: given(status.latest_image_registry_poll),
            reason: given(status.reason),
            message: given(status.message),
            packages: None,
            packages_error: None,
            name,
            display_name: spec.display_name,
            publisher: spec.publisher,
            source_type: spec.source_type,
            priority: spec.priority,
            image: spec.image,
            pods: Some(pods),
        }
    }

    /// Returns its pods, as far as they were read.
    pub fn pods(&self) -> &[PodState] {
        self.pods.as_deref().unwrap_or_default()
    }

    /// Returns whether the catalog serves the requested image.
    pub(crate) fn answers(&self) -> bool {
        let from_image = |pod: &PodState| pod.role == PodRole::Serving && pod.ready && pod.image == self.image;
        self.state == "READY" && (self.image.is_empty() || self.pods().iter().any(from_image))
    }

    /// Returns why the catalog is not ready, as far as known.
    pub fn problem(&self) -> String {
        let mut all: Vec<String> = Vec::new();
        if let Some(text) = self.message.as_ref().or(self.reason.as_ref()) {
            all.push(text.clone());
        }
        for pod in self.pods() {
            if let Some(why) = &pod.why_not {
                all.push(format!("pod {}: {why}", pod.name));
            }
        }
        if all.is_empty() {
            all.push(match (self.state.as_str(), self.pods().is_empty(), self.image.is_empty()) {
                ("", true, false) => "nobody has started a pod for it: no controller of catalogs runs".into(),
                ("", ..) => "nobody has connected to it yet".into(),
                ("READY", ..) => "it answers from another image".into(),
                (state, ..) => format!("its connection is {state}"),
            });
        }
        all.join("; ")
    }
}
