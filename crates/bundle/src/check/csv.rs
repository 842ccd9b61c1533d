//! What is asked of every ClusterServiceVersion.

use std::collections::BTreeSet;

use fbc::version::Version;
use serde_json::Value;

use super::{Findings, list, meta, text};

/// Annotations that are often spelled in another case.
const ANNOTATIONS: &[&str] =
    &["olm.operatorGroup", "olm.operatorNamespace", "olm.targetNamespaces", "olm.providedAPIs", "olm.skipRange"];

/// Group, version and kind of an API.
type Api = (String, String, String);

/// Checks a CSV.
pub(super) fn check(csv: &Value, findings: &mut Findings) {
    let name = text(csv, "/metadata/name");
    let error = |detail: &str| format!("Error: Value : ({name}) {detail}");
    for (field, value) in [("metadata.name", name), ("spec.replaces", text(csv, "/spec/replaces"))] {
        if field == "spec.replaces" && value.is_empty() {
            continue;
        }
        let wrong: Vec<String> = [meta::subdomain(value), meta::label_value(value)].into_iter().flatten().collect();
        if !wrong.is_empty() {
            findings.error(error(&format!("{field} \"{value}\" is invalid: {}", wrong.join(","))));
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
                findings.error(format!(
                    "Error: Value {name}: provided annotation {key} uses wrong case and should be {right} instead"
                ));
            }
        }
        if annotations.contains_key("olm.properties") {
            findings.warning(format!(
                "Warning: Value {name}: found olm.properties annotation, please define these properties in \
                 metadata/properties.yaml instead"
            ));
        }
    }
    for (field, message) in [("/apiVersion", "'apiVersion' is missing"), ("/kind", "'kind' is missing")] {
        if text(csv, field).is_empty() {
            findings.error(error(message));
        }
    }
}

fn check_examples(csv: &Value, name: &str, findings: &mut Findings) {
    let warning = |detail: &str| format!("Warning: Value : ({name}) {detail}");
    let Some(annotations) = csv.pointer("/metadata/annotations").and_then(Value::as_object) else {
        findings.warning(warning("annotations not found"));
        return;
    };
    let (alm, olm) = (annotations.get("alm-examples"), annotations.get("olm.examples"));
    let Some(examples) = alm.or(olm).and_then(Value::as_str) else {
        findings.warning(warning("example annotations not found"));
        return;
    };
    if alm.is_some() && olm.is_some() {
        findings.warning(warning("both `alm-examples` and `olm.examples` are present. Checking only `alm-examples` "));
    }
    let mut provided: BTreeSet<Api> = BTreeSet::new();
    for owned in list(csv, "/spec/customresourcedefinitions/owned") {
        let (crd, version, kind) = (text(owned, "/name"), text(owned, "/version"), text(owned, "/kind"));
        match crd.split_once('.') {
            Some((_, group)) => drop(provided.insert((group.into(), version.into(), kind.into()))),
            None => findings.error(format!("Error: Value : ({name}) couldn't parse plural.group from crd name: {crd}")),
        }
    }
    for owned in list(csv, "/spec/apiservicedefinitions/owned") {
        provided.insert((text(owned, "/group").into(), text(owned, "/version").into(), text(owned, "/kind").into()));
    }
    let examples: Vec<Value> = if examples.trim().is_empty() {
        Vec::new()
    } else {
        match serde_json::from_str::<Value>(examples) {
            Err(why) => {
                let text = format!("Error: Value {why}: ({name}) invalid example");
                findings.error(text);
                return;
            }
            Ok(Value::Array(list)) if list.iter().all(Value::is_object) => list,
            Ok(_) => {
                findings.error(format!("Error: Value : ({name}) error decoding example CustomResource"));
                return;
            }
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
            findings.error(format!("Error: Value {}: example must have a provided API", written(&api)));
        }
        shown.insert(api);
    }
    for api in provided.difference(&shown) {
        findings.warning(format!("Warning: Value {}: provided API should have an example annotation", written(api)));
    }
}

fn written((group, version, kind): &Api) -> String {
    format!("{group}/{version}, Kind={kind}")
}

fn check_install_modes(csv: &Value, name: &str, findings: &mut Findings) {
    let modes = list(csv, "/spec/installModes");
    if modes.is_empty() {
        findings.error(format!("Error: Value : ({name}) install modes not found"));
        return;
    }
    let supported = |mode: &Value| mode.get("supported").and_then(Value::as_bool) == Some(true);
    let mut seen = BTreeSet::new();
    if !modes.iter().all(|mode| seen.insert(text(mode, "/type"))) {
        findings.error(format!("Error: Value : ({name}) duplicate install modes present"));
    }
    for webhook in list(csv, "/spec/webhookdefinitions") {
        let fits = modes.iter().all(|mode| (text(mode, "/type") == "AllNamespaces") == supported(mode));
        if !list(webhook, "/conversionCRDs").is_empty() && !fits {
            findings.error(format!(
                "Error: Value : ({name}) only AllNamespaces InstallModeType is supported when conversionCRDs is present"
            ));
        }
    }
    if !modes.iter().any(supported) {
        findings.error(format!("Error: Value : ({name}) none of InstallModeTypes are supported"));
    }
}

/// Checks the oldest version of Kubernetes that a CSV names.
fn min_kube_version(csv: &Value, name: &str, findings: &mut Findings) {
    match text(csv, "/spec/minKubeVersion") {
        "" => findings.warning(format!(
            "Warning: Value : ({name}) csv.Spec.minKubeVersion is not informed. It is recommended you provide this \
             information. Otherwise, it would mean that your operator project can be distributed and installed in any \
             cluster version available, which is not necessarily the case for all projects."
        )),
        version if Version::parse_strict(version).is_err() => {
            findings.error(format!("Error: Value : ({name}) csv.Spec.MinKubeVersion has an invalid value: {version}"))
        }
        _ => {}
    }
}

fn check_mandatory(csv: &Value, findings: &mut Findings) {
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
    findings.errors.extend(structs.iter().map(|path| missing(path, "struct")));
    if absent("/spec") {
        return;
    }
    if absent("/spec/install") {
        findings.error(missing("Spec.InstallStrategy", "struct"));
    } else {
        if text(csv, "/spec/install/strategy").is_empty() {
            findings.error(missing("Spec.InstallStrategy.StrategyName", "field"));
        }
        if !absent("/spec/install/spec") && list(csv, "/spec/install/spec/deployments").is_empty() {
            findings.error(missing("Spec.InstallStrategy.StrategySpec.DeploymentSpecs", "field"));
        }
    }
    if text(csv, "/spec/displayName").is_empty() {
        findings.error(missing("Spec.DisplayName", "field"));
    }
}
