//! Extracts facts from the manifests of a bundle. Only this module reads rights and the versions of CRDs.
//!
//! It makes no judgement; callers decide what is risky, new or worth reporting.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::pointer::{list, text, texts};

/// The scope of a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RightScope {
    /// The namespaces that the operator watches, or its own.
    Namespaces,
    /// The whole cluster.
    Cluster,
}

/// A rule for an account, as written in the manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRule {
    pub account: String,
    pub scope: RightScope,
    /// API groups.
    pub groups: Vec<String>,
    /// Resources.
    pub resources: Vec<String>,
    /// The allowed verbs.
    pub verbs: Vec<String>,
    /// The names of the resources; empty allows all.
    pub names: Vec<String>,
    /// The non-resource URLs.
    pub urls: Vec<String>,
}

impl PermissionRule {
    /// Reads a rule of a role.
    pub fn read(rule: &Value, account: &str, scope: RightScope) -> PermissionRule {
        let owned = |pointer| texts(rule, pointer).into_iter().map(str::to_owned).collect();
        PermissionRule {
            account: account.to_owned(),
            scope,
            groups: owned("/apiGroups"),
            resources: owned("/resources"),
            verbs: owned("/verbs"),
            names: owned("/resourceNames"),
            urls: owned("/nonResourceURLs"),
        }
    }

    /// Returns the rule in the form used in roles.
    pub fn to_json(&self) -> Value {
        let mut rule = Map::new();
        for (name, list) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
            ("verbs", &self.verbs),
        ] {
            if !list.is_empty() {
                rule.insert(name.to_owned(), json!(list));
            }
        }
        Value::Object(rule)
    }
}

/// Returns the rules of a CSV for accounts, each with its JSON pointer.
pub fn rules(csv: &Value) -> Vec<(PermissionRule, String)> {
    let mut rules = Vec::new();
    for (field, scope) in [("permissions", RightScope::Namespaces), ("clusterPermissions", RightScope::Cluster)] {
        let base = format!("/spec/install/spec/{field}");
        for (at, permission) in list(csv, &base).iter().enumerate() {
            let account = text(permission, "/serviceAccountName");
            for (index, rule) in list(permission, "/rules").iter().enumerate() {
                rules.push((PermissionRule::read(rule, account, scope), format!("{base}/{at}/rules/{index}")));
            }
        }
    }
    rules
}

/// Versions by CRD name.
pub type Owned = BTreeMap<String, BTreeSet<String>>;

/// The facts from the manifests of a bundle. `None` means unknown.
#[derive(Debug, Clone, Default)]
pub struct BundleFacts {
    /// The rules of accounts.
    pub rules: Option<Vec<PermissionRule>>,
    /// The CRDs, if there are any manifests.
    pub crds: Option<Vec<Crd>>,
    /// The CSV and the CRDs themselves, for [`crate::review::crd::compare`].
    pub definitions: Vec<Value>,
    /// The versions of the CRDs that the CSV owns.
    pub owned: Option<Owned>,
}

impl BundleFacts {
    /// Reads manifests; `metadata` substitutes for a missing CSV.
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a Value>, metadata: Option<&Value>) -> BundleFacts {
        let mut facts = BundleFacts::default();
        for object in objects {
            facts.crds.get_or_insert_default();
            if matches!(text(object, "/kind"), "ClusterServiceVersion" | "CustomResourceDefinition") {
                facts.definitions.push(object.clone());
            }
            match text(object, "/kind") {
                "ClusterServiceVersion" if facts.rules.is_none() => {
                    facts.rules = Some(rules(object).into_iter().map(|(rule, _)| rule).collect());
                    facts.owned = Some(owned(list(object, "/spec/customresourcedefinitions/owned")));
                }
                "CustomResourceDefinition" => facts.crds.get_or_insert_default().push(Crd::read(object)),
                _ => {}
            }
        }
        if facts.owned.is_none() {
            facts.owned = metadata.map(|metadata| owned(list(metadata, "/crdDescriptions/owned")));
        }
        facts
    }
}

fn owned(descriptions: &[Value]) -> Owned {
    let mut all = Owned::new();
    for one in descriptions {
        all.entry(text(one, "/name").to_owned()).or_default().insert(text(one, "/version").to_owned());
    }
    all
}

/// The user-visible properties of a CRD.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Crd {
    pub name: String,
    /// The kind that it defines.
    pub kind: String,
    /// The served versions.
    pub served: BTreeSet<String>,
    /// The storage version.
    pub stored: Option<String>,
}

impl Crd {
    /// Reads a CRD in either API version.
    pub fn read(object: &Value) -> Crd {
        let mut crd = Crd {
            name: text(object, "/metadata/name").to_owned(),
            kind: text(object, "/spec/names/kind").to_owned(),
            ..Crd::default()
        };
        for version in list(object, "/spec/versions") {
            let name = text(version, "/name");
            if version.get("served") != Some(&Value::Bool(false)) {
                crd.served.insert(name.to_owned());
            }
            if version.get("storage") == Some(&Value::Bool(true)) {
                crd.stored = Some(name.to_owned());
            }
        }
        // The older API version has a single version next to the list or instead of it.
        if crd.served.is_empty() {
            let name = text(object, "/spec/version");
            crd.served.extend(Some(name.to_owned()).filter(|name| !name.is_empty()));
        }
        crd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_crds_are_parsed() {
        let new = json!({"metadata": {"name": "things.x"}, "spec": {"names": {"kind": "Thing"}, "versions": [
            {"name": "v1", "served": true, "storage": true},
            {"name": "v0", "served": false}]}});
        let old = json!({"metadata": {"name": "things.x"}, "spec": {"names": {"kind": "Thing"}, "version": "v1"}});
        let (new, old) = (Crd::read(&new), Crd::read(&old));
        assert_eq!(new.served, old.served);
        assert_eq!((new.stored.as_deref(), old.stored), (Some("v1"), None));
    }

    #[test]
    fn values_that_are_no_objects_have_no_facts() {
        for odd in [json!(null), json!([]), json!({"kind": "CustomResourceDefinition", "spec": 3})] {
            let facts = BundleFacts::of([&odd], None);
            assert!(facts.rules.is_none() && facts.owned.is_none());
        }
        assert!(BundleFacts::of([], None).crds.is_none());
        let csv = json!({"kind": "ClusterServiceVersion", "spec": {"install": {"spec": {"permissions": [{"rules": [{"verbs": ["get"]}, 1]}]}}}});
        assert_eq!(BundleFacts::of([&csv], None).rules.unwrap().len(), 2);
    }
}
