//! Checks OperatorGroups, and kinds that publishing pipelines reject.

use serde_json::Value;

use super::Collector;
use super::csv::{ANNOTATIONS, annotation};
use super::suites::CheckInput;

/// Checks the annotations of OperatorGroups.
pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    for object in input.whole.of_kind("OperatorGroup") {
        findings.set_object(object);
        let annotations = object.value.pointer("/metadata/annotations").and_then(Value::as_object);
        for key in annotations.into_iter().flat_map(serde_json::Map::keys) {
            let name = object.name();
            if let Some(right) = ANNOTATIONS.iter().find(|right| right.eq_ignore_ascii_case(key) && **right != key) {
                let text = format!(
                    "Error: Value {name}: provided annotation {key} uses wrong case and should be {right} instead"
                );
                findings.error("group-annotation-case", annotation(key), text);
            }
            if key == "olm.properties" {
                let text = format!(
                    "Warning: Value {name}: found olm.properties annotation, please define these properties in \
                     metadata/properties.yaml instead"
                );
                findings.warning("group-properties-annotation", annotation(key), text);
            }
        }
    }
}

/// Finds NetworkPolicies, which the public pipelines reject although OLM v0 and v1 install them.
pub(super) fn check_network_policy(input: &CheckInput<'_>, findings: &mut Collector) {
    for object in input.whole.of_kind("NetworkPolicy") {
        findings.set_object(object);
        let text = format!("NetworkPolicy {} is in the bundle: the pipeline refuses this kind", object.name());
        findings.error("network-policy", "/kind", text);
    }
}
