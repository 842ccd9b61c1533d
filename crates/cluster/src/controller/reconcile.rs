//! One catalog brought to where it should be, and its status told.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use serde_json::{Value, json};

use super::connection::{Connection, Connections};
use super::decide::{Decision, Outcome, PROMOTED, Pod, Step, Wanted, decide, until};
use super::metrics::Metrics;
use super::objects::{PodImages, Source, hash};
use super::template::{TEMPLATE, Version, conditions, resolve};
use crate::catalog_source::{CatalogSpec, Complaint, PORT, SERVING_LABEL, UPDATE_LABEL, service_address, service_name};
use crate::error::has_code;
use crate::{Cluster, Error, Kind, Object};

/// Who owns the fields that the controller sets.
const MANAGER: &str = "opm-controller";
/// How often the connection to a catalog is checked.
const CHECK: Duration = Duration::from_secs(60);
/// How soon the answer of one that is being asked is looked for.
const CHECK_SOON: Duration = Duration::from_secs(2);
/// How soon it is checked again when it does not answer.
const CHECK_AGAIN: Duration = Duration::from_secs(15);
/// How long the work on one catalog may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often what stands beside the pods is applied again, whether or not something is known to have happened to it.
const APPLY_AGAIN: Duration = Duration::from_secs(600);
/// How long a start that has failed is left alone, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// What all catalogs share.
pub(crate) struct Context {
    pub(crate) cluster: Cluster,
    pub(crate) images: PodImages,
    pub(crate) overlap: Duration,
    pub(crate) connections: Connections,
    pub(crate) metrics: std::sync::Arc<Metrics>,
    /// Starts that have failed, by the uid of the catalog.
    pub(crate) failures: Mutex<HashMap<String, Failure>>,
    /// What stands beside the pods of a catalog, by its uid, until something happens to it.
    pub(crate) companions: Mutex<HashMap<String, Companions>>,
}

/// What stands beside the pods of a catalog, as it was applied.
#[derive(Debug, Clone)]
pub(crate) struct Companions {
    hash: String,
    applied: Instant,
    /// What the status says of the service.
    service: Value,
}

/// A start that has failed.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    hash: String,
    count: u32,
    retry_at: Timestamp,
    complaint: Complaint,
    outcome: Outcome,
}

/// What a status will say.
#[derive(Default)]
struct Told {
    complaint: Option<Complaint>,
    polled: Option<Timestamp>,
    service: Option<Value>,
    connection: Option<(String, &'static str)>,
}

impl Context {
    fn objects(&self, kind: Kind, object: &Object) -> Api<Object> {
        self.cluster.objects_in(kind, object.metadata.namespace.as_deref().unwrap_or_default())
    }

    /// Returns whether a catalog answers at an address, as it was last seen, and when to look again.
    fn connection(&self, object: &Object, address: &str) -> (&'static str, Duration) {
        let (uid, generation) = (object.metadata.uid.as_deref(), object.metadata.generation);
        let connection = &object.data["status"]["connectionState"];
        let told = connection["lastObservedState"].as_str().filter(|_| connection["address"] == address);
        let Connection { state, asking } =
            self.connections.look(uid.unwrap_or_default(), generation.unwrap_or_default(), address, told);
        let again = match state {
            _ if asking => CHECK_SOON,
            "READY" => CHECK,
            _ => CHECK_AGAIN,
        };
        (state, again)
    }

    fn failure(&self, uid: &str) -> Option<Failure> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }

