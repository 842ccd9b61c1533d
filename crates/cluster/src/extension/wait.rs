//! Waits for OLM v1, and reports why it does not finish.

use kube::api::ListParams;
use serde_json::Value;

use super::objects::owned_by;
use crate::request::{ObjectName, Requests};
use crate::run::wait::explain_deployment;
use crate::watch::Watch;
use crate::{Error, Kind, cluster_catalog, words};

/// The reasons of operator-controller that are permanent failures.
const PERMANENT: [&str; 3] = ["Blocked", "InvalidConfiguration", "ProgressDeadlineExceeded"];

/// Waits until catalogd serves the catalog of a run.
pub(super) async fn for_catalog(requests: &Requests<'_>, name: &str) -> Result<(), Error> {
    let late = |why: String| Error::refused(format!("ClusterCatalog {name} is not served: {why}"));
    let state = cluster_catalog::wait(requests, name, late).await?;
    let image = state.image_in_use.unwrap_or_default();
    requests.watcher.done(&format!("ClusterCatalog {name} is served from {image}"));
    Ok(())
}

/// Waits until OLM v1 has applied a bundle.
pub(super) async fn for_bundle(requests: &Requests<'_>, extension: &ObjectName, bundle: &str) -> Result<(), Error> {
    let failed = |why: String| Error::refused(format!("{extension} does not install {bundle:?}: {why}"));
    let mut watch = Watch::objects(requests, &[extension]);
    loop {
        let there = requests.get(extension).await?.ok_or_else(|| failed("it was deleted".into()))?;
        let state = State::of(&there);
        if state.has_installed(bundle) {
            requests.watcher.state(&extension.to_string(), "");
            return Ok(());
        }
        let why = state.problem();
        let now = if state.progressing.is_some() { &why } else { "waiting for operator-controller" };
        requests.watcher.state(&extension.to_string(), now.lines().next().unwrap_or_default());
        if state.is_permanent() || requests.is_over() {
            return Err(failed(why));
        }
        watch.changed().await;
    }
}

/// The conditions of a ClusterExtension for its current generation.
struct State<'a> {
    installed: Option<&'a Value>,
    progressing: Option<&'a Value>,
    bundle: &'a str,
}

impl State<'_> {
    fn of(there: &Value) -> State<'_> {
        let generation = there["metadata"]["generation"].as_i64().unwrap_or_default();
        let conditions = there["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let condition = |kind: &str| {
            let one = conditions.iter().find(|one| one["type"] == kind)?;
            (one["observedGeneration"].as_i64().unwrap_or(generation) >= generation).then_some(one)
        };
        let bundle = there["status"]["install"]["bundle"]["name"].as_str().unwrap_or_default();
        State { installed: condition("Installed"), progressing: condition("Progressing"), bundle }
    }

    fn has_installed(&self, bundle: &str) -> bool {
        let holds = |condition: Option<&Value>| condition.is_some_and(|one| one["status"] == "True");
        let done = self.progressing.is_some_and(|one| one["reason"] == "Succeeded");
        self.bundle == bundle && holds(self.installed) && done
    }

    fn is_permanent(&self) -> bool {
        let reason = self.progressing.and_then(|one| one["reason"].as_str()).unwrap_or_default();
        PERMANENT.contains(&reason)
    }

    fn problem(&self) -> String {
        let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
        match self.progressing.or(self.installed) {
            None => "operator-controller has not reported on it: does it run?".into(),
            Some(one) => format!("{}: {}", text(one, "reason"), text(one, "message")),
        }
    }
}

/// Returns whether OLM v1 has applied a bundle, according to the ClusterExtension.
pub(super) fn has_bundle(extension: &Value, bundle: &str) -> bool {
    State::of(extension).bundle == bundle
}

/// Waits until all deployments of a ClusterExtension are available, which OLM v1 does not.
pub(super) async fn for_deployments(
    requests: &Requests<'_>,
    extension: &ObjectName,
    namespace: &str,
) -> Result<(), Error> {
    // The ClusterExtension is cluster-scoped; its deployments are in this namespace.
    let place = ObjectName::new(Kind::CLUSTER_EXTENSION, namespace, &extension.name);
    let labels = owned_by(&extension.name);
    let mut watch = Watch::with_labels(requests, &place, Kind::DEPLOYMENT, std::slice::from_ref(&labels));
    let selector = ListParams::default().labels(&labels);
    loop {
        let deployments = requests.list(Kind::DEPLOYMENT, namespace, &selector).await?;
        let named = |one: &Value| ObjectName::of(Kind::DEPLOYMENT, one);
        let waiting: Vec<&Value> =
            deployments.iter().filter(|one| words::deployment(&named(one).name, Some(one)).is_some()).collect();
        for one in &deployments {
            let why = words::deployment(&named(one).name, Some(one)).unwrap_or_default();
            requests.watcher.state(&named(one).to_string(), &why);
        }
        if waiting.is_empty() {
            return Ok(());
        }
        if requests.is_over() {
            let requests = &requests.diagnosis();
            let mut text = certificates(requests, namespace, &selector).await;
            for one in waiting {
                text += &explain_deployment(requests, &named(one), Some(one)).await.unwrap_or_default();
            }
            return Err(Error::refused(format!("{extension} is installed, but its operator does not run:{text}")));
        }
        watch.changed().await;
    }
}

/// Returns the certificates that are not ready, one per line.
async fn certificates(requests: &Requests<'_>, namespace: &str, selector: &ListParams) -> String {
    let found = requests.list(Kind::CERTIFICATE, namespace, selector).await.unwrap_or_default();
    let not_ready = |one: &Value| {
        let conditions = one["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
        if ready.is_some_and(|ready| ready["status"] == "True") {
            return None;
        }
        let message =
            ready.and_then(|ready| ready["message"].as_str()).unwrap_or("cert-manager has not reported on it");
        Some(format!("\n  {} is not ready: {message}", ObjectName::of(Kind::CERTIFICATE, one)))
    };
    found.iter().filter_map(not_ready).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bundle_is_installed_when_the_current_generation_of_the_extension_is() {
        let extension = |seen: i64, reason: &str, bundle: &str| {
            json!({"metadata": {"generation": 2}, "status": {
                "install": {"bundle": {"name": bundle}},
                "conditions": [
                    {"type": "Installed", "status": "True", "reason": "Succeeded", "observedGeneration": seen},
                    {"type": "Progressing", "status": "True", "reason": reason, "message": "m", "observedGeneration": seen},
                ],
            }})
        };
        assert!(State::of(&extension(2, "Succeeded", "foo.v2")).has_installed("foo.v2"));
        assert!(!State::of(&extension(1, "Succeeded", "foo.v2")).has_installed("foo.v2"));
        assert!(!State::of(&extension(2, "Succeeded", "foo.v1")).has_installed("foo.v2"));
        let retrying = extension(2, "Retrying", "foo.v1");
        assert!(!State::of(&retrying).is_permanent());
        assert_eq!(State::of(&retrying).problem(), "Retrying: m");
        assert!(State::of(&extension(2, "InvalidConfiguration", "")).is_permanent());
        assert!(!State::of(&extension(1, "Blocked", "")).is_permanent());
        assert!(has_bundle(&retrying, "foo.v1"));
    }
}
