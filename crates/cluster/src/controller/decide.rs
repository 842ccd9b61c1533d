//! Decides the next steps for the pods of a catalog, from observed state only.
//!
//! The serving pod stays until another one is ready and selected. Nothing is remembered except when a failed start
//! may be retried: a new leader observes the same state and makes the same decision.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::objects::POD_HASH;
use crate::catalog::{PodRole, PodState, is_ready};
use crate::catalog_source::Complaint;
use crate::diagnosis::{self, Outlook};
use crate::views::{Condition, PodView, annotation, condition, label};

/// The annotation with the time when a pod was promoted.
pub(crate) const PROMOTED: &str = "olm.catalogSource/promotedAt";
/// How long a pod may take to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// A pod that ends within this time counts as not started.
const EARLY_END: Duration = Duration::from_secs(60);
/// When to check pods again that should change soon.
const RECHECK: Duration = Duration::from_secs(30);

/// The relevant state of a pod.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) name: String,
    role: PodRole,
    hash: String,
    ready: bool,
    deleting: bool,
    /// It will never serve again.
    dead: bool,
    /// The reason why it failed to start.
    failed: Option<String>,
    why_not: Option<String>,
    image_id: Option<String>,
    created: Timestamp,
    promoted: Option<Timestamp>,
}

impl Pod {
    /// Reads a pod; `None` if it does not belong to the catalog.
    pub(crate) fn of(object: &PodView, catalog: &str) -> Option<Pod> {
        let state = PodState::of(object, catalog)?;
        let phase = object.status.phase.as_str();
        let disrupted = condition(&object.status.conditions, "DisruptionTarget").is_some_and(Condition::is_true);
        let why_not = state.why_not.clone();
        let stuck = diagnosis::pod(object).is_some_and(|problem| problem.outlook > Outlook::MayRecover);
        let failed = stuck || phase == "Unknown";
        Some(Pod {
            name: state.name,
            role: state.role,
            hash: label(&object.metadata, POD_HASH).unwrap_or_default().to_owned(),
            ready: is_ready(object),
            deleting: object.metadata.deletion_timestamp.is_some(),
            dead: matches!(phase, "Failed" | "Succeeded") || (disrupted && !is_ready(object)),
            failed: if failed { why_not.clone() } else { None },
            why_not,
            image_id: state.image_id,
            created: object.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            promoted: annotation(&object.metadata, PROMOTED).parse().ok(),
        })
    }

    /// Returns since when the pod is the serving one.
    fn since(&self) -> Timestamp {
        self.promoted.unwrap_or(self.created)
    }
}

/// The desired state and the current time.
#[derive(Debug, Clone)]
pub(crate) struct Desired<'a> {
    /// The hash of the desired pod spec.
    pub(crate) hash: &'a str,
    pub(crate) now: Timestamp,
    /// When to poll the image next, if polling is enabled.
    pub(crate) poll_at: Option<Timestamp>,
    /// How long the old pod stays after a promotion.
    pub(crate) overlap: Duration,
    /// When a failed start may be retried.
    pub(crate) retry_at: Option<Timestamp>,
}

/// A step to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PodAction {
    /// Start a pod that is selected immediately, because there is none.
    Start,
    /// Start a pod next to the serving one, for a poll or a changed spec.
    StartBeside { poll: bool },
    /// Make the service select a pod.
    Promote(String),
    /// Delete a pod.
    Delete { name: String, grace: u32 },
}

/// The steps to take and the state to report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodDecision {
    pub(crate) steps: Vec<PodAction>,
    pub(crate) complaint: Option<Complaint>,
    /// The outcome of a pod next to the serving one.
    pub(crate) outcome: Option<PodOutcome>,
    pub(crate) recheck_in: Option<Duration>,
    /// Whether a pod is ready.
    pub(crate) served: bool,
}

/// The outcome of a pod next to the serving one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodOutcome {
    Failed,
    Done,
    /// There was no serving pod, and this one ended early.
    NotStarted,
}

