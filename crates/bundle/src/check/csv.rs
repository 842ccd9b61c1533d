//! Requirements for every ClusterServiceVersion.

use std::collections::BTreeSet;

use fbc::version::Version;
use serde_json::Value;

use super::{Collector, meta};
use crate::pointer::{list, text};

/// Annotations that are often written in the wrong case.
pub(super) const ANNOTATIONS: &[&str] =
    &["olm.operatorGroup", "olm.operatorNamespace", "olm.targetNamespaces", "olm.providedAPIs", "olm.skipRange"];

/// Group, version and kind of an API.
type Api = (String, String, String);

/// Checks a CSV.
pub(super) fn check(csv: &Value, findings: &mut Collector) {
    let name = text(csv, "/metadata/name");
    let error = |detail: &str| format!("Error: Value : ({name}) {detail}");
    for (field, value) in [("metadata.name", name), ("spec.replaces", text(csv, "/spec/replaces"))] {
        if field == "spec.replaces" && value.is_empty() {
            continue;
        }
        let wrong: Vec<String> = [meta::subdomain(value), meta::label_value(value)].into_iter().flatten().collect();
        if !wrong.is_empty() {
            let pointer = format!("/{}", field.replace('.', "/"));
            findings.error("csv-name", pointer, error(&format!("{field} \"{value}\" is invalid: {}", wrong.join(","))));
        }
    }
    check_examples(csv, name, findings);
    check_install_modes(csv, name, findings);
    min_kube_version(csv, name, findings);
    check_mandatory(csv, findings);
    if let Some(annotations) = csv.pointer("/metadata/annotations").and_then(Value::as_object) {
        for key in annotations.keys() {
            let right = ANNOTATIONS.iter().find(|right| right.eq_ignore_ascii_case(key) && **right != key);
            if let Some(right) = right {
                findings.error(
                    "csv-annotation-case",
                    annotation(key),
                    format!(
                        "Error: Value {name}: provided annotation {key} uses wrong case and should be {right} instead"
                    ),
                );
            }
        }
        if annotations.contains_key("olm.properties") {
            findings.warning(
                "csv-properties-annotation",
                annotation("olm.properties"),
                "Warning: Value : found olm.properties annotation, please define these properties in \
                 metadata/properties.yaml instead",
            );
        }
    }
    for (field, message) in [("/apiVersion", "'apiVersion' is missing"), ("/kind", "'kind' is missing")] {
        if text(csv, field).is_empty() {
            findings.error("csv-type", "", error(message));
        }
    }
}

/// Returns the JSON pointer of an annotation.
pub(super) fn annotation(key: &str) -> String {
    format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn check_examples(csv: &Value, name: &str, findings: &mut Collector) {
    let warning = |detail: &str| format!("Warning: Value : ({name}) {detail}");
    let Some(annotations) = csv.pointer("/metadata/annotations").and_then(Value::as_object) else {
        findings.warning("csv-examples", "/metadata", warning("annotations not found"));
        return;
    };
    let (alm, olm) = (annotations.get("alm-examples"), annotations.get("olm.examples"));
    let Some(examples) = alm.or(olm).and_then(Value::as_str) else {
        findings.warning("csv-examples", "/metadata/annotations", warning("example annotations not found"));
        return;
    };
    if alm.is_some() && olm.is_some() {
        let text = warning("both `alm-examples` and `olm.examples` are present. Checking only `alm-examples`");
        findings.warning("csv-examples", annotation("olm.examples"), text);
    }
    let mut provided: BTreeSet<Api> = BTreeSet::new();
    let place = if alm.is_some() { annotation("alm-examples") } else { annotation("olm.examples") };
    for (at, owned) in list(csv, "/spec/customresourcedefinitions/owned").iter().enumerate() {
        let (crd, version, kind) = (text(owned, "/name"), text(owned, "/version"), text(owned, "/kind"));
        match crd.split_once('.') {
            Some((_, group)) => drop(provided.insert((group.into(), version.into(), kind.into()))),
            None => findings.error(
                "csv-owned-name",
                format!("/spec/customresourcedefinitions/owned/{at}/name"),
                format!("Error: : couldn't parse plural.group from crd name: {crd}"),
            ),
        }
    }
    for owned in list(csv, "/spec/apiservicedefinitions/owned") {
        provided.insert((text(owned, "/group").into(), text(owned, "/version").into(), text(owned, "/kind").into()));
    }
    let examples = match examples_of(examples) {
        Ok(examples) => examples,
        Err(error) => {
            findings.error("csv-examples", place, error.to_string());
            return;
        }
    };
    let mut shown: BTreeSet<Api> = BTreeSet::new();
    for example in &examples {
        let (group, version) = match text(example, "/apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", text(example, "/apiVersion")),
        };
        let api: Api = (group.into(), version.into(), text(example, "/kind").into());
        if !provided.contains(&api) {
            let text = format!("Error: Value {}: example must have a provided API", written(&api));
            findings.error("csv-example-api", place.clone(), text);
        }
        shown.insert(api);
    }
    for api in provided.difference(&shown) {
        let text = format!("Warning: Value {}: provided API should have an example annotation", written(api));
        findings.warning("csv-example-missing", place.clone(), text);
    }
}

