//! Explains the state of objects: why they are not ready.

use serde_json::Value;

/// Why an object is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The explanation.
    pub(crate) text: String,
    /// Whether waiting is useless.
    pub(crate) permanent: bool,
    /// The container whose log may explain more.
    pub(crate) container: Option<String>,
}

impl Problem {
    fn waiting(text: impl Into<String>) -> Problem {
        Problem { text: text.into(), permanent: false, container: None }
    }

    fn permanent(text: impl Into<String>) -> Problem {
        Problem { text: text.into(), permanent: true, container: None }
    }
}

/// Container states that are permanent.
const PERMANENT: [&str; 3] = ["InvalidImageName", "ErrImageNeverPull", "CrashLoopBackOff"];
/// Container states of images that cannot be pulled.
const PULL_FAILURES: [&str; 4] = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];
/// Container states that are normal.
const NORMAL: [&str; 3] = ["ContainerCreating", "PodInitializing", ""];

/// Container states, current or last, of programs that the node could not start.
const START_FAILURES: [&str; 4] = ["RunContainerError", "CreateContainerError", "StartError", "ContainerCannotRun"];

/// Returns whether the node could not start the program of a container: the image does not have it.
pub(crate) fn could_not_start(pod: &Value) -> bool {
    let reasons = ["/state/waiting/reason", "/state/terminated/reason", "/lastState/terminated/reason"];
    let failed = |status: &Value| reasons.iter().any(|reason| START_FAILURES.contains(&at(status, reason)));
    list(pod, "/status/containerStatuses").iter().any(failed)
}

/// Returns the text at a path, or an empty one.
fn at<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    value.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
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

/// Returns why a pod does not run.
pub(crate) fn pod(pod: &Value) -> Option<Problem> {
    if at(pod, "/status/phase") == "Failed" {
        let why = join_reason(at(pod, "/status/reason"), at(pod, "/status/message"));
        let mut problem = container(pod).unwrap_or_else(|| Problem::permanent(format!("it failed: {why}")));
        problem.permanent = true;
        return Some(problem);
    }
    if let Some(problem) = container(pod) {
        return Some(problem);
    }
    let unscheduled = list(pod, "/status/conditions")
        .iter()
        .find(|condition| at(condition, "/type") == "PodScheduled" && at(condition, "/status") == "False")?;
    Some(Problem::waiting(format!(
        "not scheduled: {}",
        join_reason(at(unscheduled, "/reason"), at(unscheduled, "/message"))
    )))
}

/// Returns the problem of the first container that has one: its current one, or else its last.
fn container(pod: &Value) -> Option<Problem> {
    let statuses = || list(pod, "/status/initContainerStatuses").iter().chain(list(pod, "/status/containerStatuses"));
    let earlier = |status: &Value| {
        // A container that is ready again has recovered.
        let unwell = status["ready"] != true && status.pointer("/state/terminated").is_none();
        unwell.then(|| ended_problem(status, "/lastState/terminated")).flatten()
    };
    statuses().find_map(one_container).or_else(|| statuses().find_map(earlier))
}

fn ended_problem(status: &Value, path: &str) -> Option<Problem> {
    let (name, how) = (at(status, "/name"), ended(status, path)?);
    Some(Problem { text: format!("container {name} {how}"), permanent: false, container: Some(name.to_owned()) })
}

fn one_container(status: &Value) -> Option<Problem> {
    let name = at(status, "/name");
    let waiting = at(status, "/state/waiting/reason");
    if !NORMAL.contains(&waiting) {
        let ended = ended(status, "/lastState/terminated").map(|how| format!("; it {how}")).unwrap_or_default();
        let message = at(status, "/state/waiting/message");
        let why = match PULL_FAILURES.contains(&waiting) {
            true => format!("image {} cannot be pulled ({waiting}): {message}", at(status, "/image")),
            false => join_reason(waiting, message),
        };
        return Some(Problem {
            text: format!("container {name}: {why}{ended}"),
            permanent: PERMANENT.contains(&waiting),
            container: (waiting == "CrashLoopBackOff").then(|| name.to_owned()),
        });
    }
    ended_problem(status, "/state/terminated")
}

/// Returns how a container ended, if it failed.
fn ended(status: &Value, path: &str) -> Option<String> {
    let ended = status.pointer(path)?;
    let code = ended["exitCode"].as_i64().unwrap_or_default();
    if code == 0 {
        return None;
    }
    let why = match (at(ended, "/reason"), at(ended, "/message").trim()) {
        ("Error" | "", "") => String::new(),
        (reason, message) => format!(" ({})", join_reason(reason, message)),
    };
    Some(format!("ended with code {code}{why}"))
}

