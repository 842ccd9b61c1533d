//! Finds objects that would harm the stability of a cluster.

use serde_json::Value;

use super::Collector;
use crate::pointer::{list, text};

/// The security context constraints that clusters include by default.
const DEFAULT_CONSTRAINTS: &[&str] = &[
    "anyuid",
    "hostaccess",
    "hostmount-anyuid",
    "hostnetwork",
    "node-exporter",
    "nonroot",
    "privileged",
    "restricted",
];

/// Checks an object.
pub(super) fn check(object: &Value, findings: &mut Collector) {
    let kind = text(object, "/kind");
    let named = format!("{kind} \"{}\"", text(object, "/metadata/name"));
    if !has_valid_types(kind, object) {
        let text = format!("Error: Value {named}: error unmarshaling {}", kind.to_lowercase());
        return findings.error("object-type", "", text);
    }
    match kind {
        "PodDisruptionBudget" => {
            let value = |field: &str| match object.pointer(&format!("/spec/{field}")) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => number.to_string(),
                _ => String::new(),
            };
            if matches!(value("maxUnavailable").as_str(), "0" | "0%") {
                findings.error(
                    "object-pdb",
                    "/spec/maxUnavailable",
                    format!("Error: Value {named}: maxUnavailable field cannot be set to 0 or 0%"),
                );
            }
            if value("minAvailable") == "100%" {
                findings.error(
                    "object-pdb",
                    "/spec/minAvailable",
                    format!("Error: Value {named}: minAvailable field cannot be set to 100%"),
                );
            }
        }
        "PriorityClass" if object.get("globalDefault").and_then(Value::as_bool) == Some(true) => {
            findings.error(
                "object-priority-class",
                "/globalDefault",
                format!("Error: Value {named}: globalDefault field cannot be set to true"),
            );
        }
        "Role" | "ClusterRole" => {
            list(object, "/rules").iter().enumerate().for_each(|(at, rule)| check_rule(at, rule, findings));
        }
        _ => {}
    }
}

/// Returns whether the relevant fields have the right types.
fn has_valid_types(kind: &str, object: &Value) -> bool {
    let absent_or =
        |value: Option<&Value>, is: fn(&Value) -> bool| value.is_none_or(|value| value.is_null() || is(value));
    let at = |pointer: &str, is: fn(&Value) -> bool| absent_or(object.pointer(pointer), is);
    let amount = |value: &Value| value.is_string() || value.is_i64() || value.is_u64();
    match kind {
        "PodDisruptionBudget" => {
            at("/spec", Value::is_object)
                && at("/spec/maxUnavailable", amount)
                && at("/spec/minAvailable", amount)
                && at("/spec/selector", Value::is_object)
        }
        "PriorityClass" => {
            at("/globalDefault", Value::is_boolean)
                && at("/value", |value| value.is_i64() || value.is_u64())
                && at("/description", Value::is_string)
                && at("/preemptionPolicy", Value::is_string)
        }
        "Role" | "ClusterRole" => {
            let texts = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
            let fields = ["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"];
            at("/rules", Value::is_array)
                && list(object, "/rules")
                    .iter()
                    .all(|rule| rule.is_object() && fields.iter().all(|field| absent_or(rule.get(field), texts)))
        }
        _ => true,
    }
}

fn check_rule(at: usize, rule: &Value, findings: &mut Collector) {
    let has = |field: &str, wanted: &[&str]| {
        list(rule, field).iter().filter_map(Value::as_str).any(|value| wanted.contains(&value))
    };
    if has("/apiGroups", &["policy"])
        && has("/resources", &["poddisruptionbudgets"])
        && has("/verbs", &["*", "create", "update", "patch"])
    {
        findings.warning(
            "object-pdb-rights",
            format!("/rules/{at}"),
            format!(
                "Warning: Value {rule}: RBAC includes permission to create/update poddisruptionbudgets, \
             which could impact cluster stability"
            ),
        );
    }
    if has("/apiGroups", &["security.openshift.io"])
        && has("/resources", &["securitycontextconstraints"])
        && has("/verbs", &["*", "delete", "update", "patch"])
        && has("/resourceNames", DEFAULT_CONSTRAINTS)
    {
        findings.error(
            "object-scc-rights",
            format!("/rules/{at}"),
            format!(
                "Error: Value {rule}: RBAC includes permission to modify default securitycontextconstraints, \
             which could impact cluster stability"
            ),
        );
    }
}
