//! Objects that users declare: sent by server-side apply, so that what an earlier call has set and is not asked for any
//! more goes away.

use std::time::{Duration, Instant};

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::Value;

use crate::error::has_code;
use crate::request::{Named, Requests};
use crate::watcher::Quiet;
use crate::{Cluster, Error, Object};

/// Who owns the fields that we set.
const MANAGER: &str = "opm";
/// How long a command may take that has no time of its own.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Makes an object, or changes it. `olm` is the software that brings its kind.
///
/// Fails if somebody else has set a field to another value, unless `force` takes it over, and when the time is over.
pub(crate) async fn apply(
    cluster: &Cluster,
    name: &Named,
    object: &Value,
    olm: &str,
    force: bool,
    deadline: Instant,
) -> Result<Object, Error> {
    let requests = Requests::new(cluster, &Quiet, deadline);
    let mut how = PatchParams::apply(MANAGER);
    how.force = force;
    let objects = cluster.objects_in(name.kind, &name.namespace);
    let patch = Patch::Apply(object);
    let applied = requests.persist(&name.to_string(), |_| objects.patch(&name.name, &how, &patch)).await;
    applied.map_err(|error| {
        let kind = name.kind.kind;
        let help = match &error {
            Error::Api { source, .. } if has_code(source, 404) => {
                format!("; is {olm}, or at least its {kind} kind, installed?")
            }
            Error::Api { source, .. } if has_code(source, 409) => {
                "; --force-conflicts takes over what others have set".to_owned()
            }
            _ => return error,
        };
        Error::Message(format!("{error}{help}"))
    })
}

/// Deletes an object; what belongs to it goes with it. Fails if there is none of that name.
pub(crate) async fn delete(cluster: &Cluster, name: &Named) -> Result<(), Error> {
    let objects = cluster.objects_in(name.kind, &name.namespace);
    let requests = Requests::within(cluster, &Quiet, PATIENCE);
    let how = DeleteParams::background();
    requests.persist(&name.to_string(), |_| objects.delete(&name.name, &how)).await.map(drop)
}
