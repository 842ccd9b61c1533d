//! What has to happen to the pods of a catalog, from nothing but what is seen.
//!
//! The pod that answers stays until another one is ready and selected. Nothing is remembered but when a failed start may
//! be retried: whoever takes over sees the same and does the same.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::objects::POD_HASH;
use crate::Object;
use crate::catalog::{PodRole, PodState, condition, is_ready};
use crate::catalog_source::Complaint;

/// The annotation that says when a pod began to be selected in place of another.
pub(crate) const PROMOTED: &str = "olm.catalogSource/promotedAt";
/// How long a pod may take until it is ready.
const START: Duration = Duration::from_secs(10 * 60);
/// A pod that ends within this time has not started.
const SOON: Duration = Duration::from_secs(60);
/// When pods are read again that something is expected of.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A pod, as far as it matters here.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) name: String,
    role: PodRole,
    hash: String,
    ready: bool,
    deleting: bool,
    /// It will never answer again.
    dead: bool,
    /// Its start has failed, and why.
    failed: Option<String>,
    why_not: Option<String>,
    image_id: Option<String>,
    created: Timestamp,
    promoted: Option<Timestamp>,
}

impl Pod {
    /// Reads a pod; nothing if it belongs to no catalog of that name.
    pub(crate) fn of(object: &Object, catalog: &str) -> Option<Pod> {
        let state = PodState::of(object, catalog)?;
        let label = |name: &str| object.metadata.labels.as_ref()?.get(name).cloned();
        let annotation = |name: &str| object.metadata.annotations.as_ref()?.get(name).cloned();
        let phase = object.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
        let disrupted = condition(object, "DisruptionTarget").is_some_and(|condition| condition["status"] == "True");
        let why_not = state.why_not.clone();
        let failed = matches!(phase, "Failed" | "Unknown") || has_given_up(object);
        Some(Pod {
            name: state.name,
            role: state.role,
            hash: label(POD_HASH).unwrap_or_default(),
            ready: is_ready(object),
            deleting: object.metadata.deletion_timestamp.is_some(),
            dead: matches!(phase, "Failed" | "Succeeded") || (disrupted && !is_ready(object)),
            failed: if failed { why_not.clone() } else { None },
            why_not,
            image_id: state.image_id,
            created: object.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            promoted: annotation(PROMOTED).and_then(|text| text.parse().ok()),
        })
    }

    /// Returns since when the pod is the one to ask.
    fn since(&self) -> Timestamp {
        self.promoted.unwrap_or(self.created)
    }
}

/// Returns whether a container is in a state that only another image or another spec can end.
fn has_given_up(pod: &Object) -> bool {
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let mut containers = statuses.iter().filter_map(|place| pod.data.pointer(place)?.as_array()).flatten();
    containers.any(|container| {
        let reason = container.pointer("/state/waiting/reason").and_then(Value::as_str).unwrap_or_default();
        matches!(reason, "CrashLoopBackOff" | "ImagePullBackOff" | "InvalidImageName" | "CreateContainerConfigError")
    })
}

/// What is wanted, and what time it is.
#[derive(Debug, Clone)]
pub(crate) struct Wanted<'a> {
    /// The digest of the spec that pods are to have.
    pub(crate) hash: &'a str,
    pub(crate) now: Timestamp,
    /// When the image is to be polled next, if it is.
    pub(crate) poll_at: Option<Timestamp>,
    /// How long the old pod stays after another has taken its place.
    pub(crate) overlap: Duration,
    /// When a start that has failed may be retried.
    pub(crate) retry_at: Option<Timestamp>,
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start a pod that is selected at once: there is none.
    Start,
    /// Start a pod beside the one that answers; for a poll, or because the spec has changed.
    StartBeside { poll: bool },
    /// Let the service select a pod.
    Promote(String),
    /// End a pod.
    Delete { name: String, grace: u32 },
}

/// What has to happen, and what there is to report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) steps: Vec<Step>,
    pub(crate) complaint: Option<Complaint>,
    /// Whether a pod beside the one that answers has failed, or has done its work.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) look_again: Option<Duration>,
    /// Whether a pod answers.
    pub(crate) served: bool,
}

/// What came of a pod beside the one that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Failed,
    Done,
    /// There was none that answers, and it ended soon.
    NotStarted,
}

