//! Explains the state of objects: why they are not ready.

use crate::views::{
    CatalogSource, ClusterServiceVersion, Condition, ContainerState, ContainerStatus, CsvRequirement, CsvStatus,
    Deployment, Event, InstallPlan, Job, PodStatus, PodView, Subscription, condition,
};

/// Why an object is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectProblem {
    /// The explanation.
    pub(crate) text: String,
    /// Whether waiting may help.
    pub(crate) outlook: Outlook,
    /// The container whose log may explain more.
    pub(crate) container: Option<String>,
}

/// Whether an object that is not ready may become ready, from the best outlook to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outlook {
    /// It may become ready without help.
    MayRecover,
    /// Its node retries, so it becomes ready once somebody fixes the cause elsewhere. A run waits for that until its
    /// deadline; a catalog that another pod serves does not.
    AfterRetries,
    /// Only another object can become ready.
    Final,
}

impl ObjectProblem {
    pub(crate) fn waiting(text: impl Into<String>) -> ObjectProblem {
        ObjectProblem { text: text.into(), outlook: Outlook::MayRecover, container: None }
    }

    fn permanent(text: impl Into<String>) -> ObjectProblem {
        ObjectProblem { text: text.into(), outlook: Outlook::Final, container: None }
    }

    /// Returns whether waiting is useless.
    pub(crate) fn is_final(&self) -> bool {
        self.outlook == Outlook::Final
    }
}

/// Container states that never end.
const FINAL: [&str; 3] = ["InvalidImageName", "ErrImageNeverPull", "CrashLoopBackOff"];
/// Container states that end when a registry has the image, or the cluster an object.
const RETRIED: [&str; 2] = ["ImagePullBackOff", "CreateContainerConfigError"];
/// Container states of images that cannot be pulled.
const PULL_FAILURES: [&str; 4] = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];
/// Container states that are normal.
const NORMAL: [&str; 3] = ["ContainerCreating", "PodInitializing", ""];

/// Container states, current or last, of programs that the node could not start.
const START_FAILURES: [&str; 4] = ["RunContainerError", "CreateContainerError", "StartError", "ContainerCannotRun"];

/// Returns whether the node could not start the program of a container: the image does not have it.
pub(crate) fn could_not_start(pod: &PodView) -> bool {
    let failed = |reason: &str| START_FAILURES.contains(&reason);
    let ended = |state: &ContainerState| state.terminated.as_ref().is_some_and(|ended| failed(&ended.reason));
    pod.status.container_statuses.iter().any(|status| {
        let waiting = status.state.waiting.as_ref().is_some_and(|waiting| failed(&waiting.reason));
        waiting || ended(&status.state) || ended(&status.last_state)
    })
}

