//! Derives the rights that an account needs to install a bundle with OLM v1.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::pointer::{list, text};

/// How the installer may grant the rights of the bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installer {
    /// It has every right that the bundle's roles grant, since no account can grant rights that it lacks.
    Every,
    /// It has `bind` and `escalate` on the bundle's roles instead: shorter, but more powerful than it looks.
    Short,
}

/// Returns the minimal ClusterRole with which an account can install the objects.
pub fn installer(objects: &[Value], extension: &str, how: Installer) -> Value {
    let mut kinds: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for object in objects {
        let version = text(object, "/apiVersion");
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let key = (group.to_owned(), plural(text(object, "/kind")));
        kinds.entry(key).or_default().insert(text(object, "/metadata/name").to_owned());
    }
    let mut rules = vec![json!({
        "apiGroups": ["olm.operatorframework.io"], "resources": ["clusterextensions/finalizers"],
        "resourceNames": [extension], "verbs": ["update"],
    })];
    for ((group, resource), names) in &kinds {
        rules.push(json!({"apiGroups": [group], "resources": [resource], "verbs": ["create", "list", "watch"]}));
        rules.push(json!({
            "apiGroups": [group], "resources": [resource], "resourceNames": names,
            "verbs": ["get", "update", "patch", "delete"],
        }));
    }
    let is_role = |object: &&Value| matches!(text(object, "/kind"), "Role" | "ClusterRole");
    match how {
        Installer::Every => {
            for rule in objects.iter().filter(is_role).flat_map(|role| list(role, "/rules")) {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
        Installer::Short => {
            for resource in ["clusterroles", "roles"] {
                let names: BTreeSet<&str> = objects
                    .iter()
                    .filter(|object| plural(text(object, "/kind")) == resource)
                    .map(|role| text(role, "/metadata/name"))
                    .collect();
                if !names.is_empty() {
                    rules.push(json!({
                        "apiGroups": ["rbac.authorization.k8s.io"], "resources": [resource], "resourceNames": names,
                        "verbs": ["bind", "escalate"],
                    }));
                }
            }
        }
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("{extension}-installer")}, "rules": rules,
    })
}

/// Returns the plural resource name of a kind.
fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match &*lower {
        "networkpolicy" => "networkpolicies".into(),
        other if other.ends_with('s') => format!("{other}es"),
        other => format!("{other}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installer_has_the_permissions_that_objects_require() {
        let objects = [
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
                "rules": [{"apiGroups": ["x"], "resources": ["ys"], "verbs": ["*"]}]}),
        ];
        let every = installer(&objects, "ext", Installer::Every);
        assert_eq!(list(&every, "/rules").len(), 6);
        assert_eq!(every["rules"][5], json!({"apiGroups": ["x"], "resources": ["ys"], "verbs": ["*"]}));
        assert_eq!(
            every["rules"][2],
            json!({"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["a"], "verbs": ["get", "update", "patch", "delete"]})
        );
        let short = installer(&objects, "ext", Installer::Short);
        assert_eq!(
            short["rules"][5],
            json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["r"], "verbs": ["bind", "escalate"]})
        );
    }
}
