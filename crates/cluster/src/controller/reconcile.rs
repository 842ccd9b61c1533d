//! Reconciles one catalog and writes its status.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use serde_json::json;

use super::companions::{Companions, ensure_companions, remove_pods};
use super::connection::{Connection, Connections};
use super::decide::{Desired, PodDecision, PodOutcome, decide, until};
use super::metrics::ControllerMetrics;
use super::objects::{ManagedCatalog, PodImages, hash};
use super::pods::{perform, pods_of};
use super::status::{Report, report, second};
use super::template::{ClusterVersion, TEMPLATE, conditions, resolve};
use crate::catalog_source::{CatalogSpec, Complaint, service_address};
use crate::request::Requests;
use crate::views::{CatalogSourceStatus, ConnectionState, Stored, View};
use crate::{Cluster, ClusterObject, Error, ResourceKind};

/// How often the connection to a catalog is checked.
const CHECK: Duration = Duration::from_secs(60);
/// How soon the result of a check in flight is read.
const CHECK_SOON: Duration = Duration::from_secs(2);
/// How soon a catalog that does not respond is checked again.
const CHECK_AGAIN: Duration = Duration::from_secs(15);
/// The timeout of one reconciliation, including retried requests.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout for writing the failure to the status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// The backoff after a failed start, first and maximum.
const RETRY_BACKOFF: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// The state that all reconciliations share.
pub(crate) struct ReconcileContext {
    pub(crate) cluster: Cluster,
    pub(crate) images: PodImages,
    pub(crate) overlap: Duration,
    pub(crate) connections: Connections,
    pub(crate) metrics: std::sync::Arc<ControllerMetrics>,
    /// Failed starts, by catalog uid.
    pub(crate) failures: Mutex<HashMap<String, StartFailure>>,
    /// The applied companions, by catalog uid, until they are changed.
    pub(crate) companions: Mutex<HashMap<String, Companions>>,
    /// The uids of catalogs that own objects; `None` if unknown.
    pub(crate) served: Mutex<Option<HashSet<String>>>,
}

/// A failed start.
#[derive(Debug, Clone)]
pub(crate) struct StartFailure {
    hash: String,
    count: u32,
    retry_at: Timestamp,
    complaint: Complaint,
    outcome: PodOutcome,
}

/// One reconciliation: the shared state, and requests with a deadline.
pub(super) struct Work<'a> {
    pub(super) context: &'a ReconcileContext,
    pub(super) requests: Requests<'a>,
}

impl Work<'_> {
    pub(super) fn objects(&self, kind: ResourceKind, object: &ClusterObject) -> Api<ClusterObject> {
        self.context.cluster.objects_in(kind, namespace_of(object))
    }

    async fn read(&self, seen: &ClusterObject) -> Result<Option<ClusterObject>, Error> {
        let name = seen.metadata.name();
        let sources = self.objects(ResourceKind::CATALOG_SOURCE, seen);
        self.requests.retry(&format!("catalog {name}"), |_| sources.get_opt(name)).await
    }
}

pub(super) fn namespace_of(object: &ClusterObject) -> &str {
    object.metadata.namespace()
}

impl ReconcileContext {
    fn within(&self, time: Duration) -> Work<'_> {
        Work { context: self, requests: Requests::within(&self.cluster, &*self.metrics, time) }
    }

    /// Returns the last observed connection state, and when to check again.
    fn connection(&self, object: &ClusterObject, known: &ConnectionState, address: &str) -> (&'static str, Duration) {
        let seen = (known.address == address).then_some(known.last_observed_state.as_str());
        let Connection { state, checking } =
            self.connections.state_of(object.metadata.uid(), object.metadata.generation(), address, seen);
        let again = match state {
            _ if checking => CHECK_SOON,
            "READY" => CHECK,
            _ => CHECK_AGAIN,
        };
        (state, again)
    }

    fn failure(&self, uid: &str) -> Option<StartFailure> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }

    /// Records the outcome of an update pod.
    fn remember(&self, uid: &str, hash: &str, now: Timestamp, decision: &PodDecision) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match (decision.outcome, &decision.complaint) {
            (Some(outcome @ (PodOutcome::Failed | PodOutcome::NotStarted)), Some(complaint)) => {
                let before =
                    failures.get(uid).filter(|failure| failure.hash == hash).map_or(0, |failure| failure.count);
                let pause = RETRY_BACKOFF.0.saturating_mul(1 << before.min(8)).min(RETRY_BACKOFF.1);
                self.metrics.failed_updates.fetch_add(1, Ordering::Relaxed);
                let retry_at = now.checked_add(pause).unwrap_or(now);
                let failure = StartFailure {
                    hash: hash.to_owned(),
                    count: before + 1,
                    retry_at,
                    complaint: complaint.clone(),
                    outcome,
                };
                failures.insert(uid.to_owned(), failure);
            }
            (Some(PodOutcome::Done), _) => drop(failures.remove(uid)),
            // A start that failed before has succeeded.
            _ if decision.served
                && failures.get(uid).is_some_and(|failure| failure.outcome == PodOutcome::NotStarted) =>
            {
                failures.remove(uid);
            }
            _ => {}
        }
    }

    /// Records that a catalog owns objects.
    pub(crate) fn note_served(&self, uid: &str) {
        if let Some(served) = &mut *self.served.lock().unwrap_or_else(PoisonError::into_inner) {
            served.insert(uid.to_owned());
        }
    }

    /// Returns whether a catalog may own objects.
    pub(super) fn may_be_served(&self, uid: &str) -> bool {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.as_ref().is_none_or(|served| served.contains(uid))
    }

    /// Records that companions of a catalog have changed.
    pub(crate) fn companions_changed(&self, uid: &str) {
        self.companions.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Drops all catalogs except some.
    pub(crate) fn keep(&self, is_there: &dyn Fn(&str) -> bool) {
        self.connections.retain(is_there);
        self.companions.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| is_there(uid));
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| is_there(uid));
        if let Some(served) = &mut *self.served.lock().unwrap_or_else(PoisonError::into_inner) {
            served.retain(|uid| is_there(uid));
        }
    }
}

