//! Checks every CustomResourceDefinition as the API server does.
//!
//! Schemas are not checked, only whether the API server accepts the definition.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Collector, meta};
use crate::pointer::{list, text};

/// The types of printer columns.
const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];

/// Checks a CRD.
pub(super) fn check(crd: &Value, findings: &mut Collector) {
    let beta = match text(crd, "/apiVersion") {
        "apiextensions.k8s.io/v1" => false,
        "apiextensions.k8s.io/v1beta1" => {
            findings.warning(
                "crd-v1beta1",
                "/apiVersion",
                format!(
                    "CRD {} uses apiextensions.k8s.io/v1beta1, which Kubernetes 1.22 does not have any more",
                    text(crd, "/metadata/name")
                ),
            );
            true
        }
        other => {
            findings.error("crd-version", "/apiVersion", format!("Unsupported api version of CRD: {other}"));
            return;
        }
    };
    let mut problems = Problems(Vec::new());
    check_meta(crd, &mut problems);
    check_names(crd, &mut problems);
    check_versions(crd, beta, &mut problems);
    check_conversion(crd, &mut problems);
    let keeps = crd.pointer("/spec/preserveUnknownFields").and_then(Value::as_bool).unwrap_or(beta);
    if keeps {
        problems.invalid(
            "spec.preserveUnknownFields",
            "true",
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
    for CrdProblem { field, text } in problems.0 {
        let pointer = field.map(|field| format!("/{}", field.replace(['.', '['], "/").replace(']', "")));
        findings.error("crd-invalid", pointer.unwrap_or_default(), text);
    }
}

/// A problem, and the field that has it.
struct CrdProblem {
    field: Option<String>,
    text: String,
}

struct Problems(Vec<CrdProblem>);

impl Problems {
    fn invalid(&mut self, field: &str, value: &str, why: &str) {
        self.of(field, format!("Error: Field {field}, Value {value}: {field}: Invalid value: {value}: {why}"));
    }

    fn required(&mut self, field: &str) {
        self.of(field, format!("Error: Field {field}, Value : {field}: Required value"));
    }

    fn of(&mut self, field: &str, text: impl Into<String>) {
        self.0.push(CrdProblem { field: Some(field.to_owned()), text: text.into() });
    }
}

fn check_meta(crd: &Value, problems: &mut Problems) {
    let (name, group, plural) =
        (text(crd, "/metadata/name"), text(crd, "/spec/group"), text(crd, "/spec/names/plural"));
    let texts = meta::problems(crd).into_iter().map(|problem| format!("Error: Value {name}: {problem}"));
    problems.0.extend(texts.map(|text| CrdProblem { field: None, text }));
    if name != format!("{plural}.{group}") {
        problems.invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group");
    }
    if group.is_empty() {
        problems.required("spec.group");
    } else if let Some(why) = meta::subdomain(group) {
        problems.invalid("spec.group", group, &why);
    } else if !group.contains('.') {
        problems.invalid("spec.group", group, "should be a domain with at least one dot");
    }
    let reserved = ["k8s.io", "kubernetes.io"];
    let of_kubernetes = reserved.iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    if of_kubernetes {
        let approval = crd.pointer("/metadata/annotations").and_then(|all| all.get("api-approved.kubernetes.io"));
        match approval.and_then(Value::as_str) {
            None => problems.required("metadata.annotations[api-approved.kubernetes.io]"),
            Some(text) if text.starts_with("unapproved") || text.contains("://") => {}
            Some(text) => problems.invalid(
                "metadata.annotations[api-approved.kubernetes.io]",
                text,
                "must be a URL or start with \"unapproved\"",
            ),
        }
    }
}

fn check_names(crd: &Value, problems: &mut Problems) {
    let kind = text(crd, "/spec/names/kind");
    let lower = kind.to_lowercase();
    let listed = format!("{kind}List");
    let or = |pointer: &str, default: &str| match text(crd, pointer) {
        "" => default.to_owned(),
        given => given.to_owned(),
    };
    let (singular, list_kind) = (or("/spec/names/singular", &lower), or("/spec/names/listKind", &listed));
    for (field, value, mixed) in [
        ("spec.names.plural", text(crd, "/spec/names/plural").to_owned(), false),
        ("spec.names.singular", singular, false),
        ("spec.names.kind", kind.to_owned(), true),
        ("spec.names.listKind", list_kind.clone(), true),
    ] {
        if value.is_empty() {
            problems.required(field);
        } else if let Some(why) = meta::label_1035(&if mixed { value.to_lowercase() } else { value.clone() }) {
            let why = if mixed { format!("may have mixed case, but should otherwise match: {why}") } else { why };
            problems.invalid(field, &value, &why);
        }
    }
    if !kind.is_empty() && kind == list_kind {
        problems.invalid("spec.names.listKind", &list_kind, "kind and listKind may not be the same");
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in list(crd, &format!("/spec/names/{field}")).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            if let Some(why) = meta::label_1035(name) {
                problems.invalid(&format!("spec.names.{field}[{index}]"), name, &why);
            }
        }
    }
}

fn check_versions(crd: &Value, beta: bool, problems: &mut Problems) {
    let scope = text(crd, "/spec/scope");
    match (scope, beta) {
        ("Cluster" | "Namespaced", _) | ("", true) => {}
        ("", false) => problems.required("spec.scope"),
        _ => problems.invalid("spec.scope", scope, "supported values: \"Cluster\", \"Namespaced\""),
    }
    let versions = list(crd, "/spec/versions");
    if versions.is_empty() {
        match (beta, text(crd, "/spec/version")) {
            (true, version) if !version.is_empty() => {
                if let Some(why) = meta::label_1035(version) {
                    problems.invalid("spec.version", version, &why);
                }
            }
            _ => problems.required("spec.versions"),
        }
        return;
    }
    let mut seen = BTreeSet::new();
    let mut unique = true;
    for (index, version) in versions.iter().enumerate() {
        let field = format!("spec.versions[{index}]");
        let name = text(version, "/name");
        unique &= seen.insert(name);
        if let Some(why) = meta::label_1035(name) {
            problems.invalid(&format!("{field}.name"), name, &why);
        }
        if let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) {
            let field = format!("{field}.deprecationWarning");
            if version.get("deprecated").and_then(Value::as_bool) != Some(true) {
                problems.invalid(&field, warning, "can only be set for deprecated versions");
            }
            if warning.is_empty() || warning.len() > 256 || warning.chars().any(char::is_control) {
                problems.invalid(&field, warning, "must have 1 to 256 printable characters");
            }
        }
        check_columns(version, &field, problems);
    }
    if !unique {
        let text = "Error: Field spec.versions: spec.versions: Invalid value: must contain unique version names";
        problems.of("spec.versions", text);
    }
    let stored = versions.iter().filter(|version| version.get("storage").and_then(Value::as_bool) == Some(true));
    if stored.count() != 1 {
        let text = "Error: Field spec.versions: spec.versions: Invalid value: \
                    must have exactly one version marked as storage version";
        problems.of("spec.versions", text);
    }
}