/// Why examples cannot be read, in the words of the existing tools.
#[derive(Debug, thiserror::Error)]
enum ExamplesError {
    #[error("Error: Value invalid character at {offset}\n {read}<--(see the invalid character): invalid example")]
    Syntax { offset: usize, read: String },
    #[error(
        "Error: Value json: cannot unmarshal {found} into Go value of type {expected}: error decoding example \
         CustomResource"
    )]
    Type { found: &'static str, expected: &'static str },
}

fn examples_of(text: &str) -> Result<Vec<Value>, ExamplesError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    match serde_json::from_str::<Value>(text) {
        Err(why) => {
            let offset = offset_of(text, why.line(), why.column());
            let read = text.get(..offset).unwrap_or(text);
            Err(ExamplesError::Syntax { offset, read: read.to_owned() })
        }
        Ok(Value::Array(list)) if list.iter().all(Value::is_object) => Ok(list),
        Ok(other) => {
            let found = match &other {
                Value::Array(list) => list.iter().find(|item| !item.is_object()).unwrap_or(&other),
                other => other,
            };
            let kind = match found {
                Value::Null => "null",
                Value::Bool(_) => "bool",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            };
            let wanted = if other.is_array() { "unstructured.Unstructured" } else { "[]unstructured.Unstructured" };
            Err(ExamplesError::Type { found: kind, expected: wanted })
        }
    }
}

/// Returns the number of bytes before a parse error.
fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let mut offset = (before + column).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

fn written((group, version, kind): &Api) -> String {
    format!("{group}/{version}, Kind={kind}")
}

fn check_install_modes(csv: &Value, name: &str, findings: &mut Collector) {
    let modes = list(csv, "/spec/installModes");
    if modes.is_empty() {
        findings.error("csv-install-modes", "/spec", format!("Error: Value : ({name}) install modes not found"));
        return;
    }
    let supported = |mode: &Value| mode.get("supported").and_then(Value::as_bool) == Some(true);
    let mut seen = BTreeSet::new();
    if !modes.iter().all(|mode| seen.insert(text(mode, "/type"))) {
        let text = format!("Error: Value : ({name}) duplicate install modes present");
        findings.error("csv-install-modes", "/spec/installModes", text);
    }
    for webhook in list(csv, "/spec/webhookdefinitions") {
        let fits = modes.iter().all(|mode| (text(mode, "/type") == "AllNamespaces") == supported(mode));
        if !list(webhook, "/conversionCRDs").is_empty() && !fits {
            findings.error("csv-conversion-modes", "/spec/installModes", format!(
                "Error: Value : ({name}) only AllNamespaces InstallModeType is supported when conversionCRDs is present"
            ));
        }
    }
    if !modes.iter().any(supported) {
        let text = format!("Error: Value : ({name}) none of InstallModeTypes are supported");
        findings.error("csv-install-modes", "/spec/installModes", text);
    }
}

/// Checks the minimum Kubernetes version of a CSV.
fn min_kube_version(csv: &Value, name: &str, findings: &mut Collector) {
    const PLACE: &str = "/spec/minKubeVersion";
    match text(csv, PLACE).trim() {
        "" => findings.warning(
            "csv-min-kube-version",
            PLACE,
            format!(
                "Warning: Value : ({name}) csv.Spec.minKubeVersion is not informed. It is recommended you provide this \
             information. Otherwise, it would mean that your operator project can be distributed and installed in any \
             cluster version available, which is not necessarily the case for all projects."
            ),
        ),
        version if Version::parse_strict(version).is_err() => {
            let text = format!("Error: Value : ({name}) csv.Spec.MinKubeVersion has an invalid value: {version}");
            findings.error("csv-min-kube-version", PLACE, text);
        }
        _ => {}
    }
}

fn check_mandatory(csv: &Value, findings: &mut Collector) {
    let missing = |path: &str, what: &str| format!("Error: Field {path}, Value {what}: required field missing");
    let mut structs = Vec::new();
    if text(csv, "/apiVersion").is_empty() && text(csv, "/kind").is_empty() {
        structs.push("TypeMeta");
    }
    let absent = |pointer: &str| csv.pointer(pointer).and_then(Value::as_object).is_none_or(|map| map.is_empty());
    if absent("/metadata") {
        structs.push("ObjectMeta");
    }
    if absent("/spec") {
        structs.push("Spec");
    }
    for path in structs {
        findings.error("csv-mandatory", "", missing(path, "struct"));
    }
    if absent("/spec") {
        return;
    }
    if absent("/spec/install") {
        findings.error("csv-mandatory", "/spec", missing("Spec.InstallStrategy", "struct"));
    } else {
        if text(csv, "/spec/install/strategy").is_empty() {
            findings.error("csv-mandatory", "/spec/install", missing("Spec.InstallStrategy.StrategyName", "field"));
        }
        if !absent("/spec/install/spec") && list(csv, "/spec/install/spec/deployments").is_empty() {
            findings.error(
                "csv-mandatory",
                "/spec/install/spec",
                missing("Spec.InstallStrategy.StrategySpec.DeploymentSpecs", "field"),
            );
        }
    }
    if text(csv, "/spec/displayName").is_empty() {
        findings.error("csv-mandatory", "/spec", missing("Spec.DisplayName", "field"));
    }
}
