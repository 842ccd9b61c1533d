//! Detects installed packages: two OLM generations would compete for their definitions and permissions.

use serde_json::Value;

use crate::request::{ObjectName, Requests};
use crate::{Error, Kind};

/// The prefix of labels that OLM v0 sets on all objects of a package, followed by `PACKAGE.NAMESPACE`.
const COMPONENT: &str = "operators.coreos.com/";

/// Lists the objects of a kind; empty if the cluster does not know it or the user may not read it.
async fn all(requests: &Requests<'_>, kind: Kind) -> Result<Vec<Value>, Error> {
    match requests.list_everywhere(kind).await {
        Err(error) if error.is_missing() || error.is_forbidden() => Ok(Vec::new()),
        found => found,
    }
}

/// Returns the OLM v0 object that installs a package, if any.
pub(super) async fn runs_in_v0(requests: &Requests<'_>, package: &str, csv: &str) -> Result<Option<ObjectName>, Error> {
    let subscriptions = all(requests, Kind::SUBSCRIPTION).await?;
    if let Some(one) = subscriptions.iter().find(|one| one["spec"]["name"] == package) {
        return Ok(Some(ObjectName::of(Kind::SUBSCRIPTION, one)));
    }
    let component = format!("{COMPONENT}{package}.");
    let is_it = |one: &&Value| {
        let labels = one["metadata"]["labels"].as_object();
        one["metadata"]["name"] == csv
            || labels.is_some_and(|labels| labels.keys().any(|key| key.starts_with(&component)))
    };
    let csvs = all(requests, Kind::CSV).await?;
    Ok(csvs.iter().find(is_it).map(|one| ObjectName::of(Kind::CSV, one)))
}

/// Returns the ClusterExtension that installs a package, if any.
pub(crate) async fn runs_in_v1(requests: &Requests<'_>, package: &str) -> Result<Option<ObjectName>, Error> {
    Ok(of_package(requests, package).await?.first().map(|one| ObjectName::of(Kind::CLUSTER_EXTENSION, one)))
}

/// Returns the ClusterExtensions of a package.
pub(super) async fn of_package(requests: &Requests<'_>, package: &str) -> Result<Vec<Value>, Error> {
    let mut found = all(requests, Kind::CLUSTER_EXTENSION).await?;
    found.retain(|one| one["spec"]["source"]["catalog"]["packageName"] == package);
    Ok(found)
}
