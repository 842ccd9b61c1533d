//! Roles for users of the operator's APIs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Renderer;
use crate::pointer::{list, text};

/// The suffix of the role's name, its verbs, and the cluster role that it aggregates to.
const ROLES: [(&str, &[&str], &str); 3] = [
    ("admin", &["*"], "admin"),
    ("edit", &["create", "update", "patch", "delete"], "edit"),
    ("view", &["get", "list", "watch"], "view"),
];

impl Renderer<'_> {
    /// Adds roles for each API that the CSV owns: other versions of its CRDs get none.
    pub(super) fn api_roles(&mut self) {
        let owned: BTreeSet<(&str, &str)> = list(&self.bundle.csv, "/spec/customresourcedefinitions/owned")
            .iter()
            .map(|owned| (text(owned, "/name"), text(owned, "/version")))
            .collect();
        for crd in &self.bundle.crds {
            let (name, group) = (text(crd, "/metadata/name"), text(crd, "/spec/group"));
            let plural = text(crd, "/spec/names/plural");
            let versions = list(crd, "/spec/versions").iter().map(|version| text(version, "/name"));
            for version in versions.filter(|version| owned.contains(&(name, *version))) {
                for (end, verbs, part_of) in ROLES {
                    let rules = json!([{"verbs": verbs, "apiGroups": [group], "resources": [plural]}]);
                    let role = self.api_role(&format!("{name}-{version}-{end}"), part_of, rules);
                    self.derived.push(role);
                }
                let rules = json!([{
                    "verbs": ["get"], "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
                    "resourceNames": [name],
                }]);
                let role = self.api_role(&format!("{name}-{version}-crdview"), "view", rules);
                self.derived.push(role);
            }
        }
    }

    fn api_role(&self, name: &str, part_of: &str, rules: Value) -> Value {
        let mut labels = json!({"olm.managed": "true"});
        labels[format!("rbac.authorization.k8s.io/aggregate-to-{part_of}")] = "true".into();
        labels[format!("olm.opgroup.permissions/aggregate-to-{part_of}")] = "true".into();
        let metadata = json!({"name": name, "labels": labels});
        let mut role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules,
        });
        self.own(&mut role);
        role
    }
}
