//! Detects installed packages: two OLM generations would compete for their definitions and permissions.

use crate::Error;
use crate::request::{ObjectName, Requests};
use crate::views::{ClusterExtension, ClusterServiceVersion, Subscription, View};

/// The prefix of labels that OLM v0 sets on all objects of a package, followed by `PACKAGE.NAMESPACE`.
const COMPONENT: &str = "operators.coreos.com/";

/// Lists the objects of a kind; empty if the cluster does not know it or the user may not read it.
async fn all<K: View>(requests: &Requests<'_>) -> Result<Vec<K>, Error> {
    match requests.list_everywhere().await {
        Err(error) if error.is_missing() || error.is_forbidden() => Ok(Vec::new()),
        found => found,
    }
}

/// Returns the OLM v0 object that installs a package, if any.
pub(super) async fn runs_in_v0(requests: &Requests<'_>, package: &str, csv: &str) -> Result<Option<ObjectName>, Error> {
    let subscriptions: Vec<Subscription> = all(requests).await?;
    if let Some(one) = subscriptions.iter().find(|one| one.spec.name == package) {
        return Ok(Some(one.object_name()));
    }
    let component = format!("{COMPONENT}{package}.");
    let is_it = |one: &&ClusterServiceVersion| {
        let mut labels = one.metadata.labels.iter().flatten();
        one.metadata.name.as_deref() == Some(csv) || labels.any(|(key, _)| key.starts_with(&component))
    };
    let csvs: Vec<ClusterServiceVersion> = all(requests).await?;
    Ok(csvs.iter().find(is_it).map(View::object_name))
}

/// Returns the ClusterExtension that installs a package, if any.
pub(crate) async fn runs_in_v1(requests: &Requests<'_>, package: &str) -> Result<Option<ObjectName>, Error> {
    Ok(of_package(requests, package).await?.first().map(View::object_name))
}

/// Returns the ClusterExtensions of a package.
pub(super) async fn of_package(requests: &Requests<'_>, package: &str) -> Result<Vec<ClusterExtension>, Error> {
    let mut found: Vec<ClusterExtension> = all(requests).await?;
    found.retain(|one| one.spec.source.catalog.package_name == package);
    Ok(found)
}
