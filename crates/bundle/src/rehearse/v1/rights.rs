//! Service accounts, roles and bindings.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Renderer;
use crate::pointer::{list, text};
use crate::rehearse::names;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Returns the account of a permission.
fn account(permission: &Value) -> &str {
    match text(permission, "/serviceAccountName") {
        "" => "default",
        name => name,
    }
}

impl Renderer<'_> {
    /// Adds the accounts of permissions, by name.
    pub(super) fn accounts(&mut self) {
        let permissions = self.bundle.permissions.iter().chain(&self.bundle.cluster_permissions);
        let names: BTreeSet<&str> = permissions.map(account).filter(|&name| name != "default").collect();
        let namespace = &self.options.namespace;
        self.objects.extend(names.into_iter().map(|name| {
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
        }));
    }

    /// Adds roles in the watched namespaces.
    pub(super) fn roles(&mut self) {
        if self.everywhere() {
            return;
        }
        for target in self.targets {
            for permission in &self.bundle.permissions {
                let rules = list(permission, "/rules");
                self.bound(account(permission), text(permission, "/serviceAccountName"), rules, Some(target));
            }
        }
    }

    /// Adds cluster roles: the requested ones, and the namespaced ones if the operator watches all namespaces.
    pub(super) fn cluster_roles(&mut self) {
        for permission in &self.bundle.cluster_permissions {
            let rules = list(permission, "/rules");
            self.bound(account(permission), text(permission, "/serviceAccountName"), rules, None);
        }
        if !self.everywhere() {
            return;
        }
        for permission in &self.bundle.permissions {
            let mut rules = list(permission, "/rules").to_vec();
            rules.push(json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}));
            self.bound(account(permission), text(permission, "/serviceAccountName"), &rules, None);
        }
    }

    /// Adds a role and its binding, in a namespace or for the cluster.
    fn bound(&mut self, account: &str, written: &str, rules: &[Value], namespace: Option<&String>) {
        let name = names::role(&self.bundle.name, account, &names::permission(written, rules));
        let (role, binding) =
            if namespace.is_some() { ("Role", "RoleBinding") } else { ("ClusterRole", "ClusterRoleBinding") };
        let api = format!("{GROUP}/v1");
        let mut metadata = json!({"name": name});
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.clone().into();
        }
        let rules = if rules.is_empty() { Value::Null } else { rules.into() };
        self.objects.push(json!({"apiVersion": api, "kind": role, "metadata": metadata, "rules": rules}));
        self.objects.push(json!({
            "apiVersion": api, "kind": binding, "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": role, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": self.options.namespace}],
        }));
    }
}
