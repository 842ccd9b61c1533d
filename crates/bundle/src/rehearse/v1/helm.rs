//! Sorts objects in the order in which Helm applies them.

use std::collections::{BTreeMap, BTreeSet};

use fbc::json::{JsonLayout, Text};
use serde_json::Value;

use super::part;
use crate::pointer::text;
use crate::rehearse::{Note, display_name};

/// The order of kinds in Helm; all others, including webhook configurations, come last by kind.
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

/// The annotation of a Helm hook.
const HOOK: &str = "helm.sh/hook";
/// The annotation that controls what happens to an object when its release is deleted.
const POLICY: &str = "helm.sh/resource-policy";
const HOOK_EVENTS: [&str; 10] = [
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

/// Sorts objects in Helm's order, and drops what Helm drops.
///
/// Objects of one kind keep their creation order; Helm orders them by a hash of their text. Helm applies equal objects
/// once, excludes hooks from a release, and sets no owner on objects to keep.
pub(super) fn arrange(objects: &mut Vec<Value>, extension: &str) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut seen = BTreeSet::new();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    objects.iter().for_each(|object| *names.entry(display_name(object)).or_default() += 1);
    // An object with a unique name has no duplicates.
    let alone = |object: &Value| names.get(&display_name(object)) == Some(&1);
    objects.retain(|object| {
        let Some(hook) = annotation(object, HOOK) else { return alone(object) || seen.insert(canonical(object)) };
        let known = hook.split(',').all(|hook| HOOK_EVENTS.contains(&hook.trim().to_lowercase().as_str()));
        let message = if known {
            format!("Helm takes it for a hook ({hook}) and applies it apart from the release")
        } else {
            format!("Helm does not know the hook {hook:?} and never applies the object")
        };
        notes.push(Note { id: "rehearse-helm-hook", refused: false, message, object: display_name(object) });
        false
    });
    for object in objects.iter_mut() {
        if annotation(object, POLICY).is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep")) {
            let message = "it stays when the ClusterExtension is deleted (helm.sh/resource-policy: keep)".into();
            notes.push(Note { id: "rehearse-helm-keep", refused: false, message, object: display_name(object) });
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

/// Encodes an object with sorted keys.
fn canonical(object: &Value) -> Vec<u8> {
    Text::canonical(Text::from(object).raw(), JsonLayout::Compact).into_string().into_bytes()
}