/// Reconciles one catalog. Its status reports the result, whatever happens.
pub(crate) async fn reconcile(seen: &ClusterObject, context: &ReconcileContext) -> Result<Action, Error> {
    context.metrics.reconciles.fetch_add(1, Ordering::Relaxed);
    let outcome = sync(seen, &context.within(TIMEOUT)).await;
    let Err(error) = outcome else { return outcome };
    // A status that was changed concurrently, or already reports this, needs no write.
    let work = context.within(STATUS_TIMEOUT);
    if let Ok(Some(object)) = work.read(seen).await {
        let said = Report { complaint: Some(Complaint::registry(error.to_string())), ..Report::default() };
        if let Err(late) = report(&object, said, &work).await {
            let (namespace, catalog) = (&seen.metadata.namespace, &seen.metadata.name);
            tracing::warn!(?namespace, ?catalog, error = %late, "writing the status failed");
        }
    }
    Err(error)
}

async fn sync(seen: &ClusterObject, work: &Work<'_>) -> Result<Action, Error> {
    let name = seen.metadata.name().to_owned();
    // The watched object may be stale: acting on it could start a pod twice.
    let found = work.read(seen).await?;
    let Some(mut object) = found.filter(|object| object.metadata.deletion_timestamp.is_none()) else {
        return Ok(Action::await_change());
    };
    follow_template(&mut object, work).await?;
    let spec = match CatalogSpec::of(&object).and_then(|spec| spec.check(&name).map(|()| spec)) {
        Ok(spec) => spec,
        Err(complaint) => {
            let said = Report { complaint: Some(complaint), ..Report::default() };
            report(&object, said, work).await?;
            return Ok(Action::await_change());
        }
    };
    match (spec.source_type.as_str(), spec.image.is_empty()) {
        ("grpc", false) => serve_image(&object, &spec, work).await,
        ("grpc", true) => {
            remove_pods(&object, &spec, work).await?;
            let status = CatalogSourceStatus::of(&object)?.status;
            let (state, again) = work.context.connection(&object, &status.connection_state, &spec.address);
            let created = Some(status.registry_service.created_at).filter(|time| !time.is_empty());
            let created = created.unwrap_or_else(|| second(Timestamp::now()));
            let said = Report {
                service: Some(json!({"protocol": "grpc", "createdAt": created})),
                connection: Some((spec.address.clone(), state)),
                ..Report::default()
            };
            report(&object, said, work).await?;
            Ok(Action::requeue(again))
        }
        // Catalogs in ConfigMaps are not served by this controller.
        _ => Ok(Action::await_change()),
    }
}

/// Sets the image of a catalog with a template for the cluster's version.
async fn follow_template(object: &mut ClusterObject, work: &Work<'_>) -> Result<(), Error> {
    let template = object.metadata.annotations.as_ref().and_then(|all| all.get(TEMPLATE)).cloned();
    let Some(template) = template else { return Ok(()) };
    let name = object.metadata.name().to_owned();
    let client = &work.context.cluster.client;
    let info = work.requests.retry("version of the cluster", |_| client.apiserver_version()).await?;
    let version = ClusterVersion { major: info.major, minor: info.minor, git: info.git_version };
    let resolved = resolve(&template, &version);
    let (sources, how) = (work.objects(ResourceKind::CATALOG_SOURCE, object), PatchParams::default());
    let before = CatalogSourceStatus::of(object)?.status.conditions;
    if let Ok(image) = &resolved
        && CatalogSpec::of(object).map_or(true, |spec| spec.image != *image)
    {
        let patch = Patch::Merge(json!({"spec": {"image": image}}));
        let what = format!("image of catalog {name}");
        *object = work.requests.retry(&what, |_| sources.patch(&name, &how, &patch)).await?;
    }
    let conditions = conditions(&resolved, &before);
    if conditions != before {
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        let what = format!("status of catalog {name}");
        work.requests.retry(&what, |_| sources.patch_status(&name, &how, &patch)).await?;
    }
    Ok(())
}

