//! `cleanup`: an operator and its throw-away catalog are removed.

use std::time::Instant;

use kube::api::ListParams;
use serde_json::Value;

use super::carry::{clear, deleted};
use super::facts::owned_crds;
use super::names::{self, FIELD_MANAGER, RUN_LABEL};
use crate::request::{Named, Requests, uid};
use crate::{Cluster, Error, Kind, Watcher};

/// What is removed.
#[derive(Debug, Clone)]
pub struct Cleanup {
    /// The package.
    pub package: String,
    /// Whether the custom resource definitions that the operator owns are deleted, and all their objects.
    pub crds: bool,
    /// Whether the OperatorGroup that `run bundle` made is deleted, if no Subscription is left.
    pub operator_groups: bool,
}

/// Removes an operator; tells whether there was anything to remove.
///
/// # Errors
/// Fails if something cannot be deleted before the deadline.
pub async fn cleanup(
    cluster: &Cluster,
    options: &Cleanup,
    deadline: Instant,
    watcher: &dyn Watcher,
) -> Result<bool, Error> {
    let requests = &Requests { cluster, watcher, deadline: deadline.into() };
    let namespace = cluster.namespace.as_str();
    let all = ListParams::default();
    super::preflight::has_olm(requests, namespace).await?;
    let subscriptions = requests.list(Kind::SUBSCRIPTION, namespace, &all).await?;
    let subscription = subscriptions.into_iter().find(|one| one["spec"]["name"] == options.package.as_str());
    let csvs = find_csvs(requests, subscription.as_ref(), &options.package).await?;
    let source = find_source(requests, subscription.as_ref(), &options.package).await?;
    if subscription.is_none() && csvs.is_empty() && source.is_none() {
        return Ok(false);
    }

    if let Some(subscription) = &subscription {
        remove(requests, Kind::SUBSCRIPTION, subscription, false).await?;
    }
    match options.crds && !csvs.is_empty() {
        true => {
            // While the operator still runs, so that it can do what finalizers ask for.
            for name in csvs.iter().flat_map(owned_crds) {
                if let Some(crd) = requests.get(&Named::new(Kind::CRD, "", &name)).await? {
                    remove(requests, Kind::CRD, &crd, true).await?;
                }
            }
        }
        false => watcher.done("Skipping CRD deletion"),
    }
    for csv in &csvs {
        remove(requests, Kind::CSV, csv, true).await?;
    }
    match &source {
        Some(source) if is_ours(source, &options.package) => {
            remove(requests, Kind::CATALOG_SOURCE, source, true).await?;
            clear(requests, source).await?;
        }
        Some(source) => {
            let source = Named::of(Kind::CATALOG_SOURCE, source);
            watcher.warn(&format!("{source} was not made by 'run bundle' and stays"));
        }
        None => {}
    }
    let rest = requests.list(Kind::SUBSCRIPTION, namespace, &all).await?;
    let rest = rest.iter().any(|one| subscription.as_ref().and_then(uid) != uid(one));
    let group = Named::new(Kind::OPERATOR_GROUP, namespace, names::OPERATOR_GROUP);
    match options.operator_groups && !rest {
        true => {
            if let Some(group) = requests.get(&group).await? {
                remove(requests, Kind::OPERATOR_GROUP, &group, true).await?;
            }
        }
        false => watcher.done("Skipping Operator Groups deletion"),
    }
    Ok(true)
}

/// Finds the CSVs of a package: those that its Subscription names, which lags behind OLM, and those that OLM labels.
async fn find_csvs(requests: &Requests<'_>, subscription: Option<&Value>, package: &str) -> Result<Vec<Value>, Error> {
    let namespace = requests.cluster.namespace.as_str();
    let mut found = Vec::new();
    let label = format!("{package}.{namespace}");
    if label.len() <= 63 {
        let selector = ListParams::default().labels(&format!("operators.coreos.com/{label},!olm.copiedFrom"));
        found = requests.list(Kind::CSV, namespace, &selector).await?;
    }
    for key in ["installedCSV", "currentCSV"] {
        let name = subscription.and_then(|one| one["status"][key].as_str()).filter(|name| !name.is_empty());
        let Some(name) = name.filter(|name| found.iter().all(|csv| csv["metadata"]["name"] != *name)) else { continue };
        found.extend(requests.get(&Named::new(Kind::CSV, namespace, name)).await?);
    }
    Ok(found)
}

/// Finds the CatalogSource that a package comes from.
async fn find_source(
    requests: &Requests<'_>,
    subscription: Option<&Value>,
    package: &str,
) -> Result<Option<Value>, Error> {
    let namespace = requests.cluster.namespace.as_str();
    let named = |key: &str| subscription.and_then(|one| one["spec"][key].as_str()).filter(|name| !name.is_empty());
    let source = match named("source") {
        Some(name) => Named::new(Kind::CATALOG_SOURCE, named("sourceNamespace").unwrap_or(namespace), name),
        None => Named::new(Kind::CATALOG_SOURCE, namespace, &names::catalog_source(package)),
    };
    requests.get(&source).await
}

/// Tells whether a CatalogSource was made for a package by `run bundle`, of this program or of the one before it.
fn is_ours(source: &Value, package: &str) -> bool {
    source["metadata"]["labels"][RUN_LABEL].is_string()
        || (source["spec"]["publisher"] == FIELD_MANAGER
            && source["metadata"]["name"] == names::catalog_source(package).as_str())
}

async fn remove(requests: &Requests<'_>, kind: Kind, object: &Value, wait: bool) -> Result<(), Error> {
    let name = Named::of(kind, object);
    if requests.delete(&name, uid(object)).await? {
        requests.watcher.done(&deleted(&name));
    }
    if wait {
        requests.watcher.state(&name.to_string(), "waiting until it is gone");
        requests.wait_until_gone(&name, uid(object)).await?;
        requests.watcher.state(&name.to_string(), "");
    }
    Ok(())
}
