//! Catalogs of both generations of OLM: what `opm catalog` does, from requests to reports.

use std::time::{Duration, Instant};

use bundle::rehearse::OlmGeneration;
use fbc::fault::{Class, Fault};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::{self, CatalogPlan, CatalogState};
use crate::cluster_catalog::{self, ClusterCatalogPlan, ClusterCatalogState, PlanError};
use crate::views::{CatalogSource, ClusterCatalog, Identity};
use crate::{Cluster, Error, ResourceKind};

/// A catalog to create or update, as users request it.
#[derive(Debug, Clone)]
pub struct ApplyCatalog {
    /// The generation of OLM; a ClusterCatalog as template sets v1.
    pub generation: OlmGeneration,
    /// What the user sets; what is empty comes from the template.
    pub catalog: CatalogPlan,
    /// Whether the cluster keeps the catalog without serving it.
    pub unavailable: bool,
    /// A CatalogSource or a ClusterCatalog to start from.
    pub template: Option<Value>,
}

/// A catalog to create or update, checked for its generation of OLM.
#[derive(Debug, Clone)]
pub enum AnyCatalogPlan {
    Source(Box<CatalogPlan>),
    Cluster(ClusterCatalogPlan),
}

/// The state of a CatalogSource; with `--olm v1`, of a ClusterCatalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CatalogStatus {
    Source(CatalogState),
    Cluster(ClusterCatalogState),
}

/// The catalogs of a cluster; with `--olm`, those of one generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CatalogList {
    Both(Vec<ListedCatalog>),
    Sources(Vec<CatalogState>),
    Clusters(Vec<ClusterCatalogState>),
}

/// A catalog of either generation of OLM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ListedCatalog {
    /// A CatalogSource.
    Source(OfKind<CatalogState>),
    /// A ClusterCatalog.
    Cluster(OfKind<ClusterCatalogState>),
}

/// The state of an object, with its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OfKind<T> {
    #[serde(flatten)]
    pub state: T,
    pub kind: &'static str,
}

