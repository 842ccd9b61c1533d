//! `opm controller --olm v1`: serves ClusterCatalogs in place of catalogd.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::{CatalogServer, ClusterCatalogsPlan, ControllerMetrics, ServeError};
use fbc::Limits;
use image::{Location, Reference};
use serve::catalogs::{self, Catalogs};
use serve::listen::Address;
use serve::tls::{POLL_INTERVAL, TlsFiles};
use source::{CONFIGS_LABEL, ImageKind, Images, SourceError};

use super::{PodFlags, RunArgs};
use crate::commands::serve::http_address;
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
    #[arg(long, value_name = "ADDRESS", default_value = ":8443", value_parser = http_address)]
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
pub(super) fn refuse_pods(namespace: bool, pods: &PodFlags) -> CommandResult {
    if namespace {
        return Err(Failure::usage("--namespace cannot be used with --olm v1: a ClusterCatalog has no namespace"));
    }
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
    refuse_pods(args.cluster.namespace.is_some(), &args.pods)?;
    if flags.tls_cert.is_none() {
        tracing::warn!("serving catalogs without TLS: anyone on the network path can change what is installed");
    }
    let cluster = args.cluster.connect().await?;
    let lease_namespace = args.lease_namespace.clone().unwrap_or_else(|| cluster.namespace.clone());
    let served = Arc::new(Catalogs::default());
    let shelf = PulledCatalogs {
        catalogs: served.clone(),
        tls: tls.clone(),
        pull: flags.pull.clone(),
        limits: limits::from_env()?,
    };
    let (metrics, mut outcome) = (Arc::new(ControllerMetrics::new(args.lease_duration)), Ok(()));
    let plan = ClusterCatalogsPlan {
        base: flags.base(&lease_namespace),
        lease_namespace,
        lease_name: args.lease_name.clone(),
        identity: super::identity(),
        lease_duration: args.lease_duration,
        metrics: Arc::clone(&metrics),
        server: Arc::new(shelf),
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

/// Pulls catalog images and serves their content.
struct PulledCatalogs {
    catalogs: Arc<Catalogs>,
    tls: TlsFlags,
    pull: PullFlags,
    limits: Limits,
}

impl PulledCatalogs {
    /// Resolves an image to its current digest.
    fn resolved(&self, images: &Images, image: &str) -> Result<Reference, SourceError> {
        let Location::Registry(reference) = Location::parse(image)? else {
            return Err(SourceError::NotInRegistry(image.to_owned()));
        };
        match reference.digest() {
            Some(digest) => Ok(reference.with_digest(*digest)),
            None => {
                let digest = images.client()?.head(&reference)?;
                Ok(reference.with_digest(digest))
            }
        }
    }
}

impl CatalogServer for PulledCatalogs {
    fn serve(&self, name: &str, image: &str, known: Option<&str>) -> Result<String, ServeError> {
        let transient =
            |message: String| ServeError { message: format!("source catalog content: {message}"), is_permanent: false };
        // Dropping this value deletes the pulled images; the catalogs are kept as JSON lines.
        let images = images::open(&self.tls, &self.pull);
        let resolved = self.resolved(&images, image).map_err(|error| transient(error.to_string()))?;
        let pinned = resolved.to_string();
        if known == Some(&pinned) {
            return Ok(pinned);
        }
        let fetched = images.fetch_one(&pinned).map_err(|error| transient(error.to_string()))?;
        // A digest never changes, so a retry cannot help.
        let is_permanent = image.contains('@');
        let refused = |message: String| ServeError { is_permanent, ..transient(message) };
        let ImageKind::Catalog(path) = &fetched.kind else {
            return Err(refused(format!("catalog image is missing the required label {CONFIGS_LABEL:?}")));
        };
        let unpacked = images.index(&fetched.image, path).map_err(|error| match error.is_transient() {
            true => transient(error.to_string()),
            false => refused(error.to_string()),
        })?;
        self.catalogs.put(name, &unpacked.path, &self.limits).map_err(|error| refused(error.to_string()))?;
        tracing::info!(catalog = name, image = pinned, "served");
        Ok(pinned)
    }

    fn withdraw(&self, name: &str) {
        self.catalogs.remove(name);
    }
}
