//! Checks the OpenShift versions of a bundle and its marketplace links.

use serde_json::Value;

use super::Collector;
use super::csv::annotation as annotation_pointer;
use super::suites::CheckInput;
use crate::pointer::text;

const VERSIONS: &str = "com.redhat.openshift.versions";
/// OpenShift 4.N is based on Kubernetes 1.(N + 13).
const KUBERNETES_MINOR_OFFSET: u32 = 13;

/// Checks that the OpenShift versions are not older than the Kubernetes version that the operator needs.
pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    let Some(object) = input.csv() else { return };
    findings.set_object(object);
    let written = input.whole.annotations.iter().find(|(key, _)| key == VERSIONS).map(|(_, value)| value.trim());
    let least = text(&object.value, "/spec/minKubeVersion").trim();
    let pointer = "/spec/minKubeVersion";
    if let Some(written) = written
        && written.contains(',')
        && written != "v4.5,v4.6"
        && written != "v4.6,v4.5"
    {
        let text = format!("{VERSIONS} is {written:?}: the only list with a comma is v4.5,v4.6; use a range");
        findings.error("openshift-versions", "", text);
        return;
    }
    let Some(kubernetes) = minor(least, "1.") else { return };
    let Some(written) = written.filter(|written| !written.is_empty()) else {
        let text = format!("minKubeVersion is {least}, but metadata/annotations.yaml does not set {VERSIONS}");
        findings.warning("openshift-versions", pointer, text);
        return;
    };
    let first = written.trim_start_matches('=').split(['-', ',']).next().unwrap_or_default();
    match minor(first, "v4.") {
        None => findings.error(
            "openshift-versions",
            "",
            format!("{VERSIONS} {written:?} is not a range such as v4.12-v4.16"),
        ),
        Some(openshift) if openshift + KUBERNETES_MINOR_OFFSET < kubernetes => {
            let text = format!(
                "minKubeVersion {least} is newer than OpenShift 4.{openshift}, which is Kubernetes 1.{}",
                openshift + KUBERNETES_MINOR_OFFSET
            );
            findings.error("openshift-versions", pointer, text);
        }
        Some(_) => {}
    }
}

/// Parses the number after a prefix.
fn minor(version: &str, prefix: &str) -> Option<u32> {
    version.strip_prefix(prefix)?.split('.').next()?.parse().ok()
}

/// Checks the links that the marketplace requires.
pub(super) fn check_marketplace(input: &CheckInput<'_>, findings: &mut Collector) {
    let Some(object) = input.csv() else { return };
    findings.set_object(object);
    let package = &input.whole.package;
    let annotations = object.value.pointer("/metadata/annotations");
    for (key, page) in [("remote-workflow", "pricing"), ("support-workflow", "support")] {
        let key = format!("marketplace.openshift.io/{key}");
        let wanted =
            format!("https://marketplace.redhat.com/en-us/operators/{package}/{page}?utm_source=openshift_console");
        let written = annotations.and_then(|all| all.get(&key)).and_then(Value::as_str);
        if written != Some(&wanted) {
            let text = format!("annotation {key} must be {wanted}");
            findings.error("marketplace-links", annotation_pointer(&key), text);
        }
    }
}
