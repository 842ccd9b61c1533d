//! A controller that serves CatalogSources with images on clusters without OLM.
//!
//! `objects` builds the objects of a catalog, `decide` decides the next steps for its pods, and `reconcile` performs
//! them, with `pods` for each step, `companions` for the other objects and `status` for the report. `connection`
//! checks whether catalogs respond, `lease` elects the leader, and `metrics` counts.

mod companions;
mod connection;
mod decide;
mod lease;
mod manifests;
mod metrics;
mod objects;
mod pods;
mod reconcile;
mod status;
mod template;
mod v1;

use std::collections::{HashMap, HashSet};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::ListParams;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Controller, watcher};
use tokio_stream::StreamExt;

use crate::catalog_source::MANAGED_LABEL;
use crate::error::api_message;
use crate::views::Stored;
use crate::{Cluster, ClusterObject, Error, ResourceKind};
use connection::Connections;
use lease::LeaderLease;
pub use metrics::ControllerMetrics;
use metrics::UNREADY_FOR;
use reconcile::{ReconcileContext, reconcile};

pub use manifests::{ManifestPlan, ServedCatalogs, manifests};
pub use objects::{PodImages, chooses_users};
pub use v1::{CatalogContents, CatalogServer, ClusterCatalogsPlan, PulledCatalogs, ServeError, run_cluster_catalogs};

/// Why a catalog does not answer.
pub type DialError = Box<dyn std::error::Error + Send + Sync>;
/// Checks the health of the server at an address.
pub type Dial = Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = Result<(), DialError>> + Send>> + Send + Sync>;

/// Maximum number of catalogs reconciled concurrently.
const CONCURRENCY: u16 = 16;
/// How long events of a catalog are batched.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// The backoff after an error, first and maximum.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));

/// The timeout of a new leader for each list request.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// How a controller runs.
#[derive(Clone)]
pub struct ControllerPlan {
    /// The namespace of the catalogs to serve; `None` means all.
    pub namespace: Option<String>,
    pub lease_namespace: String,
    pub lease_name: String,
    /// The identity of this replica.
    pub identity: String,
    /// How long a replica may be silent before another takes over.
    pub lease_duration: Duration,
    /// How long an old pod stays after a promotion.
    pub overlap: Duration,
    pub images: PodImages,
    /// Counts what the controller does.
    pub metrics: Arc<ControllerMetrics>,
    /// The health check for catalogs.
    pub dial: Dial,
}

/// Runs until stopped, then releases the lease. Failures on the cluster are retried.
pub async fn run_controller(cluster: Cluster, plan: ControllerPlan, stop: impl Future<Output = ()>) {
    let metrics = Arc::clone(&plan.metrics);
    let mut lease = LeaderLease::new(
        &cluster,
        &plan.lease_namespace,
        &plan.lease_name,
        &plan.identity,
        plan.lease_duration,
        metrics.clone(),
    );
    {
        let work = async {
            loop {
                lease.acquire().await;
                tracing::info!(identity = plan.identity, "leading");
                metrics.leading.store(true, Ordering::Relaxed);
                tokio::select! {
                    () = lease.keep() => tracing::warn!(identity = plan.identity, "the lease is lost"),
                    () = run_as_leader(&cluster, &plan, &metrics) => {}
                }
                metrics.leading.store(false, Ordering::Relaxed);
            }
        };
        tokio::select! {
            () = work => {}
            () = stop => {}
        }
    }
    // No reconciliation is running, so another replica may take over.
    lease.release().await;
    tracing::info!(identity = plan.identity, "ended");
}

/// The backoff between failed watches: it grows, but stays below the time that makes the controller unready.
#[derive(Debug, Clone, Default)]
struct WatchBackoff(u32);

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0 += 1;
        Some(Duration::from_millis(250).saturating_mul(1 << self.0.min(4)).min(UNREADY_FOR / 3))
    }
}

impl kube::runtime::utils::Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.0 = 0;
    }
}