/// Why a catalog cannot be applied as requested.
#[derive(Debug, thiserror::Error)]
pub enum ApplyCatalogError {
    /// The template is not a catalog.
    #[error("expected a CatalogSource or a ClusterCatalog, found {0:?}")]
    Kind(String),
    /// The template lacks a field, and no flag replaces it.
    #[error("the object has no {0}")]
    Missing(&'static str),
    /// The template has no image, and can have none.
    #[error("only a CatalogSource of sourceType grpc has an image")]
    NoImage,
    /// The template is of the other generation.
    #[error("a CatalogSource cannot be applied with --olm v1")]
    Generation,
    /// A field of the template has another type than its kind defines.
    #[error(transparent)]
    Field(#[from] serde_json::Error),
    /// A ClusterCatalog does not support a flag.
    #[error("{flag} cannot be used with --olm v1: {why}")]
    OnlyV0 { flag: &'static str, why: &'static str },
    /// A CatalogSource is always served.
    #[error("--unavailable requires --olm v1: CatalogSource {0} has no such mode")]
    AlwaysAvailable(String),
    /// A ClusterCatalog counts minutes.
    #[error("--poll must be in whole minutes with --olm v1, at least 1m")]
    WholeMinutes,
    /// A ClusterCatalog could never be served.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl Fault for ApplyCatalogError {
    fn class(&self) -> Class {
        match self {
            ApplyCatalogError::Kind(_)
            | ApplyCatalogError::Missing(_)
            | ApplyCatalogError::NoImage
            | ApplyCatalogError::Field(_) => Class::Refused,
            _ => Class::Usage,
        }
    }
}

impl ApplyCatalog {
    /// Checks the request, and completes it from its template.
    ///
    /// # Errors
    /// Fails if the template is not a catalog with an image, or the generation of OLM does not support the request.
    pub fn plan(mut self) -> Result<AnyCatalogPlan, ApplyCatalogError> {
        if let Some(template) = self.template.take() {
            self.complete(template)?;
        }
        if self.generation == OlmGeneration::V1 {
            return self.cluster_catalog().map(AnyCatalogPlan::Cluster);
        }
        if self.unavailable {
            return Err(ApplyCatalogError::AlwaysAvailable(self.catalog.name));
        }
        Ok(AnyCatalogPlan::Source(Box::new(self.catalog)))
    }

    /// Adds what only the template sets.
    fn complete(&mut self, template: Value) -> Result<(), ApplyCatalogError> {
        let Identity { kind, .. } = Identity::deserialize(&template)?;
        let plan = &mut self.catalog;
        let (name, image, priority) = if kind == ResourceKind::CLUSTER_CATALOG.kind {
            let ClusterCatalog { metadata, spec, .. } = ClusterCatalog::deserialize(template)?;
            self.generation = OlmGeneration::V1;
            let minutes = spec.source.image.poll_interval_minutes;
            plan.poll = plan.poll.take().or(minutes.map(|minutes| format!("{minutes}m")));
            self.unavailable |= spec.availability_mode == "Unavailable";
            (metadata.name, spec.source.image.reference, spec.priority)
        } else if kind == ResourceKind::CATALOG_SOURCE.kind {
            let CatalogSource { metadata, spec, .. } = CatalogSource::deserialize(&template)?;
            if !matches!(spec.source_type.as_str(), "" | "grpc") {
                return Err(ApplyCatalogError::NoImage);
            }
            if self.generation == OlmGeneration::V1 {
                return Err(ApplyCatalogError::Generation);
            }
            plan.namespace = plan.namespace.take().or(metadata.namespace);
            plan.keep(template);
            (metadata.name, spec.image, Some(spec.priority))
        } else {
            return Err(ApplyCatalogError::Kind(kind));
        };
        for (field, given, what) in [(&mut plan.name, name, "name"), (&mut plan.image, Some(image), "image")] {
            if field.is_empty() {
                *field = given.filter(|given| !given.is_empty()).ok_or(ApplyCatalogError::Missing(what))?;
            }
        }
        plan.priority = plan.priority.or(priority.filter(|priority| *priority != 0));
        Ok(())
    }

    fn cluster_catalog(self) -> Result<ClusterCatalogPlan, ApplyCatalogError> {
        let no_display = "a ClusterCatalog has no display fields";
        let asked = self.catalog;
        let unsupported = [
            ("--display-name", asked.display_name.is_some(), no_display),
            ("--publisher", asked.publisher.is_some(), no_display),
            ("--secret", !asked.secrets.is_empty(), "catalogd uses the pull secrets of its own service account"),
            ("--extract-content", asked.extract_content.is_some(), "catalogd reads every image itself"),
        ];
        if let Some((flag, _, why)) = unsupported.into_iter().find(|(_, given, _)| *given) {
            return Err(ApplyCatalogError::OnlyV0 { flag, why });
        }
        let minutes = |poll: String| match fbc::spelling::duration::parse(&poll) {
            Some(poll) if poll.as_secs().is_multiple_of(60) && poll.subsec_nanos() == 0 => Ok(poll.as_secs() / 60),
            _ => Err(ApplyCatalogError::WholeMinutes),
        };
        let plan = ClusterCatalogPlan {
            name: asked.name,
            image: asked.image,
            poll_minutes: asked.poll.map(minutes).transpose()?,
            priority: asked.priority,
            unavailable: self.unavailable,
        };
        plan.check()?;
        Ok(plan)
    }
}

impl AnyCatalogPlan {
    pub fn generation(&self) -> OlmGeneration {
        match self {
            AnyCatalogPlan::Source(_) => OlmGeneration::V0,
            AnyCatalogPlan::Cluster(_) => OlmGeneration::V1,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            AnyCatalogPlan::Source(plan) => &plan.name,
            AnyCatalogPlan::Cluster(plan) => &plan.name,
        }
    }

    /// Returns the requested namespace.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            AnyCatalogPlan::Source(plan) => plan.namespace.as_deref(),
            AnyCatalogPlan::Cluster(_) => None,
        }
    }

    /// Returns the object, with only the requested fields; a ClusterCatalog has no namespace.
    pub fn object(&self, namespace: &str) -> Value {
        match self {
            AnyCatalogPlan::Source(plan) => plan.object(namespace),
            AnyCatalogPlan::Cluster(plan) => plan.object(),
        }
    }

