//! Mistakes that no other validator reports and that otherwise surface only on a cluster.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Collector;
use super::suites::CheckInput;
use crate::pointer::{list, text};

const STRATEGY: &str = "/spec/install/spec";

pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    let Some(object) = input.csv() else { return };
    let csv = &object.value;
    findings.set_object(object);
    check_accounts(input, csv, findings);
    check_conditions(csv, findings);
    check_watching(csv, findings);
    check_images(csv, findings);
    for object in input.whole.objects.iter().filter(|object| object.document > 0) {
        findings.set_object(object);
        let text = format!("{} {} is not in the first document: OLM v0 does not see it", object.kind(), object.name());
        findings.warning("several-documents", "", text);
    }
    for object in &input.whole.objects {
        if matches!(object.kind(), "RoleBinding" | "ClusterRoleBinding") {
            findings.set_object(object);
            check_binding(&object.value, object.kind(), findings);
        }
    }
}

/// Finds deployments whose service account does not exist.
fn check_accounts(input: &CheckInput<'_>, csv: &Value, findings: &mut Collector) {
    let mut existing: BTreeSet<&str> = BTreeSet::from(["", "default"]);
    for field in ["permissions", "clusterPermissions"] {
        let permissions = list(csv, &format!("{STRATEGY}/{field}"));
        existing.extend(permissions.iter().map(|permission| text(permission, "/serviceAccountName")));
    }
    existing.extend(input.whole.of_kind("ServiceAccount").map(crate::whole::BundleObject::name));
    for (at, deployment) in list(csv, &format!("{STRATEGY}/deployments")).iter().enumerate() {
        let account = text(deployment, "/spec/template/spec/serviceAccountName");
        if !existing.contains(account) {
            let pointer = format!("{STRATEGY}/deployments/{at}/spec/template/spec/serviceAccountName");
            let text = format!(
                "ServiceAccount {account} is never created: no permission of the CSV and no object has its name"
            );
            findings.error("account-missing", pointer, text);
        }
    }
}

fn check_conditions(csv: &Value, findings: &mut Collector) {
    for field in ["permissions", "clusterPermissions"] {
        for (at, permission) in list(csv, &format!("{STRATEGY}/{field}")).iter().enumerate() {
            for (index, rule) in list(permission, "/rules").iter().enumerate() {
                let has = |pointer, wanted: &[&str]| {
                    list(rule, pointer).iter().filter_map(Value::as_str).any(|value| wanted.contains(&value))
                };
                let own = ["operatorconditions", "operatorconditions/status", "clusterserviceversions"];
                if has("/apiGroups", &["operators.coreos.com"]) && has("/resources", &own) {
                    let pointer = format!("{STRATEGY}/{field}/{at}/rules/{index}");
                    let text =
                        "the operator uses OperatorConditions or ClusterServiceVersions, which OLM v1 does not create";
                    findings.warning("olmv1-conditions", pointer, text);
                }
            }
        }
    }
}

fn check_watching(csv: &Value, findings: &mut Collector) {
    let narrow = list(csv, "/spec/installModes").iter().any(|mode| {
        matches!(text(mode, "/type"), "OwnNamespace" | "SingleNamespace")
            && mode.get("supported") == Some(&Value::Bool(true))
    });
    let reads = list(csv, &format!("{STRATEGY}/deployments"))
        .iter()
        .any(|deployment| deployment.to_string().contains("olm.targetNamespaces"));
    if narrow && !reads {
        let text = "the bundle supports OwnNamespace or SingleNamespace, but no container reads the annotation \
                    olm.targetNamespaces, where OLM says what to watch";
        findings.warning("watch-namespace-unused", "/spec/installModes", text);
    }
}

fn check_images(csv: &Value, findings: &mut Collector) {
    for (at, deployment) in list(csv, &format!("{STRATEGY}/deployments")).iter().enumerate() {
        for (index, container) in list(deployment, "/spec/template/spec/containers").iter().enumerate() {
            let image = text(container, "/image");
            if !image.is_empty() && !image.contains('@') {
                let pointer = format!("{STRATEGY}/deployments/{at}/spec/template/spec/containers/{index}/image");
                findings.warning("image-pinned", pointer, format!("{image} is not named by digest"));
            }
        }
    }
}

fn check_binding(binding: &Value, kind: &str, findings: &mut Collector) {
    for (at, subject) in list(binding, "/subjects").iter().enumerate() {
        if text(subject, "/kind") != "ServiceAccount" {
            continue;
        }
        let namespace = text(subject, "/namespace");
        if !namespace.is_empty() {
            let text =
                format!("the binding names the account in namespace {namespace}, wherever the operator is installed");
            findings.warning("rbac-fixed-namespace", format!("/subjects/{at}/namespace"), text);
        } else if kind == "ClusterRoleBinding" {
            let text = "the account has no namespace: the API server refuses the binding";
            findings.warning("rbac-fixed-namespace", format!("/subjects/{at}"), text);
        }
    }
}