/// Joins a reason and a message.
fn join_reason(reason: &str, message: &str) -> String {
    match (reason.trim(), message.trim()) {
        ("", "") => "no reason given".into(),
        (reason, "") => reason.into(),
        ("", message) => message.into(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

fn explained(condition: &Condition) -> String {
    join_reason(&condition.reason, &condition.message)
}

/// Returns why a pod does not run.
pub(crate) fn pod(pod: &PodView) -> Option<ObjectProblem> {
    let status = &pod.status;
    if status.phase == "Failed" {
        let why = join_reason(&status.reason, &status.message);
        let mut problem = container(status).unwrap_or_else(|| ObjectProblem::permanent(format!("it failed: {why}")));
        problem.outlook = Outlook::Final;
        return Some(problem);
    }
    if let Some(problem) = container(status) {
        return Some(problem);
    }
    let unscheduled = condition(&status.conditions, "PodScheduled").filter(|condition| condition.is_false())?;
    Some(ObjectProblem::waiting(format!("not scheduled: {}", explained(unscheduled))))
}

/// Returns the problem of the container with the worst outlook: its current one, or else its last.
fn container(pod: &PodStatus) -> Option<ObjectProblem> {
    let statuses = || pod.init_container_statuses.iter().chain(&pod.container_statuses);
    let earlier = |status: &ContainerStatus| {
        // A container that is ready again has recovered.
        let unwell = !status.ready && status.state.terminated.is_none();
        unwell.then(|| ended_problem(status, &status.last_state)).flatten()
    };
    let worst = |a: ObjectProblem, b: ObjectProblem| if b.outlook > a.outlook { b } else { a };
    statuses().filter_map(one_container).reduce(worst).or_else(|| statuses().find_map(earlier))
}

fn ended_problem(status: &ContainerStatus, state: &ContainerState) -> Option<ObjectProblem> {
    let (name, how) = (&status.name, ended(state)?);
    Some(ObjectProblem { container: Some(name.clone()), ..ObjectProblem::waiting(format!("container {name} {how}")) })
}

fn one_container(status: &ContainerStatus) -> Option<ObjectProblem> {
    let name = &status.name;
    let Some(waiting) = status.state.waiting.as_ref().filter(|waiting| !NORMAL.contains(&&*waiting.reason)) else {
        return ended_problem(status, &status.state);
    };
    let ended = ended(&status.last_state).map(|how| format!("; it {how}")).unwrap_or_default();
    let (reason, message) = (waiting.reason.as_str(), &waiting.message);
    let why = match PULL_FAILURES.contains(&reason) {
        true => format!("image {} cannot be pulled ({reason}): {message}", status.image),
        false => join_reason(reason, message),
    };
    Some(ObjectProblem {
        text: format!("container {name}: {why}{ended}"),
        outlook: match reason {
            _ if FINAL.contains(&reason) => Outlook::Final,
            _ if RETRIED.contains(&reason) => Outlook::AfterRetries,
            _ => Outlook::MayRecover,
        },
        container: (reason == "CrashLoopBackOff").then(|| name.clone()),
    })
}

/// Returns how a container ended, if it failed.
fn ended(state: &ContainerState) -> Option<String> {
    let ended = state.terminated.as_ref()?;
    let code = ended.exit_code;
    if code == 0 {
        return None;
    }
    let why = match (ended.reason.as_str(), ended.message.trim()) {
        ("Error" | "", "") => String::new(),
        (reason, message) => format!(" ({})", join_reason(reason, message)),
    };
    Some(format!("ended with code {code}{why}"))
}

/// Returns why OLM creates no InstallPlan for a Subscription, preferring the root cause.
pub(crate) fn subscription(subscription: &Subscription) -> Option<ObjectProblem> {
    const CONDITIONS: [(&str, &str); 5] = [
        ("BundleUnpackFailed", "the bundle could not be unpacked"),
        ("ResolutionFailed", "the dependencies could not be resolved"),
        ("InstallPlanFailed", "the install plan failed"),
        ("InstallPlanMissing", "the install plan is missing"),
        ("CatalogSourcesUnhealthy", "a catalog source is unhealthy"),
    ];
    CONDITIONS.iter().find_map(|(kind, words)| {
        let condition = condition(&subscription.status.conditions, kind).filter(|condition| condition.is_true())?;
        Some(ObjectProblem::waiting(format!("{words} ({kind}): {}", explained(condition))))
    })
}

/// Returns the problem of a CatalogSource.
pub(crate) fn catalog_source(source: &CatalogSource) -> Option<ObjectProblem> {
    let status = &source.status;
    if !status.reason.is_empty() {
        return Some(ObjectProblem::waiting(join_reason(&status.reason, &status.message)));
    }
    let connection = &status.connection_state;
    match connection.last_observed_state.as_str() {
        "" | "READY" | "IDLE" => None,
        state => {
            let address = &connection.address;
            Some(ObjectProblem::waiting(format!("OLM is not connected to it: {state}, address {address}")))
        }
    }
}

/// Returns why an InstallPlan failed, or what it waits for.
pub(crate) fn install_plan(plan: &InstallPlan) -> Option<ObjectProblem> {
    let status = &plan.status;
    let installed = condition(&status.conditions, "Installed").filter(|condition| condition.is_false());
    let why = installed.map_or_else(|| status.message.clone(), explained);
    if status.phase == "Failed" {
        return Some(ObjectProblem::permanent(format!("install plan failed: {}", join_reason("", &why))));
    }
    let mut lookups = status.bundle_lookups.iter().flat_map(|lookup| &lookup.conditions);
    match lookups.find(|one| one.kind == "BundleLookupFailed" && one.is_true()) {
        Some(one) => Some(ObjectProblem::waiting(format!("bundle: {}", explained(one)))),
        None if !why.is_empty() => Some(ObjectProblem::waiting(why)),
        None => None,
    }
}

/// Returns why a job failed; `None` if it has not.
pub(crate) fn job(job: &Job) -> Option<ObjectProblem> {
    let failed = condition(&job.status.conditions, "Failed").filter(|condition| condition.is_true())?;
    Some(ObjectProblem::permanent(explained(failed)))
}

/// Returns why a CSV does not succeed: its message and its unmet requirements.
pub(crate) fn csv(csv: &ClusterServiceVersion) -> Option<ObjectProblem> {
    let CsvStatus { phase, reason, message, requirement_status } = &csv.status;
    let mut text = match phase.as_str() {
        "Succeeded" => return None,
        "Failed" => format!("csv failed: reason: {reason:?}, message: {message:?}"),
        "" => "OLM has not reported on it yet".to_owned(),
        phase => format!("phase {phase}: {}", join_reason(reason, message)),
    };
    for missing in requirement_status.iter().filter_map(requirement_missing) {
        text += "\n  ";
        text += &missing;
    }
    Some(if phase == "Failed" { ObjectProblem::permanent(text) } else { ObjectProblem::waiting(text) })
}

/// Returns the message for an unmet requirement of a CSV.
fn requirement_missing(requirement: &CsvRequirement) -> Option<String> {
    let CsvRequirement { kind, name, status, message, dependents } = requirement;
    if matches!(status.as_str(), "Present" | "DeploymentAvailable" | "") {
        return None;
    }
    let message = if message.is_empty() { String::new() } else { format!(", {message}") };
    let rules: Vec<String> = dependents
        .iter()
        .filter(|one| one.status != "Satisfied")
        .map(|one| format!("\n    {} {}: {}", one.kind, one.status, one.message))
        .collect();
    Some(format!("{kind} {name}: {status}{message}{}", rules.concat()))
}

/// Returns why a deployment is not available.
pub(crate) fn deployment(name: &str, deployment: Option<&Deployment>) -> Option<String> {
    let Some(deployment) = deployment else { return Some(format!("deployment {name} does not exist")) };
    let conditions = &deployment.status.conditions;
    let available = condition(conditions, "Available");
    if available.is_some_and(Condition::is_true) {
        return None;
    }
    let failing = condition(conditions, "ReplicaFailure").filter(|condition| condition.is_true());
    let why = failing.or(available).map_or_else(|| "no condition yet".into(), explained);
    Some(format!("deployment {name} is not available: {why}"))
}

/// Returns the pod selector of a deployment.
pub(crate) fn selector(deployment: &Deployment) -> String {
    let labels = deployment.spec.selector.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

/// Returns the message of a warning event.
pub(crate) fn event(event: &Event) -> Option<String> {
    (event.kind == "Warning").then(|| join_reason(&event.reason, &event.message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::views::{View, decode};

    fn view<K: View>(object: &serde_json::Value) -> K {
        decode(object.clone()).unwrap()
    }

    #[test]
    fn waiting_containers_are_explained() {
        let pulling = json!({"status": {"phase": "Pending", "containerStatuses": [
            {"name": "a", "state": {"waiting": {"reason": "ContainerCreating"}}},
            {"name": "b", "image": "r.test/x", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}},
        ]}});
        let problem = pod(&view(&pulling)).unwrap();
        assert_eq!(problem.text, "container b: image r.test/x cannot be pulled (ImagePullBackOff): not found");
        assert_eq!(problem.outlook, Outlook::AfterRetries);
        let crashing = json!({"status": {"phase": "Running", "containerStatuses": [{
            "name": "a",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": {"exitCode": 2, "reason": "Error"}},
        }]}});
        let problem = pod(&view(&crashing)).unwrap();
        assert_eq!(problem.text, "container a: CrashLoopBackOff: back-off 10s; it ended with code 2");
        assert!(problem.is_final() && problem.container.as_deref() == Some("a"));
        let fine = json!({"status": {"phase": "Running", "initContainerStatuses": [
            {"name": "i", "state": {"terminated": {"exitCode": 0}}}], "containerStatuses": [
            {"name": "a", "state": {"running": {}}}]}});
        assert_eq!(pod(&view(&fine)), None);
        let nowhere = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]}});
        assert_eq!(pod(&view(&nowhere)).unwrap().text, "not scheduled: Unschedulable: 0/1 nodes");
    }

    #[test]
    fn earlier_failures_of_a_running_container_are_ignored() {
        let overcome = json!({"name": "a", "ready": true, "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}});
        let fine = json!({"status": {"phase": "Running", "containerStatuses": [overcome]}});
        assert_eq!(pod(&view(&fine)), None);
        let failing = json!({"name": "b", "image": "r.test/x", "ready": false,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}});
        let mut unwell = overcome.clone();
        unwell["ready"] = json!(false);
        let both = json!({"status": {"phase": "Running", "containerStatuses": [unwell, failing]}});
        assert!(pod(&view(&both)).unwrap().text.starts_with("container b: image r.test/x cannot be pulled"));
        let broken = json!({"name": "c", "image": "r.test/y", "state": {"waiting": {"reason": "InvalidImageName"}}});
        let worse = json!({"status": {"phase": "Pending", "containerStatuses": [failing, broken]}});
        assert!(pod(&view(&worse)).unwrap().text.starts_with("container c: "));
        let alone = json!({"status": {"phase": "Running", "containerStatuses": [unwell]}});
        assert_eq!(pod(&view(&alone)).unwrap().text, "container a ended with code 137 (OOMKilled)");
    }

    #[test]
    fn the_cause_of_a_failed_subscription_comes_before_its_consequences() {
        let both = json!({"status": {"conditions": [
            {"type": "CatalogSourcesUnhealthy", "status": "True", "message": "x"},
            {"type": "ResolutionFailed", "status": "True", "reason": "ConstraintsNotSatisfiable", "message": "no foo"},
            {"type": "BundleUnpackFailed", "status": "False"},
        ]}});
        assert_eq!(
            subscription(&view(&both)).unwrap().text,
            "the dependencies could not be resolved (ResolutionFailed): ConstraintsNotSatisfiable: no foo"
        );
    }

    #[test]
    fn unmet_requirements_of_a_csv_are_reported() {
        let pending = json!({"status": {
        "phase": "Pending", "reason": "RequirementsNotMet", "message": "one or more requirements couldn't be found",
        "requirementStatus": [
            {"kind": "CustomResourceDefinition", "name": "foos.example.com", "status": "Present"},
            {"kind": "CustomResourceDefinition", "name": "bars.example.com", "status": "NotPresent", "message": "CRD is not present"},
            {"kind": "ServiceAccount", "name": "foo", "status": "PresentNotSatisfied", "dependents": [
                {"kind": "PolicyRule", "status": "Satisfied", "message": "fine"},
                {"kind": "PolicyRule", "status": "NotSatisfied", "message": "namespaced rule:{\"verbs\":[\"get\"]}"}]},
        ]}});
        insta::assert_snapshot!(csv(&view(&pending)).unwrap().text);
        let failed = json!({"status": {"phase": "Failed", "reason": "ComponentUnhealthy", "message": "gone"}});
        let problem = csv(&view(&failed)).unwrap();
        assert_eq!(problem.text, "csv failed: reason: \"ComponentUnhealthy\", message: \"gone\"");
        assert!(problem.is_final());
    }

    #[test]
    fn unavailable_deployments_are_explained() {
        assert_eq!(deployment("a", None).unwrap(), "deployment a does not exist");
        let failing = json!({"status": {"conditions": [
            {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "x"},
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "forbidden"}]}});
        assert_eq!(
            deployment("a", Some(&view(&failing))).unwrap(),
            "deployment a is not available: FailedCreate: forbidden"
        );
    }
}
