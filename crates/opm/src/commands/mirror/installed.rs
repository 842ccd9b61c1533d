//! Where the installed bundles of a cluster come from.

use fbc::Limits;
use mirror::installed::InstalledBundles;

use super::flags::ChoiceFlags;
use crate::exit::{Failure, in_path};

/// The value of `--installed` that means the current cluster.
const CLUSTER: &str = "cluster";

/// Reads Subscriptions and ClusterServiceVersions from a file, or lists those of the cluster.
pub(crate) fn read(from: &str, choice: &ChoiceFlags, limits: &Limits) -> Result<InstalledBundles, Failure> {
    let text = match from {
        CLUSTER => list(choice)?,
        file => crate::commands::read_input(file, limits).map_err(|error| in_path(file.as_ref(), &error))?,
    };
    let name = if from == CLUSTER { "the cluster" } else { from };
    Ok(InstalledBundles::read(name, &text, limits)?)
}

/// Lists the Subscriptions and ClusterServiceVersions of all namespaces.
fn list(choice: &ChoiceFlags) -> Result<Vec<u8>, Failure> {
    use crate::cluster_flags::{ClusterFlags, failure};
    let flags =
        ClusterFlags { kubeconfig: choice.kubeconfig.clone(), context: choice.context.clone(), namespace: None };
    let listed = crate::runtime::block_on(async {
        let cluster = flags.connect().await?;
        cluster::installed(&cluster).await.map_err(failure)
    })??;
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": listed});
    Ok(list.to_string().into_bytes())
}
