//! Waiting for what others do: the kubelet, and OLM. What keeps them from it is reported in words.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::request::{Named, Requests};
use crate::watch::Watch;
use crate::words::{self, Trouble};
use crate::{Error, Kind};

/// So many events of an object are shown.
const EVENTS: usize = 3;
/// How long a version may have failed before that is final.
const FAILED: Duration = Duration::from_secs(8);
/// How long OLM may take to be done with an InstallPlan whose operator is there.
const PLAN: Duration = Duration::from_secs(15);
/// How far the copies that OLM works from may lag behind.
const LAG: Duration = Duration::from_secs(30);
/// The label of everything that OLM makes to unpack a bundle.
const UNPACK_LABEL: &str = "operatorframework.io/bundle-unpack-ref";

/// Waits until the registry pod runs; returns its address.
pub(crate) async fn for_pod(requests: &Requests<'_>, pod: &Named) -> Result<String, Error> {
    let failed = |cause: String| {
        let name = &pod.name;
        Error::message(format!(
            "registry pod did not become ready: error waiting for registry pod {name} to run: {cause}"
        ))
    };
    let mut watch = Watch::objects(requests, &[pod]);
    loop {
        let there = requests.get(pod).await?.ok_or_else(|| failed("somebody deleted it".into()))?;
        let (phase, ip) = (&there["status"]["phase"], there["status"]["podIP"].as_str().unwrap_or_default());
        if phase == "Running" && !ip.is_empty() {
            requests.watcher.state(&pod.to_string(), "");
            return Ok(ip.to_owned());
        }
        let trouble = words::pod(&there);
        let phase = phase.as_str().unwrap_or("Pending");
        let state = trouble.as_ref().map_or(phase, |trouble| trouble.text.as_str());
        requests.watcher.state(&pod.to_string(), state);
        if requests.is_over() || trouble.as_ref().is_some_and(|trouble| trouble.hopeless) {
            let trouble =
                trouble.unwrap_or(Trouble { text: format!("it is {phase}"), hopeless: false, container: None });
            return Err(failed(pod_in_full(requests, pod, &trouble).await));
        }
        watch.changed().await;
    }
}

/// Returns everything about the trouble of a pod: what it says itself, its events, and the end of its log.
async fn pod_in_full(requests: &Requests<'_>, pod: &Named, trouble: &Trouble) -> String {
    let mut text = trouble.text.clone();
    for event in events(requests, pod).await {
        if !text.contains(&event) {
            text += &format!("\n  event: {event}");
        }
    }
    if let Some(container) = &trouble.container
        && let Some(log) = requests.log(pod, container).await
    {
        text += &format!("\n  the end of its log:\n    {}", log.replace('\n', "\n    "));
    }
    text
}

/// Returns the last warnings about an object.
async fn events(requests: &Requests<'_>, object: &Named) -> Vec<String> {
    let short = requests.last_look();
    let fields = format!("involvedObject.kind={},involvedObject.name={}", object.kind.kind, object.name);
    let found = short.list(Kind::EVENT, &object.namespace, &ListParams::default().fields(&fields)).await;
    let mut texts: Vec<String> = Vec::new();
    for text in found.unwrap_or_default().iter().filter_map(words::event) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let skipped = texts.len().saturating_sub(EVENTS);
    texts.split_off(skipped)
}

/// What is read while OLM is waited for.
pub(crate) struct Scene<'a> {
    pub(crate) subscription: &'a Named,
    pub(crate) catalog_source: &'a Named,
    pub(crate) pod: &'a Named,
    pub(crate) bundle_image: &'a str,
}

