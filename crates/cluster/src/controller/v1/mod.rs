//! Serves ClusterCatalogs in place of catalogd: every replica serves their content, and the leader decides.
//!
//! `state` derives the next step from an object and the served content, `status` reports in catalogd's words, and a
//! [`CatalogServer`] pulls and serves images; `pulled` is the one that pulls from registries.

mod pulled;
mod state;
mod status;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::runtime::Controller;
use kube::runtime::controller::{Action, Config};
use kube::runtime::watcher;
use serde_json::{Value, json};
use tokio_stream::StreamExt;

use super::WatchBackoff;
use super::lease::LeaderLease;
use super::metrics::ControllerMetrics;
use crate::cluster_catalog::NAME_LABEL;
use crate::request::Requests;
use crate::views::{ClusterCatalog, Stored, View};
use crate::{Cluster, ClusterObject, Error, ResourceKind};
pub use pulled::{CatalogContents, PulledCatalogs};
use state::{Desired, NextStep, Served};
use status::Report;

/// The finalizer that keeps a ClusterCatalog until its content is removed.
const FINALIZER: &str = "olm.operatorframework.io/delete-server-cache";
/// Maximum number of concurrent pulls.
const CONCURRENT_PULLS: u16 = 4;
/// The backoff after a failure, first and maximum.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The timeout of a request, including its retries.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Serves catalogs by name. Its functions may block.
pub trait CatalogServer: Send + Sync {
    /// Serves the catalog of an image from now on, unless it is served already; returns the image by digest.
    ///
    /// # Errors
    /// Fails if the image cannot be pulled or is not a catalog; the previous content stays.
    fn serve(&self, name: &str, image: &str, known: Option<&str>) -> Result<String, ServeError>;

    /// Stops serving the catalog.
    fn withdraw(&self, name: &str);
}

/// Why a catalog is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeError {
    /// The reason.
    pub message: String,
    /// Whether a retry is useless.
    pub is_permanent: bool,
}

/// How a controller of ClusterCatalogs runs.
#[derive(Clone)]
pub struct ClusterCatalogsPlan {
    pub lease_namespace: String,
    pub lease_name: String,
    /// The identity of this replica.
    pub identity: String,
    /// How long a replica may be silent before another takes over.
    pub lease_duration: Duration,
    /// Counts what the controller does.
    pub metrics: Arc<ControllerMetrics>,
    /// The base URL of catalogs: `/catalogs/NAME` is appended.
    pub base: String,
    /// Pulls and serves catalogs.
    pub server: Arc<dyn CatalogServer>,
}

struct Context {
    cluster: Cluster,
    plan: ClusterCatalogsPlan,
    leading: AtomicBool,
    served: Mutex<HashMap<String, Served>>,
    failures: Mutex<HashMap<String, u32>>,
    metrics: Arc<ControllerMetrics>,
}

/// Runs until stopped, then releases the lease. Failures on the cluster are retried.
pub async fn run_cluster_catalogs(cluster: Cluster, plan: ClusterCatalogsPlan, stop: impl Future<Output = ()>) {
    let metrics = Arc::clone(&plan.metrics);
    let (namespace, name) = (&plan.lease_namespace, &plan.lease_name);
    let mut lease = LeaderLease::new(&cluster, namespace, name, &plan.identity, plan.lease_duration, metrics.clone());
    let context = Arc::new(Context {
        cluster: cluster.clone(),
        plan: plan.clone(),
        leading: AtomicBool::new(false),
        served: Mutex::default(),
        failures: Mutex::default(),
        metrics: metrics.clone(),
    });
    let leading = |is: bool| {
        context.leading.store(is, Ordering::Relaxed);
        metrics.leading.store(is, Ordering::Relaxed);
    };
    let election = async {
        loop {
            lease.acquire().await;
            tracing::info!(identity = plan.identity, "leading");
            leading(true);
            lease.keep().await;
            tracing::warn!(identity = plan.identity, "the lease is lost");
            leading(false);
        }
    };
    tokio::select! {
        () = election => {}
        () = follow(&context) => {}
        () = stop => {}
    }
    leading(false);
    lease.release().await;
    tracing::info!(identity = plan.identity, "ended");
}