/// Returns why a watch failed, in the words of the API server.
fn watch_error(error: &watcher::Error) -> String {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => api_message(error),
        WatchError(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The kinds of objects that a catalog owns.
const OWNED_KINDS: [ResourceKind; 3] = [ResourceKind::POD, ResourceKind::SERVICE, ResourceKind::SERVICE_ACCOUNT];

/// The label selector of managed objects.
fn managed_selector() -> String {
    format!("{MANAGED_LABEL}=true")
}

/// Returns the catalog that owns an object.
fn catalog_owner(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let source = ResourceKind::CATALOG_SOURCE;
    let owners = metadata.owners();
    owners.iter().find(|owner| owner.kind == source.kind && owner.api_version == source.api_version())
}

/// Lists the uids of catalogs that own objects, so that a new leader need not ask per catalog. `None` if a list
/// request fails.
async fn served(objects: &impl Fn(ResourceKind) -> Api<ClusterObject>) -> Option<HashSet<String>> {
    let all = ListParams::default().labels(&managed_selector());
    let mut uids = HashSet::new();
    for kind in OWNED_KINDS {
        let kinds = objects(kind);
        let list = tokio::time::timeout(LIST_TIMEOUT, kinds.list_metadata(&all)).await.ok()?.ok()?;
        uids.extend(list.items.iter().filter_map(|object| Some(catalog_owner(&object.metadata)?.uid.clone())));
    }
    Some(uids)
}

/// Reconciles catalogs while this replica is the leader.
async fn run_as_leader(cluster: &Cluster, plan: &ControllerPlan, metrics: &Arc<ControllerMetrics>) {
    let objects = |kind: ResourceKind| match &plan.namespace {
        Some(namespace) => cluster.objects_in(kind, namespace),
        None => Api::all_with(cluster.client.clone(), &kind.resource()),
    };
    let context = Arc::new(ReconcileContext {
        cluster: cluster.clone(),
        images: plan.images.clone(),
        overlap: plan.overlap,
        connections: Connections::new(plan.dial.clone()),
        metrics: metrics.clone(),
        failures: Mutex::default(),
        companions: Mutex::default(),
        served: Mutex::new(served(&objects).await),
    });
    let tries: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
    let (done, gone) = (tries.clone(), tries.clone());
    let key = |object: &ClusterObject| object.metadata.uid().to_owned();
    let managed = || watcher::Config::default().labels(&managed_selector());
    let source = ResourceKind::CATALOG_SOURCE;
    let mut controller = Controller::new_with(objects(source), watcher::Config::default(), source.resource())
        .with_config(Config::default().concurrency(CONCURRENCY).debounce(DEBOUNCE));
    for kind in OWNED_KINDS {
        let context = context.clone();
        let owner = move |object: ClusterObject| {
            let owner = catalog_owner(&object.metadata)?.clone();
            context.note_served(&owner.uid);
            if kind != ResourceKind::POD {
                context.companions_changed(&owner.uid);
            }
            let namespace = object.metadata.namespace().to_owned();
            Some(ObjectRef::<ClusterObject>::new_with(&owner.name, source.resource()).within(&namespace))
        };
        controller = controller.watches_with(objects(kind), kind.resource(), managed(), owner);
    }
    let work = move |object: Arc<ClusterObject>, context: Arc<ReconcileContext>| {
        let done = done.clone();
        async move {
            let action = reconcile(&object, &context).await?;
            done.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(&object));
            Ok::<Action, Error>(action)
        }
    };
    let on_error = move |object: Arc<ClusterObject>, error: &Error, context: Arc<ReconcileContext>| {
        context.metrics.errors.fetch_add(1, Ordering::Relaxed);
        let mut tries = tries.lock().unwrap_or_else(PoisonError::into_inner);
        let count = tries.entry(key(&object)).or_default();
        let pause = BACKOFF.0.saturating_mul(1 << (*count).min(8)).min(BACKOFF.1);
        *count += 1;
        let (namespace, catalog) = (object.metadata.namespace.as_deref(), object.metadata.name.as_deref());
        tracing::warn!(namespace, catalog, %error, "retry in {pause:?}");
        Action::requeue(pause)
    };
    let there = controller.store();
    let mut events = pin!(controller.trigger_backoff(WatchBackoff::default()).run(work, on_error, context.clone()));
    while let Some(event) = events.next().await {
        use kube::runtime::controller::Error as Problem;
        match event {
            // Already reported.
            Ok(_) | Err(Problem::ReconcilerFailed(..)) => {}
            Err(Problem::ObjectNotFound(_)) => {
                let uids: HashSet<String> = there.state().iter().map(|object| key(object)).collect();
                context.keep(&|uid| uids.contains(uid));
                gone.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| uids.contains(uid));
            }
            Err(error) => {
                let why = match &error {
                    Problem::QueueError(error) => watch_error(error),
                    other => other.to_string(),
                };
                if metrics.watch_failed(&why) {
                    tracing::warn!(error = why, "a watch failed and is retried");
                }
            }
        }
    }
}
