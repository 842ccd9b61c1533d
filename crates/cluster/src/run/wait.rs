//! Waits for the kubelet and OLM, and reports what blocks them.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::pod;
use crate::diagnosis::{self, ObjectProblem};
use crate::request::{ObjectName, Requests};
use crate::views::{
    CatalogSource, CatalogStatus, ClusterServiceVersion, Deployment, Event, InstallPlan, Job, Named, PodView,
    Subscription, View,
};
use crate::watch::Watch;
use crate::{Error, ResourceKind};

/// Maximum number of events to show per object.
const EVENTS_SHOWN: usize = 3;
/// How long a CSV may be failed before that is final.
const FAILED_FOR: Duration = Duration::from_secs(8);
/// How long OLM may take to complete an InstallPlan whose operator is installed.
const PLAN_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum lag of OLM's caches.
const CACHE_LAG: Duration = Duration::from_secs(30);
/// The label of the objects that OLM creates to unpack a bundle.
const UNPACK_LABEL: &str = "operatorframework.io/bundle-unpack-ref";

/// Waits until the registry pod runs; returns its address.
pub(crate) async fn for_pod(requests: &Requests<'_>, pod: &ObjectName) -> Result<String, Error> {
    let failed = |cause: String| {
        let name = &pod.name;
        Error::refused(format!(
            "registry pod did not become ready: error waiting for registry pod {name} to run: {cause}"
        ))
    };
    let mut watch = Watch::objects(requests, &[pod]);
    loop {
        let there: PodView = requests.read(pod).await?.ok_or_else(|| failed("it was deleted".into()))?;
        let status = &there.status;
        if status.phase == "Running" && !status.pod_ip.is_empty() {
            requests.watcher.state(&pod.to_string(), "");
            return Ok(status.pod_ip.clone());
        }
        let problem = diagnosis::pod(&there);
        let phase = if status.phase.is_empty() { "Pending" } else { status.phase.as_str() };
        let state = problem.as_ref().map_or(phase, |problem| problem.text.as_str());
        requests.watcher.state(&pod.to_string(), state);
        if requests.is_over() || problem.as_ref().is_some_and(ObjectProblem::is_final) {
            let problem = problem.unwrap_or_else(|| ObjectProblem::waiting(format!("it is {phase}")));
            return Err(failed(explain_pod(requests, pod, &there, &problem).await));
        }
        watch.changed().await;
    }
}

/// Returns the full explanation of a pod's problem: its state, its events, the end of its log, and what to do.
async fn explain_pod(requests: &Requests<'_>, pod: &ObjectName, there: &PodView, problem: &ObjectProblem) -> String {
    let mut text = problem.text.clone();
    text += &events(requests, pod, &problem.text).await;
    if let Some(container) = &problem.container
        && let Some(log) = requests.log(pod, container).await
    {
        text += &format!("\n  the end of its log:\n    {}", log.replace('\n', "\n    "));
    }
    if diagnosis::could_not_start(there)
        && let Some(advice) = pod::advice(there)
    {
        text += &format!("\n  help: {advice}");
    }
    text
}

/// Returns the last warning events of an object that `shown` does not contain, one per line.
async fn events(requests: &Requests<'_>, object: &ObjectName, shown: &str) -> String {
    let short = requests.diagnosis();
    let fields = format!("involvedObject.kind={},involvedObject.name={}", object.kind.kind, object.name);
    let found: Vec<Event> = match short.list(&object.namespace, &ListParams::default().fields(&fields)).await {
        Ok(found) => found,
        Err(error) => return unchecked(&error),
    };
    let mut texts: Vec<String> = Vec::new();
    for text in found.iter().filter_map(diagnosis::event) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let last = &texts[texts.len().saturating_sub(EVENTS_SHOWN)..];
    last.iter().filter(|text| !shown.contains(*text)).map(|text| format!("\n  event: {text}")).collect()
}

/// Returns the line that replaces a part of an explanation: without it, an unread cause would seem not to exist.
pub(crate) fn unchecked(error: &Error) -> String {
    format!("\n  cannot check: {error}")
}

