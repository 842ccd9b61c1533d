//! ClusterCatalogs of OLM v1 for users: create, read and delete.

use std::time::{Duration, Instant};

use fbc::fault::{Class, Fault};
use kube::api::ListParams;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::apply::{self, TIMEOUT};
use crate::request::{ObjectName, Requests};
use crate::views::{
    ClusterCatalog, ClusterCatalogSpec, Condition, ImageSource, Rest, SourceImage, Stored, View, condition,
};
use crate::watch::Watch;
use crate::watcher::NoReports;
use crate::{Cluster, ClusterObject, Error, ResourceKind};

/// The label by which ClusterExtensions select a catalog; catalogd's webhook sets it, where installed.
pub(crate) const NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";
/// Maximum length of an image reference.
const REFERENCE_LENGTH: usize = 1000;

/// A ClusterCatalog to create or update.
#[derive(Debug, Clone, Default)]
pub struct ClusterCatalogPlan {
    /// Its name.
    pub name: String,
    /// The catalog image.
    pub image: String,
    /// The poll interval for a newer image, in minutes.
    pub poll_minutes: Option<u64>,
    /// The priority; higher values are preferred.
    pub priority: Option<i64>,
    /// Whether the catalog is set to unavailable.
    pub unavailable: bool,
}

/// Why a ClusterCatalog could never be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The reference names a repository only.
    #[error("image {0} has neither tag nor digest, which a ClusterCatalog needs")]
    NoVersion(String),
    /// The API server refuses longer references.
    #[error("the image has more than {REFERENCE_LENGTH} characters")]
    TooLong,
    /// A digest always means the same image.
    #[error("an image by digest never changes: leave --poll out, or name the image by tag")]
    NothingToPoll,
}

impl Fault for PlanError {
    fn class(&self) -> Class {
        Class::Usage
    }
}

impl ClusterCatalogPlan {
    /// Checks for values that the API server would reject or catalogd would never unpack.
    ///
    /// # Errors
    /// Returns the reason.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let by_digest = self.image.contains('@');
        let tagged = self.image.rsplit('/').next().is_some_and(|last| last.contains(':'));
        if !by_digest && !tagged {
            return Err(PlanError::NoVersion(self.image.clone()));
        }
        if self.image.len() > REFERENCE_LENGTH {
            return Err(PlanError::TooLong);
        }
        if by_digest && self.poll_minutes.is_some() {
            return Err(PlanError::NothingToPoll);
        }
        Ok(())
    }

    /// Returns the spec, with only the requested fields.
    pub(crate) fn spec(&self) -> ClusterCatalogSpec {
        let image =
            SourceImage { reference: self.image.clone(), poll_interval_minutes: self.poll_minutes, rest: Rest::new() };
        ClusterCatalogSpec {
            source: ImageSource { kind: "Image".to_owned(), image, rest: Rest::new() },
            priority: self.priority,
            availability_mode: if self.unavailable { "Unavailable".to_owned() } else { String::new() },
            rest: Rest::new(),
        }
    }

    /// Returns the object, with only the requested fields.
    pub(crate) fn object(&self) -> Value {
        json!({
            "apiVersion": ResourceKind::CLUSTER_CATALOG.api_version(),
            "kind": ResourceKind::CLUSTER_CATALOG.kind,
            "metadata": {"name": self.name, "labels": {NAME_LABEL: self.name}},
            "spec": self.spec(),
        })
    }
}

/// The state of a ClusterCatalog.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogState {
    /// Its name.
    pub name: String,
    /// The requested image.
    pub image: String,
    /// The image in use, by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_in_use: Option<String>,
    /// The priority; higher values are preferred.
    pub priority: i64,
    /// Whether it is set to available.
    pub available: bool,
    /// The poll interval for a newer image, in minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_minutes: Option<u64>,
    /// The URL that serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The time of the last unpack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_unpacked: Option<String>,
    /// The reason of the `Serving` condition: `Available`, `Unavailable`, `UserSpecifiedUnavailable`; empty until
    /// catalogd reports.
    pub serving: String,
    /// The reason of the `Progressing` condition: `Succeeded`, `Retrying`, `Blocked`; empty until catalogd reports.
    pub progressing: String,
    /// Why it is not served, in catalogd's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether both conditions are about the current generation.
    #[serde(skip)]
    current: bool,
}

