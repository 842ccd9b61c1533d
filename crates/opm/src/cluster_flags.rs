//! Which cluster a command works on, and how it is left when somebody interrupts.

use std::path::PathBuf;

use cluster::{Access, Cluster};

use crate::exit::{Failure, Outcome};
use crate::interrupt;
use crate::runtime::{self, EndSignals};

/// Which cluster, as whom, and in which namespace.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterFlags {
    /// File that says how to reach the cluster; defaults to KUBECONFIG, ~/.kube/config or, in a pod, its cluster
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context in that file
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Namespace to work in; defaults to that of the context
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}

impl ClusterFlags {
    /// Returns how to reach the cluster.
    pub(crate) fn access(&self) -> Access {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Access {
            kubeconfig: self.kubeconfig.clone().filter(|path| !path.as_os_str().is_empty()),
            context: given(&self.context),
            namespace: given(&self.namespace),
        }
    }

    /// Prepares to talk to the cluster; nothing is sent yet.
    pub(crate) async fn connect(&self) -> Result<Cluster, Failure> {
        self.access().connect().await.map_err(failure)
    }
}

/// Makes a failure of what went wrong on a cluster.
pub(crate) fn failure(error: cluster::Error) -> Failure {
    Failure::message(error.to_string())
}

/// Runs a command that talks to a cluster until it is done or interrupted.
///
/// When a signal comes the work is dropped where it waits. `interrupted` says what that leaves behind.
pub(crate) fn block_on(interrupted: &str, work: impl Future<Output = Outcome>) -> Outcome {
    interrupt::leave_signals_alone();
    runtime::block_on(async {
        let mut signals = EndSignals::listen()?;
        let code = tokio::select! {
            outcome = work => return outcome,
            signal = signals.next() => runtime::exit_code(signal),
        };
        let what = if interrupted.is_empty() { String::new() } else { format!(": {interrupted}") };
        Err(Failure::Exit(code, format!("interrupted{what}")))
    })?
}