/// Reconciles every ClusterCatalog that changes.
async fn follow(context: &Arc<Context>) {
    let kind = ResourceKind::CLUSTER_CATALOG;
    let controller = Controller::new_with(context.cluster.objects(kind), watcher::Config::default(), kind.resource())
        .with_config(Config::default().concurrency(CONCURRENT_PULLS));
    let work = |object: Arc<ClusterObject>, context: Arc<Context>| async move { context.reconcile(&object).await };
    let on_error = |object: Arc<ClusterObject>, error: &Error, context: Arc<Context>| {
        let name = object.metadata.name().to_owned();
        let pause = context.pause(&name);
        context.metrics.errors.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(catalog = name, %error, "retry in {pause:?}");
        Action::requeue(pause)
    };
    let mut events = pin!(controller.trigger_backoff(WatchBackoff::default()).run(work, on_error, context.clone()));
    while let Some(event) = events.next().await {
        use kube::runtime::controller::Error as Problem;
        match event {
            Ok(_) | Err(Problem::ReconcilerFailed(..)) => {}
            // The object is deleted, including its finalizer.
            Err(Problem::ObjectNotFound(object)) => context.stop_serving(&object.name),
            Err(Problem::QueueError(error)) => {
                let why = super::watch_error(&error);
                if context.metrics.watch_failed(&why) {
                    tracing::warn!(error = why, "a watch failed and is retried");
                }
            }
            Err(error) => tracing::warn!(%error, "a watch failed and is retried"),
        }
    }
}

impl Context {
    fn served(&self) -> MutexGuard<'_, HashMap<String, Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the backoff after one more failure.
    fn pause(&self, name: &str) -> Duration {
        let mut failures = self.failures();
        let count = failures.entry(name.to_owned()).or_default();
        let pause = BACKOFF.0.saturating_mul(1 << (*count).min(8)).min(BACKOFF.1);
        *count += 1;
        pause
    }

    /// Stops serving a catalog.
    fn stop_serving(&self, name: &str) {
        if self.served().remove(name).is_some() {
            tracing::info!(catalog = name, "withdrawn");
        }
        self.failures().remove(name);
        self.plan.server.withdraw(name);
    }

    async fn reconcile(self: &Arc<Self>, object: &ClusterObject) -> Result<Action, Error> {
        self.metrics.reconciles.fetch_add(1, Ordering::Relaxed);
        self.metrics.reached.store(true, Ordering::Relaxed);
        let leads = self.leading.load(Ordering::Relaxed);
        let wanted = Desired::of(ClusterCatalog::of(object)?);
        if wanted.is_going || !wanted.is_available {
            self.stop_serving(&wanted.name);
        }
        if !leads {
            self.follow_status(&wanted).await;
            // The other replicas may have stopped by then.
            return Ok(Action::requeue(self.plan.lease_duration / 2));
        }
        if wanted.is_going {
            self.finalize(object).await?;
            return Ok(Action::await_change());
        }
        self.mark(object, &wanted.name).await?;
        if !wanted.is_available {
            self.report(object, &Report::Unavailable).await?;
            return Ok(Action::await_change());
        }
        let before = self.served().get(&wanted.name).cloned();
        match state::next_step(&wanted, before.as_ref()) {
            NextStep::Wait(wait) => {
                if let Some(served) = &before {
                    self.report(object, &Report::Serving(served)).await?;
                }
                Ok(wait.map_or_else(Action::await_change, Action::requeue))
            }
            NextStep::Refresh => self.refresh(object, &wanted, before).await,
        }
    }

    /// Resolves the image and serves it.
    async fn refresh(
        self: &Arc<Self>,
        object: &ClusterObject,
        wanted: &Desired,
        before: Option<Served>,
    ) -> Result<Action, Error> {
        let known = before.as_ref().map(|served| served.image.clone());
        self.metrics.polls.fetch_add(1, Ordering::Relaxed);
        match self.serve(&wanted.name, &wanted.image, known).await {
            Ok(image) => {
                self.failures().remove(&wanted.name);
                let served = Served::now(&wanted.image, image, before.as_ref());
                self.served().insert(wanted.name.clone(), served.clone());
                self.report(object, &Report::Serving(&served)).await?;
                Ok(served.next_poll(wanted).map_or_else(Action::await_change, Action::requeue))
            }
            Err(unserved) => {
                tracing::warn!(catalog = wanted.name, error = unserved.message, "not served");
                self.metrics.failed_updates.fetch_add(1, Ordering::Relaxed);
                self.report(object, &Report::Failed(&unserved, before.as_ref())).await?;
                Ok(match unserved.is_permanent {
                    true => Action::await_change(),
                    false => Action::requeue(self.pause(&wanted.name)),
                })
            }
        }
    }

