//! `opm controller`: serves catalogs on a cluster without OLM's catalog operator.

mod v1;

use std::sync::Arc;
use std::time::Duration;

use bundle::rehearse::OlmGeneration;
use clap::Subcommand;
use cluster::{ControllerMetrics, ControllerPlan, Dial, ManifestPlan, PodImages, ServedCatalogs};
use serve::listen::Address;
use serve::monitor::{self, Monitored};
use serve::probe::Probe;

use super::catalog::generation;
use super::serve::duration;
use crate::choice::InvalidValue;
use crate::cluster_flags::{ClusterFlags, failure};
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::runtime::{self, EndSignals};
use crate::{interrupt, log};

/// The default opm image for catalogs with `extractContent`.
const OPM_IMAGE: &str = "quay.io/operator-framework/opm:latest";
/// The default image with the program that extracts catalog content.
const UTIL_IMAGE: &str = "quay.io/operator-framework/olm:latest";
/// The timeout of a health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// Serve catalog images on a cluster without OLM's catalog operator
#[derive(clap::Args)]
#[command(
    long_about = "Serve catalog images on a cluster without OLM's catalog operator.\n\n\
        Creates a ServiceAccount, a Service, a NetworkPolicy and a Pod for each CatalogSource of type grpc with an image. \
        If the CatalogSource sets a poll interval, the controller polls the registry for a new image. A new pod takes \
        over when it is ready, and only then does the old pod end. The status of the CatalogSource reports the state.\n\n\
        Several replicas can run: the lease holder is active, and another replica takes over when the lease expires. Do \
        not run the controller next to OLM's own catalog operator.\n\n\
        With --olm v1 it replaces catalogd: all replicas pull, poll and serve the image of each ClusterCatalog over HTTP, \
        and the lease holder updates the status.",
    after_help = "Examples:\n  \
        opm controller -n olm --http :8080\n  \
        opm controller --olm v1 --tls-cert tls.crt --tls-key tls.key --external-address catalogs.olm.svc\n  \
        opm controller manifests --image quay.io/example/opm:latest --to olm | kubectl apply -f -",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct ControllerArgs {
    #[command(subcommand)]
    command: Option<ControllerCommand>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand)]
enum ControllerCommand {
    Manifests(ManifestsArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// OLM generation: v0 serves CatalogSources, v1 serves ClusterCatalogs in place of catalogd
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = generation())]
    olm: OlmGeneration,
    /// Serve /healthz, /readyz and /metrics over HTTP on HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    http: Option<Address>,
    /// Enable debug logging
    #[arg(long)]
    debug: bool,
    #[command(flatten)]
    cluster: ClusterFlags,
    /// Namespace of the lease; defaults to --namespace or the namespace of the context
    #[arg(long, value_name = "NAME")]
    lease_namespace: Option<String>,
    /// Name of the lease
    #[arg(long, value_name = "NAME", default_value = "opm-controller")]
    lease_name: String,
    /// Time without renewal after which another replica takes over the lease
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = lease_duration)]
    lease_duration: Duration,
    /// Time that an old pod keeps running after a new one has taken over
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    overlap: Duration,
    #[command(flatten)]
    pods: PodFlags,
    #[command(flatten)]
    catalogs: v1::CatalogFlags,
}

/// The settings of catalog pods.
#[derive(clap::Args)]
struct PodFlags {
    /// Image with opm for catalogs with extractContent; defaults to quay.io/operator-framework/opm:latest, pinned by
    /// digest when the controller starts
    #[arg(long, value_name = "REF")]
    opm_image: Option<String>,
    /// Image with the extraction program for these catalogs; defaults to quay.io/operator-framework/olm:latest, pinned
    /// by digest when the controller starts
    #[arg(long, value_name = "REF")]
    util_image: Option<String>,
    /// Set a user ID in restricted pods; defaults to true except on clusters that assign one, like OpenShift
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = crate::cli::parse_bool
    )]
    set_workload_user_id: Option<bool>,
}

