//! Pods of a catalog, and why they are not ready.

use serde::Serialize;
use serde_json::Value;

use crate::catalog_source::{SERVING_LABEL, UPDATE_LABEL};
use crate::{Object, words};

/// The role of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PodRole {
    /// It serves the catalog.
    Serving,
    /// It was started to check for a newer image.
    Update,
}

/// A pod of a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    /// Its name.
    pub name: String,
    /// The role.
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
    pub(crate) fn of(pod: &Object, catalog: &str) -> Option<PodState> {
        let label = |name: &str| pod.metadata.labels.as_ref()?.get(name).map(String::as_str);
        let role = match (label(SERVING_LABEL), label(UPDATE_LABEL)) {
            (Some(name), _) if name == catalog => PodRole::Serving,
            (_, Some(name)) if name == catalog => PodRole::Update,
            _ => return None,
        };
        let extracted = text(&pod.data, "/spec/initContainers/1/image");
        Some(PodState {
            name: pod.metadata.name.clone().unwrap_or_default(),
            role,
            ready: is_ready(pod),
            image_id: image_id(pod),
            why_not: why_not(pod),
            image: extracted.or_else(|| text(&pod.data, "/spec/containers/0/image")).unwrap_or_default(),
        })
    }
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns the image ID that the node reports.
pub(crate) fn image_id(pod: &Object) -> Option<String> {
    let extracts = pod.data.pointer("/spec/initContainers/1").is_some();
    let place =
        if extracts { "/status/initContainerStatuses/1/imageID" } else { "/status/containerStatuses/0/imageID" };
    // Some nodes prefix it with a scheme.
    text(&pod.data, place).map(|id| id.rsplit("://").next().unwrap_or_default().to_owned())
}

/// Returns a condition of a pod.
pub(crate) fn condition<'a>(pod: &'a Object, kind: &str) -> Option<&'a Value> {
    let conditions = pod.data.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// Returns whether a pod is ready and not being deleted.
pub(crate) fn is_ready(pod: &Object) -> bool {
    pod.metadata.deletion_timestamp.is_none()
        && condition(pod, "Ready").is_some_and(|condition| condition["status"] == "True")
}

/// Returns why a pod is not ready; `None` if it is.
pub(crate) fn why_not(pod: &Object) -> Option<String> {
    if is_ready(pod) {
        return None;
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Some("it is about to end".into());
    }
    if let Some(problem) = words::pod(&pod.data) {
        return Some(problem.text);
    }
    let why = match pod.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default() {
        "Running" => "it runs but is not ready: its health check does not succeed yet",
        "Succeeded" => "it has ended",
        "Unknown" => "its node does not answer",
        _ => "it waits to be started by a node",
    };
    Some(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(status: Value) -> Object {
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": status}))
            .unwrap()
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
