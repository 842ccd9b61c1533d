//! What a catalog has beside its pods: a Service and a ServiceAccount.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::decide::Step;
use super::objects::{Source, hash};
use super::pods::{perform, pods_of};
use super::reconcile::{Work, namespace_of};
use super::status::second;
use crate::catalog_source::{CatalogSpec, PORT, service_name};
use crate::request::Named;
use crate::{Error, Kind, Object};

/// Who owns the fields that the controller sets.
const MANAGER: &str = "opm-controller";
/// How often companions are applied again, whether or not something is known to have changed them.
const APPLY_AGAIN: Duration = Duration::from_secs(600);
/// The companions of a catalog, as they were applied.
#[derive(Debug, Clone)]
pub(crate) struct Companions {
    hash: String,
    applied: Instant,
    /// What the status says of the service.
    service: Value,
}

/// Removes what served an image that the catalog does not name any more.
pub(super) async fn remove_pods(object: &Object, spec: &CatalogSpec, work: &Work<'_>) -> Result<(), Error> {
    let (context, uid) = (work.context, object.metadata.uid.clone().unwrap_or_default());
    if !context.may_be_served(&uid) {
        return Ok(());
    }
    let known = context.companions.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).cloned();
    if known.is_some_and(|known| known.hash == spec.address && known.applied.elapsed() < APPLY_AGAIN) {
        return Ok(());
    }
    let source = Source { object, spec, restricted: false };
    for pod in pods_of(&source, work).await? {
        perform(&Step::Delete { name: pod.name, grace: 1 }, &source, &Value::Null, "", work).await?;
    }
    for (kind, companion) in source.companions() {
        let named = Named::new(kind, namespace_of(object), companion["metadata"]["name"].as_str().unwrap_or_default());
        let there = work.requests.get(&named).await?.unwrap_or_default();
        let owners = there["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        // Somebody else may have one of that name.
        if owners.iter().any(|owner| owner["uid"] == uid.as_str()) {
            work.requests.delete(&named, crate::request::uid(&there)).await?;
        }
    }
    let cleared = Companions { hash: spec.address.clone(), applied: Instant::now(), service: Value::Null };
    context.companions.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, cleared);
    Ok(())
}

/// Applies the companions of a catalog, if they are not known to be there, and returns what the status says of the service.
pub(super) async fn ensure_companions(source: &Source<'_>, work: &Work<'_>) -> Result<Value, Error> {
    let context = work.context;
    let companions = source.companions();
    let hash = hash(&companions.iter().map(|(_, companion)| companion.clone()).collect());
    let uid = source.object.metadata.uid.clone().unwrap_or_default();
    let known = context.companions.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).cloned();
    if let Some(known) = known.filter(|known| known.hash == hash && known.applied.elapsed() < APPLY_AGAIN) {
        return Ok(known.service);
    }
    let mut service = Value::Null;
    for (kind, companion) in companions {
        let applied = apply(kind, &companion, source.object, work).await?;
        if kind == Kind::SERVICE {
            service = json!({
                "protocol": "grpc",
                "serviceName": service_name(source.name()),
                "serviceNamespace": source.namespace(),
                "port": PORT.to_string(),
                "createdAt": applied.metadata.creation_timestamp.map(|time| second(time.0)),
            });
        }
    }
    let companions = Companions { hash, applied: Instant::now(), service: service.clone() };
    context.companions.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, companions);
    Ok(service)
}

async fn apply(kind: Kind, companion: &Value, object: &Object, work: &Work<'_>) -> Result<Object, Error> {
    let name = companion["metadata"]["name"].as_str().unwrap_or_default();
    let (objects, how, patch) =
        (work.objects(kind, object), PatchParams::apply(MANAGER).force(), Patch::Apply(companion));
    work.requests.persist(&format!("{} {name}", kind.kind), |_| objects.patch(name, &how, &patch)).await
}