    /// Remembers what came of a pod beside the one that answers.
    fn remember(&self, uid: &str, hash: &str, now: Timestamp, decision: &Decision) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match (decision.outcome, &decision.complaint) {
            (Some(outcome @ (Outcome::Failed | Outcome::NotStarted)), Some(complaint)) => {
                let before =
                    failures.get(uid).filter(|failure| failure.hash == hash).map_or(0, |failure| failure.count);
                let pause = RETRY.0.saturating_mul(1 << before.min(8)).min(RETRY.1);
                self.metrics.failed_updates.fetch_add(1, Ordering::Relaxed);
                let retry_at = now.checked_add(pause).unwrap_or(now);
                let failure = Failure {
                    hash: hash.to_owned(),
                    count: before + 1,
                    retry_at,
                    complaint: complaint.clone(),
                    outcome,
                };
                failures.insert(uid.to_owned(), failure);
            }
            (Some(Outcome::Done), _) => drop(failures.remove(uid)),
            // What did not start has started.
            _ if decision.served && failures.get(uid).is_some_and(|failure| failure.outcome == Outcome::NotStarted) => {
                failures.remove(uid);
            }
            _ => {}
        }
    }

    /// Notes that something has happened to what stands beside the pods of a catalog.
    pub(crate) fn disturb(&self, uid: &str) {
        self.companions.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Forgets all catalogs but some.
    pub(crate) fn keep(&self, is_there: &dyn Fn(&str) -> bool) {
        self.connections.keep(is_there);
        self.companions.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| is_there(uid));
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| is_there(uid));
    }
}

/// Brings one catalog to where it should be. Its status says what came of it, whatever happens on the way.
pub(crate) async fn reconcile(seen: &Object, context: &Context) -> Result<Action, Error> {
    context.metrics.reconciles.fetch_add(1, Ordering::Relaxed);
    let worked = tokio::time::timeout(PATIENCE, bring_forward(seen, context)).await;
    let outcome = worked.unwrap_or_else(|_| Err(Error::Silent { what: "working on the catalog".into() }));
    let Err(error) = outcome else { return outcome };
    // A status that somebody changes meanwhile, or that says so already, needs nothing.
    let sources = context.objects(Kind::CATALOG_SOURCE, seen);
    let name = seen.metadata.name.as_deref().unwrap_or_default();
    if let Ok(Ok(Some(object))) = tokio::time::timeout(PATIENCE, sources.get_opt(name)).await {
        let told = Told { complaint: Some(Complaint::registry(error.to_string())), ..Told::default() };
        if let Err(late) = tell(&object, told, context).await {
            tracing::warn!(namespace = seen.metadata.namespace, catalog = name, error = %late, "the status cannot be written");
        }
    }
    Err(error)
}

async fn bring_forward(seen: &Object, context: &Context) -> Result<Action, Error> {
    let name = seen.metadata.name.clone().unwrap_or_default();
    let sources = context.objects(Kind::CATALOG_SOURCE, seen);
    // What the watch told may be old: deciding on it would start a pod twice.
    let found = sources.get_opt(&name).await.map_err(Error::api(format!("catalog {name}")))?;
    let Some(mut object) = found.filter(|object| object.metadata.deletion_timestamp.is_none()) else {
        return Ok(Action::await_change());
    };
    follow_template(&mut object, context).await?;
    let spec = match CatalogSpec::of(&object).and_then(|spec| spec.check(&name).map(|()| spec)) {
        Ok(spec) => spec,
        Err(complaint) => {
            let told = Told { complaint: Some(complaint), ..Told::default() };
            tell(&object, told, context).await?;
            return Ok(Action::await_change());
        }
    };
    match (spec.source_type.as_str(), spec.image.is_empty()) {
        ("grpc", false) => serve_image(&object, &spec, context).await,
        ("grpc", true) => {
            remove_pods(&object, &spec, context).await?;
            let (state, again) = context.connection(&object, &spec.address);
            let created = object.data.pointer("/status/registryService/createdAt").cloned();
            let created = created.unwrap_or_else(|| second(Timestamp::now()).into());
            let told = Told {
                service: Some(json!({"protocol": "grpc", "createdAt": created})),
                connection: Some((spec.address.clone(), state)),
                ..Told::default()
            };
            tell(&object, told, context).await?;
            Ok(Action::requeue(again))
        }
        // Catalogs in ConfigMaps belong to others.
        _ => Ok(Action::await_change()),
    }
}

