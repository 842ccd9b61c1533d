//! `run bundle --olm v1`: a bundle becomes a catalog of its own, and OLM v1 installs it from there.

use std::time::Instant;

use super::objects::{Carried, Extension, adopt};
use super::wait;
use crate::ledger::Ledger;
use crate::request::{Named, Requests};
use crate::{Cluster, Error, Kind, Watcher};

/// Installs a bundle and waits until its operator runs. What was made is in the ledger, whatever the outcome.
///
/// # Errors
/// Fails if something cannot be created, or does not come to pass before the deadline, with the cause in words.
pub async fn install(
    cluster: &Cluster,
    extension: &Extension,
    carried: &Carried,
    ledger: &Ledger,
    deadline: Instant,
    watcher: &dyn Watcher,
) -> Result<(), Error> {
    let requests = &Requests::new(cluster, watcher, deadline);
    requests.check_time()?;
    let mut wanted = Named::new(Kind::CLUSTER_EXTENSION, "", &extension.name);
    for (kind, object) in extension.objects(carried) {
        let name = Named::of(kind, &object);
        if kind == Kind::NAMESPACE && requests.get(&name).await?.is_some() {
            continue;
        }
        if kind == Kind::CLUSTER_EXTENSION {
            // Not before it is served: OLM v1 tries again after ever longer pauses.
            wait::for_catalog(requests, &extension.catalog_name()).await?;
            adopt_definitions(requests, ledger, extension).await?;
            wanted = name.clone();
        }
        let creating = |error: Error| Error::message(format!("error creating {name}: {error}"));
        ledger.create(requests, kind, object, None).await.map_err(creating)?;
        watcher.done(&format!("Created {name}"));
    }
    wait::for_bundle(requests, &wanted, &extension.bundle).await?;
    watcher.done(&format!("OLM v1 has applied \"{}\"", extension.bundle));
    wait::for_deployments(requests, &wanted, &extension.namespace).await?;
    watcher.done(&format!("OLM v1 has successfully installed \"{}\"", extension.bundle));
    Ok(())
}

/// Makes definitions that are there part of the installation, if that is wanted.
async fn adopt_definitions(requests: &Requests<'_>, ledger: &Ledger, extension: &Extension) -> Result<(), Error> {
    if !extension.adopt_crds {
        return Ok(());
    }
    for name in &extension.definitions {
        let crd = Named::new(Kind::CRD, "", name);
        if requests.get(&crd).await?.is_some() {
            ledger.change(requests, &crd, |crd| adopt(crd, &extension.name, &extension.namespace)).await?;
        }
    }
    Ok(())
}