/// The objects to read while waiting for OLM.
pub(crate) struct WaitContext<'a> {
    pub(crate) subscription: &'a ObjectName,
    pub(crate) catalog_source: &'a ObjectName,
    pub(crate) pod: &'a ObjectName,
    pub(crate) bundle_image: &'a str,
}

/// Waits until OLM has created an InstallPlan other than `previous` for a Subscription; returns its name.
pub(crate) async fn for_install_plan(
    requests: &Requests<'_>,
    context: &WaitContext<'_>,
    previous: Option<&str>,
) -> Result<String, Error> {
    let name = &context.subscription.name;
    let failed =
        |cause: String| Error::refused(format!("install plan is not available for the subscription {name}: {cause}"));
    let mut watch = Watch::objects(requests, &[context.subscription, context.pod]);
    loop {
        let there: Subscription =
            requests.read(context.subscription).await?.ok_or_else(|| failed("it was deleted".into()))?;
        if let Some(plan) = there.status.install_plan()
            && Some(plan) != previous
        {
            requests.watcher.state(&context.subscription.to_string(), "");
            return Ok(plan.to_owned());
        }
        let problem = diagnosis::subscription(&there);
        let waiting = "waiting for an install plan";
        let state = problem.as_ref().map_or(waiting, |problem| problem.text.as_str());
        requests.watcher.state(&context.subscription.to_string(), state);
        // A registry that crashes after its start will never serve.
        let pod: Option<PodView> = requests.read(context.pod).await?;
        if let Some(pod) = pod
            && let Some(crash) = diagnosis::pod(&pod).filter(ObjectProblem::is_final)
        {
            let why = explain_pod(requests, context.pod, &pod, &crash).await;
            return Err(failed(format!("registry pod {} does not serve: {why}", context.pod.name)));
        }
        if requests.is_over() {
            return Err(failed(why_no_plan(requests, context, &there).await));
        }
        watch.changed().await;
    }
}

/// Finds the root cause of a missing InstallPlan.
async fn why_no_plan(requests: &Requests<'_>, context: &WaitContext<'_>, subscription: &Subscription) -> String {
    let requests = &requests.diagnosis();
    let mut unread = String::new();
    match requests.read(context.pod).await {
        Ok(pod) => {
            if let Some((pod, problem)) = pod.and_then(|pod| diagnosis::pod(&pod).map(|problem| (pod, problem))) {
                let why = explain_pod(requests, context.pod, &pod, &problem).await;
                return format!("registry pod {} does not serve: {why}", context.pod.name);
            }
        }
        Err(error) => unread += &unchecked(&error),
    }
    match unpack_problem(requests, context).await {
        Ok(Some(why)) => return why + &unread,
        Ok(None) => {}
        Err(error) => unread += &unchecked(&error),
    }
    if let Some(problem) = diagnosis::subscription(subscription) {
        return problem.text + &unread;
    }
    let source = match requests.read::<CatalogSource>(context.catalog_source).await {
        Ok(source) => source,
        Err(error) => {
            unread += &unchecked(&error);
            None
        }
    };
    let why = match source.as_ref().map(|source| (source, diagnosis::catalog_source(source))) {
        Some((_, Some(problem))) => format!("catalog source {}: {}", context.catalog_source.name, problem.text),
        Some((source, None)) if source.status == CatalogStatus::default() => {
            "OLM has not reported on the catalog source: does its catalog operator run?".to_owned()
        }
        _ => "OLM reports no reason; check the log of its catalog operator".to_owned(),
    };
    why + &unread
}

