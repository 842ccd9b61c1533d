//! The other objects of a run.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

use super::names::{self, FIELD_MANAGER, PORT};
use super::pod::{IndexItem, KEY, Security};
use crate::ResourceKind;
use crate::catalog_source::{CatalogSpec, PodConfig};
use crate::views::{CatalogSource, annotate};

/// The annotation of a CatalogSource with the base index image.
pub const INDEX_IMAGE: &str = "operators.operatorframework.io/index-image";
/// The annotation of a CatalogSource with the added bundles.
pub const INJECTED_BUNDLES: &str = "operators.operatorframework.io/injected-bundles";
/// The annotation of a CatalogSource with the name of its registry pod.
pub const REGISTRY_POD: &str = "operators.operatorframework.io/registry-pod-name";
/// The annotation that states how a database index was handled.
pub const DATABASE: &str = "opm.run/sqlite";

/// Returns a CatalogSource without a registry.
pub(crate) fn catalog_source(namespace: &str, package: &str, pull_secret: &str, security: Security) -> CatalogSource {
    let metadata = ObjectMeta {
        name: Some(names::catalog_source(package)),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    let settings = PodConfig { security_context_config: security.name().into(), ..PodConfig::default() };
    let spec = CatalogSpec {
        display_name: package.to_owned(),
        publisher: FIELD_MANAGER.to_owned(),
        grpc_pod_config: Some(settings),
        secrets: Some(pull_secret).filter(|secret| !secret.is_empty()).map(str::to_owned).into_iter().collect(),
        ..CatalogSpec::default()
    };
    CatalogSource::new(metadata, spec)
}

/// The connection of a CatalogSource to its running pod.
#[derive(Debug, Clone)]
pub(crate) struct PodConnection<'a> {
    /// The address of the pod.
    pub(crate) ip: &'a str,
    /// Its name.
    pub(crate) pod: &'a str,
    pub(crate) index_image: &'a str,
    /// The added bundles.
    pub(crate) items: &'a [IndexItem],
    /// Whether the index was a database, migrated to a file-based catalog.
    pub(crate) migrated: bool,
    /// The pull secret; may be empty.
    pub(crate) pull_secret: &'a str,
}

/// Connects a CatalogSource to its pod.
pub(crate) fn connect(catalog_source: &mut CatalogSource, served: &PodConnection<'_>) {
    let metadata = &mut catalog_source.metadata;
    annotate(metadata, INDEX_IMAGE, served.index_image);
    annotate(metadata, INJECTED_BUNDLES, injected_text(served.items));
    annotate(metadata, REGISTRY_POD, served.pod);
    if served.migrated {
        annotate(metadata, DATABASE, "migrate");
    }
    let spec = &mut catalog_source.spec;
    spec.source_type = "grpc".to_owned();
    spec.address = address(served.ip);
    spec.image.clear();
    if !served.pull_secret.is_empty() && !spec.secrets.iter().any(|secret| secret == served.pull_secret) {
        spec.secrets.push(served.pull_secret.to_owned());
    }
}

/// Returns the annotation with the added bundles.
pub(crate) fn injected_text(items: &[IndexItem]) -> String {
    let items = items.iter().map(|item| json!({"imageTag": item.image, "mode": item.mode}));
    Value::Array(items.collect()).to_string()
}

/// Returns the address of a pod; IPv6 needs brackets.
fn address(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]:{PORT}") } else { format!("{ip}:{PORT}") }
}

/// The annotation with the added bundles has another form than opm writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {INJECTED_BUNDLES} of the catalog source cannot be read: {0}")]
pub struct InjectedError(String);

