//! Asks a cluster about the objects of a rehearsal: existing objects, unknown kinds and rejected objects.

use std::time::{Duration, Instant};

use bundle::rehearse::{OnCluster, Prediction};
use cluster::{Access, DryRunResult};

use super::flags::RehearseArgs;
use crate::cluster_flags::{block_on, failure};
use crate::exit::Failure;
use crate::live::ClusterProgress;
use crate::printer::Printer;

/// The timeout of the whole comparison.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Compares a rehearsal with a cluster, without changing the cluster.
pub(super) fn compared(
    args: &RehearseArgs,
    prediction: &Prediction,
    printer: &Printer,
) -> Result<Vec<OnCluster>, Failure> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let access = Access {
        kubeconfig: args.kubeconfig.clone(),
        context: given(&args.context),
        namespace: Some(prediction.namespace.clone()),
    };
    let mut all = Vec::new();
    block_on("", async {
        let cluster = access.connect().await.map_err(failure)?;
        let live = ClusterProgress::new(printer, false);
        let deadline = Instant::now() + TIMEOUT;
        let seen = cluster::compare_with_cluster(&cluster, &prediction.objects, deadline, &live).await;
        all = seen.map_err(failure)?;
        Ok(())
    })?;
    let on_cluster = |DryRunResult { unknown_kind, there, owner, refused, resources }| OnCluster {
        unknown_kind,
        there,
        owner,
        refused,
        resources,
    };
    Ok(all.into_iter().map(on_cluster).collect())
}
