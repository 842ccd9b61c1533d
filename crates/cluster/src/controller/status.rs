//! Writes the status of a catalog.

use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};

use super::reconcile::Work;
use crate::catalog_source::Complaint;
use crate::error::has_code;
use crate::views::{CatalogSourceStatus, ConnectionState, Rest, Stored, View};
use crate::{ClusterObject, Error, ResourceKind};

/// The status to write.
#[derive(Default)]
pub(super) struct Report {
    pub(super) complaint: Option<Complaint>,
    pub(super) polled: Option<Timestamp>,
    pub(super) service: Option<Value>,
    pub(super) connection: Option<(String, &'static str)>,
}

/// The fields of a status to change: null removes one.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusPatch {
    reason: Option<&'static str>,
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    registry_service: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_image_registry_poll: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_state: Option<ConnectionState>,
}

/// Writes the status if it differs.
pub(super) async fn report(object: &ClusterObject, said: Report, work: &Work<'_>) -> Result<(), Error> {
    let before = object.data.get("status").cloned().unwrap_or(Value::Null);
    let (reason, message) = said.complaint.map(|complaint| (complaint.reason, complaint.message)).unzip();
    let mut status = StatusPatch {
        reason,
        message,
        registry_service: said.service,
        latest_image_registry_poll: said.polled.map(second),
        connection_state: None,
    };
    if let Some((address, state)) = said.connection {
        let old = CatalogSourceStatus::of(object)?.status.connection_state;
        let same = old.address == address && old.last_observed_state == state;
        let since = if same { old.last_connect } else { second(Timestamp::now()) };
        let state = state.to_owned();
        status.connection_state =
            Some(ConnectionState { address, last_observed_state: state, last_connect: since, rest: Rest::new() });
    }
    let status = json!(status);
    if is_part_of(&status, &before) {
        return Ok(());
    }
    let name = object.metadata.name();
    let patch = Patch::Merge(json!({ "status": status }));
    let sources = work.objects(ResourceKind::CATALOG_SOURCE, object);
    let how = PatchParams::default();
    let written =
        work.requests.retry(&format!("status of catalog {name}"), |_| sources.patch_status(name, &how, &patch)).await;
    match written {
        // The catalog was deleted meanwhile.
        Err(Error::Api { source, .. }) if has_code(&source, 404) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}

/// Returns whether `whole` contains `part`; null stands for an absent field.
fn is_part_of(part: &Value, whole: &Value) -> bool {
    match part {
        Value::Null => whole.is_null(),
        Value::Object(fields) => {
            fields.iter().all(|(name, value)| is_part_of(value, whole.get(name).unwrap_or(&Value::Null)))
        }
        other => other == whole,
    }
}

/// Formats a time in whole seconds, as statuses do.
pub(super) fn second(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}
