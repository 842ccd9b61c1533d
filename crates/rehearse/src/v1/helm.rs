//! The order in which Helm applies objects.

use std::collections::{BTreeMap, BTreeSet};

use fbc::json::{Layout, Text};
use serde_json::Value;

use super::part;
use crate::input::text;
use crate::{Note, called};

/// Helm's order of kinds; others, webhook configurations among them, come last by kind.
const ORDER: [&str; 36] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
];

/// Marks an object as something that Helm runs at certain moments.
const HOOK: &str = "helm.sh/hook";
/// Says what becomes of an object when its release goes.
const POLICY: &str = "helm.sh/resource-policy";
const MOMENTS: [&str; 10] = [
    "pre-install",
    "post-install",
    "pre-delete",
    "post-delete",
    "pre-upgrade",
    "post-upgrade",
    "pre-rollback",
    "post-rollback",
    "test",
    "test-success",
];

/// Puts objects into Helm's order, and leaves out what Helm does.
///
/// Objects of one kind stay in the order in which they were made: Helm takes them by a hash of their text. Of
/// equal objects it sees one; hooks are no part of a release; what is to be kept has no owner.
pub(super) fn arrange(objects: &mut Vec<Value>, extension: &str) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut seen = BTreeSet::new();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    objects.iter().for_each(|object| *names.entry(called(object)).or_default() += 1);
    // What alone has its name equals nothing else.
    let alone = |object: &Value| names.get(&called(object)) == Some(&1);
    objects.retain(|object| {
        let Some(hook) = annotation(object, HOOK) else { return alone(object) || seen.insert(canonical(object)) };
        let known = hook.split(',').all(|hook| MOMENTS.contains(&hook.trim().to_lowercase().as_str()));
        let message = if known {
            format!("Helm takes it for a hook ({hook}) and applies it apart from the release")
        } else {
            format!("Helm does not know the hook {hook:?} and never applies the object")
        };
        notes.push(Note { id: "rehearse-helm-hook", refused: false, message, object: called(object) });
        false
    });
    for object in objects.iter_mut() {
        if annotation(object, POLICY).is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep")) {
            let message = "it stays when the ClusterExtension is deleted (helm.sh/resource-policy: keep)".into();
            notes.push(Note { id: "rehearse-helm-keep", refused: false, message, object: called(object) });
            let annotations = part(&mut object["metadata"], "annotations");
            annotations.insert("operator-sdk/primary-resource".into(), format!("/{extension}").into());
            let kind = "ClusterExtension.olm.operatorframework.io";
            annotations.insert("operator-sdk/primary-resource-type".into(), kind.into());
        }
    }
    objects.sort_by_cached_key(|object| {
        let kind = text(object, "/kind").to_owned();
        let known = ORDER.iter().position(|known| *known == kind);
        known.map_or((usize::MAX, kind), |at| (at, String::new()))
    });
    notes
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// Writes an object with its keys in order.
fn canonical(object: &Value) -> Vec<u8> {
    Text::canonical(Text::from(object).raw(), Layout::Compact).into_string().into_bytes()
}