/// Waits until OLM has made an InstallPlan other than `previous` for a Subscription; returns its name.
pub(crate) async fn for_install_plan(
    requests: &Requests<'_>,
    scene: &Scene<'_>,
    previous: Option<&str>,
) -> Result<String, Error> {
    let name = &scene.subscription.name;
    let failed =
        |cause: String| Error::message(format!("install plan is not available for the subscription {name}: {cause}"));
    let mut watch = Watch::objects(requests, &[scene.subscription, scene.pod]);
    loop {
        let there = requests.get(scene.subscription).await?.ok_or_else(|| failed("somebody deleted it".into()))?;
        if let Some(plan) = there["status"]["installPlanRef"]["name"].as_str()
            && Some(plan) != previous
        {
            requests.watcher.state(&scene.subscription.to_string(), "");
            return Ok(plan.to_owned());
        }
        let trouble = words::subscription(&there);
        let waiting = "waiting for an install plan";
        let state = trouble.as_ref().map_or(waiting, |trouble| trouble.text.as_str());
        requests.watcher.state(&scene.subscription.to_string(), state);
        // A registry that crashes after it was started is never going to answer.
        let pod = requests.get(scene.pod).await?;
        let crash = pod.as_ref().and_then(words::pod).filter(|trouble| trouble.hopeless);
        if let Some(crash) = crash {
            let why = pod_in_full(requests, scene.pod, &crash).await;
            return Err(failed(format!("registry pod {} does not serve: {why}", scene.pod.name)));
        }
        if requests.is_over() {
            return Err(failed(why_no_plan(requests, scene, &there).await));
        }
        watch.changed().await;
    }
}

/// Finds the first real cause why there is no InstallPlan.
async fn why_no_plan(requests: &Requests<'_>, scene: &Scene<'_>, subscription: &Value) -> String {
    let requests = &requests.last_look();
    if let Ok(Some(pod)) = requests.get(scene.pod).await
        && let Some(trouble) = words::pod(&pod)
    {
        let why = pod_in_full(requests, scene.pod, &trouble).await;
        return format!("registry pod {} does not serve: {why}", scene.pod.name);
    }
    if let Some(why) = unpacking(requests, scene).await {
        return why;
    }
    if let Some(trouble) = words::subscription(subscription) {
        return trouble.text;
    }
    match requests.get(scene.catalog_source).await {
        Ok(Some(source)) => match words::catalog_source(&source) {
            Some(trouble) => format!("catalog source {}: {}", scene.catalog_source.name, trouble.text),
            None if source["status"].is_null() => {
                "OLM has not reported on the catalog source: does its catalog operator run?".into()
            }
            None => "OLM has not said why; its catalog operator's log may".into(),
        },
        _ => "OLM has not said why; its catalog operator's log may".into(),
    }
}

