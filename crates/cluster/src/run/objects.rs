//! The other objects of a run.

use serde_json::{Value, json};

use super::names::{self, PORT};
use super::pod::{Item, KEY, Security};
use crate::Kind;

/// The annotation of a CatalogSource with the base index image.
pub const INDEX_IMAGE: &str = "operators.operatorframework.io/index-image";
/// The annotation of a CatalogSource with the added bundles.
pub const INJECTED_BUNDLES: &str = "operators.operatorframework.io/injected-bundles";
/// The annotation of a CatalogSource with the name of its registry pod.
pub const REGISTRY_POD: &str = "operators.operatorframework.io/registry-pod-name";
/// The annotation that states how a database index was handled.
pub const DATABASE: &str = "opm.run/sqlite";

/// Returns a CatalogSource without a registry.
pub fn catalog_source(namespace: &str, package: &str, pull_secret: &str, security: Security) -> Value {
    let mut spec = json!({
        "sourceType": "",
        "displayName": package,
        "publisher": "operator-sdk",
        "grpcPodConfig": {"securityContextConfig": security.name()},
    });
    if !pull_secret.is_empty() {
        spec["secrets"] = json!([pull_secret]);
    }
    json!({
        "apiVersion": Kind::CATALOG_SOURCE.api_version(),
        "kind": Kind::CATALOG_SOURCE.kind,
        "metadata": {"name": names::catalog_source(package), "namespace": namespace},
        "spec": spec,
    })
}

/// The connection of a CatalogSource to its running pod.
#[derive(Debug, Clone)]
pub struct Served<'a> {
    /// The address of the pod.
    pub ip: &'a str,
    /// Its name.
    pub pod: &'a str,
    /// The index image.
    pub index_image: &'a str,
    /// The added bundles.
    pub items: &'a [Item],
    /// Whether the index was a database, migrated to a file-based catalog.
    pub migrated: bool,
    /// The pull secret; may be empty.
    pub pull_secret: &'a str,
}

/// Connects a CatalogSource to its pod.
pub fn connect(catalog_source: &mut Value, served: &Served<'_>) {
    let items: Vec<Value> =
        served.items.iter().map(|item| json!({"imageTag": item.image, "mode": item.mode})).collect();
    let annotations = &mut catalog_source["metadata"]["annotations"];
    annotations[INDEX_IMAGE] = json!(served.index_image);
    annotations[INJECTED_BUNDLES] = json!(Value::Array(items).to_string());
    annotations[REGISTRY_POD] = json!(served.pod);
    if served.migrated {
        annotations[DATABASE] = json!("migrate");
    }
    let spec = &mut catalog_source["spec"];
    spec["sourceType"] = json!("grpc");
    spec["address"] = json!(address(served.ip));
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("image");
    }
    if !served.pull_secret.is_empty() {
        let mut secrets: Vec<Value> = spec["secrets"].as_array().cloned().unwrap_or_default();
        if !secrets.iter().any(|secret| secret == served.pull_secret) {
            secrets.push(json!(served.pull_secret));
        }
        spec["secrets"] = json!(secrets);
    }
}

/// Returns the address of a pod; IPv6 needs brackets.
fn address(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]:{PORT}") } else { format!("{ip}:{PORT}") }
}

/// The annotation with the added bundles has another form than opm writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {INJECTED_BUNDLES} of the catalog source cannot be read: {0}")]
pub struct InjectedError(String);

/// Reads the bundles added to a catalog earlier.
///
/// # Errors
/// Fails if the annotation has another form than opm writes.
pub fn injected(catalog_source: &Value) -> Result<Vec<Item>, InjectedError> {
    let Some(text) = catalog_source["metadata"]["annotations"][INJECTED_BUNDLES].as_str() else {
        return Ok(Vec::new());
    };
    let invalid = || InjectedError(text.to_owned());
    let items: Value = serde_json::from_str(text).map_err(|_| invalid())?;
    let item = |item: &Value| {
        let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
        let mode = match text("mode") {
            mode if mode.is_empty() => "replaces".to_owned(),
            mode => mode,
        };
        let image = text("imageTag");
        (!image.is_empty() && matches!(mode.as_str(), "semver" | "replaces" | "semver-skippatch"))
            .then_some(Item { image, mode })
            .ok_or_else(invalid)
    };
    items.as_array().ok_or_else(invalid)?.iter().map(item).collect()
}

/// Returns a ConfigMap with a part of a catalog.
pub fn config_map(namespace: &str, name: &str, part: &[u8]) -> Value {
    json!({
        "apiVersion": Kind::CONFIG_MAP.api_version(),
        "kind": Kind::CONFIG_MAP.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"olm.contentEncoding": "gzip+base64"},
        },
        "binaryData": {KEY: base64(part)},
    })
}

fn base64(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len() / 3 * 4 + 4);
    fbc::base64::encode(bytes, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns an OperatorGroup for namespaces; empty means all.
pub fn operator_group(namespace: &str, targets: &[String]) -> Value {
    let spec = if targets.is_empty() { json!({}) } else { json!({"targetNamespaces": targets}) };
    json!({
        "apiVersion": Kind::OPERATOR_GROUP.api_version(),
        "kind": Kind::OPERATOR_GROUP.kind,
        "metadata": {"name": names::OPERATOR_GROUP, "namespace": namespace},
        "spec": spec,
    })
}

/// Returns a Subscription to one version with manual approval.
pub fn subscription(namespace: &str, package: &str, channel: &str, csv: &str) -> Value {
    json!({
        "apiVersion": Kind::SUBSCRIPTION.api_version(),
        "kind": Kind::SUBSCRIPTION.kind,
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

/// Adds an owner reference to an object.
pub fn own(object: &mut Value, owner: &Value) {
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }]);
}

/// Returns whether an object is owned by the one with this uid.
pub fn is_owned(object: &Value, uid: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    uid.is_string() && owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == *uid))
}

/// Adds the label of a run to an object.
pub fn label(object: &mut Value, run: &str) {
    object["metadata"]["labels"][names::RUN_LABEL] = json!(run);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(tag: &str) -> Item {
        Item { image: format!("quay.io/example/foo-bundle:{tag}"), mode: "semver".into() }
    }

    #[test]
    fn a_catalog_source_gets_the_address_of_its_pod() {
        let mut source = catalog_source("ns", "foo", "", Security::Legacy);
        assert_eq!(source["spec"].get("secrets"), None);
        source["spec"]["image"] = json!("quay.io/example/catalog:v1");
        let items = [item("v1"), item("v2")];
        let served = Served {
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
        assert_eq!(injected(&source).unwrap(), items);
    }

    #[test]
    fn foreign_annotations_are_rejected() {
        for text in ["", "{}", "[{}]", "[{\"imageTag\": \"a\", \"mode\": \"x; rm\"}]"] {
            let source = json!({"metadata": {"annotations": {INJECTED_BUNDLES: text}}});
            assert!(injected(&source).is_err(), "{text}");
        }
        assert_eq!(injected(&json!({})).unwrap(), []);
    }

    #[test]
    fn addresses_of_ipv6_have_brackets() {
        assert_eq!(address("fd00::1"), "[fd00::1]:50051");
    }
}
