//! Pods of a catalog, and why they are not ready.

use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog_source::{SERVING_LABEL, UPDATE_LABEL};
use crate::diagnosis;
use crate::views::{Condition, PodView, Stored, condition, label};

/// The role of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PodRole {
    /// It serves the catalog.
    Serving,
    /// It was started to check for a newer image.
    Update,
}

/// A pod of a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    /// Its name.
    pub name: String,
    pub role: PodRole,
    /// Whether it is ready.
    pub ready: bool,
    /// The digest of its image, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// The image in its spec.
    #[serde(skip)]
    pub image: String,
}

impl PodState {
    /// Reads a pod; `None` if it does not belong to the catalog.
    pub(crate) fn of(pod: &PodView, catalog: &str) -> Option<PodState> {
        let role = match (label(&pod.metadata, SERVING_LABEL), label(&pod.metadata, UPDATE_LABEL)) {
            (Some(name), _) if name == catalog => PodRole::Serving,
            (_, Some(name)) if name == catalog => PodRole::Update,
            _ => return None,
        };
        // The second container copies the content of an image that has no server.
        let extracted = pod.spec.init_containers.get(1).filter(|container| !container.image.is_empty());
        let content = extracted.or(pod.spec.containers.first());
        Some(PodState {
            name: pod.metadata.name().to_owned(),
            role,
            ready: is_ready(pod),
            image_id: image_id(pod),
            why_not: why_not(pod),
            image: content.map(|container| container.image.clone()).unwrap_or_default(),
        })
    }
}

/// Returns the image ID that the node reports.
pub(crate) fn image_id(pod: &PodView) -> Option<String> {
    let status = match pod.spec.init_containers.get(1) {
        Some(_) => pod.status.init_container_statuses.get(1),
        None => pod.status.container_statuses.first(),
    };
    let id = status.map(|status| status.image_id.as_str()).filter(|id| !id.is_empty())?;
    // Some nodes prefix it with a scheme.
    Some(id.rsplit("://").next().unwrap_or_default().to_owned())
}

/// Returns whether a pod is ready and not being deleted.
pub(crate) fn is_ready(pod: &PodView) -> bool {
    pod.metadata.deletion_timestamp.is_none()
        && condition(&pod.status.conditions, "Ready").is_some_and(Condition::is_true)
}

/// Returns why a pod is not ready; `None` if it is.
pub(crate) fn why_not(pod: &PodView) -> Option<String> {
    if is_ready(pod) {
        return None;
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Some("it is about to end".into());
    }
    if let Some(problem) = diagnosis::pod(pod) {
        return Some(problem.text);
    }
    let why = match pod.status.phase.as_str() {
        "Running" => "it runs but is not ready: its health check does not succeed yet",
        "Succeeded" => "it has ended",
        "Unknown" => "its node does not answer",
        _ => "it waits to be started by a node",
    };
    Some(why.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::views::decode;

    fn pod(status: Value) -> PodView {
        decode(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    #[test]
    fn a_pod_explains_why_it_is_not_ready() {
        let why = |status| why_not(&pod(status)).unwrap_or_default();
        assert_eq!(why(json!({"conditions": [{"type": "Ready", "status": "True"}]})), "");
        assert_eq!(why(json!({})), "it waits to be started by a node");
        let pulling = json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}});
        let pulling = json!({"name": "c", "image": "r.test/a", "state": pulling});
        assert_eq!(
            why(json!({"phase": "Pending", "containerStatuses": [pulling]})),
            "container c: image r.test/a cannot be pulled (ErrImagePull): not found"
        );
        assert_eq!(why(json!({"phase": "Succeeded"})), "it has ended");
        assert_eq!(why(json!({"phase": "Failed", "reason": "Evicted"})), "it failed: Evicted");
        assert!(why(json!({"phase": "Running"})).starts_with("it runs but is not ready"));
    }
}