/// Removes what served an image that the catalog does not name any more.
async fn remove_pods(object: &Object, spec: &CatalogSpec, context: &Context) -> Result<(), Error> {
    let uid = object.metadata.uid.clone().unwrap_or_default();
    let known = context.companions.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).cloned();
    if known.is_some_and(|known| known.hash == spec.address && known.applied.elapsed() < APPLY_AGAIN) {
        return Ok(());
    }
    let source = Source { object, spec, restricted: false };
    for pod in pods_of(&source, context).await? {
        perform(&Step::Delete { name: pod.name, grace: 1 }, &source, &Value::Null, "", context).await?;
    }
    for (kind, companion) in source.companions() {
        let name = companion["metadata"]["name"].as_str().unwrap_or_default();
        let objects = context.objects(kind, object);
        let what = format!("{} {name}", kind.kind);
        let there = objects.get_opt(name).await.map_err(Error::api(&what))?;
        let owners = there.and_then(|there| there.metadata.owner_references).unwrap_or_default();
        if owners.iter().any(|owner| owner.uid == uid) {
            match objects.delete(name, &DeleteParams::default()).await {
                Err(error) if !has_code(&error, 404) => return Err(Error::api(&what)(error)),
                _ => {}
            }
        }
    }
    let cleared = Companions { hash: spec.address.clone(), applied: Instant::now(), service: Value::Null };
    context.companions.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, cleared);
    Ok(())
}

/// Gives a catalog with a template the image of this cluster's version.
async fn follow_template(object: &mut Object, context: &Context) -> Result<(), Error> {
    let template = object.metadata.annotations.as_ref().and_then(|all| all.get(TEMPLATE)).cloned();
    let Some(template) = template else { return Ok(()) };
    let name = object.metadata.name.clone().unwrap_or_default();
    let info = context.cluster.client.apiserver_version().await.map_err(Error::api("version of the cluster"))?;
    let version = Version { major: info.major, minor: info.minor, git: info.git_version };
    let resolved = resolve(&template, &version);
    let sources = context.objects(Kind::CATALOG_SOURCE, object);
    if let Ok(image) = &resolved
        && object.data["spec"]["image"] != image.as_str()
    {
        let patch = Patch::Merge(json!({"spec": {"image": image}}));
        let patched = sources.patch(&name, &PatchParams::default(), &patch).await;
        *object = patched.map_err(Error::api(format!("image of catalog {name}")))?;
    }
    let before = object.data["status"]["conditions"].clone();
    let conditions = conditions(&resolved, &before);
    if conditions != before {
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        let patched = sources.patch_status(&name, &PatchParams::default(), &patch).await;
        patched.map_err(Error::api(format!("status of catalog {name}")))?;
    }
    Ok(())
}

async fn serve_image(object: &Object, spec: &CatalogSpec, context: &Context) -> Result<Action, Error> {
    let restricted = match spec.pod_config().security_context_config.as_str() {
        "restricted" => true,
        "legacy" => false,
        _ => enforces_restricted(object, context).await?,
    };
    let source = Source { object, spec, restricted };
    let pod_spec = match source.pod_spec(&context.images) {
        Ok(pod_spec) => pod_spec,
        Err(complaint) => {
            tell(object, Told { complaint: Some(complaint), ..Told::default() }, context).await?;
            return Ok(Action::await_change());
        }
    };
    let service = ensure_companions(&source, context).await?;
    let hash = hash(&pod_spec);
    let uid = object.metadata.uid.clone().unwrap_or_default();
    let now = Timestamp::now();
    let pods = pods_of(&source, context).await?;
    let interval = spec.interval();
    let polled = time_at(object, "/status/latestImageRegistryPoll");
    let poll_at = interval.as_ref().map(|interval| {
        let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let since = polled.or(created).unwrap_or(now);
        since.checked_add(interval.duration + jitter(&uid, interval.duration)).unwrap_or(Timestamp::MAX)
    });
    let failure = context.failure(&uid).filter(|failure| failure.hash == hash);
    let wanted = Wanted {
        hash: &hash,
        now,
        poll_at,
        overlap: context.overlap,
        retry_at: failure.as_ref().map(|failure| failure.retry_at),
    };
    let decision = decide(&pods, &wanted);
    context.remember(&uid, &hash, now, &decision);
    let mut told = Told { service: Some(service), ..Told::default() };
    for step in &decision.steps {
        if let Some(time) = perform(step, &source, &pod_spec, &hash, context).await? {
            told.polled = Some(time);
        }
    }
    told.complaint = decision
        .complaint
        .clone()
        .or_else(|| {
            let over = |failure: &Failure| decision.served && failure.outcome == Outcome::NotStarted;
            failure.filter(|failure| decision.outcome.is_none() && !over(failure)).map(|failure| failure.complaint)
        })
        .or_else(|| interval.and_then(|interval| interval.complaint));
    let address = service_address(source.name(), source.namespace());
    let (state, check) = match (decision.served, &decision.complaint) {
        (true, _) => context.connection(object, &address),
        (false, None) => ("CONNECTING", CHECK_AGAIN),
        (false, Some(_)) => ("TRANSIENT_FAILURE", CHECK_AGAIN),
    };
    told.connection = Some((address, state));
    let next_poll = if told.polled.is_none() { poll_at } else { None };
    tell(object, told, context).await?;
    let again = [decision.look_again, next_poll.map(|at| until(at, Timestamp::now()))];
    let again = again.into_iter().flatten().fold(check, Duration::min);
    Ok(Action::requeue(again.max(Duration::from_millis(100))))
}

