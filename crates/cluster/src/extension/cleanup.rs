//! `cleanup --olm v1`: deletes a ClusterExtension and its temporary catalog.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;

use super::objects::{installer_name, owned_by};
use super::{offer, other_olm};
use crate::context::WorkContext;
use crate::request::{ObjectName, Requests};
use crate::run::CleanupReport;
use crate::run::names::{self, RUN_LABEL};
use crate::run::preflight::{NeededRight, missing};
use crate::views::{View, label};
use crate::{Error, ResourceKind};

/// What to remove.
#[derive(Debug, Clone)]
pub struct ExtensionCleanup {
    pub package: String,
    /// Whether to delete a ClusterExtension that `run bundle` did not create, too.
    pub force: bool,
}

const RIGHTS: [NeededRight; 3] = [
    ("list", ResourceKind::CLUSTER_EXTENSION),
    ("delete", ResourceKind::CLUSTER_EXTENSION),
    ("delete", ResourceKind::CLUSTER_CATALOG),
];

/// The other objects of a run, in deletion order.
const OTHER_KINDS: [ResourceKind; 5] = [
    ResourceKind::CLUSTER_CATALOG,
    ResourceKind::CLUSTER_ROLE_BINDING,
    ResourceKind::CLUSTER_ROLE,
    ResourceKind::SERVICE_ACCOUNT,
    ResourceKind::NAMESPACE,
];

/// Removes an operator installed by OLM v1.
///
/// # Errors
/// Fails if `run bundle` did not install it and `force` is off, or if something cannot be deleted before the
/// deadline.
pub async fn cleanup(context: &WorkContext<'_>, options: &ExtensionCleanup) -> Result<CleanupReport, Error> {
    let requests = context.requests();
    let found = remove_operator(&requests, options).await?;
    Ok(CleanupReport::new(&options.package, found, &requests))
}

/// Removes an operator; returns whether there was anything to remove.
async fn remove_operator(requests: &Requests<'_>, options: &ExtensionCleanup) -> Result<bool, Error> {
    let cluster = requests.cluster;
    if !offer::is_served(requests, ResourceKind::CLUSTER_EXTENSION).await? {
        return Err(Error::refused("OLM v1 is not installed on this cluster: it knows no clusterextensions"));
    }
    let package = &options.package;
    let missing = missing(requests, &cluster.namespace, &RIGHTS).await?;
    if !missing.is_empty() {
        return Err(Error::refused(format!("not allowed: {}; nothing was deleted", missing.join(", "))));
    }
    let extensions = other_olm::of_package(requests, package).await?;
    let catalog = ObjectName::new(ResourceKind::CLUSTER_CATALOG, "", &names::catalog_source(package));
    let catalog = requests.metadata(&catalog).await?.filter(|catalog| run_of(catalog).is_some());
    let rights = rights_of_a_run(requests, package).await?;
    if extensions.is_empty() && catalog.is_none() && rights.is_empty() {
        return Ok(false);
    }
    let foreign: Vec<String> = extensions
        .iter()
        .filter(|one| run_of(&one.metadata).is_none())
        .map(|one| one.object_name().to_string())
        .collect();
    if !foreign.is_empty() && !options.force {
        return Err(Error::refused(format!(
            "package {package:?} was not installed by 'run bundle --olm v1'; nothing was deleted\n--force deletes:\n  {}, \
             with everything it created, including its definitions and their objects",
            foreign.join("\n  ")
        )));
    }
    let mut runs: Vec<(String, String)> = Vec::new();
    for extension in &extensions {
        let (name, namespace) = (extension.object_name(), &extension.spec.namespace);
        runs.extend(run_of(&extension.metadata).map(|run| (run.to_owned(), namespace.clone())));
        warn_of_crds(requests, &name).await?;
        remove(requests, &name, &extension.metadata).await?;
    }
    // Objects of a run that failed before it created its ClusterExtension.
    for run in catalog.iter().chain(&rights).filter_map(run_of) {
        if !runs.iter().any(|(known, _)| known == run) {
            runs.push((run.to_owned(), String::new()));
        }
    }
    for (run, namespace) in &runs {
        remove_run(requests, run, namespace).await?;
    }
    Ok(true)
}

