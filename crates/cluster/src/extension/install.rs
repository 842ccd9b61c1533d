//! `run bundle --olm v1`: turns a bundle into a catalog, from which OLM v1 installs it.

use std::time::Instant;

use super::objects::{Carried, Extension, adopt};
use super::wait;
use crate::ledger::Ledger;
use crate::request::{ObjectName, Requests};
use crate::views::DefinitionMetadata;
use crate::{Cluster, Error, ResourceKind, Watcher};

/// Installs a bundle and waits until its operator runs. The ledger records all created objects, whatever the outcome.
///
/// # Errors
/// Fails if an object cannot be created, or the installation does not finish before the deadline, with the cause.
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
    let mut wanted = ObjectName::new(ResourceKind::CLUSTER_EXTENSION, "", &extension.name);
    for (kind, object) in extension.objects(carried) {
        let name = ObjectName::of(kind, &object);
        if kind == ResourceKind::NAMESPACE && requests.metadata(&name).await?.is_some() {
            continue;
        }
        if kind == ResourceKind::CLUSTER_EXTENSION {
            // Create the ClusterExtension after the catalog is served: OLM v1 retries with growing backoff.
            wait::for_catalog(requests, &extension.catalog_name()).await?;
            adopt_definitions(requests, ledger, extension).await?;
            wanted = name.clone();
        }
        let creating = |error: Error| Error::refused(format!("error creating {name}: {error}"));
        ledger.create(requests, kind, object, None).await.map_err(creating)?;
        watcher.done(&format!("Created {name}"));
    }
    wait::for_bundle(requests, &wanted, &extension.bundle).await?;
    watcher.done(&format!("OLM v1 has applied \"{}\"", extension.bundle));
    wait::for_deployments(requests, &wanted, &extension.namespace).await?;
    watcher.done(&format!("OLM v1 has successfully installed \"{}\"", extension.bundle));
    Ok(())
}

/// Adopts existing definitions into the installation, if requested.
async fn adopt_definitions(requests: &Requests<'_>, ledger: &Ledger, extension: &Extension) -> Result<(), Error> {
    if !extension.adopt_crds {
        return Ok(());
    }
    for name in &extension.definitions {
        let crd = ObjectName::new(ResourceKind::CRD, "", name);
        if requests.metadata(&crd).await?.is_some() {
            let adopt = |crd: &mut DefinitionMetadata| adopt(&mut crd.metadata, &extension.name, &extension.namespace);
            ledger.change(requests, &crd, adopt).await?;
        }
    }
    Ok(())
}
