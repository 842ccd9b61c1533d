//! Waits for OLM v1, and reports why it does not finish.

use kube::api::ListParams;

use super::objects::owned_by;
use crate::request::{ObjectName, Requests};
use crate::run::wait::{explain_deployment, unchecked};
use crate::views::{Certificate, ClusterExtension, Condition, Deployment, Stored, View, condition};
use crate::watch::Watch;
use crate::{Error, ResourceKind, cluster_catalog, diagnosis};

/// The reasons of operator-controller that are permanent failures.
const PERMANENT: [&str; 3] = ["Blocked", "InvalidConfiguration", "ProgressDeadlineExceeded"];

/// Waits until catalogd serves the catalog of a run.
pub(super) async fn for_catalog(requests: &Requests<'_>, name: &str) -> Result<(), Error> {
    let late = |why: String| Error::refused(format!("ClusterCatalog {name} is not served: {why}"));
    let state = cluster_catalog::wait(requests, name, late).await?;
    requests.watcher.done(&match state.image_in_use {
        Some(image) => format!("ClusterCatalog {name} is served from {image}"),
        None => format!("ClusterCatalog {name} is served"),
    });
    Ok(())
}

/// Waits until OLM v1 has applied a bundle.
pub(super) async fn for_bundle(requests: &Requests<'_>, extension: &ObjectName, bundle: &str) -> Result<(), Error> {
    let failed = |why: String| Error::refused(format!("{extension} does not install {bundle:?}: {why}"));
    let mut watch = Watch::objects(requests, &[extension]);
    loop {
        let there: ClusterExtension = requests.read(extension).await?.ok_or_else(|| failed("it was deleted".into()))?;
        let state = ExtensionConditions::of(&there);
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
struct ExtensionConditions<'a> {
    installed: Option<&'a Condition>,
    progressing: Option<&'a Condition>,
    bundle: &'a str,
}

impl ExtensionConditions<'_> {
    fn of(there: &ClusterExtension) -> ExtensionConditions<'_> {
        let generation = there.metadata.generation();
        let is_current = |one: &&Condition| one.observed_generation.unwrap_or(generation) >= generation;
        let condition = |kind: &str| condition(&there.status.conditions, kind).filter(is_current);
        let bundle = there.status.install.as_ref().map_or("", |install| install.bundle.name.as_str());
        ExtensionConditions { installed: condition("Installed"), progressing: condition("Progressing"), bundle }
    }

    fn has_installed(&self, bundle: &str) -> bool {
        let done = self.progressing.is_some_and(|one| one.reason == "Succeeded");
        self.bundle == bundle && self.installed.is_some_and(Condition::is_true) && done
    }

    fn is_permanent(&self) -> bool {
        self.progressing.is_some_and(|one| PERMANENT.contains(&one.reason.as_str()))
    }

    fn problem(&self) -> String {
        match self.progressing.or(self.installed) {
            None => "operator-controller has not reported on it: does it run?".into(),
            Some(one) => format!("{}: {}", one.reason, one.message),
        }
    }
}

/// Returns whether OLM v1 has applied a bundle, according to the ClusterExtension.
pub(super) fn has_bundle(extension: &ClusterExtension, bundle: &str) -> bool {
    ExtensionConditions::of(extension).bundle == bundle
}

/// Waits until all deployments of a ClusterExtension are available, which OLM v1 does not.
pub(super) async fn for_deployments(
    requests: &Requests<'_>,
    extension: &ObjectName,
    namespace: &str,
) -> Result<(), Error> {
    // The ClusterExtension is cluster-scoped; its deployments are in this namespace.
    let place = ObjectName::new(ResourceKind::CLUSTER_EXTENSION, namespace, &extension.name);
    let labels = owned_by(&extension.name);
    let mut watch = Watch::with_labels(requests, &place, ResourceKind::DEPLOYMENT, std::slice::from_ref(&labels));
    let selector = ListParams::default().labels(&labels);
    loop {
        let deployments: Vec<Deployment> = requests.list(namespace, &selector).await?;
        let mut waiting = Vec::new();
        for one in &deployments {
            let name = one.object_name();
            let why = diagnosis::deployment(&name.name, Some(one));
            requests.watcher.state(&name.to_string(), why.as_deref().unwrap_or_default());
            if why.is_some() {
                waiting.push(one);
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        if requests.is_over() {
            let requests = &requests.diagnosis();
            let mut text = certificates(requests, namespace, &selector).await;
            for one in waiting {
                text += &explain_deployment(requests, &one.object_name(), Some(one)).await.unwrap_or_default();
            }
            return Err(Error::refused(format!("{extension} is installed, but its operator does not run:{text}")));
        }
        watch.changed().await;
    }
}

/// Returns the certificates that are not ready, one per line.
async fn certificates(requests: &Requests<'_>, namespace: &str, selector: &ListParams) -> String {
    let found: Vec<Certificate> = match requests.list(namespace, selector).await {
        Ok(found) => found,
        // The cluster has no cert-manager.
        Err(error) if error.is_missing() => Vec::new(),
        Err(error) => return unchecked(&error),
    };
    let not_ready = |one: &Certificate| {
        let ready = condition(&one.status.conditions, "Ready");
        if ready.is_some_and(Condition::is_true) {
            return None;
        }
        let message = ready.map_or("cert-manager has not reported on it", |ready| ready.message.as_str());
        Some(format!("\n  {} is not ready: {message}", one.object_name()))
    };
    found.iter().filter_map(not_ready).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::views::decode;

    #[test]
    fn a_bundle_is_installed_when_the_current_generation_of_the_extension_is() {
        let extension = |seen: i64, reason: &str, bundle: &str| {
            decode(json!({"metadata": {"generation": 2}, "status": {
                "install": {"bundle": {"name": bundle}},
                "conditions": [
                    {"type": "Installed", "status": "True", "reason": "Succeeded", "observedGeneration": seen},
                    {"type": "Progressing", "status": "True", "reason": reason, "message": "m", "observedGeneration": seen},
                ],
            }}))
            .unwrap()
        };
        assert!(ExtensionConditions::of(&extension(2, "Succeeded", "foo.v2")).has_installed("foo.v2"));
        assert!(!ExtensionConditions::of(&extension(1, "Succeeded", "foo.v2")).has_installed("foo.v2"));
        assert!(!ExtensionConditions::of(&extension(2, "Succeeded", "foo.v1")).has_installed("foo.v2"));
        let retrying = extension(2, "Retrying", "foo.v1");
        assert!(!ExtensionConditions::of(&retrying).is_permanent());
        assert_eq!(ExtensionConditions::of(&retrying).problem(), "Retrying: m");
        assert!(ExtensionConditions::of(&extension(2, "InvalidConfiguration", "")).is_permanent());
        assert!(!ExtensionConditions::of(&extension(1, "Blocked", "")).is_permanent());
        assert!(has_bundle(&retrying, "foo.v1"));
    }
}