/// Returns the run that created an object.
fn run_of(object: &ObjectMeta) -> Option<&str> {
    label(object, RUN_LABEL)
}

/// Returns the installer account and its permissions, as far as a run created them: they are created before the
/// catalog and may be all that a run left.
async fn rights_of_a_run(requests: &Requests<'_>, package: &str) -> Result<Vec<ObjectMeta>, Error> {
    let mut found = Vec::new();
    for kind in [ResourceKind::SERVICE_ACCOUNT, ResourceKind::CLUSTER_ROLE, ResourceKind::CLUSTER_ROLE_BINDING] {
        let name = ObjectName::new(kind, &requests.cluster.namespace, &installer_name(package));
        match requests.metadata(&name).await {
            Err(error) if error.is_forbidden() => {}
            there => found.extend(there?.filter(|there| run_of(there).is_some())),
        }
    }
    Ok(found)
}

/// Warns of the definitions that are deleted with a ClusterExtension.
async fn warn_of_crds(requests: &Requests<'_>, name: &ObjectName) -> Result<(), Error> {
    let selector = ListParams::default().labels(&owned_by(&name.name));
    let found = match requests.list_metadata(ResourceKind::CRD, "", &selector).await {
        Err(error) if error.is_forbidden() => return Ok(()),
        found => found?,
    };
    if !found.is_empty() {
        let names: Vec<String> = found.into_iter().filter_map(|crd| crd.name).collect();
        let names = names.join(", ");
        requests.watcher.warn(&format!("deleting {name} also deletes its definitions and all their objects: {names}"));
    }
    Ok(())
}

/// Deletes the other objects of a run; without a namespace, searches accounts in all namespaces.
async fn remove_run(requests: &Requests<'_>, run: &str, namespace: &str) -> Result<(), Error> {
    let selector = ListParams::default().labels(&format!("{RUN_LABEL}={run}"));
    for kind in OTHER_KINDS {
        let found = match requests.list_metadata(kind, namespace, &selector).await {
            Err(error) if error.is_forbidden() => {
                requests.watcher.warn(&format!("{} of this run may remain: {error}", kind.plural));
                continue;
            }
            found => found?,
        };
        for object in &found {
            remove(requests, &ObjectName::named(kind, object), object).await?;
        }
    }
    Ok(())
}

async fn remove(requests: &Requests<'_>, name: &ObjectName, object: &ObjectMeta) -> Result<(), Error> {
    let uid = object.uid.as_deref();
    requests.delete(name, uid).await?;
    requests.watcher.state(&name.to_string(), "waiting for its deletion");
    requests.wait_until_gone(name, uid).await?;
    requests.watcher.state(&name.to_string(), "");
    requests.watcher.done(&format!("{name} deleted"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;
    use crate::fake;
    use crate::watcher::NoReports;

    #[tokio::test]
    async fn a_package_that_may_not_be_listed_is_not_missing() {
        let cluster = fake::cluster(|_, path| match path.rsplit('/').next() {
            Some("v1") => {
                let resource = json!({"name": "clusterextensions", "kind": "ClusterExtension", "singularName": "",
                    "namespaced": false, "verbs": []});
                (200, json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [resource]}))
            }
            Some("selfsubjectaccessreviews") => {
                (201, json!({"apiVersion": "v1", "kind": "x", "metadata": {}, "status": {"allowed": false}}))
            }
            Some("clusterextensions") => fake::failure(403, "forbidden"),
            _ => fake::failure(404, "not found"),
        });
        let options = ExtensionCleanup { package: "foo".into(), force: false };
        let deadline = Instant::now() + Duration::from_secs(5);
        let cleaned = cleanup(&WorkContext { cluster: &cluster, deadline, watcher: &NoReports }, &options).await;
        let error = cleaned.unwrap_err().to_string();
        assert!(
            error.starts_with("not allowed: list clusterextensions") && error.ends_with("nothing was deleted"),
            "{error}"
        );
    }
}