/// Returns why OLM cannot unpack the bundle.
async fn unpack_problem(requests: &Requests<'_>, context: &WaitContext<'_>) -> Result<Option<String>, Error> {
    let digest = Sha256::digest(context.bundle_image.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let selector = ListParams::default().labels(&format!("{UNPACK_LABEL}={}", &hex[..63]));
    let namespace = &context.catalog_source.namespace;
    for pod in requests.list::<PodView>(namespace, &selector).await? {
        if let Some(problem) = diagnosis::pod(&pod) {
            let name = pod.object_name();
            let why = explain_pod(requests, &name, &pod, &problem).await;
            return Ok(Some(format!("the cluster cannot unpack the bundle image {}: {why}", context.bundle_image)));
        }
    }
    for job in requests.list::<Job>(namespace, &selector).await? {
        if let Some(problem) = diagnosis::job(&job) {
            let name = job.object_name();
            let events = events(requests, &name, "").await;
            let why = format!("the job {} that unpacks the bundle failed: {}{events}", name.name, problem.text);
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// Returns the other versions that an InstallPlan installs.
pub(crate) fn others(plan: &InstallPlan, csv: &str) -> Vec<String> {
    plan.spec.cluster_service_version_names.iter().filter(|name| *name != csv).cloned().collect()
}

/// Approves an InstallPlan.
pub(crate) async fn approve(requests: &Requests<'_>, plan: &ObjectName) -> Result<(), Error> {
    let approved = requests.update(plan, |plan: &mut InstallPlan| plan.spec.approved = Some(true)).await;
    approved.map(|_| ()).map_err(|error| match error {
        Error::Deleted { .. } => Error::refused(format!("error getting install plan: {error}")),
        error => error,
    })
}

/// Waits until OLM has installed a CSV.
pub(crate) async fn for_csv(requests: &Requests<'_>, csv: &ObjectName, plan: &ObjectName) -> Result<(), Error> {
    let shown = format!("{}/{}", csv.namespace, csv.name);
    let watcher = requests.watcher;
    watcher.done(&format!("Waiting for ClusterServiceVersion \"{shown}\" to reach 'Succeeded' phase"));
    let (mut shown_phase, mut failed) = (None, None);
    let mut watch = Watch::objects(requests, &[csv, plan]);
    loop {
        let there: Option<ClusterServiceVersion> = requests.read(csv).await?;
        let phase = there.as_ref().map(|there| there.status.phase.clone());
        if shown_phase.as_ref() != Some(&phase) {
            match &phase {
                None => watcher.done(&format!("  Waiting for ClusterServiceVersion \"{shown}\" to appear")),
                Some(phase) if phase.is_empty() => {}
                Some(phase) => watcher.done(&format!("  Found ClusterServiceVersion \"{shown}\" phase: {phase}")),
            }
            shown_phase = Some(phase.clone());
        }
        if phase.as_deref() == Some("Succeeded") {
            watcher.state(&csv.to_string(), "");
            return Ok(());
        }
        let problem = match &there {
            Some(there) => diagnosis::csv(there),
            None => requests.read(plan).await?.as_ref().and_then(diagnosis::install_plan),
        };
        if let Some(problem) = &problem {
            watcher.state(&csv.to_string(), problem.text.lines().next().unwrap_or_default());
        }
        let permanent = problem.as_ref().is_some_and(ObjectProblem::is_final);
        failed = if permanent { failed.or_else(|| Some(Instant::now())) } else { None };
        // OLM resumes a failed CSV when its requirements are met after all, as happens in upgrades.
        let recovers = there.is_some() && failed.is_some_and(|since| since.elapsed() < FAILED_FOR);
        if (permanent && !recovers) || requests.is_over() {
            let unknown = || "OLM reports no reason; check the log of its catalog operator".to_owned();
            let mut text = problem.map_or_else(unknown, |problem| problem.text);
            if let Some(there) = &there {
                text += &deployments(requests, csv, there).await;
            }
            return Err(Error::refused(format!("error waiting for CSV to install: {text}")));
        }
        match failed {
            // Nothing may change any more; then the deadline ends the wait.
            Some(since) => {
                let _ = tokio::time::timeout_at(since + FAILED_FOR, watch.changed()).await;
            }
            None => watch.changed().await,
        }
    }
}

/// Waits briefly until OLM has completed an InstallPlan; returns whether it was completed long ago. Until then OLM
/// recreates deleted objects. OLM does not execute a plan without an approval.
pub(crate) async fn for_plan(requests: &Requests<'_>, plan: &ObjectName) -> Result<bool, Error> {
    let end = Instant::now() + PLAN_TIMEOUT;
    let mut watch = Watch::objects(requests, &[plan]);
    loop {
        let there: Option<InstallPlan> = requests.read(plan).await?;
        if there.as_ref().is_some_and(|there| there.spec.approved == Some(false)) {
            return Ok(true);
        }
        let phase = there.as_ref().map(|there| there.status.phase.as_str());
        if matches!(phase, None | Some("Complete" | "Failed")) {
            return Ok(there.as_ref().is_none_or(is_long_done));
        }
        if requests.is_over() || tokio::time::timeout_at(end, watch.changed()).await.is_err() {
            return Ok(false);
        }
    }
}

/// Returns whether OLM has known for long that a plan is complete. Its caches lag behind: it may process a plan that
/// has just become `Complete` a second time.
pub(crate) fn is_long_done(plan: &InstallPlan) -> bool {
    let times = plan.status.conditions.iter().filter_map(|one| one.last_transition_time.parse::<Timestamp>().ok());
    let age = |last: Timestamp| Timestamp::now().duration_since(last).as_secs();
    times.max().is_some_and(|last| age(last) > CACHE_LAG.as_secs() as i64)
}

/// Returns the problems of the deployments of a CSV.
async fn deployments(requests: &Requests<'_>, csv: &ObjectName, there: &ClusterServiceVersion) -> String {
    let requests = &requests.diagnosis();
    let mut text = String::new();
    for Named { name } in &there.spec.install.spec.deployments {
        let deployment = ObjectName::new(ResourceKind::DEPLOYMENT, &csv.namespace, name);
        text += &match requests.read(&deployment).await {
            Ok(found) => explain_deployment(requests, &deployment, found.as_ref()).await.unwrap_or_default(),
            Err(error) => unchecked(&error),
        };
    }
    text
}

/// Returns the full explanation of a deployment's problem and its pods', one per line; `None` if it is available.
pub(crate) async fn explain_deployment(
    requests: &Requests<'_>,
    deployment: &ObjectName,
    found: Option<&Deployment>,
) -> Option<String> {
    let why = diagnosis::deployment(&deployment.name, found)?;
    let mut text = format!("\n  {why}");
    let selector = found.map(diagnosis::selector).filter(|selector| !selector.is_empty());
    let Some(selector) = selector else { return Some(text) };
    let selector = ListParams::default().labels(&selector);
    let pods: Vec<PodView> = match requests.list(&deployment.namespace, &selector).await {
        Ok(pods) => pods,
        Err(error) => return Some(text + &unchecked(&error)),
    };
    for pod in pods {
        if let Some(problem) = diagnosis::pod(&pod) {
            let name = pod.object_name();
            let full = explain_pod(requests, &name, &pod, &problem).await;
            text += &format!("\n  pod {}: {}", name.name, full.replace('\n', "\n  "));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake;
    use crate::watcher::NoReports;

    #[tokio::test]
    async fn an_explanation_names_what_cannot_be_checked() {
        let cluster = fake::cluster(|_, path| match path.ends_with("/pods") {
            true => fake::failure(403, "pods are forbidden"),
            false => fake::failure(404, "not found"),
        });
        let requests = Requests::within(&cluster, &NoReports, Duration::from_secs(5));
        let object = |kind| ObjectName::new(kind, "ns", "a");
        let (source, pod) = (object(ResourceKind::CATALOG_SOURCE), object(ResourceKind::POD));
        let subscription = object(ResourceKind::SUBSCRIPTION);
        let waits =
            WaitContext { subscription: &subscription, catalog_source: &source, pod: &pod, bundle_image: "r.test/a" };
        insta::assert_snapshot!(why_no_plan(&requests, &waits, &Subscription::default()).await, @"
        OLM reports no reason; check the log of its catalog operator
          cannot check: listing pods in namespace ns: pods are forbidden
        ");
        let selector = json!({"matchLabels": {"app": "a"}});
        let deployment = crate::views::decode(json!({"spec": {"selector": selector}})).unwrap();
        let why = explain_deployment(&requests, &object(ResourceKind::DEPLOYMENT), Some(&deployment)).await.unwrap();
        assert!(why.ends_with("cannot check: listing pods in namespace ns: pods are forbidden"), "{why}");
    }
}