impl ClusterCatalogState {
    fn of(catalog: ClusterCatalog) -> ClusterCatalogState {
        let ClusterCatalog { metadata, spec, status, .. } = catalog;
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        let now = metadata.generation();
        let [serving, progressing] =
            ["Serving", "Progressing"].map(|kind| condition(&status.conditions, kind).cloned().unwrap_or_default());
        let seen = |condition: &Condition| condition.observed_generation.unwrap_or(now) >= now;
        let current = seen(&serving) && seen(&progressing);
        let stuck = matches!(progressing.reason.as_str(), "Retrying" | "Blocked");
        ClusterCatalogState {
            name: metadata.name().to_owned(),
            image: spec.source.image.reference,
            image_in_use: status.resolved_source.and_then(|source| given(source.image.reference)),
            priority: spec.priority.unwrap_or_default(),
            available: matches!(spec.availability_mode.as_str(), "" | "Available"),
            poll_minutes: spec.source.image.poll_interval_minutes,
            address: status.urls.and_then(|urls| given(urls.base)),
            last_unpacked: given(status.last_unpacked),
            serving: serving.reason,
            message: condition(&status.conditions, "Progressing")
                .filter(|_| stuck)
                .map(|condition| condition.message.clone()),
            progressing: progressing.reason,
            current,
        }
    }

    /// Returns whether catalogd has reached the requested state.
    pub fn is_done(&self) -> bool {
        if !self.available {
            return self.current && self.serving == "UserSpecifiedUnavailable";
        }
        // An image by digest must be served with that digest.
        let digest = self.image.split_once('@').map(|(_, digest)| digest);
        let same = digest.is_none_or(|digest| self.image_in_use.as_deref().is_some_and(|used| used.ends_with(digest)));
        self.current && self.serving == "Available" && self.progressing == "Succeeded" && same
    }

    /// Returns why the catalog is not served, as far as known.
    pub fn problem(&self) -> String {
        match (&self.message, &*self.progressing) {
            (Some(message), reason) => format!("{reason}: {message}"),
            (None, "") => "catalogd has not reported on it: does it run?".into(),
            (None, _) => "catalogd has not unpacked it yet".into(),
        }
    }
}

fn what(name: &str) -> String {
    format!("ClusterCatalog {name}")
}

/// Creates or updates a ClusterCatalog: fields that an earlier call set and this one omits are removed.
///
/// # Errors
/// Fails on a timeout, or if another manager owns a field with a different value, unless `force` takes it over.
pub(crate) async fn apply_cluster_catalog(
    cluster: &Cluster,
    plan: &ClusterCatalogPlan,
    force: bool,
    deadline: Instant,
) -> Result<ClusterObject, Error> {
    let name = ObjectName::new(ResourceKind::CLUSTER_CATALOG, "", &plan.name);
    apply::apply(cluster, &name, &plan.object(), "OLM v1", force, deadline).await
}

/// Waits until catalogd has reached the requested state of a ClusterCatalog.
///
/// # Errors
/// Fails on a timeout or if catalogd is blocked permanently, with catalogd's message.
pub(crate) async fn wait_for_cluster_catalog(
    cluster: &Cluster,
    name: &str,
    timeout: Duration,
    deadline: Instant,
) -> Result<ClusterCatalogState, Error> {
    let requests = Requests::new(cluster, &NoReports, deadline);
    let late = |why: String| Error::Failed(format!("{} is not served after {timeout:?}: {why}", what(name)));
    wait(&requests, name, late).await
}

/// Waits until catalogd has reached the requested state; `late` builds the timeout error from the last message.
pub(crate) async fn wait(
    requests: &Requests<'_>,
    name: &str,
    late: impl Fn(String) -> Error,
) -> Result<ClusterCatalogState, Error> {
    let object = ObjectName::new(ResourceKind::CLUSTER_CATALOG, "", name);
    let mut watch = Watch::objects(requests, &[&object]);
    let mut last: Option<ClusterCatalogState> = None;
    loop {
        let state = match (read(requests, name).await, last) {
            // Whatever interrupted the last request, the last observed state is the reason.
            (Err(_), Some(last)) if requests.is_over() => last,
            (state, _) => state?,
        };
        if state.is_done() {
            requests.watcher.state(&object.to_string(), "");
            return Ok(state);
        }
        let why = state.problem();
        let now = if state.message.is_some() { &why } else { "waiting for catalogd" };
        requests.watcher.state(&object.to_string(), now);
        if state.current && state.progressing == "Blocked" {
            return Err(Error::Failed(format!("{object} is not served: {why}")));
        }
        if requests.is_over() {
            return Err(late(why));
        }
        last = Some(state);
        watch.changed().await;
    }
}

