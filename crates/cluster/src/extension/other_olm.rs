//! Who runs a package already: two generations of OLM would fight for its definitions and rights.

use serde_json::Value;

use crate::request::{Named, Requests};
use crate::{Error, Kind};

/// The start of labels that OLM v0 gives to everything of a package: `PACKAGE.NAMESPACE` follows.
const COMPONENT: &str = "operators.coreos.com/";

/// Lists the objects of a kind; nothing where the cluster does not know it, or the user may not read it.
async fn all(requests: &Requests<'_>, kind: Kind) -> Result<Vec<Value>, Error> {
    match requests.list_everywhere(kind).await {
        Err(error) if error.is_missing() || error.is_forbidden() => Ok(Vec::new()),
        found => found,
    }
}

/// Returns the object of OLM v0 that runs a package, if there is one.
pub(super) async fn runs_in_v0(requests: &Requests<'_>, package: &str, csv: &str) -> Result<Option<Named>, Error> {
    let subscriptions = all(requests, Kind::SUBSCRIPTION).await?;
    if let Some(one) = subscriptions.iter().find(|one| one["spec"]["name"] == package) {
        return Ok(Some(Named::of(Kind::SUBSCRIPTION, one)));
    }
    let component = format!("{COMPONENT}{package}.");
    let is_it = |one: &&Value| {
        let labels = one["metadata"]["labels"].as_object();
        one["metadata"]["name"] == csv
            || labels.is_some_and(|labels| labels.keys().any(|key| key.starts_with(&component)))
    };
    let csvs = all(requests, Kind::CSV).await?;
    Ok(csvs.iter().find(is_it).map(|one| Named::of(Kind::CSV, one)))
}

/// Returns the ClusterExtension that runs a package, if there is one.
pub(crate) async fn runs_in_v1(requests: &Requests<'_>, package: &str) -> Result<Option<Named>, Error> {
    Ok(of_package(requests, package).await?.first().map(|one| Named::of(Kind::CLUSTER_EXTENSION, one)))
}

/// Returns the ClusterExtensions of a package.
pub(super) async fn of_package(requests: &Requests<'_>, package: &str) -> Result<Vec<Value>, Error> {
    let mut found = all(requests, Kind::CLUSTER_EXTENSION).await?;
    found.retain(|one| one["spec"]["source"]["catalog"]["packageName"] == package);
    Ok(found)
}
