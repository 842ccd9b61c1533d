//! ClusterCatalogs in catalogd's place: every replica serves the content of each, and one of them decides.
//!
//! `state` derives from an object and from what is served what has to happen, `status` reports it in catalogd's words,
//! and [`Shelf`] is who pulls images and serves them.

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

use super::WatchPauses;
use super::lease::Lease;
use super::metrics::{self, Metrics};
use crate::cluster_catalog::NAME_LABEL;
use crate::request::Requests;
use crate::{Cluster, Error, Kind, Object};
use state::{Need, Served, Wanted};
use status::Report;

/// The finalizer that keeps a ClusterCatalog until its content is removed.
const FINALIZER: &str = "olm.operatorframework.io/delete-server-cache";
/// How many images are pulled at a time.
const AT_A_TIME: u16 = 4;
/// How long a catalog is left alone after a failure, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How long one request may take with all its tries.
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves catalogs, each under its name. Its functions may take their time.
pub trait Shelf: Send + Sync {
    /// Serves the catalog of an image from now on, unless it is the one that is served: the image by digest.
    ///
    /// # Errors
    /// Fails if the image cannot be had or is no catalog; what was served before stays.
    fn serve(&self, name: &str, image: &str, known: Option<&str>) -> Result<String, Unserved>;

    /// Serves the catalog no longer.
    fn withdraw(&self, name: &str);
}

/// Why a catalog is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unserved {
    /// The reason.
    pub message: String,
    /// Whether another try is of no use.
    pub is_final: bool,
}

/// How a controller of ClusterCatalogs runs.
#[derive(Clone)]
pub struct ClusterCatalogsPlan {
    /// The namespace of the lease.
    pub lease_namespace: String,
    /// The name of the lease.
    pub lease_name: String,
    /// What this replica calls itself.
    pub identity: String,
    /// How long a replica may be silent before another takes over.
    pub lease_duration: Duration,
    /// Where health and metrics are answered, if they are.
    pub http: Option<String>,
    /// Where clients find catalogs, with scheme: `/catalogs/NAME` follows.
    pub base: String,
    /// Who pulls and serves.
    pub shelf: Arc<dyn Shelf>,
}

struct Context {
    cluster: Cluster,
    plan: ClusterCatalogsPlan,
    leading: AtomicBool,
    served: Mutex<HashMap<String, Served>>,
    failures: Mutex<HashMap<String, u32>>,
    metrics: Arc<Metrics>,
}

/// Runs until it is to stop, and releases the lease then.
///
/// # Errors
/// Fails if health and metrics cannot be answered where they should. What goes wrong on the cluster is retried.
pub async fn run_cluster_catalogs(
    cluster: Cluster,
    plan: ClusterCatalogsPlan,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let metrics = Arc::new(Metrics::new(plan.lease_duration * 4));
    let (namespace, name) = (&plan.lease_namespace, &plan.lease_name);
    let mut lease = Lease::new(&cluster, namespace, name, &plan.identity, plan.lease_duration, metrics.clone());
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
    let answers = async {
        match &plan.http {
            Some(address) => metrics::answer(address, metrics.clone()).await,
            None => std::future::pending().await,
        }
    };
    let outcome = tokio::select! {
        () = election => Ok(()),
        () = follow(&context) => Ok(()),
        outcome = answers => outcome,
        () = stop => Ok(()),
    };
    leading(false);
    lease.release().await;
    tracing::info!(identity = plan.identity, "ended");
    outcome
}