impl PodFlags {
    /// Returns the flags as command-line arguments.
    fn arguments(&self) -> Vec<String> {
        let images = [("opm-image", &self.opm_image), ("util-image", &self.util_image)];
        let images = images.into_iter().filter_map(|(flag, image)| Some(format!("--{flag}={}", image.as_ref()?)));
        images.chain(self.set_workload_user_id.map(|set| format!("--set-workload-user-id={set}"))).collect()
    }

    fn is_given(&self) -> bool {
        !self.arguments().is_empty()
    }

    async fn images(&self, cluster: &cluster::Cluster, tls: &TlsFlags) -> Result<PodImages, Failure> {
        let set_user = match self.set_workload_user_id {
            Some(set) => set,
            None => !cluster::chooses_users(cluster).await.map_err(failure)?,
        };
        let given = [(&self.opm_image, OPM_IMAGE), (&self.util_image, UTIL_IMAGE)];
        let given = given.map(|(image, default)| image.clone().ok_or(default));
        let tls = tls.clone();
        // Registry access blocks.
        let pinned =
            tokio::task::spawn_blocking(move || given.map(|image| image.unwrap_or_else(|tag| pinned(tag, &tls))));
        let [opm, util] = pinned.await.map_err(|error| Failure::world(error.to_string()))?;
        Ok(PodImages { opm, util, set_user })
    }
}

/// Pins a tag to its current digest, so that all catalogs run the same binary until the next start.
fn pinned(tag: &str, tls: &TlsFlags) -> String {
    let images = images::open(tls, &PullFlags::default());
    match images.by_digest(tag) {
        Ok(image) => {
            tracing::info!(tag, image, "pinned by digest");
            image
        }
        Err(error) => {
            let error = error.to_string();
            let error = error.lines().next().unwrap_or_default();
            tracing::warn!(tag, error, "not pinned: each node runs the version that it pulls");
            tag.to_owned()
        }
    }
}

/// Print the manifests that deploy the controller
#[derive(clap::Args)]
#[command(
    long_about = "Print the manifests that deploy the controller.\n\n\
        Prints a Deployment under restricted pod security, and a service account with only the permissions that the \
        controller needs. With --olm v1 the replicas serve ClusterCatalogs in place of catalogd, behind a Service.",
    after_help = "Examples:\n  \
        opm controller manifests --image quay.io/example/opm:latest --to olm | kubectl apply -f -\n  \
        opm controller manifests --olm v1 --image quay.io/example/opm:latest --to olmv1-system --tls-secret catalogs-tls"
)]
struct ManifestsArgs {
    /// OLM generation: v0 serves CatalogSources, v1 serves ClusterCatalogs in place of catalogd
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = generation())]
    olm: OlmGeneration,
    /// Secret of type kubernetes.io/tls with the serving certificate for NAME.NAMESPACE.svc; without it the controller
    /// serves ClusterCatalogs over plain HTTP
    #[arg(long, value_name = "NAME")]
    tls_secret: Option<String>,
    /// Image with opm
    #[arg(long, value_name = "REF")]
    image: String,
    /// Namespace to run in
    #[arg(long, value_name = "NAME", default_value = "olm")]
    to: String,
    /// Namespace of the catalogs to serve; defaults to all
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Name of all objects
    #[arg(long, value_name = "NAME", default_value = "opm-controller")]
    name: String,
    /// Number of replicas; one of them is active
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    replicas: u32,
    #[command(flatten)]
    pods: PodFlags,
}

/// Parses a lease duration, which Kubernetes stores in whole seconds.
fn lease_duration(text: &str) -> Result<Duration, InvalidValue> {
    match duration(text) {
        Ok(duration) if duration >= Duration::from_secs(1) => Ok(duration),
        _ => Err("expected a duration of at least 1s".into()),
    }
}

pub(crate) fn run(args: &ControllerArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        Some(ControllerCommand::Manifests(args)) => print_manifests(args, printer),
        None => control(&args.run, tls),
    }
}