/// Makes what stands beside the pods, unless it is known to be there, and returns what the status says of the service.
async fn ensure_companions(source: &Source<'_>, context: &Context) -> Result<Value, Error> {
    let companions = source.companions();
    let hash = hash(&companions.iter().map(|(_, companion)| companion.clone()).collect());
    let uid = source.object.metadata.uid.clone().unwrap_or_default();
    let known = context.companions.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).cloned();
    if let Some(known) = known.filter(|known| known.hash == hash && known.applied.elapsed() < APPLY_AGAIN) {
        return Ok(known.service);
    }
    let mut service = Value::Null;
    for (kind, companion) in companions {
        let applied = apply(kind, &companion, source.object, context).await?;
        if kind == Kind::SERVICE {
            service = json!({
                "protocol": "grpc",
                "serviceName": service_name(source.name()),
                "serviceNamespace": source.namespace(),
                "port": PORT.to_string(),
                "createdAt": applied.metadata.creation_timestamp.map(|time| second(time.0)),
            });
        }
    }
    let companions = Companions { hash, applied: Instant::now(), service: service.clone() };
    context.companions.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, companions);
    Ok(service)
}

/// Tells whether a namespace takes only pods that are restricted.
async fn enforces_restricted(object: &Object, context: &Context) -> Result<bool, Error> {
    let name = object.metadata.namespace.as_deref().unwrap_or_default();
    match context.cluster.objects(Kind::NAMESPACE).get_metadata_opt(name).await {
        Ok(Some(namespace)) => {
            let labels = namespace.metadata.labels.unwrap_or_default();
            Ok(labels.get("pod-security.kubernetes.io/enforce").is_some_and(|level| level == "restricted"))
        }
        Ok(None) => Ok(false),
        // A controller for one namespace may not be allowed to look. What restricted namespaces take, all take.
        Err(error) if has_code(&error, 403) => Ok(true),
        Err(error) => Err(Error::api(format!("namespace {name}"))(error)),
    }
}

async fn apply(kind: Kind, companion: &Value, object: &Object, context: &Context) -> Result<Object, Error> {
    let name = companion["metadata"]["name"].as_str().unwrap_or_default();
    let how = PatchParams::apply(MANAGER).force();
    let applied = context.objects(kind, object).patch(name, &how, &Patch::Apply(companion)).await;
    applied.map_err(Error::api(format!("{} {name}", kind.kind)))
}

async fn pods_of(source: &Source<'_>, context: &Context) -> Result<Vec<Pod>, Error> {
    let pods = context.objects(Kind::POD, source.object);
    let mut all: Vec<Pod> = Vec::new();
    for label in [SERVING_LABEL, UPDATE_LABEL] {
        let which = ListParams::default().labels(&format!("{label}={}", source.name()));
        let found = pods.list(&which).await.map_err(Error::api(format!("pods of {}", source.name())))?;
        let found: Vec<Pod> = found.items.iter().filter_map(|pod| Pod::of(pod, source.name())).collect();
        // One that changes sides in between is seen twice.
        all.retain(|pod| found.iter().all(|other| other.name != pod.name));
        all.extend(found);
    }
    Ok(all)
}

