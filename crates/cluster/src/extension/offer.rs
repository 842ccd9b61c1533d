//! Detects the features of the cluster's OLM v1.

use crate::context::WorkContext;
use crate::request::{ObjectName, Requests};
use crate::views::{Definition, Deployment};
use crate::{Error, ResourceKind};

/// The deployment of operator-controller: upstream and on OpenShift.
const CONTROLLERS: [(&str, &str); 2] = [
    ("olmv1-system", "operator-controller-controller-manager"),
    ("openshift-operator-controller", "operator-controller-controller-manager"),
];

/// The OLM generations of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generations {
    /// OLM v0, with Subscriptions.
    pub v0: bool,
    /// OLM v1, with ClusterExtensions.
    pub v1: bool,
}

/// The features of the cluster's OLM v1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OlmFeatures {
    /// Whether a ClusterExtension must name an installer account: up to 1.10.
    pub(super) needs_account: bool,
    /// Whether a ClusterExtension has `spec.config`.
    pub(super) has_config: bool,
    /// The minor version of the release, if the controller image names it.
    pub(super) minor: Option<u32>,
    /// The feature gates of the controller's arguments.
    pub(super) gates: Vec<(String, bool)>,
}

impl OlmFeatures {
    /// Returns whether a feature gate is enabled; `None` if the controller does not set it.
    pub(super) fn gate(&self, name: &str) -> Option<bool> {
        self.gates.iter().rev().find(|(gate, _)| gate == name).map(|(_, open)| *open)
    }

    fn read_definition(&mut self, crd: &Definition) {
        let Some(version) = crd.spec.versions.iter().find(|version| version.name == "v1") else { return };
        let spec = version.schema.open_api.properties.get("spec");
        self.needs_account = spec.is_some_and(|spec| spec.required.iter().any(|field| field == "serviceAccount"));
        self.has_config = spec.is_some_and(|spec| spec.properties.contains_key("config"));
    }

    fn read_controller(&mut self, deployment: &Deployment) {
        for container in &deployment.spec.template.spec.containers {
            for word in container.command.iter().chain(&container.args) {
                let Some(gates) = word.strip_prefix("--feature-gates=") else { continue };
                let pairs = gates.split(',').filter_map(|gate| gate.split_once('='));
                self.gates.extend(pairs.map(|(name, open)| (name.trim().to_owned(), open.trim() == "true")));
            }
            if container.image.contains("operator-controller") {
                self.minor = self.minor.or_else(|| minor(&container.image));
            }
        }
    }
}

/// Parses the minor version of a tag such as `v1.9.2`.
fn minor(image: &str) -> Option<u32> {
    let tag = image.split('@').next()?.rsplit_once(':')?.1;
    tag.strip_prefix('v').unwrap_or(tag).strip_prefix("1.")?.split(['.', '-']).next()?.parse().ok()
}

/// Detects the OLM generations of a cluster.
///
/// # Errors
/// Fails if the API server is unreachable.
pub async fn generations(context: &WorkContext<'_>) -> Result<Generations, Error> {
    let requests = context.requests();
    let v0 = is_served(&requests, ResourceKind::SUBSCRIPTION).await?;
    let v1 = is_served(&requests, ResourceKind::CLUSTER_EXTENSION).await?
        && is_served(&requests, ResourceKind::CLUSTER_CATALOG).await?;
    Ok(Generations { v0, v1 })
}

/// Returns whether a cluster serves a kind.
pub(super) async fn is_served(requests: &Requests<'_>, kind: ResourceKind) -> Result<bool, Error> {
    let kinds = served_kinds(requests, &kind.api_version()).await?;
    Ok(kinds.is_some_and(|kinds| kinds.iter().any(|name| name == kind.kind)))
}

/// Returns the kinds of a group and version; `None` if the cluster does not serve it.
pub(super) async fn served_kinds(requests: &Requests<'_>, version: &str) -> Result<Option<Vec<String>>, Error> {
    let client = &requests.cluster.client;
    let what = format!("reading the kinds of {version}");
    let found = requests.retry(&what, |_| async {
        let listed = match version.contains('/') {
            true => client.list_api_group_resources(version).await,
            false => client.list_core_api_resources(version).await,
        };
        match listed {
            Err(error) if crate::error::has_code(&error, 404) => Ok(None),
            listed => listed.map(Some),
        }
    });
    let found = found.await?;
    Ok(found.map(|list| list.resources.into_iter().map(|resource| resource.kind).collect()))
}

/// Detects the features of the cluster's OLM v1.
///
/// Without permission to read definitions or the controller's deployment, less is known: then an account is named,
/// which every release accepts, and feature gates have their defaults.
///
/// # Errors
/// Fails if OLM v1 is not installed or the API server is unreachable.
pub(super) async fn offer(context: &WorkContext<'_>) -> Result<OlmFeatures, Error> {
    let requests = context.requests();
    for kind in [ResourceKind::CLUSTER_EXTENSION, ResourceKind::CLUSTER_CATALOG] {
        if !is_served(&requests, kind).await? {
            return Err(Error::refused(format!(
                "OLM v1 is not installed on this cluster: it knows no {}.{}",
                kind.plural, kind.group
            )));
        }
    }
    let mut offer = OlmFeatures { needs_account: true, ..OlmFeatures::default() };
    let kind = ResourceKind::CLUSTER_EXTENSION;
    match requests.read(&ObjectName::new(ResourceKind::CRD, "", &format!("{}.{}", kind.plural, kind.group))).await {
        Ok(Some(crd)) => offer.read_definition(&crd),
        Ok(None) => {}
        Err(error) if error.is_forbidden() => {}
        Err(error) => return Err(error),
    }
    for (namespace, name) in CONTROLLERS {
        match requests.read(&ObjectName::new(ResourceKind::DEPLOYMENT, namespace, name)).await {
            Ok(Some(deployment)) => offer.read_controller(&deployment),
            Ok(None) => {}
            Err(error) if error.is_forbidden() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(offer)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::views::decode;

    #[test]
    fn the_crd_shows_the_features_of_a_release() {
        let crd = |spec: Value| {
            let schema = json!({"openAPIV3Schema": {"properties": {"spec": spec}}});
            decode(json!({"spec": {"versions": [{"name": "v1", "schema": schema}]}})).unwrap()
        };
        let mut old = OlmFeatures::default();
        old.read_definition(&crd(json!({"required": ["namespace", "serviceAccount", "source"], "properties": {}})));
        assert_eq!(old, OlmFeatures { needs_account: true, ..OlmFeatures::default() });
        let mut new = OlmFeatures { needs_account: true, ..OlmFeatures::default() };
        new.read_definition(&crd(json!({"required": ["namespace"], "properties": {"config": {"type": "object"}}})));
        assert_eq!(new, OlmFeatures { has_config: true, ..OlmFeatures::default() });
    }

    #[test]
    fn a_controller_shows_its_gates_and_its_release() {
        let mut offer = OlmFeatures::default();
        offer.read_controller(&decode(json!({"spec": {"template": {"spec": {"containers": [
            {"image": "r.test/proxy:v2.1.0"},
            {"image": "r.test/operator-controller:v1.9.2@sha256:00", "args": [
                "--leader-elect", "--feature-gates=WebhookProviderCertManager=true", "--feature-gates=A=false,B=true"]},
        ]}}}})).unwrap());
        assert_eq!(offer.minor, Some(9));
        assert_eq!((offer.gate("A"), offer.gate("B"), offer.gate("C")), (Some(false), Some(true), None));
    }
}
