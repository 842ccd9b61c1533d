//! What an operator may do on a cluster, and what of it deserves review: the findings of `opm security`.

use std::collections::{BTreeMap, BTreeSet};

use bundle::review::facts::{PermissionRule, RightScope};
use bundle::review::security::{self, RULES, SecurityOptions};
use bundle::{Finding, Severity};
use serde_json::{Value, json};

use crate::manifest::VersionManifest;

/// The most messages that a page shows of one rule.
const MESSAGES: usize = 3;

/// What one rule reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concern {
    /// The worst severity.
    pub severity: Severity,
    /// The name of the rule.
    pub id: &'static str,
    /// The description of the rule.
    pub about: &'static str,
    /// The first messages.
    pub messages: Vec<String>,
    /// The number of further messages.
    pub more: usize,
}

/// All permissions of a bundle.
#[derive(Debug, Clone)]
pub struct Permissions {
    /// The rules, those of the cluster first.
    pub rules: Vec<PermissionRule>,
    /// What deserves review, the worst first; or why it is unknown.
    pub concerns: Result<Vec<Concern>, String>,
}

impl Permissions {
    /// Reads the permissions of a bundle; `None` if its manifests are unknown.
    pub fn of(manifest: &VersionManifest) -> Option<Permissions> {
        let mut rules = manifest.facts.rules.clone()?;
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.scope));
        let findings = security::judge(&manifest.objects, SecurityOptions::default());
        Some(Permissions { rules, concerns: findings.map(concerns).map_err(|error| error.to_string()) })
    }

    /// Returns what of a new version deserves review that the old one lacked; `None` if manifests are unknown.
    pub(crate) fn grown(old: &VersionManifest, new: &VersionManifest) -> Option<Vec<String>> {
        (old.facts.rules.is_some() && new.facts.rules.is_some()).then_some(())?;
        let findings = security::judge_change(&old.objects, &new.objects, SecurityOptions::default());
        let worded = |findings: Vec<Finding>| {
            let findings = findings.into_iter().filter(deserves_review);
            findings.map(|finding| format!("{}: {}", finding.severity, finding.message)).collect()
        };
        Some(findings.map_or_else(|error| vec![error.to_string()], worded))
    }

    /// Returns the accounts of one scope, in order.
    pub fn accounts(&self, scope: RightScope) -> Vec<&str> {
        let all: BTreeSet<&str> =
            self.rules.iter().filter(|rule| rule.scope == scope).map(|rule| rule.account.as_str()).collect();
        all.into_iter().collect()
    }

    /// Returns the role of an account as an object.
    pub fn role(&self, name: &str, scope: RightScope, account: &str) -> Value {
        let rules: Vec<Value> = self
            .rules
            .iter()
            .filter(|rule| rule.scope == scope && rule.account == account)
            .map(PermissionRule::to_json)
            .collect();
        let kind = if scope == RightScope::Cluster { "ClusterRole" } else { "Role" };
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": format!("{name}-{account}")},
            "rules": rules,
        })
    }
}

/// Returns whether the page of permissions shows a finding: images, dependencies and CRDs have their own sections.
fn deserves_review(finding: &Finding) -> bool {
    let elsewhere = ["image-", "dependency-", "kube-", "crd-"].iter().any(|start| finding.id.starts_with(start));
    finding.severity >= Severity::Medium && !elsewhere
}

/// Groups findings by rule, the worst first.
fn concerns(findings: Vec<Finding>) -> Vec<Concern> {
    let mut by_rule: BTreeMap<&'static str, Vec<Finding>> = BTreeMap::new();
    for finding in findings.into_iter().filter(deserves_review) {
        by_rule.entry(finding.id).or_default().push(finding);
    }
    let concern = |(id, mut findings): (&'static str, Vec<Finding>)| {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let about = RULES.iter().find(|(name, _)| *name == id).map_or(id, |(_, about)| about);
        let severity = findings.first().map_or(Severity::Info, |finding| finding.severity);
        let more = findings.len().saturating_sub(MESSAGES);
        let messages = findings.into_iter().take(MESSAGES).map(|finding| finding.message).collect();
        Concern { severity, id, about, messages, more }
    };
    let mut concerns: Vec<Concern> = by_rule.into_iter().map(concern).collect();
    concerns.sort_by_key(|concern| std::cmp::Reverse(concern.severity));
    concerns
}

#[cfg(test)]
mod tests {
    use bundle::ParsedBundle;

    use super::*;

    fn manifest(rules: Value, pod: Value) -> VersionManifest {
        let csv = json!({"kind": "ClusterServiceVersion", "spec": {
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"spec": {
                "clusterPermissions": [{"serviceAccountName": "a", "rules": rules}],
                "deployments": [{"name": "d", "spec": {"template": {"spec": pod}}}]}}}});
        let facts = bundle::review::facts::BundleFacts::of([&csv], None);
        VersionManifest { objects: ParsedBundle::of_values([csv]), facts, ..VersionManifest::default() }
    }

    fn rule(group: &str, resource: &str, verb: &str) -> Value {
        json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
    }

    /// C-13: the page shows what `opm security` reports, at its severity.
    #[test]
    fn concerns_are_the_findings_of_security() {
        let rules =
            json!([rule("apps", "deployments", "create"), rule("", "secrets", "get"), rule("", "pods", "list")]);
        let manifest = manifest(rules, json!({"hostNetwork": true, "containers": [{"name": "c"}]}));
        let concerns = Permissions::of(&manifest).unwrap().concerns.unwrap();
        let seen: Vec<(&str, Severity)> = concerns.iter().map(|concern| (concern.id, concern.severity)).collect();
        let all = security::judge(&manifest.objects, SecurityOptions::default()).unwrap();
        for (id, severity) in [("rights-workloads", Severity::High), ("rights-secrets", Severity::High)] {
            assert!(seen.contains(&(id, severity)), "{seen:?}");
        }
        for finding in all.iter().filter(|finding| finding.severity >= Severity::High) {
            assert!(
                seen.iter().any(|(id, severity)| *id == finding.id && *severity >= finding.severity),
                "{finding:?}"
            );
        }
        assert!(seen.is_sorted_by_key(|(_, severity)| std::cmp::Reverse(*severity)), "{seen:?}");
    }

    #[test]
    fn reading_a_few_resources_is_nothing_unusual() {
        let concerns =
            Permissions::of(&manifest(json!([rule("", "pods", "get")]), json!({}))).unwrap().concerns.unwrap();
        assert_eq!(concerns, []);
    }

    #[test]
    fn only_what_grew_is_new() {
        let old = manifest(json!([rule("", "secrets", "get")]), json!({}));
        let new = manifest(json!([rule("", "secrets", "get"), rule("apps", "deployments", "create")]), json!({}));
        let grown = Permissions::grown(&old, &new).unwrap();
        assert!(grown.len() == 1 && grown[0].starts_with("high: ") && grown[0].contains("deployments"), "{grown:?}");
        assert!(Permissions::grown(&VersionManifest::default(), &new).is_none());
    }
}
