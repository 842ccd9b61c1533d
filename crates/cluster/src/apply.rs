//! Applies objects with server-side apply: fields that an earlier call set and this one omits are removed.

use std::time::{Duration, Instant};

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::Value;

use crate::error::has_code;
use crate::request::{ObjectName, Requests};
use crate::watcher::NoReports;
use crate::{Cluster, ClusterObject, Error};

/// The field manager.
const MANAGER: &str = "opm";
/// The timeout of commands without their own.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(15);

/// Creates or updates an object. `olm` names the software that defines its kind.
///
/// Fails on a timeout, or if another manager owns a field with a different value, unless `force` takes it over.
pub(crate) async fn apply(
    cluster: &Cluster,
    name: &ObjectName,
    object: &Value,
    olm: &str,
    force: bool,
    deadline: Instant,
) -> Result<ClusterObject, Error> {
    let requests = Requests::new(cluster, &NoReports, deadline);
    let mut how = PatchParams::apply(MANAGER);
    how.force = force;
    let objects = cluster.objects_in(name.kind, &name.namespace);
    let patch = Patch::Apply(object);
    let applied = requests.retry(&name.to_string(), |_| objects.patch(&name.name, &how, &patch)).await;
    applied.map_err(|error| {
        let kind = name.kind.kind;
        let help = match &error {
            Error::Api { source, .. } if has_code(source, 404) => {
                format!("; check that {olm} and its {kind} CRD are installed")
            }
            Error::Api { source, .. } if has_code(source, 409) => {
                "; --force-conflicts takes over what others have set".to_owned()
            }
            _ => return error,
        };
        Error::Refused(format!("{error}{help}"))
    })
}

/// Deletes an object and its dependents. Fails if the object does not exist.
pub(crate) async fn delete(cluster: &Cluster, name: &ObjectName) -> Result<(), Error> {
    let objects = cluster.objects_in(name.kind, &name.namespace);
    let requests = Requests::within(cluster, &NoReports, TIMEOUT);
    let how = DeleteParams::background();
    requests.retry(&name.to_string(), |_| objects.delete(&name.name, &how)).await.map(drop)
}
