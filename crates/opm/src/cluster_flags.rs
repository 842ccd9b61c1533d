//! The flags that select a cluster, and interruptible work on it.

use std::path::PathBuf;

use cluster::run::RunCatalogError;
use cluster::{Access, Cluster};

use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;
use crate::runtime::{self, EndSignals};
use crate::{interrupt, report};

/// The flags that select a cluster, the user and the namespace.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterFlags {
    /// Path to the kubeconfig; defaults to KUBECONFIG, ~/.kube/config or the in-cluster configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Namespace; defaults to the namespace of the context
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}

impl ClusterFlags {
    /// Returns the access settings of these flags, without empty values.
    pub(crate) fn access(&self) -> Access {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Access {
            kubeconfig: self.kubeconfig.clone().filter(|path| !path.as_os_str().is_empty()),
            context: given(&self.context),
            namespace: given(&self.namespace),
        }
    }

    /// Creates a client for the cluster without sending a request.
    pub(crate) async fn connect(&self) -> Result<Cluster, Failure> {
        self.access().connect().await.map_err(failure)
    }
}

/// Converts a cluster error into a failure. Reports the problems of a catalog at once.
pub(crate) fn failure(error: cluster::Error) -> Failure {
    match error {
        cluster::Error::Catalog(error) => match *error {
            RunCatalogError::Invalid { title, fbc, problems } => {
                let printer = Printer::new();
                printer.error(&title);
                report::show(&printer, &report::find(&fbc, &problems));
                Failure::Reported
            }
            RunCatalogError::Source(error) => error.into(),
            RunCatalogError::Io(error) => error.into(),
            error => Failure::fault(error),
        },
        error => Failure::fault(error),
    }
}

/// Runs a cluster command until it finishes or a signal interrupts it.
///
/// A signal drops the future at its current await point. The error then includes `interrupted`, which describes the
/// resulting state of the cluster.
pub(crate) fn block_on(interrupted: &str, work: impl Future<Output = CommandResult>) -> CommandResult {
    interrupt::hand_over_signals();
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
