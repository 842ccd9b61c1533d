//! Writes the status of a catalog.

use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::reconcile::Work;
use crate::catalog_source::Complaint;
use crate::error::has_code;
use crate::views::{CatalogSourceStatus, View};
use crate::{ClusterObject, Error, ResourceKind};

/// The status to write.
#[derive(Default)]
pub(super) struct Report {
    pub(super) complaint: Option<Complaint>,
    pub(super) polled: Option<Timestamp>,
    pub(super) service: Option<Value>,
    pub(super) connection: Option<(String, &'static str)>,
}

/// Writes the status if it differs.
pub(super) async fn report(object: &ClusterObject, said: Report, work: &Work<'_>) -> Result<(), Error> {
    let before = object.data.get("status").cloned().unwrap_or(Value::Null);
    let mut status = json!({
        "reason": said.complaint.as_ref().map(|complaint| complaint.reason),
        "message": said.complaint.as_ref().map(|complaint| complaint.message.as_str()),
    });
    if let Some(service) = said.service {
        status["registryService"] = service;
    }
    if let Some(polled) = said.polled {
        status["latestImageRegistryPoll"] = second(polled).into();
    }
    if let Some((address, state)) = said.connection {
        let old = CatalogSourceStatus::of(object)?.status.connection_state;
        let same = old.address == address && old.last_observed_state == state;
        let since = if same { old.last_connect } else { second(Timestamp::now()) };
        status["connectionState"] = json!({"address": address, "lastObservedState": state, "lastConnect": since});
    }
    if is_part_of(&status, &before) {
        return Ok(());
    }
    let name = object.metadata.name.as_deref().unwrap_or_default();
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