fn check_columns(version: &Value, field: &str, problems: &mut Problems) {
    for (index, column) in list(version, "/additionalPrinterColumns").iter().enumerate() {
        let field = format!("{field}.additionalPrinterColumns[{index}]");
        if text(column, "/name").is_empty() {
            problems.required(&format!("{field}.name"));
        }
        let kind = text(column, "/type");
        if !COLUMN_TYPES.contains(&kind) {
            let why = format!("must be one of {}", COLUMN_TYPES.join(","));
            problems.invalid(&format!("{field}.type"), kind, &why);
        }
        let path = [text(column, "/jsonPath"), text(column, "/JSONPath")].concat();
        if path.is_empty() {
            problems.required(&format!("{field}.jsonPath"));
        } else if !path.starts_with('.') {
            problems.invalid(&format!("{field}.jsonPath"), &path, "must be a simple json path starting with .");
        }
    }
    let replicas = text(version, "/subresources/scale/specReplicasPath");
    if version.pointer("/subresources/scale").is_some_and(Value::is_object) && !replicas.starts_with(".spec.") {
        let field = format!("{field}.subresources.scale.specReplicasPath");
        problems.invalid(&field, replicas, "should be a json path under .spec");
    }
}

fn check_conversion(crd: &Value, problems: &mut Problems) {
    let strategy = text(crd, "/spec/conversion/strategy");
    match strategy {
        "" | "None" => {}
        "Webhook" => {
            let config = ["/spec/conversion/webhook/clientConfig", "/spec/conversion/webhookClientConfig"];
            let config = config.iter().find_map(|pointer| crd.pointer(pointer)).filter(|config| config.is_object());
            match config {
                None => problems.required("spec.conversion.webhookClientConfig"),
                Some(config) => {
                    let given = ["url", "service"].iter().filter(|key| config.get(**key).is_some()).count();
                    if given != 1 {
                        problems
                            .required("spec.conversion.webhookClientConfig: exactly one of url or service is required");
                    }
                }
            }
            let versions =
                ["/spec/conversion/webhook/conversionReviewVersions", "/spec/conversion/conversionReviewVersions"];
            let known = versions
                .iter()
                .flat_map(|pointer| list(crd, pointer))
                .any(|version| matches!(version.as_str(), Some("v1" | "v1beta1")));
            if !known {
                let field = "spec.conversion.conversionReviewVersions";
                problems.of(field, format!("Error: Field {field}: must include at least one of v1, v1beta1"));
            }
        }
        other => problems.invalid("spec.conversion.strategy", other, "supported values: \"None\", \"Webhook\""),
    }
}