/// Reads the bundles added to a catalog earlier, from its metadata.
///
/// # Errors
/// Fails if the annotation has another form than opm writes.
pub(crate) fn injected(catalog: &ObjectMeta) -> Result<Vec<IndexItem>, InjectedError> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Injected {
        image_tag: String,
        mode: String,
    }
    let Some(text) = catalog.annotations.as_ref().and_then(|all| all.get(INJECTED_BUNDLES)) else {
        return Ok(Vec::new());
    };
    let invalid = || InjectedError(text.clone());
    let items: Vec<Injected> = serde_json::from_str(text).map_err(|_| invalid())?;
    let item = |Injected { image_tag: image, mode }| {
        let mode = if mode.is_empty() { "replaces".to_owned() } else { mode };
        (!image.is_empty() && matches!(mode.as_str(), "semver" | "replaces" | "semver-skippatch"))
            .then_some(IndexItem { image, mode })
            .ok_or_else(invalid)
    };
    items.into_iter().map(item).collect()
}

/// Returns a ConfigMap with a part of a catalog.
pub fn config_map(namespace: &str, name: &str, part: &[u8]) -> Value {
    json!({
        "apiVersion": ResourceKind::CONFIG_MAP.api_version(),
        "kind": ResourceKind::CONFIG_MAP.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"olm.contentEncoding": "gzip+base64"},
        },
        "binaryData": {KEY: base64(part)},
    })
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len() / 3 * 4 + 4);
    fbc::base64::encode(bytes, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns an OperatorGroup for namespaces; empty means all.
pub fn operator_group(namespace: &str, targets: &[String]) -> Value {
    let spec = if targets.is_empty() { json!({}) } else { json!({"targetNamespaces": targets}) };
    json!({
        "apiVersion": ResourceKind::OPERATOR_GROUP.api_version(),
        "kind": ResourceKind::OPERATOR_GROUP.kind,
        "metadata": {"name": names::OPERATOR_GROUP, "namespace": namespace},
        "spec": spec,
    })
}

/// Returns a Subscription to one version with manual approval.
pub fn subscription(namespace: &str, package: &str, channel: &str, csv: &str) -> Value {
    json!({
        "apiVersion": ResourceKind::SUBSCRIPTION.api_version(),
        "kind": ResourceKind::SUBSCRIPTION.kind,
        "metadata": {"name": names::subscription(csv), "namespace": namespace},
        "spec": {
            "name": package,
            "channel": channel,
            "startingCSV": csv,
            "source": names::catalog_source(package),
            "sourceNamespace": namespace,
            "installPlanApproval": "Manual",
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(tag: &str) -> IndexItem {
        IndexItem { image: format!("quay.io/example/foo-bundle:{tag}"), mode: "semver".into() }
    }

    #[test]
    fn a_catalog_source_gets_the_address_of_its_pod() {
        let mut source = catalog_source("ns", "foo", "", Security::Legacy);
        assert!(source.spec.secrets.is_empty());
        source.spec.image = "quay.io/example/catalog:v1".into();
        let items = [item("v1"), item("v2")];
        let served = PodConnection {
            ip: "10.0.0.1",
            pod: "pod",
            index_image: "quay.io/example/index:v1",
            items: &items,
            migrated: false,
            pull_secret: "secret",
        };
        connect(&mut source, &served);
        connect(&mut source, &served);
        insta::assert_snapshot!(serde_json::to_string_pretty(&source).unwrap());
        assert_eq!(injected(&source.metadata).unwrap(), items);
    }

    #[test]
    fn foreign_annotations_are_rejected() {
        for text in ["", "{}", "[{}]", "[{\"imageTag\": \"a\", \"mode\": \"x; rm\"}]"] {
            let mut metadata = ObjectMeta::default();
            annotate(&mut metadata, INJECTED_BUNDLES, text);
            assert!(injected(&metadata).is_err(), "{text}");
        }
        assert_eq!(injected(&ObjectMeta::default()).unwrap(), []);
    }

    #[test]
    fn addresses_of_ipv6_have_brackets() {
        assert_eq!(address("fd00::1"), "[fd00::1]:50051");
    }
}