/// Does one thing; returns when an image was begun to be looked for.
async fn perform(
    step: &Step,
    source: &Source<'_>,
    spec: &Value,
    hash: &str,
    context: &Context,
) -> Result<Option<Timestamp>, Error> {
    let pods = context.objects(Kind::POD, source.object);
    let what = |what: &str| Error::api(format!("{what} a pod of {}", source.name()));
    let start = |serving: bool| {
        let pod = serde_json::from_value::<Object>(source.pod(spec, hash, serving));
        pod.map_err(|error| Error::Message(error.to_string()))
    };
    tracing::info!(namespace = source.namespace(), catalog = source.name(), ?step, "changing pods");
    match step {
        Step::Start => {
            pods.create(&PostParams::default(), &start(true)?).await.map_err(what("starting"))?;
        }
        Step::StartBeside { poll } => {
            let created = pods.create(&PostParams::default(), &start(false)?).await.map_err(what("starting"))?;
            if *poll {
                context.metrics.polls.fetch_add(1, Ordering::Relaxed);
                return Ok(created.metadata.creation_timestamp.map(|time| time.0));
            }
        }
        Step::Promote(name) => {
            let patch = json!({"metadata": {
                "labels": {SERVING_LABEL: source.name(), UPDATE_LABEL: ""},
                "annotations": {PROMOTED: Timestamp::now().to_string()},
            }});
            let patched = pods.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
            patched.map_err(what("promoting"))?;
            context.metrics.promotions.fetch_add(1, Ordering::Relaxed);
        }
        Step::Delete { name, grace } => {
            let how = DeleteParams { grace_period_seconds: Some(*grace), ..DeleteParams::default() };
            match pods.delete(name, &how).await {
                Err(error) if !has_code(&error, 404) => return Err(what("ending")(error)),
                _ => {}
            }
        }
    }
    Ok(None)
}

/// Writes the status, if it says something else than before.
async fn tell(object: &Object, told: Told, context: &Context) -> Result<(), Error> {
    let before = object.data.get("status").cloned().unwrap_or(Value::Null);
    let mut status = json!({
        "reason": told.complaint.as_ref().map(|complaint| complaint.reason),
        "message": told.complaint.as_ref().map(|complaint| complaint.message.as_str()),
    });
    if let Some(service) = told.service {
        status["registryService"] = service;
    }
    if let Some(polled) = told.polled {
        status["latestImageRegistryPoll"] = second(polled).into();
    }
    if let Some((address, state)) = told.connection {
        let old = &before["connectionState"];
        let same = old["address"] == address.as_str() && old["lastObservedState"] == state;
        let since = if same { old["lastConnect"].clone() } else { second(Timestamp::now()).into() };
        status["connectionState"] = json!({"address": address, "lastObservedState": state, "lastConnect": since});
    }
    if is_part_of(&status, &before) {
        return Ok(());
    }
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let patch = Patch::Merge(json!({ "status": status }));
    let sources = context.objects(Kind::CATALOG_SOURCE, object);
    match sources.patch_status(name, &PatchParams::default(), &patch).await {
        // It has gone meanwhile.
        Err(error) if has_code(&error, 404) => Ok(()),
        Err(error) => Err(Error::api(format!("status of catalog {name}"))(error)),
        Ok(_) => Ok(()),
    }
}

/// Tells whether everything in `part` is in `whole` already; nothing means that it is not there.
fn is_part_of(part: &Value, whole: &Value) -> bool {
    match part {
        Value::Null => whole.is_null(),
        Value::Object(fields) => {
            fields.iter().all(|(name, value)| is_part_of(value, whole.get(name).unwrap_or(&Value::Null)))
        }
        other => other == whole,
    }
}

fn time_at(object: &Object, pointer: &str) -> Option<Timestamp> {
    object.data.pointer(pointer)?.as_str()?.parse().ok()
}

/// Writes a time in whole seconds, as statuses have it.
fn second(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Spreads catalogs that were made at once over a tenth of their interval.
fn jitter(uid: &str, interval: Duration) -> Duration {
    let sum = uid.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    (interval / 10).mul_f64(f64::from(sum % 1000) / 1000.0)
}