    /// Serves the image that the leader has chosen.
    async fn follow_status(self: &Arc<Self>, wanted: &Desired) {
        let Some(image) = wanted.resolved.clone().filter(|_| wanted.is_available && !wanted.is_going) else { return };
        let known = self.served().get(&wanted.name).map(|served| served.image.clone());
        if known.as_ref() == Some(&image) {
            return;
        }
        match self.serve(&wanted.name, &image, known).await {
            Ok(_) => {
                let served = Served::following(wanted, image);
                self.served().insert(wanted.name.clone(), served);
            }
            Err(unserved) => tracing::warn!(catalog = wanted.name, error = unserved.message, "not served here"),
        }
    }

    async fn serve(&self, name: &str, image: &str, known: Option<String>) -> Result<String, ServeError> {
        let server = self.plan.server.clone();
        let (name, image) = (name.to_owned(), image.to_owned());
        let work = tokio::task::spawn_blocking(move || server.serve(&name, &image, known.as_deref()));
        work.await.unwrap_or_else(|error| Err(ServeError { message: error.to_string(), is_permanent: false }))
    }

    /// Adds the finalizer, and the label by which ClusterExtensions select the ClusterCatalog.
    async fn mark(&self, object: &ClusterObject, name: &str) -> Result<(), Error> {
        let mut finalizers = object.metadata.finalizers.clone().unwrap_or_default();
        let labelled =
            object.metadata.labels.as_ref().and_then(|labels| labels.get(NAME_LABEL)).is_some_and(|it| it == name);
        if labelled && finalizers.iter().any(|one| one == FINALIZER) {
            return Ok(());
        }
        if !finalizers.iter().any(|one| one == FINALIZER) {
            finalizers.push(FINALIZER.into());
        }
        self.patch(object, json!({"metadata": {
            "labels": {NAME_LABEL: name}, "finalizers": finalizers, "resourceVersion": object.metadata.resource_version,
        }}))
        .await
    }

    /// Removes the finalizer.
    async fn finalize(&self, object: &ClusterObject) -> Result<(), Error> {
        let mut finalizers = object.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|one| one == FINALIZER) {
            return Ok(());
        }
        finalizers.retain(|one| one != FINALIZER);
        let version = &object.metadata.resource_version;
        self.patch(object, json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}})).await
    }

    async fn patch(&self, object: &ClusterObject, patch: Value) -> Result<(), Error> {
        self.send(object, &patch, false).await
    }

    /// Writes the status if it differs.
    async fn report(&self, object: &ClusterObject, report: &Report<'_>) -> Result<(), Error> {
        match status::of(&ClusterCatalog::of(object)?, report, &self.plan.base) {
            Some(status) => self.send(object, &json!({"status": status}), true).await,
            None => Ok(()),
        }
    }

    async fn send(&self, object: &ClusterObject, patch: &Value, status: bool) -> Result<(), Error> {
        let name = object.metadata.name();
        let requests = Requests::within(&self.cluster, &*self.metrics, TIMEOUT);
        let catalogs = self.cluster.objects(ResourceKind::CLUSTER_CATALOG);
        let (how, patch) = (PatchParams::default(), Patch::Merge(patch));
        let what = format!("updating ClusterCatalog {name}");
        let sent = requests.retry(&what, |_| async {
            match status {
                true => catalogs.patch_status(name, &how, &patch).await,
                false => catalogs.patch(name, &how, &patch).await,
            }
        });
        match sent.await {
            // The object was deleted meanwhile.
            Err(error) if error.is_missing() => Ok(()),
            sent => sent.map(drop),
        }
    }
}
