//! Lists the installed operators of a cluster.

use std::time::Duration;

use kube::Api;
use kube::api::ListParams;

use crate::request::Requests;
use crate::watcher::NoReports;
use crate::{Cluster, ClusterObject, Error, ResourceKind};

/// The timeout for listing everything.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The page size of lists.
const PAGE: u32 = 250;

/// Lists the Subscriptions and ClusterServiceVersions of all namespaces, without the copies that OLM makes.
///
/// # Errors
/// Fails if the API server refuses or is unreachable.
pub async fn installed(cluster: &Cluster) -> Result<Vec<ClusterObject>, Error> {
    let requests = Requests::within(cluster, &NoReports, TIMEOUT);
    let mut found = Vec::new();
    for kind in [ResourceKind::SUBSCRIPTION, ResourceKind::CSV] {
        let objects: Api<ClusterObject> = Api::all_with(cluster.client.clone(), &kind.resource());
        let mut which = ListParams::default().limit(PAGE);
        if kind == ResourceKind::CSV {
            which = which.labels("!olm.copiedFrom");
        }
        loop {
            let page = requests.retry(kind.plural, |_| objects.list(&which)).await?;
            let next = page.metadata.continue_.clone().filter(|token| !token.is_empty());
            found.extend(page.items.into_iter().map(|mut object| {
                // Lists omit the kind of their items.
                object.types.get_or_insert_with(|| kube::core::TypeMeta {
                    api_version: kind.api_version(),
                    kind: kind.kind.to_owned(),
                });
                object.metadata.managed_fields = None;
                object
            }));
            match next {
                Some(token) => which = which.continue_token(&token),
                None => break,
            }
        }
    }
    Ok(found)
}