/// Returns the condition of this type, if it is true.
fn holds<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| at(condition, "/type") == kind && at(condition, "/status") == "True")
}

/// Returns why OLM creates no InstallPlan for a Subscription, preferring the root cause.
pub(crate) fn subscription(subscription: &Value) -> Option<Problem> {
    const CONDITIONS: [(&str, &str); 5] = [
        ("BundleUnpackFailed", "the bundle could not be unpacked"),
        ("ResolutionFailed", "the dependencies could not be resolved"),
        ("InstallPlanFailed", "the install plan failed"),
        ("InstallPlanMissing", "the install plan is missing"),
        ("CatalogSourcesUnhealthy", "a catalog source is unhealthy"),
    ];
    CONDITIONS.iter().find_map(|(kind, words)| {
        let condition = holds(subscription, kind)?;
        let why = join_reason(at(condition, "/reason"), at(condition, "/message"));
        Some(Problem::waiting(format!("{words} ({kind}): {why}")))
    })
}

/// Returns the problem of a CatalogSource.
pub(crate) fn catalog_source(source: &Value) -> Option<Problem> {
    let (reason, message) = (at(source, "/status/reason"), at(source, "/status/message"));
    if !reason.is_empty() {
        return Some(Problem::waiting(join_reason(reason, message)));
    }
    match at(source, "/status/connectionState/lastObservedState") {
        "" | "READY" | "IDLE" => None,
        state => {
            let address = at(source, "/status/connectionState/address");
            Some(Problem::waiting(format!("OLM is not connected to it: {state}, address {address}")))
        }
    }
}

/// Returns why an InstallPlan failed, or what it waits for.
pub(crate) fn install_plan(plan: &Value) -> Option<Problem> {
    let failed = at(plan, "/status/phase") == "Failed";
    let installed = list(plan, "/status/conditions")
        .iter()
        .find(|condition| at(condition, "/type") == "Installed" && at(condition, "/status") == "False");
    let why = match installed {
        Some(condition) => join_reason(at(condition, "/reason"), at(condition, "/message")),
        None => at(plan, "/status/message").to_owned(),
    };
    if failed {
        return Some(Problem::permanent(format!("install plan failed: {}", join_reason("", &why))));
    }
    let lookups = list(plan, "/status/bundleLookups").iter().flat_map(|lookup| list(lookup, "/conditions"));
    let lookup =
        lookups.into_iter().find(|one| at(one, "/type") == "BundleLookupFailed" && at(one, "/status") == "True");
    match lookup {
        Some(one) => {
            Some(Problem::waiting(format!("bundle: {}", join_reason(at(one, "/reason"), at(one, "/message")))))
        }
        None if !why.is_empty() => Some(Problem::waiting(why)),
        None => None,
    }
}

/// Returns why a job failed; `None` if it has not.
pub(crate) fn job(job: &Value) -> Option<Problem> {
    let failed = holds(job, "Failed")?;
    Some(Problem::permanent(join_reason(at(failed, "/reason"), at(failed, "/message"))))
}

/// Returns why a CSV does not succeed: its message and its unmet requirements.
pub(crate) fn csv(csv: &Value) -> Option<Problem> {
    let (phase, reason, message) = (at(csv, "/status/phase"), at(csv, "/status/reason"), at(csv, "/status/message"));
    if phase == "Succeeded" {
        return None;
    }
    let mut text = match phase {
        "Failed" => format!("csv failed: reason: {reason:?}, message: {message:?}"),
        "" => "OLM has not reported on it yet".to_owned(),
        phase => format!("phase {phase}: {}", join_reason(reason, message)),
    };
    for requirement in list(csv, "/status/requirementStatus") {
        if let Some(missing) = requirement_missing(requirement) {
            text += "\n  ";
            text += &missing;
        }
    }
    Some(Problem { text, permanent: phase == "Failed", container: None })
}

/// Returns the message for an unmet requirement of a CSV.
fn requirement_missing(requirement: &Value) -> Option<String> {
    let status = at(requirement, "/status");
    if matches!(status, "Present" | "DeploymentAvailable" | "") {
        return None;
    }
    let what = format!("{} {}: {status}", at(requirement, "/kind"), at(requirement, "/name"));
    let message = match at(requirement, "/message") {
        "" => String::new(),
        message => format!(", {message}"),
    };
    let rules: Vec<String> = list(requirement, "/dependents")
        .iter()
        .filter(|one| at(one, "/status") != "Satisfied")
        .map(|one| format!("\n    {} {}: {}", at(one, "/kind"), at(one, "/status"), at(one, "/message")))
        .collect();
    Some(format!("{what}{message}{}", rules.concat()))
}

/// Returns the deployment names of a CSV.
pub(crate) fn deployments(csv: &Value) -> Vec<String> {
    list(csv, "/spec/install/spec/deployments").iter().map(|one| at(one, "/name").to_owned()).collect()
}