async fn read(requests: &Requests<'_>, name: &str) -> Result<ClusterCatalogState, Error> {
    let catalogs = requests.cluster.objects(ResourceKind::CLUSTER_CATALOG);
    let object = requests.retry(&what(name), |_| catalogs.get(name)).await?;
    Ok(ClusterCatalogState::of(ClusterCatalog::of(&object)?))
}

/// Reads the state of a ClusterCatalog.
///
/// # Errors
/// Fails if the ClusterCatalog does not exist, or the API server refuses or is unreachable.
pub(crate) async fn cluster_catalog_state(cluster: &Cluster, name: &str) -> Result<ClusterCatalogState, Error> {
    read(&Requests::within(cluster, &NoReports, TIMEOUT), name).await
}

/// Lists the ClusterCatalogs of a cluster by name.
///
/// # Errors
/// Fails if the cluster does not know the kind, or the API server refuses or is unreachable.
pub(crate) async fn list_cluster_catalogs(cluster: &Cluster) -> Result<Vec<ClusterCatalogState>, Error> {
    let catalogs = cluster.objects(ResourceKind::CLUSTER_CATALOG);
    let requests = Requests::within(cluster, &NoReports, TIMEOUT);
    let which = ListParams::default();
    let found = requests.retry("ClusterCatalogs", |_| catalogs.list(&which)).await?;
    let all = found.items.iter().map(|object| Ok(ClusterCatalogState::of(ClusterCatalog::of(object)?)));
    let mut all = all.collect::<Result<Vec<_>, Error>>()?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Deletes a ClusterCatalog; catalogd removes the unpacked content.
///
/// # Errors
/// Fails if the ClusterCatalog does not exist.
pub(crate) async fn delete_cluster_catalog(cluster: &Cluster, name: &str) -> Result<(), Error> {
    apply::delete(cluster, &ObjectName::new(ResourceKind::CLUSTER_CATALOG, "", name)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::decode;

    #[test]
    fn only_requested_fields_are_set() {
        let plan = ClusterCatalogPlan { name: "a".into(), image: "r.test/a:v1".into(), ..Default::default() };
        assert_eq!(plan.object()["spec"], json!({"source": {"type": "Image", "image": {"ref": "r.test/a:v1"}}}));
        let plan = ClusterCatalogPlan { poll_minutes: Some(10), priority: Some(-1), unavailable: true, ..plan };
        assert_eq!(
            plan.object()["spec"],
            json!({
                "source": {"type": "Image", "image": {"ref": "r.test/a:v1", "pollIntervalMinutes": 10}},
                "priority": -1, "availabilityMode": "Unavailable",
            })
        );
    }

    #[test]
    fn references_that_cannot_work_are_rejected() {
        let check = |image: &str, poll_minutes| {
            ClusterCatalogPlan { image: image.into(), poll_minutes, ..Default::default() }.check()
        };
        assert!(check("r.test:5000/a:v1", Some(1)).is_ok());
        assert!(check("r.test/a@sha256:00", None).is_ok());
        assert!(check("r.test:5000/a", None).is_err_and(|why| why.to_string().contains("neither tag nor digest")));
        assert!(check("r.test/a@sha256:00", Some(1)).is_err_and(|why| why.to_string().contains("never changes")));
        assert!(check(&format!("r.test/{}:v1", "a".repeat(1000)), None).is_err());
    }

    #[test]
    fn a_catalog_is_done_when_both_conditions_have_its_generation() {
        let state = |serving: &str, progressing: &str, seen: i64, used: &str| {
            let condition = |kind: &str, reason: &str| json!({"type": kind, "reason": reason, "observedGeneration": seen, "message": "m"});
            let catalog: ClusterCatalog = decode(json!({
                "apiVersion": "v1", "kind": "x", "metadata": {"name": "a", "generation": 2},
                "spec": {"source": {"image": {"ref": "r.test/a@sha256:00"}}},
                "status": {
                    "conditions": [condition("Serving", serving), condition("Progressing", progressing)],
                    "resolvedSource": {"image": {"ref": used}},
                },
            }))
            .unwrap();
            ClusterCatalogState::of(catalog)
        };
        assert!(state("Available", "Succeeded", 2, "r.test/a@sha256:00").is_done());
        assert!(!state("Available", "Succeeded", 1, "r.test/a@sha256:00").is_done());
        assert!(!state("Available", "Succeeded", 2, "r.test/a@sha256:11").is_done());
        assert!(!state("Available", "Retrying", 2, "r.test/a@sha256:00").is_done());
        assert_eq!(state("Unavailable", "Blocked", 2, "").problem(), "Blocked: m");
    }
}