    /// Creates or updates the catalog: fields that an earlier call set and this one omits are removed. Returns the
    /// object on the cluster without its managed fields.
    ///
    /// # Errors
    /// Fails on a timeout, or if another manager owns a field with a different value, unless `force` takes it over.
    pub async fn apply(&self, cluster: &Cluster, force: bool, deadline: Instant) -> Result<Value, Error> {
        let mut object = match self {
            AnyCatalogPlan::Source(plan) => catalog::apply_catalog(cluster, plan, force, deadline).await?,
            AnyCatalogPlan::Cluster(plan) => {
                cluster_catalog::apply_cluster_catalog(cluster, plan, force, deadline).await?
            }
        };
        object.metadata.managed_fields = None;
        serde_json::to_value(&object).map_err(|error| Error::Failed(error.to_string()))
    }

    /// Waits until the catalog is served as requested.
    ///
    /// # Errors
    /// Fails on a timeout or a permanent failure, with the reason.
    pub async fn wait(&self, cluster: &Cluster, timeout: Duration, deadline: Instant) -> Result<CatalogStatus, Error> {
        Ok(match self {
            AnyCatalogPlan::Source(plan) => {
                CatalogStatus::Source(catalog::wait_for_catalog(cluster, &plan.name, timeout, deadline).await?)
            }
            AnyCatalogPlan::Cluster(plan) => CatalogStatus::Cluster(
                cluster_catalog::wait_for_cluster_catalog(cluster, &plan.name, timeout, deadline).await?,
            ),
        })
    }
}

/// Reads the state of a catalog. That of a CatalogSource has its packages, or why they cannot be read.
///
/// # Errors
/// Fails if the catalog does not exist, or the API server refuses or is unreachable.
pub async fn catalog_state(cluster: &Cluster, olm: OlmGeneration, name: &str) -> Result<CatalogStatus, Error> {
    if olm == OlmGeneration::V1 {
        return cluster_catalog::cluster_catalog_state(cluster, name).await.map(CatalogStatus::Cluster);
    }
    let mut state = catalog::catalog_state(cluster, name).await?;
    // The state of the catalog is of use without its packages, too.
    match catalog::packages_of(cluster, name).await {
        Ok(packages) => state.packages = packages,
        Err(error) => state.packages_error = Some(error.to_string()),
    }
    Ok(CatalogStatus::Source(state))
}