/// Returns why a deployment is not available.
pub(crate) fn deployment(name: &str, deployment: Option<&Value>) -> Option<String> {
    let Some(deployment) = deployment else { return Some(format!("deployment {name} does not exist")) };
    let conditions = list(deployment, "/status/conditions");
    let available = conditions.iter().find(|one| at(one, "/type") == "Available");
    if available.is_some_and(|one| at(one, "/status") == "True") {
        return None;
    }
    let failing = conditions.iter().find(|one| at(one, "/type") == "ReplicaFailure" && at(one, "/status") == "True");
    let why = match failing.or(available) {
        Some(one) => join_reason(at(one, "/reason"), at(one, "/message")),
        None => "no condition yet".into(),
    };
    Some(format!("deployment {name} is not available: {why}"))
}

/// Returns the pod selector of a deployment.
pub(crate) fn selector(deployment: &Value) -> String {
    let labels = deployment.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    labels.collect::<Vec<_>>().join(",")
}

/// Returns the message of a warning event.
pub(crate) fn event(event: &Value) -> Option<String> {
    (at(event, "/type") == "Warning").then(|| join_reason(at(event, "/reason"), at(event, "/message")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn waiting_containers_are_explained() {
        let pulling = json!({"status": {"phase": "Pending", "containerStatuses": [
            {"name": "a", "state": {"waiting": {"reason": "ContainerCreating"}}},
            {"name": "b", "image": "r.test/x", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}},
        ]}});
        let problem = pod(&pulling).unwrap();
        assert_eq!(problem.text, "container b: image r.test/x cannot be pulled (ImagePullBackOff): not found");
        assert!(!problem.permanent);
        let crashing = json!({"status": {"phase": "Running", "containerStatuses": [{
            "name": "a",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": {"exitCode": 2, "reason": "Error"}},
        }]}});
        let problem = pod(&crashing).unwrap();
        assert_eq!(problem.text, "container a: CrashLoopBackOff: back-off 10s; it ended with code 2");
        assert!(problem.permanent && problem.container.as_deref() == Some("a"));
        let fine = json!({"status": {"phase": "Running", "initContainerStatuses": [
            {"name": "i", "state": {"terminated": {"exitCode": 0}}}], "containerStatuses": [
            {"name": "a", "state": {"running": {}}}]}});
        assert_eq!(pod(&fine), None);
        let nowhere = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]}});
        assert_eq!(pod(&nowhere).unwrap().text, "not scheduled: Unschedulable: 0/1 nodes");
    }

    #[test]
    fn earlier_failures_of_a_running_container_are_ignored() {
        let overcome = json!({"name": "a", "ready": true, "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}});
        let fine = json!({"status": {"phase": "Running", "containerStatuses": [overcome]}});
        assert_eq!(pod(&fine), None);
        let failing = json!({"name": "b", "image": "r.test/x", "ready": false,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}});
        let mut unwell = overcome.clone();
        unwell["ready"] = json!(false);
        let both = json!({"status": {"phase": "Running", "containerStatuses": [unwell, failing]}});
        assert!(pod(&both).unwrap().text.starts_with("container b: image r.test/x cannot be pulled"));
        let alone = json!({"status": {"phase": "Running", "containerStatuses": [unwell]}});
        assert_eq!(pod(&alone).unwrap().text, "container a ended with code 137 (OOMKilled)");
    }

    #[test]
    fn the_cause_of_a_failed_subscription_comes_before_its_consequences() {
        let both = json!({"status": {"conditions": [
            {"type": "CatalogSourcesUnhealthy", "status": "True", "message": "x"},
            {"type": "ResolutionFailed", "status": "True", "reason": "ConstraintsNotSatisfiable", "message": "no foo"},
            {"type": "BundleUnpackFailed", "status": "False"},
        ]}});
        assert_eq!(
            subscription(&both).unwrap().text,
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
        insta::assert_snapshot!(csv(&pending).unwrap().text);
        let failed = json!({"status": {"phase": "Failed", "reason": "ComponentUnhealthy", "message": "gone"}});
        let problem = csv(&failed).unwrap();
        assert_eq!(problem.text, "csv failed: reason: \"ComponentUnhealthy\", message: \"gone\"");
        assert!(problem.permanent);
    }

    #[test]
    fn unavailable_deployments_are_explained() {
        assert_eq!(deployment("a", None).unwrap(), "deployment a does not exist");
        let failing = json!({"status": {"conditions": [
            {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "x"},
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "forbidden"}]}});
        assert_eq!(deployment("a", Some(&failing)).unwrap(), "deployment a is not available: FailedCreate: forbidden");
    }
}