/// Returns what keeps OLM from unpacking the bundle.
async fn unpacking(requests: &Requests<'_>, scene: &Scene<'_>) -> Option<String> {
    let digest = Sha256::digest(scene.bundle_image.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let selector = ListParams::default().labels(&format!("{UNPACK_LABEL}={}", &hex[..63]));
    let namespace = &scene.catalog_source.namespace;
    for pod in requests.list(Kind::POD, namespace, &selector).await.unwrap_or_default() {
        if let Some(trouble) = words::pod(&pod) {
            let name = Named::of(Kind::POD, &pod);
            let why = pod_in_full(requests, &name, &trouble).await;
            return Some(format!("the cluster cannot unpack the bundle image {}: {why}", scene.bundle_image));
        }
    }
    for job in requests.list(Kind::JOB, namespace, &selector).await.unwrap_or_default() {
        if let Some(trouble) = words::job(&job) {
            let name = Named::of(Kind::JOB, &job);
            let events = events(requests, &name).await;
            let events: String = events.iter().map(|event| format!("\n  event: {event}")).collect();
            return Some(format!("the job {} that unpacks the bundle failed: {}{events}", name.name, trouble.text));
        }
    }
    None
}

/// Returns the other versions that an InstallPlan installs.
pub(crate) fn others(plan: &Value, csv: &str) -> Vec<String> {
    let names = plan["spec"]["clusterServiceVersionNames"].as_array().map(Vec::as_slice).unwrap_or_default();
    names.iter().filter_map(Value::as_str).filter(|name| *name != csv).map(str::to_owned).collect()
}

/// Approves an InstallPlan.
pub(crate) async fn approve(requests: &Requests<'_>, plan: &Named) -> Result<(), Error> {
    let approved = requests.change(plan, |plan| plan["spec"]["approved"] = json!(true)).await;
    approved.map(|_| ()).map_err(|error| match error {
        Error::Gone { .. } => Error::message(format!("error getting install plan: {error}")),
        error => error,
    })
}

/// Waits until OLM has installed a CSV.
pub(crate) async fn for_csv(requests: &Requests<'_>, csv: &Named, plan: &Named) -> Result<(), Error> {
    let shown = format!("{}/{}", csv.namespace, csv.name);
    let watcher = requests.watcher;
    watcher.done(&format!("Waiting for ClusterServiceVersion \"{shown}\" to reach 'Succeeded' phase"));
    let (mut shown_phase, mut failed) = (None, None);
    let mut watch = Watch::objects(requests, &[csv, plan]);
    loop {
        let there = requests.get(csv).await?;
        let phase = there.as_ref().map(|there| there["status"]["phase"].as_str().unwrap_or_default().to_owned());
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
        let trouble = match &there {
            Some(there) => words::csv(there),
            None => requests.get(plan).await?.as_ref().and_then(words::install_plan),
        };
        if let Some(trouble) = &trouble {
            watcher.state(&csv.to_string(), trouble.text.lines().next().unwrap_or_default());
        }
        let hopeless = trouble.as_ref().is_some_and(|trouble| trouble.hopeless);
        failed = if hopeless { failed.or_else(|| Some(Instant::now())) } else { None };
        // OLM takes a version back from there when its requirements are met after all, as happens in upgrades.
        let recovers = there.is_some() && failed.is_some_and(|since| since.elapsed() < FAILED);
        if (hopeless && !recovers) || requests.is_over() {
            let unknown = || "OLM has not said why; its catalog operator's log may".to_owned();
            let mut text = trouble.map_or_else(unknown, |trouble| trouble.text);
            if let Some(there) = &there {
                text += &deployments(requests, csv, there).await;
            }
            return Err(Error::message(format!("error waiting for CSV to install: {text}")));
        }
        match failed {
            // Nothing may happen any more; then the time decides.
            Some(since) => {
                let _ = tokio::time::timeout_at(since + FAILED, watch.changed()).await;
            }
            None => watch.changed().await,
        }
    }
}

/// Waits a while until OLM is done with an InstallPlan, and returns whether it has been for long: until then it makes
/// again what somebody deletes.
pub(crate) async fn for_plan(requests: &Requests<'_>, plan: &Named) -> Result<bool, Error> {
    let end = Instant::now() + PLAN;
    let mut watch = Watch::objects(requests, &[plan]);
    loop {
        let there = requests.get(plan).await?;
        let phase = there.as_ref().map(|there| there["status"]["phase"].as_str().unwrap_or_default());
        if matches!(phase, None | Some("Complete" | "Failed")) {
            return Ok(there.as_ref().is_none_or(is_long_done));
        }
        if requests.is_over() || tokio::time::timeout_at(end, watch.changed()).await.is_err() {
            return Ok(false);
        }
    }
}

/// Returns whether OLM has known for long that a plan is done. It works from copies that lag behind: a plan that has
/// just become `Complete` may be carried out a second time.
fn is_long_done(plan: &Value) -> bool {
    let conditions = plan["status"]["conditions"].as_array().into_iter().flatten();
    let times = conditions.filter_map(|one| one["lastTransitionTime"].as_str()?.parse::<Timestamp>().ok());
    let age = |last: Timestamp| Timestamp::now().duration_since(last).as_secs();
    times.max().is_some_and(|last| age(last) > LAG.as_secs() as i64)
}

/// Returns what is wrong with the deployments of a CSV.
async fn deployments(requests: &Requests<'_>, csv: &Named, there: &Value) -> String {
    let requests = &requests.last_look();
    let mut text = String::new();
    for name in words::deployments(there) {
        let deployment = Named::new(Kind::DEPLOYMENT, &csv.namespace, &name);
        let Ok(found) = requests.get(&deployment).await else { continue };
        text += &deployment_in_full(requests, &deployment, found.as_ref()).await.unwrap_or_default();
    }
    text
}

/// Returns everything about the trouble of a deployment and its pods, each in a line; nothing if it is available.
pub(crate) async fn deployment_in_full(
    requests: &Requests<'_>,
    deployment: &Named,
    found: Option<&Value>,
) -> Option<String> {
    let why = words::deployment(&deployment.name, found)?;
    let mut text = format!("\n  {why}");
    let selector = found.map(words::selector).filter(|selector| !selector.is_empty());
    let Some(selector) = selector else { return Some(text) };
    let selector = ListParams::default().labels(&selector);
    for pod in requests.list(Kind::POD, &deployment.namespace, &selector).await.unwrap_or_default() {
        if let Some(trouble) = words::pod(&pod) {
            let name = Named::of(Kind::POD, &pod);
            let full = pod_in_full(requests, &name, &trouble).await;
            text += &format!("\n  pod {}: {}", name.name, full.replace('\n', "\n  "));
        }
    }
    Some(text)
}
