//! `opm controller --olm v1`: serves ClusterCatalogs in place of catalogd.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bundle::rehearse::OlmGeneration;
use cluster::{CatalogContents, ClusterCatalogsPlan, ControllerMetrics, PulledCatalogs};
use fbc::Limits;
use serve::catalogs::{self, Catalogs};
use serve::listen::Address;
use serve::tls::{POLL_INTERVAL, TlsFiles};

use super::{PodFlags, RunArgs};
use crate::commands::catalog::refuse_namespace;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::limits;

/// The maximum number of concurrent HTTP connections.
const MAX_CONNECTIONS: usize = 1024;
/// The drain timeout after a shutdown signal.
const DRAIN: Duration = Duration::from_secs(10);

/// The flags for OLM v1.
#[derive(clap::Args, Debug, Clone)]
#[command(next_help_heading = "OLM v1")]
pub(super) struct CatalogFlags {
    /// Address to serve catalogs on: HOST:PORT
    #[arg(long, value_name = "ADDRESS", default_value = ":8443")]
    catalogs_address: Address,
    /// Host and port at which clients reach the catalogs; defaults to opm-controller.NAMESPACE.svc in the namespace of
    /// the lease
    #[arg(long, value_name = "HOST[:PORT]")]
    external_address: Option<String>,
    /// PEM file with the TLS serving certificate
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the TLS private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    #[command(flatten)]
    pull: PullFlags,
}

impl CatalogFlags {
    fn tls(&self) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(TlsFiles { certificate, key, client_ca: None, poll_interval: POLL_INTERVAL })
    }

    /// Returns the base URL of the catalogs for clients.
    fn base(&self, lease_namespace: &str) -> String {
        let host = self.external_address.clone().unwrap_or_else(|| format!("opm-controller.{lease_namespace}.svc"));
        let scheme = if self.tls_cert.is_some() { "https" } else { "http" };
        format!("{scheme}://{host}")
    }
}

/// Rejects flags that apply only to CatalogSources.
pub(super) fn refuse_pods(namespace: Option<&String>, pods: &PodFlags) -> CommandResult {
    refuse_namespace(Some(OlmGeneration::V1), namespace)?;
    if pods.is_given() {
        return Err(Failure::usage(
            "--opm-image, --util-image and --set-workload-user-id cannot be used with --olm v1: catalogs have no pods",
        ));
    }
    Ok(())
}

/// Serves ClusterCatalogs until `stop` is ready.
pub(super) async fn control(args: &RunArgs, tls: &TlsFlags, stop: impl Future<Output = ()>) -> CommandResult {
    let flags = &args.catalogs;
    refuse_pods(args.cluster.namespace.as_ref(), &args.pods)?;
    if flags.tls_cert.is_none() {
        tracing::warn!("serving catalogs without TLS: anyone on the network path can change what is installed");
    }
    let cluster = args.cluster.connect().await?;
    let lease_namespace = args.lease_namespace.clone().unwrap_or_else(|| cluster.namespace.clone());
    let served = Arc::new(Catalogs::default());
    let (tls, pull) = (tls.clone(), flags.pull.clone());
    let server = PulledCatalogs {
        contents: Contents(Arc::clone(&served), limits::from_env()?),
        images: Box::new(move || images::open(&tls, &pull)),
    };
    let (metrics, mut outcome) = (Arc::new(ControllerMetrics::new(args.lease_duration)), Ok(()));
    let plan = ClusterCatalogsPlan {
        base: flags.base(&lease_namespace),
        lease_namespace,
        lease_name: args.lease_name.clone(),
        identity: super::identity(),
        lease_duration: args.lease_duration,
        metrics: Arc::clone(&metrics),
        server: Arc::new(server),
    };
    let never = std::future::pending::<()>();
    let serving = catalogs::run(served, &flags.catalogs_address, flags.tls(), MAX_CONNECTIONS, DRAIN, never);
    let stop = super::monitored(args, metrics, stop, &mut outcome);
    tokio::select! {
        ended = serving => return ended.map_err(|error| Failure::world(error.to_string())),
        () = cluster::run_cluster_catalogs(cluster, plan, stop) => {}
    }
    outcome
}

/// The catalogs that are served.
struct Contents(Arc<Catalogs>, Limits);

impl CatalogContents for Contents {
    fn put(&self, name: &str, directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
        Ok(self.0.put(name, directory, &self.1)?)
    }

    fn remove(&self, name: &str) {
        self.0.remove(name);
    }
}