pub(crate) fn decide(pods: &[Pod], wanted: &Wanted<'_>) -> Decision {
    let mut decision = Decision::default();
    let delete = |pod: &Pod, grace: u32| Step::Delete { name: pod.name.clone(), grace };
    let alive = || pods.iter().filter(|pod| !pod.deleting);
    decision.steps.extend(alive().filter(|pod| pod.role == PodRole::Serving && pod.dead).map(|pod| delete(pod, 0)));
    let serving: Vec<&Pod> = alive().filter(|pod| pod.role == PodRole::Serving && !pod.dead).collect();
    let mut beside: Vec<&Pod> = alive().filter(|pod| pod.role == PodRole::Update).collect();
    // Those for another spec, and all but the newest, are of no use.
    beside.sort_by_key(|pod| (pod.hash == wanted.hash, pod.created, pod.name.clone()));
    let next = beside.pop_if(|pod| pod.hash == wanted.hash);
    decision.steps.extend(beside.iter().map(|pod| delete(pod, 1)));
    decision.served = serving.iter().any(|pod| pod.ready);

    if serving.is_empty() {
        // One that ended soon after it was made will most likely do so again; one that has served for long is replaced.
        let young =
            |pod: &&Pod| pod.role == PodRole::Serving && pod.dead && !left(pod.created, SOON, wanted.now).is_zero();
        let dead = alive().filter(young).max_by_key(|pod| pod.created);
        if let Some(dead) = dead {
            let why = dead.why_not.as_deref().unwrap_or("it has ended");
            decision.complaint = Some(Complaint::registry(format!("pod {}: {why}", dead.name)));
            decision.outcome = Some(Outcome::NotStarted);
        }
        decision.look_again = Some(LOOK_AGAIN);
        match (next, wanted.retry_at.filter(|at| *at > wanted.now)) {
            (Some(pod), _) => decision.steps.push(Step::Promote(pod.name.clone())),
            // What ends at once would be started in a loop: the next start waits for as long as the last one says.
            (None, None) if dead.is_none() => decision.steps.push(Step::Start),
            (None, None) => {}
            (None, Some(at)) => decision.look_again = Some(until(at, wanted.now).min(LOOK_AGAIN)),
        }
        return decision;
    }
    let best = serving.iter().filter(|pod| pod.hash == wanted.hash && pod.ready).max_by_key(|pod| pod.since());
    let mut settled = true;
    if let Some(best) = best {
        // One that came later and is not ready yet, or for a moment, may still be.
        let hopeless = |pod: &Pod| pod.failed.is_some() || left(pod.since(), START, wanted.now).is_zero();
        let is_old = |pod: &Pod| pod.name != best.name && (pod.since() <= best.since() || hopeless(pod));
        let old: Vec<&&Pod> = serving.iter().filter(|pod| is_old(pod)).collect();
        let stays = best.promoted.map_or(Duration::ZERO, |promoted| left(promoted, wanted.overlap, wanted.now));
        if !old.is_empty() && stays.is_zero() {
            decision.steps.extend(old.iter().map(|pod| delete(pod, 1)));
        } else if !old.is_empty() {
            decision.look_again = Some(stays);
            settled = false;
        }
    }
    let right_spec = serving.iter().any(|pod| pod.hash == wanted.hash);
    match next {
        Some(pod) => look_at(pod, best.copied(), wanted, &mut decision),
        None if !right_spec => match wanted.retry_at.filter(|at| *at > wanted.now) {
            Some(at) => decision.look_again = Some(until(at, wanted.now)),
            None => decision.steps.push(Step::StartBeside { poll: false }),
        },
        None if settled && wanted.poll_at.is_some_and(|at| at <= wanted.now) => {
            decision.steps.push(Step::StartBeside { poll: true });
        }
        None => {}
    }
    if best.is_none() && decision.complaint.is_none() {
        // Whoever looks wants to know what is wrong with the pod that should answer.
        let trouble = serving.iter().filter(|pod| !decision.served || pod.hash == wanted.hash);
        let mut trouble = trouble.filter_map(|pod| Some(format!("pod {}: {}", pod.name, pod.failed.as_ref()?)));
        decision.complaint = trouble.next_back().map(Complaint::registry);
    }
    let expects = next.is_some() || best.is_none();
    if expects && decision.look_again.is_none_or(|again| again > LOOK_AGAIN) {
        decision.look_again = Some(LOOK_AGAIN);
    }
    decision
}

/// Decides about the pod beside the one that answers.
fn look_at(pod: &Pod, best: Option<&Pod>, wanted: &Wanted<'_>, decision: &mut Decision) {
    let late = left(pod.created, START, wanted.now).is_zero() && !pod.ready;
    if pod.failed.is_some() || pod.dead || late {
        let why = pod.failed.as_ref().or(pod.why_not.as_ref()).map_or("it has ended", String::as_str);
        decision.complaint = Some(Complaint::registry(format!("update pod {}: {why}", pod.name)));
        decision.outcome = Some(Outcome::Failed);
        decision.steps.push(Step::Delete { name: pod.name.clone(), grace: 1 });
    } else if pod.ready {
        // What is not known is no difference.
        let differs =
            |best: &Pod| best.image_id.as_ref().zip(pod.image_id.as_ref()).is_some_and(|(old, new)| old != new);
        decision.outcome = Some(Outcome::Done);
        decision.steps.push(match best.is_none_or(differs) {
            true => Step::Promote(pod.name.clone()),
            false => Step::Delete { name: pod.name.clone(), grace: 1 },
        });
    }
}

/// Returns what is left of a duration that began at some time.
fn left(since: Timestamp, duration: Duration, now: Timestamp) -> Duration {
    let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    duration.saturating_sub(passed)
}

/// Returns how long it is until a time.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
