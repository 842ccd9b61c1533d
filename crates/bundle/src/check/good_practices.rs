//! The checks of the existing good-practices validator.

use fbc::version::Version;
use serde_json::Value;

use super::Collector;
use super::suites::CheckInput;
use crate::metadata::{CHANNELS, DEFAULT_CHANNEL};
use crate::pointer::{list, text};

pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    let Some(csv) = input.csv() else { return };
    findings.set_object(csv);
    let (name, value) = (csv.name(), &csv.value);
    let warning = |text: String| format!("Warning: Value {name}: {text}");
    const DEPLOYMENTS: &str = "/spec/install/spec/deployments";
    if value.pointer(DEPLOYMENTS).is_none_or(Value::is_null) {
        let text = format!("Error: Value {name}: unable to find a deployment to install in the CSV");
        findings.error("practice-deployment", "/spec/install", text);
    }
    for (at, deployment) in list(value, DEPLOYMENTS).iter().enumerate() {
        for (index, container) in list(deployment, "/spec/template/spec/containers").iter().enumerate() {
            let requests = container.pointer("/resources/requests").and_then(Value::as_object);
            if requests.is_none_or(|requests| requests.is_empty()) {
                let text = format!(
                    "unable to find the resource requests for the container: ({}). It is recommended to ensure the \
                     resource request for CPU and Memory. Be aware that for some clusters configurations it is required to \
                     specify requests or limits for those values. Otherwise, the system or quota may reject Pod creation. \
                     More info: https://master.sdk.operatorframework.io/docs/best-practices/managing-resources/",
                    text(container, "/name")
                );
                let pointer = format!("{DEPLOYMENTS}/{at}/spec/template/spec/containers/{index}");
                findings.warning("practice-resources", pointer, warning(text));
            }
        }
    }
    check_channels(input, name, findings);
    findings.set_object(csv);
    if can_create_crds(value) {
        let text = "CSV contains permissions to create CRD. An Operator shouldn't deploy or manage other operators (such \
                    patterns are known as meta or super operators or include CRDs in its Operands). It's the Operator \
                    Lifecycle Manager's job to manage the deployment and lifecycle of operators.  Please, review the design \
                    of your solution and if you should not be using Dependency Resolution from OLM instead. More info: \
                    https://sdk.operatorframework.io/docs/best-practices/common-recommendation/";
        findings.warning("practice-makes-crds", "/spec/install/spec", warning(text.into()));
    }
    for (field, shown) in [("owned", "owned"), ("required", "required")] {
        for (at, crd) in list(value, &format!("/spec/customresourcedefinitions/{field}")).iter().enumerate() {
            if text(crd, "/description").is_empty() {
                let pointer = format!("/spec/customresourcedefinitions/{field}/{at}");
                let text = format!("{shown} CRD {:?} has an empty description", text(crd, "/name"));
                findings.warning("practice-description", pointer, warning(text));
            }
        }
    }
    check_name(name, &warning, findings);
}

fn check_channels(input: &CheckInput<'_>, name: &str, findings: &mut Collector) {
    let annotation = |key: &str| {
        let found = input.whole.annotations.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    let channels = annotation(CHANNELS).split(',').chain([annotation(DEFAULT_CHANNEL)]).map(str::trim);
    let mut odd: Vec<&str> = channels
        .filter(|channel| !channel.is_empty())
        .filter(|channel| !["candidate", "stable", "fast"].iter().any(|good| channel.starts_with(good)))
        .collect();
    odd.sort_unstable();
    odd.dedup();
    if !odd.is_empty() {
        let odd: Vec<String> = odd.iter().map(|channel| format!("{channel:?}")).collect();
        let text = format!(
            "Warning: Value {name}: channel(s) [{}] are not following the recommended naming convention: \
             https://olm.operatorframework.io/docs/best-practices/channel-naming",
            odd.join(" ")
        );
        findings.set_file("metadata/annotations.yaml");
        findings.warning("practice-channels", "/annotations", text);
    }
}

fn can_create_crds(csv: &Value) -> bool {
    ["permissions", "clusterPermissions"]
        .iter()
        .flat_map(|field| list(csv, &format!("/spec/install/spec/{field}")))
        .flat_map(|permission| list(permission, "/rules"))
        .any(|rule| {
            let has = |pointer, wanted: &[&str]| {
                list(rule, pointer).iter().filter_map(Value::as_str).any(|value| wanted.contains(&value))
            };
            has("/apiGroups", &["apiextensions.k8s.io"])
                && has("/resources", &["customresourcedefinitions", "*", "[*]"])
                && has("/verbs", &["create", "patch", "*", "[*]"])
        })
}

fn check_name(name: &str, warning: &dyn Fn(String) -> String, findings: &mut Collector) {
    let version = name.split_once('.').map(|(_, version)| version.strip_prefix('v').unwrap_or(version));
    if version.is_none_or(|version| Version::parse_strict(version).is_err()) {
        let text = format!(
            "csv.metadata.Name {name} is not following the versioning convention (MAJOR.MINOR.PATCH e.g 0.0.1): \
             https://semver.org/"
        );
        findings.warning("practice-version-name", "/metadata/name", warning(text));
    }
    if name.matches(".v").count() != 1 {
        let text = format!(
            "csv.metadata.Name {name} is not following the recommended naming convention: <operator-name>.v<semver> e.g. \
             memcached-operator.v0.0.1"
        );
        findings.warning("practice-name", "/metadata/name", warning(text));
    }
}
