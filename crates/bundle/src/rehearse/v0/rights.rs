//! Service accounts, roles and bindings of OLM v0.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Renderer;
use crate::pointer::{list, text};
use crate::rehearse::names;

const GROUP: &str = "rbac.authorization.k8s.io";
const HASH: &str = "olm.permissions.hash";

impl Renderer<'_> {
    /// Adds each account with its roles and cluster roles.
    pub(super) fn rights(&mut self) {
        let bundle = self.bundle;
        let mut accounts: BTreeMap<&str, [Vec<&Value>; 2]> = BTreeMap::new();
        for (kind, permissions) in [&bundle.permissions, &bundle.cluster_permissions].into_iter().enumerate() {
            for permission in permissions {
                accounts.entry(text(permission, "/serviceAccountName")).or_default()[kind].push(permission);
            }
        }
        for (account, [permissions, cluster_permissions]) in accounts {
            let shown = if account.is_empty() { "default" } else { account };
            if shown != "default" {
                let metadata = json!({"name": shown, "namespace": self.options.namespace});
                self.add(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}));
            }
            for permission in permissions {
                self.role(shown, permission);
            }
            for permission in cluster_permissions {
                self.cluster_role(shown, permission);
            }
        }
    }

    fn role(&mut self, account: &str, permission: &Value) {
        let csv = &self.bundle.name;
        let rules = list(permission, "/rules");
        let written = names::permission(text(permission, "/serviceAccountName"), rules);
        let mut hashed = String::from("{\"name\":");
        names::text(csv, &mut hashed);
        hashed.push_str(&format!(",\"permission\":{written}}}\n"));
        let name = names::joined(&format!("{csv}-{account}"), &names::in_base62(&hashed));
        let namespace = self.options.namespace.clone();
        self.bound(&name, account, rules, Some(&namespace), None);
        if self.everywhere() {
            // The rights become cluster-wide, with the additional right to read namespaces.
            let mut lifted = rules.to_vec();
            lifted.push(json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}));
            self.bound(&name, account, &lifted, None, None);
            return;
        }
        let others: Vec<String> = self.options.targets.iter().filter(|target| **target != namespace).cloned().collect();
        for target in others {
            self.bound(&name, account, rules, Some(&target), Some(&namespace));
        }
    }

    fn cluster_role(&mut self, account: &str, permission: &Value) {
        let csv = &self.bundle.name;
        let rules = list(permission, "/rules");
        let written = names::permission(text(permission, "/serviceAccountName"), rules);
        let mut hashed = String::from("{\"name\":");
        names::text(csv, &mut hashed);
        hashed.push_str(",\"namespace\":");
        names::text(&self.options.namespace, &mut hashed);
        hashed.push_str(&format!(",\"permission\":{written}}}\n"));
        let name = names::joined(csv, &names::in_base62(&hashed));
        self.bound(&name, account, rules, None, None);
    }

    /// Adds a role and its binding, in a namespace or for the cluster.
    fn bound(&mut self, name: &str, account: &str, rules: &[Value], namespace: Option<&str>, copied: Option<&str>) {
        let (role, binding) =
            if namespace.is_some() { ("Role", "RoleBinding") } else { ("ClusterRole", "ClusterRoleBinding") };
        let api = format!("{GROUP}/v1");
        let own = &self.options.namespace;
        let mut reference = String::from("{\"RoleRef\":{\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":");
        names::text(role, &mut reference);
        reference.push_str(",\"name\":");
        names::text(name, &mut reference);
        reference.push_str("},\"Subjects\":[{\"kind\":\"ServiceAccount\",\"name\":");
        names::text(account, &mut reference);
        reference.push_str(",\"namespace\":");
        names::text(own, &mut reference);
        reference.push_str("}]}");
        let metadata = |hash: String| {
            let mut labels = json!({HASH: hash});
            if let Some(copied) = copied {
                labels["olm.copiedFrom"] = copied.into();
            }
            let mut metadata = json!({"name": name, "labels": labels});
            if let Some(namespace) = namespace {
                metadata["namespace"] = namespace.into();
            }
            metadata
        };
        let mut objects = [
            json!({
                "apiVersion": api, "kind": role, "metadata": metadata(names::in_base62(&names::rules(rules))),
                "rules": if rules.is_empty() { Value::Null } else { rules.into() },
            }),
            json!({
                "apiVersion": api, "kind": binding, "metadata": metadata(names::in_base62(&reference)),
                "roleRef": {"apiGroup": GROUP, "kind": role, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": own}],
            }),
        ];
        if namespace.is_none() {
            objects.iter_mut().for_each(|object| self.own(object));
        }
        objects.into_iter().for_each(|object| self.add(object));
    }
}
