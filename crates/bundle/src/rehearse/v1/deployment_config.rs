//! Applies user configuration to the deployments of an operator.

use serde_json::{Value, json};

use super::part;
use crate::pointer::{list, text};

/// Applies a configuration to a deployment; init containers stay unchanged.
pub(crate) fn apply(deployment: &mut Value, config: &Value) {
    if let Some(annotations) = config.get("annotations").and_then(Value::as_object) {
        let add = |holder: &mut Value| {
            let own = part(&mut holder["metadata"], "annotations");
            for (key, value) in annotations {
                own.entry(key.clone()).or_insert_with(|| value.clone());
            }
        };
        add(deployment);
        if let Some(template) = deployment.pointer_mut("/spec/template") {
            add(template);
        }
    }
    let Some(pod) = deployment.pointer_mut("/spec/template/spec").filter(|pod| pod.is_object()) else { return };
    merge_by_name(pod, "volumes", list(config, "/volumes"));
    append_new(pod, "tolerations", list(config, "/tolerations"));
    if let Some(selector) = config.get("nodeSelector") {
        pod["nodeSelector"] = selector.clone();
    }
    if let Some(affinity) = config.get("affinity") {
        apply_affinity(pod, affinity);
    }
    let Some(containers) = pod.get_mut("containers").and_then(Value::as_array_mut) else { return };
    for container in containers.iter_mut().filter(|container| container.is_object()) {
        merge_by_name(container, "env", list(config, "/env"));
        append_new(container, "envFrom", list(config, "/envFrom"));
        merge_by_name(container, "volumeMounts", list(config, "/volumeMounts"));
        if let Some(resources) = config.get("resources") {
            container["resources"] = resources.clone();
        }
    }
}

/// Replaces entries of the same name, and appends the others.
fn merge_by_name(holder: &mut Value, field: &str, entries: &[Value]) {
    if entries.is_empty() {
        return;
    }
    let mut all = list(holder, &format!("/{field}")).to_vec();
    for entry in entries {
        match all.iter().position(|present| text(present, "/name") == text(entry, "/name")) {
            Some(at) => all[at] = entry.clone(),
            None => all.push(entry.clone()),
        }
    }
    holder[field] = all.into();
}

/// Appends entries that do not exist yet.
fn append_new(holder: &mut Value, field: &str, entries: &[Value]) {
    if entries.is_empty() {
        return;
    }
    let mut all = list(holder, &format!("/{field}")).to_vec();
    for entry in entries {
        if !all.contains(entry) {
            all.push(entry.clone());
        }
    }
    holder[field] = all.into();
}

/// Replaces the given parts of an affinity; an empty part removes it, and an empty affinity removes all.
fn apply_affinity(pod: &mut Value, affinity: &Value) {
    let Some(parts) = affinity.as_object() else { return };
    if parts.is_empty() {
        pod.as_object_mut().map(|pod| pod.remove("affinity"));
        return;
    }
    let own = part(pod, "affinity");
    for (name, part) in parts {
        if part == &json!({}) {
            own.remove(name);
        } else {
            own.insert(name.clone(), part.clone());
        }
    }
    if own.is_empty() {
        pod.as_object_mut().map(|pod| pod.remove("affinity"));
    }
}