/// Lists the catalogs of one generation, or of both: then it omits a kind that the cluster does not have or the user
/// may not list.
///
/// # Errors
/// Fails if that applies to every requested kind, or the API server is unreachable.
pub async fn list_catalogs(
    cluster: &Cluster,
    olm: Option<OlmGeneration>,
    everywhere: bool,
) -> Result<CatalogList, Error> {
    let sources = catalog::list_catalogs(cluster, everywhere);
    let clusters = cluster_catalog::list_cluster_catalogs(cluster);
    match olm {
        Some(OlmGeneration::V0) => return Ok(CatalogList::Sources(sources.await?)),
        Some(OlmGeneration::V1) => return Ok(CatalogList::Clusters(clusters.await?)),
        None => {}
    }
    let can_omit = |error: &Error| error.is_missing() || error.is_forbidden();
    let (sources, clusters) = match (sources.await, clusters.await) {
        (Ok(sources), Ok(clusters)) => (sources, clusters),
        (Ok(sources), Err(error)) if can_omit(&error) => (sources, Vec::new()),
        (Err(error), Ok(clusters)) if can_omit(&error) => (Vec::new(), clusters),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let source = |state| ListedCatalog::Source(OfKind { state, kind: ResourceKind::CATALOG_SOURCE.kind });
    let of_cluster = |state| ListedCatalog::Cluster(OfKind { state, kind: ResourceKind::CLUSTER_CATALOG.kind });
    Ok(CatalogList::Both(sources.into_iter().map(source).chain(clusters.into_iter().map(of_cluster)).collect()))
}

/// Deletes a catalog and its dependents. Returns whether it existed.
///
/// # Errors
/// Fails if the catalog does not exist, unless `ignore_missing` is set.
pub async fn delete_catalog(
    cluster: &Cluster,
    olm: OlmGeneration,
    name: &str,
    ignore_missing: bool,
) -> Result<bool, Error> {
    let deleted = match olm {
        OlmGeneration::V0 => catalog::delete_catalog(cluster, name).await,
        OlmGeneration::V1 => cluster_catalog::delete_cluster_catalog(cluster, name).await,
    };
    match deleted {
        Err(error) if error.is_missing() && ignore_missing => Ok(false),
        deleted => deleted.map(|()| true),
    }
}

impl CatalogStatus {
    /// Returns whether the catalog is set to be served.
    pub fn is_available(&self) -> bool {
        match self {
            CatalogStatus::Source(_) => true,
            CatalogStatus::Cluster(state) => state.available,
        }
    }

    /// Returns the image in use, by digest.
    pub fn image_in_use(&self) -> Option<&str> {
        match self {
            CatalogStatus::Source(state) => state.image_in_use.as_deref(),
            CatalogStatus::Cluster(state) => state.image_in_use.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake;

    fn request(template: Value) -> ApplyCatalog {
        ApplyCatalog {
            generation: OlmGeneration::V0,
            catalog: CatalogPlan::default(),
            unavailable: false,
            template: Some(template),
        }
    }

    fn cluster_catalog() -> Value {
        json!({
            "kind": "ClusterCatalog", "metadata": {"name": "a"},
            "spec": {"source": {"image": {"ref": "r.test/a:v1", "pollIntervalMinutes": 5}}, "priority": 3},
        })
    }

    fn catalog_source() -> Value {
        json!({"kind": "CatalogSource", "metadata": {"name": "a", "namespace": "n"}, "spec": {"image": "r.test/a:v1"}})
    }

    fn refusal(request: ApplyCatalog) -> String {
        request.plan().expect_err("a refusal").to_string()
    }

    #[tokio::test]
    async fn packages_that_cannot_be_read_are_not_missing() {
        let cluster = fake::cluster(|_, path| match path.rsplit('/').next() {
            Some("packagemanifests") => fake::failure(403, "forbidden"),
            Some("pods") => (200, json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []})),
            _ => (200, catalog_source()),
        });
        let CatalogStatus::Source(state) = catalog_state(&cluster, OlmGeneration::V0, "a").await.unwrap() else {
            panic!("a CatalogSource")
        };
        assert_eq!((state.packages, state.packages_error.as_deref()), (None, Some("packages: forbidden")));
    }

    #[test]
    fn a_template_sets_what_the_request_does_not() {
        let plan = request(cluster_catalog()).plan().unwrap();
        let AnyCatalogPlan::Cluster(plan) = plan else { panic!("{plan:?}") };
        assert_eq!((&*plan.name, plan.poll_minutes, plan.priority), ("a", Some(5), Some(3)));
        let catalog = CatalogPlan { name: "b".into(), poll: Some("1h".into()), ..CatalogPlan::default() };
        let plan = ApplyCatalog { catalog, ..request(cluster_catalog()) }.plan();
        let Ok(AnyCatalogPlan::Cluster(plan)) = plan else { panic!("{plan:?}") };
        assert_eq!((&*plan.name, plan.poll_minutes), ("b", Some(60)));
        let plan = request(catalog_source()).plan().unwrap();
        let AnyCatalogPlan::Source(plan) = plan else { panic!("{plan:?}") };
        assert_eq!((&*plan.image, plan.namespace.as_deref(), plan.priority), ("r.test/a:v1", Some("n"), None));
    }

    #[test]
    fn what_a_generation_does_not_support_is_refused_with_a_template_too() {
        let unavailable = ApplyCatalog { unavailable: true, ..request(catalog_source()) };
        insta::assert_snapshot!(refusal(unavailable), @"--unavailable requires --olm v1: CatalogSource a has no such mode");
        let other = ApplyCatalog { generation: OlmGeneration::V1, ..request(catalog_source()) };
        insta::assert_snapshot!(refusal(other), @"a CatalogSource cannot be applied with --olm v1");
        let asked = |catalog: CatalogPlan| ApplyCatalog { catalog, ..request(cluster_catalog()) };
        let named = asked(CatalogPlan { publisher: Some("Me".into()), ..CatalogPlan::default() });
        insta::assert_snapshot!(refusal(named), @"--publisher cannot be used with --olm v1: a ClusterCatalog has no display fields");
        let often = asked(CatalogPlan { poll: Some("90s".into()), ..CatalogPlan::default() });
        insta::assert_snapshot!(refusal(often), @"--poll must be in whole minutes with --olm v1, at least 1m");
        insta::assert_snapshot!(refusal(request(json!({"kind": "Pod"}))), @r#"expected a CatalogSource or a ClusterCatalog, found "Pod""#);
    }
}
