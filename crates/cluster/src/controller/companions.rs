//! The Service and the ServiceAccount of a catalog.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::decide::PodAction;
use super::objects::{ManagedCatalog, hash};
use super::pods::{perform, pods_of};
use super::reconcile::{Work, namespace_of};
use super::status::second;
use crate::catalog_source::{CatalogSpec, PORT, service_name};
use crate::request::ObjectName;
use crate::views::{Stored, is_owned};
use crate::{ClusterObject, Error, ResourceKind};

/// The field manager of the controller.
const MANAGER: &str = "opm-controller";
/// How often companions are applied again without a known change.
const APPLY_AGAIN: Duration = Duration::from_secs(600);
/// The applied companions of a catalog.
#[derive(Debug, Clone)]
pub(crate) struct Companions {
    hash: String,
    applied: Instant,
    /// The service section of the status.
    service: Value,
}

/// Removes the objects of an image that the catalog no longer names.
pub(super) async fn remove_pods(object: &ClusterObject, spec: &CatalogSpec, work: &Work<'_>) -> Result<(), Error> {
    let (context, uid) = (work.context, object.metadata.uid());
    if !context.may_be_served(uid) {
        return Ok(());
    }
    let known = context.companions.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned();
    if known.is_some_and(|known| known.hash == spec.address && known.applied.elapsed() < APPLY_AGAIN) {
        return Ok(());
    }
    let source = ManagedCatalog { object, spec, restricted: false };
    for pod in pods_of(&source, work).await? {
        perform(&PodAction::Delete { name: pod.name, grace: 1 }, &source, &Value::Null, "", work).await?;
    }
    for (kind, companion) in source.companions() {
        let named = ObjectName::new(kind, namespace_of(object), &ObjectName::of(kind, &companion)?.name);
        // Another owner may have an object of that name.
        if let Some(there) = work.requests.metadata(&named).await?.filter(|there| is_owned(there, Some(uid))) {
            work.requests.delete(&named, there.uid.as_deref()).await?;
        }
    }
    let cleared = Companions { hash: spec.address.clone(), applied: Instant::now(), service: Value::Null };
    context.companions.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), cleared);
    Ok(())
}

/// Applies the companions of a catalog, unless they are known to be current, and returns the service section of the
/// status.
pub(super) async fn ensure_companions(source: &ManagedCatalog<'_>, work: &Work<'_>) -> Result<Value, Error> {
    let context = work.context;
    let companions = source.companions();
    let hash = hash(&companions.iter().map(|(_, companion)| companion.clone()).collect());
    let uid = source.object.metadata.uid();
    let known = context.companions.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned();
    if let Some(known) = known.filter(|known| known.hash == hash && known.applied.elapsed() < APPLY_AGAIN) {
        return Ok(known.service);
    }
    let mut service = Value::Null;
    for (kind, companion) in companions {
        let applied = apply(kind, &companion, source.object, work).await?;
        if kind == ResourceKind::SERVICE {
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
    context.companions.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), companions);
    Ok(service)
}

async fn apply(
    kind: ResourceKind,
    companion: &Value,
    object: &ClusterObject,
    work: &Work<'_>,
) -> Result<ClusterObject, Error> {
    let ObjectName { name, .. } = ObjectName::of(kind, companion)?;
    let (objects, how, patch) =
        (work.objects(kind, object), PatchParams::apply(MANAGER).force(), Patch::Apply(companion));
    work.requests.retry(&format!("{} {name}", kind.kind), |_| objects.patch(&name, &how, &patch)).await
}