async fn serve_image(object: &ClusterObject, spec: &CatalogSpec, work: &Work<'_>) -> Result<Action, Error> {
    let context = work.context;
    let restricted = match spec.pod_config().security_context_config.as_str() {
        "restricted" => true,
        "legacy" => false,
        _ => enforces_restricted(object, work).await?,
    };
    let source = ManagedCatalog { object, spec, restricted };
    context.note_served(object.metadata.uid());
    let pod_spec = match source.pod_spec(&context.images) {
        Ok(pod_spec) => pod_spec,
        Err(complaint) => {
            report(object, Report { complaint: Some(complaint), ..Report::default() }, work).await?;
            return Ok(Action::await_change());
        }
    };
    let service = ensure_companions(&source, work).await?;
    let hash = hash(&pod_spec);
    let uid = object.metadata.uid().to_owned();
    let now = Timestamp::now();
    let pods = pods_of(&source, work).await?;
    let interval = spec.interval();
    let status = CatalogSourceStatus::of(object)?.status;
    let polled = status.latest_image_registry_poll.parse().ok();
    let poll_at = interval.as_ref().map(|interval| {
        let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let since = polled.or(created).unwrap_or(now);
        since.checked_add(interval.duration + jitter(&uid, interval.duration)).unwrap_or(Timestamp::MAX)
    });
    let failure = context.failure(&uid).filter(|failure| failure.hash == hash);
    let wanted = Desired {
        hash: &hash,
        now,
        poll_at,
        overlap: context.overlap,
        retry_at: failure.as_ref().map(|failure| failure.retry_at),
    };
    let decision = decide(&pods, &wanted);
    context.remember(&uid, &hash, now, &decision);
    let mut said = Report { service: Some(service), ..Report::default() };
    for step in &decision.steps {
        if let Some(time) = perform(step, &source, &pod_spec, &hash, work).await? {
            said.polled = Some(time);
        }
    }
    said.complaint = decision
        .complaint
        .clone()
        .or_else(|| {
            let over = |failure: &StartFailure| decision.served && failure.outcome == PodOutcome::NotStarted;
            failure.filter(|failure| decision.outcome.is_none() && !over(failure)).map(|failure| failure.complaint)
        })
        .or_else(|| interval.and_then(|interval| interval.complaint));
    let address = service_address(source.name(), source.namespace());
    let (state, check) = match (decision.served, &decision.complaint) {
        (true, _) => context.connection(object, &status.connection_state, &address),
        (false, None) => ("CONNECTING", CHECK_AGAIN),
        (false, Some(_)) => ("TRANSIENT_FAILURE", CHECK_AGAIN),
    };
    said.connection = Some((address, state));
    let next_poll = if said.polled.is_none() { poll_at } else { None };
    report(object, said, work).await?;
    let again = [decision.recheck_in, next_poll.map(|at| until(at, Timestamp::now()))];
    let again = again.into_iter().flatten().fold(check, Duration::min);
    Ok(Action::requeue(again.max(Duration::from_millis(100))))
}

/// Returns whether a namespace enforces the restricted pod security level.
async fn enforces_restricted(object: &ClusterObject, work: &Work<'_>) -> Result<bool, Error> {
    let (name, namespaces) = (namespace_of(object), work.context.cluster.objects(ResourceKind::NAMESPACE));
    match work.requests.retry(&format!("namespace {name}"), |_| namespaces.get_metadata_opt(name)).await {
        Ok(Some(namespace)) => {
            let labels = namespace.metadata.labels.unwrap_or_default();
            Ok(labels.get("pod-security.kubernetes.io/enforce").is_some_and(|level| level == "restricted"))
        }
        Ok(None) => Ok(false),
        // A controller for one namespace may lack the permission. Restricted pods run in all namespaces.
        Err(error) if error.is_forbidden() => Ok(true),
        Err(error) => Err(error),
    }
}

/// Spreads catalogs created together over a tenth of their interval.
fn jitter(uid: &str, interval: Duration) -> Duration {
    let sum = uid.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    (interval / 10).mul_f64(f64::from(sum % 1000) / 1000.0)
}