/// Works on every ClusterCatalog that changes.
async fn follow(context: &Arc<Context>) {
    let kind = Kind::CLUSTER_CATALOG;
    let controller = Controller::new_with(context.cluster.objects(kind), watcher::Config::default(), kind.resource())
        .with_config(Config::default().concurrency(AT_A_TIME));
    let work = |object: Arc<Object>, context: Arc<Context>| async move { context.reconcile(&object).await };
    let on_error = |object: Arc<Object>, error: &Error, context: Arc<Context>| {
        let name = object.metadata.name.clone().unwrap_or_default();
        let pause = context.pause(&name);
        context.metrics.errors.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(catalog = name, %error, "retry in {pause:?}");
        Action::requeue(pause)
    };
    let mut events = pin!(controller.trigger_backoff(WatchPauses::default()).run(work, on_error, context.clone()));
    while let Some(event) = events.next().await {
        use kube::runtime::controller::Error as Trouble;
        match event {
            Ok(_) | Err(Trouble::ReconcilerFailed(..)) => {}
            // It is gone, finalizer and all.
            Err(Trouble::ObjectNotFound(object)) => context.forget(&object.name),
            Err(Trouble::QueueError(error)) => {
                let why = super::watch_trouble(&error);
                if context.metrics.watch_failed(&why) {
                    tracing::warn!(error = why, "a watch fails, and is retried");
                }
            }
            Err(error) => tracing::warn!(%error, "a watch fails, and is retried"),
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

    /// Returns how long a catalog is left alone after one more failure.
    fn pause(&self, name: &str) -> Duration {
        let mut failures = self.failures();
        let count = failures.entry(name.to_owned()).or_default();
        let pause = PAUSE.0.saturating_mul(1 << (*count).min(8)).min(PAUSE.1);
        *count += 1;
        pause
    }

    /// Serves a catalog no longer.
    fn forget(&self, name: &str) {
        if self.served().remove(name).is_some() {
            tracing::info!(catalog = name, "withdrawn");
        }
        self.failures().remove(name);
        self.plan.shelf.withdraw(name);
    }

    async fn reconcile(self: &Arc<Self>, object: &Object) -> Result<Action, Error> {
        self.metrics.reconciles.fetch_add(1, Ordering::Relaxed);
        self.metrics.reached.store(true, Ordering::Relaxed);
        let leads = self.leading.load(Ordering::Relaxed);
        let wanted = Wanted::of(object);
        if wanted.is_going || !wanted.is_available {
            self.forget(&wanted.name);
        }
        if !leads {
            self.follow_status(&wanted).await;
            // Others may be silent by then.
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
        match state::need(&wanted, before.as_ref()) {
            Need::Nothing(wait) => {
                if let Some(served) = &before {
                    self.report(object, &Report::Serving(served)).await?;
                }
                Ok(wait.map_or_else(Action::await_change, Action::requeue))
            }
            Need::Look => self.look(object, &wanted, before).await,
        }
    }

    /// Finds out what the image is now, and serves that.
    async fn look(self: &Arc<Self>, object: &Object, wanted: &Wanted, before: Option<Served>) -> Result<Action, Error> {
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
                Ok(match unserved.is_final {
                    true => Action::await_change(),
                    false => Action::requeue(self.pause(&wanted.name)),
                })
            }
        }
    }

    /// Serves what the replica that leads has decided on.
    async fn follow_status(self: &Arc<Self>, wanted: &Wanted) {
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

    async fn serve(&self, name: &str, image: &str, known: Option<String>) -> Result<String, Unserved> {
        let shelf = self.plan.shelf.clone();
        let (name, image) = (name.to_owned(), image.to_owned());
        let work = tokio::task::spawn_blocking(move || shelf.serve(&name, &image, known.as_deref()));
        work.await.unwrap_or_else(|error| Err(Unserved { message: error.to_string(), is_final: false }))
    }

    /// Gives a ClusterCatalog its finalizer, and the label by which ClusterExtensions select it.
    async fn mark(&self, object: &Object, name: &str) -> Result<(), Error> {
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

    /// Lets a ClusterCatalog go.
    async fn finalize(&self, object: &Object) -> Result<(), Error> {
        let mut finalizers = object.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|one| one == FINALIZER) {
            return Ok(());
        }
        finalizers.retain(|one| one != FINALIZER);
        let version = &object.metadata.resource_version;
        self.patch(object, json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}})).await
    }

    async fn patch(&self, object: &Object, patch: Value) -> Result<(), Error> {
        self.send(object, &patch, false).await
    }

    /// Writes the status, if it says something else than before.
    async fn report(&self, object: &Object, report: &Report<'_>) -> Result<(), Error> {
        match status::of(object, report, &self.plan.base) {
            Some(status) => self.send(object, &json!({"status": status}), true).await,
            None => Ok(()),
        }
    }

    async fn send(&self, object: &Object, patch: &Value, status: bool) -> Result<(), Error> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let requests = Requests::within(&self.cluster, &*self.metrics, PATIENCE);
        let catalogs = self.cluster.objects(Kind::CLUSTER_CATALOG);
        let (how, patch) = (PatchParams::default(), Patch::Merge(patch));
        let what = format!("updating ClusterCatalog {name}");
        let sent = requests.persist(&what, |_| async {
            match status {
                true => catalogs.patch_status(name, &how, &patch).await,
                false => catalogs.patch(name, &how, &patch).await,
            }
        });
        match sent.await {
            // It is gone meanwhile.
            Err(error) if error.is_missing() => Ok(()),
            sent => sent.map(drop),
        }
    }
}