pub(crate) fn decide(pods: &[Pod], desired: &Desired<'_>) -> PodDecision {
    let mut decision = PodDecision::default();
    let delete = |pod: &Pod, grace: u32| PodAction::Delete { name: pod.name.clone(), grace };
    let alive = || pods.iter().filter(|pod| !pod.deleting);
    decision.steps.extend(alive().filter(|pod| pod.role == PodRole::Serving && pod.dead).map(|pod| delete(pod, 0)));
    let serving: Vec<&Pod> = alive().filter(|pod| pod.role == PodRole::Serving && !pod.dead).collect();
    let mut beside: Vec<&Pod> = alive().filter(|pod| pod.role == PodRole::Update).collect();
    // Pods with another spec, and all but the newest, are useless.
    beside.sort_by_key(|pod| (pod.hash == desired.hash, pod.created, pod.name.clone()));
    let next = beside.pop_if(|pod| pod.hash == desired.hash);
    decision.steps.extend(beside.iter().map(|pod| delete(pod, 1)));
    decision.served = serving.iter().any(|pod| pod.ready);

    if serving.is_empty() {
        // A pod that ended early will most likely do so again; one that has served for long is replaced.
        let young = |pod: &&Pod| {
            pod.role == PodRole::Serving && pod.dead && !left(pod.created, EARLY_END, desired.now).is_zero()
        };
        let dead = alive().filter(young).max_by_key(|pod| pod.created);
        if let Some(dead) = dead {
            let why = dead.why_not.as_deref().unwrap_or("it has ended");
            decision.complaint = Some(Complaint::registry(format!("pod {}: {why}", dead.name)));
            decision.outcome = Some(PodOutcome::NotStarted);
        }
        decision.recheck_in = Some(RECHECK);
        match (next, desired.retry_at.filter(|at| *at > desired.now)) {
            (Some(pod), _) => decision.steps.push(PodAction::Promote(pod.name.clone())),
            // A pod that ends immediately would restart in a loop: back off before the next start.
            (None, None) if dead.is_none() => decision.steps.push(PodAction::Start),
            (None, None) => {}
            (None, Some(at)) => decision.recheck_in = Some(until(at, desired.now).min(RECHECK)),
        }
        return decision;
    }
    let best = serving.iter().filter(|pod| pod.hash == desired.hash && pod.ready).max_by_key(|pod| pod.since());
    let mut settled = true;
    if let Some(best) = best {
        // A newer pod that is not ready yet, or only briefly not ready, may still become ready.
        let permanent = |pod: &Pod| pod.failed.is_some() || left(pod.since(), START_TIMEOUT, desired.now).is_zero();
        let is_old = |pod: &Pod| pod.name != best.name && (pod.since() <= best.since() || permanent(pod));
        let old: Vec<&&Pod> = serving.iter().filter(|pod| is_old(pod)).collect();
        let stays = best.promoted.map_or(Duration::ZERO, |promoted| left(promoted, desired.overlap, desired.now));
        if !old.is_empty() && stays.is_zero() {
            decision.steps.extend(old.iter().map(|pod| delete(pod, 1)));
        } else if !old.is_empty() {
            decision.recheck_in = Some(stays);
            settled = false;
        }
    }
    let right_spec = serving.iter().any(|pod| pod.hash == desired.hash);
    match next {
        Some(pod) => decide_update(pod, best.copied(), desired, &mut decision),
        None if !right_spec => match desired.retry_at.filter(|at| *at > desired.now) {
            Some(at) => decision.recheck_in = Some(until(at, desired.now)),
            None => decision.steps.push(PodAction::StartBeside { poll: false }),
        },
        None if settled && desired.poll_at.is_some_and(|at| at <= desired.now) => {
            decision.steps.push(PodAction::StartBeside { poll: true });
        }
        None => {}
    }
    if best.is_none() && decision.complaint.is_none() {
        // The status should explain the problem of the serving pod.
        let problem = serving.iter().filter(|pod| !decision.served || pod.hash == desired.hash);
        let mut problem = problem.filter_map(|pod| Some(format!("pod {}: {}", pod.name, pod.failed.as_ref()?)));
        decision.complaint = problem.next_back().map(Complaint::registry);
    }
    let expects = next.is_some() || best.is_none();
    if expects && decision.recheck_in.is_none_or(|again| again > RECHECK) {
        decision.recheck_in = Some(RECHECK);
    }
    decision
}

/// Decides about the pod next to the serving one.
fn decide_update(pod: &Pod, best: Option<&Pod>, desired: &Desired<'_>, decision: &mut PodDecision) {
    let late = left(pod.created, START_TIMEOUT, desired.now).is_zero() && !pod.ready;
    if pod.failed.is_some() || pod.dead || late {
        let why = pod.failed.as_ref().or(pod.why_not.as_ref()).map_or("it has ended", String::as_str);
        decision.complaint = Some(Complaint::registry(format!("update pod {}: {why}", pod.name)));
        decision.outcome = Some(PodOutcome::Failed);
        decision.steps.push(PodAction::Delete { name: pod.name.clone(), grace: 1 });
    } else if pod.ready {
        // An unknown image counts as unchanged.
        let differs =
            |best: &Pod| best.image_id.as_ref().zip(pod.image_id.as_ref()).is_some_and(|(old, new)| old != new);
        decision.outcome = Some(PodOutcome::Done);
        decision.steps.push(match best.is_none_or(differs) {
            true => PodAction::Promote(pod.name.clone()),
            false => PodAction::Delete { name: pod.name.clone(), grace: 1 },
        });
    }
}

/// Returns the rest of a duration that started at `since`.
fn left(since: Timestamp, duration: Duration, now: Timestamp) -> Duration {
    let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    duration.saturating_sub(passed)
}

/// Returns the time until `at`.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
