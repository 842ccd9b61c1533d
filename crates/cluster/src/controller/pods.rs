//! The pods of a catalog, and the steps performed on them.

use std::sync::atomic::Ordering;

use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::decide::{PROMOTED, Pod, PodAction};
use super::objects::ManagedCatalog;
use super::reconcile::Work;
use crate::catalog_source::{SERVING_LABEL, UPDATE_LABEL};
use crate::error::has_code;
use crate::views::{PodView, View};
use crate::{ClusterObject, Error, ResourceKind};

/// Returns the pods of a catalog.
pub(super) async fn pods_of(source: &ManagedCatalog<'_>, work: &Work<'_>) -> Result<Vec<Pod>, Error> {
    let pods = work.objects(ResourceKind::POD, source.object);
    let mut all: Vec<Pod> = Vec::new();
    for label in [SERVING_LABEL, UPDATE_LABEL] {
        let which = ListParams::default().labels(&format!("{label}={}", source.name()));
        let found = work.requests.retry(&format!("pods of {}", source.name()), |_| pods.list(&which)).await?;
        let found = found.items.iter().map(PodView::of).collect::<Result<Vec<_>, Error>>()?;
        let found: Vec<Pod> = found.iter().filter_map(|pod| Pod::of(pod, source.name())).collect();
        // A pod that changes its role between the requests appears twice.
        all.retain(|pod| found.iter().all(|other| other.name != pod.name));
        all.extend(found);
    }
    Ok(all)
}

/// Performs one step; returns when it started to poll the image.
pub(super) async fn perform(
    step: &PodAction,
    source: &ManagedCatalog<'_>,
    spec: &Value,
    hash: &str,
    work: &Work<'_>,
) -> Result<Option<Timestamp>, Error> {
    let pods = work.objects(ResourceKind::POD, source.object);
    let what = |what: &str| format!("{what} a pod of {}", source.name());
    let metrics = &work.context.metrics;
    let start = |serving: bool| {
        let pod = serde_json::from_value::<ClusterObject>(source.pod(spec, hash, serving));
        pod.map_err(|error| Error::Failed(error.to_string()))
    };
    tracing::info!(namespace = source.namespace(), catalog = source.name(), ?step, "changing pods");
    match step {
        PodAction::Start => {
            let (how, pod) = (PostParams::default(), start(true)?);
            work.requests.once(&what("starting"), pods.create(&how, &pod)).await?;
        }
        PodAction::StartBeside { poll } => {
            let (how, pod) = (PostParams::default(), start(false)?);
            let created = work.requests.once(&what("starting"), pods.create(&how, &pod)).await?;
            if *poll {
                metrics.polls.fetch_add(1, Ordering::Relaxed);
                return Ok(created.metadata.creation_timestamp.map(|time| time.0));
            }
        }
        PodAction::Promote(name) => {
            let patch = json!({"metadata": {
                "labels": {SERVING_LABEL: source.name(), UPDATE_LABEL: ""},
                "annotations": {PROMOTED: Timestamp::now().to_string()},
            }});
            let (how, patch) = (PatchParams::default(), Patch::Merge(&patch));
            work.requests.retry(&what("promoting"), |_| pods.patch(name, &how, &patch)).await?;
            metrics.promotions.fetch_add(1, Ordering::Relaxed);
        }
        PodAction::Delete { name, grace } => {
            let how = DeleteParams { grace_period_seconds: Some(*grace), ..DeleteParams::default() };
            match work.requests.retry(&what("ending"), |_| pods.delete(name, &how)).await {
                Err(Error::Api { source, .. }) if has_code(&source, 404) => {}
                ended => drop(ended?),
            }
        }
    }
    Ok(None)
}