fn print_manifests(args: &ManifestsArgs, printer: &mut Printer) -> CommandResult {
    let v1 = args.olm == OlmGeneration::V1;
    if v1 {
        v1::refuse_pods(args.namespace.as_ref(), &args.pods)?;
        if args.tls_secret.is_none() {
            printer.warning("serving catalogs without TLS: anyone on the network path can change what is installed");
        }
    } else if args.tls_secret.is_some() {
        return Err(Failure::usage("--tls-secret requires --olm v1: CatalogSource pods serve plain gRPC"));
    }
    let plan = ManifestPlan {
        name: args.name.clone(),
        namespace: args.to.clone(),
        watched: args.namespace.clone(),
        image: args.image.clone(),
        replicas: args.replicas,
        arguments: args.pods.arguments(),
        cluster_catalogs: v1.then(|| ServedCatalogs { tls_secret: args.tls_secret.clone() }),
    };
    let stream = fbc::yaml::objects(&cluster::manifests(&plan));
    // No separator comes before the first document.
    Ok(printer.data().write_all(stream.strip_prefix("---\n").unwrap_or(&stream).as_bytes())?)
}

fn control(args: &RunArgs, tls: &TlsFlags) -> CommandResult {
    log::start(args.debug);
    interrupt::hand_over_signals();
    runtime::block_on(async {
        let stop = EndSignals::listen()?.first();
        if args.olm == OlmGeneration::V1 {
            return v1::control(args, tls, stop).await;
        }
        let cluster = args.cluster.connect().await?;
        let plan = plan(args, &cluster, tls).await?;
        let (metrics, mut outcome) = (Arc::clone(&plan.metrics), Ok(()));
        cluster::run_controller(cluster, plan, monitored(args, metrics, stop, &mut outcome)).await;
        outcome
    })?
}

/// The state of a controller, for HTTP.
struct ControllerState(Arc<ControllerMetrics>);

impl Monitored for ControllerState {
    fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    fn problem(&self) -> Option<String> {
        self.0.problem()
    }

    fn metrics(&self) -> String {
        self.0.text()
    }
}

/// Serves the state of a controller, if that is enabled, until `stop` is ready or serving fails.
async fn monitored(
    args: &RunArgs,
    metrics: Arc<ControllerMetrics>,
    stop: impl Future<Output = ()>,
    outcome: &mut CommandResult,
) {
    let Some(address) = &args.http else { return stop.await };
    tokio::select! {
        () = stop => {}
        ended = monitor::run(address, Arc::new(ControllerState(metrics))) => {
            *outcome = ended.map_err(|error| Failure::world(error.to_string()));
        }
    }
}

/// Returns the unique identity of this replica.
fn identity() -> String {
    let host = || std::env::var("HOSTNAME").unwrap_or_else(|_| "opm".into());
    let name = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty()).unwrap_or_else(host);
    // A restarted process in the same pod is a new replica.
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    format!("{name}_{}_{moment:x}", std::process::id())
}

async fn plan(args: &RunArgs, cluster: &cluster::Cluster, tls: &TlsFlags) -> Result<ControllerPlan, Failure> {
    Ok(ControllerPlan {
        namespace: args.cluster.access().namespace,
        lease_namespace: args.lease_namespace.clone().unwrap_or_else(|| cluster.namespace.clone()),
        lease_name: args.lease_name.clone(),
        identity: identity(),
        lease_duration: args.lease_duration,
        overlap: args.overlap,
        images: args.pods.images(cluster, tls).await?,
        metrics: Arc::new(ControllerMetrics::new(args.lease_duration)),
        dial: dial(),
    })
}

/// Returns the gRPC health check for catalogs.
fn dial() -> Dial {
    Arc::new(|address| {
        Box::pin(async move {
            let probe = Probe {
                address,
                service: String::new(),
                connect_timeout: HEALTH_TIMEOUT,
                rpc_timeout: HEALTH_TIMEOUT,
                tls: None,
            };
            Ok(probe.run().await?)
        })
    })
}
