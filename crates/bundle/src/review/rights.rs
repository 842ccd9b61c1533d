//! Collects the rights of accounts.

use std::collections::BTreeSet;
use std::ops::Deref;

use crate::ParsedBundle;
use crate::pointer::{list, text};

use crate::review::facts;
pub(crate) use crate::review::facts::RightScope;

/// A rule for an account, and its location.
#[derive(Debug, Clone)]
pub(crate) struct LocatedRule {
    pub(crate) rule: facts::PermissionRule,
    pub(crate) file: String,
    pub(crate) document: usize,
    pub(crate) pointer: String,
}

impl Deref for LocatedRule {
    type Target = facts::PermissionRule;

    fn deref(&self) -> &facts::PermissionRule {
        &self.rule
    }
}

/// A right: a verb on a resource or on a URL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) verb: String,
}

impl LocatedRule {
    /// Returns the rights of the rule; those on URLs have no group.
    pub(crate) fn rights(&self) -> impl Iterator<Item = Right> {
        let resources = self.groups.iter().flat_map(move |group| {
            self.resources.iter().flat_map(move |resource| {
                self.verbs.iter().map(move |verb| Right {
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                })
            })
        });
        let urls = self.urls.iter().flat_map(move |url| {
            self.verbs.iter().map(move |verb| Right { group: String::new(), resource: url.clone(), verb: verb.clone() })
        });
        resources.chain(urls)
    }

    /// Returns the number of rights of the rule.
    pub(crate) fn size(&self) -> usize {
        (self.groups.len() * self.resources.len() + self.urls.len()).saturating_mul(self.verbs.len())
    }

    /// Returns whether this rule grants a right in a scope, at least for some names.
    fn grants(&self, right: &Right, scope: RightScope) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        if self.scope < scope || !has(&self.verbs, &right.verb) {
            return false;
        }
        if right.resource.starts_with('/') {
            return self.urls.iter().any(|url| {
                url == "*"
                    || *url == right.resource
                    || url.strip_suffix('*').is_some_and(|start| right.resource.starts_with(start))
            });
        }
        let resource = has(&self.resources, &right.resource)
            || right
                .resource
                .split_once('/')
                .is_some_and(|(_, part)| self.resources.iter().any(|one| one == &format!("*/{part}")));
        has(&self.groups, &right.group) && resource
    }

    /// Returns the part of this rule, for one of its rights, that other rules do not grant; `None` if they grant all.
    ///
    /// Several rules can grant the names of one, so a rule that joins others is not new.
    pub(crate) fn beyond<'a>(
        &self,
        right: &Right,
        scope: RightScope,
        others: impl Iterator<Item = &'a LocatedRule>,
    ) -> Option<LocatedRule> {
        let mut granted: BTreeSet<&str> = BTreeSet::new();
        for other in others.filter(|other| other.grants(right, scope)) {
            if other.names.is_empty() {
                return None;
            }
            granted.extend(other.names.iter().map(String::as_str));
        }
        let mut beyond = self.clone();
        beyond.rule.names.retain(|name| !granted.contains(&**name));
        (self.names.is_empty() || !beyond.names.is_empty()).then_some(beyond)
    }
}

/// Collects the rights of accounts from the CSV, and from roles and bindings of the bundle.
///
/// If the operator watches all namespaces, its namespaced rights apply everywhere.
pub(crate) fn collect(whole: &ParsedBundle, everywhere: bool) -> Vec<LocatedRule> {
    let mut rules: Vec<LocatedRule> = Vec::new();
    let Some(csv) = whole.csv() else { return rules };
    for (mut rule, pointer) in facts::rules(&csv.value) {
        if everywhere {
            rule.scope = RightScope::Cluster;
        }
        if rule.account.is_empty() {
            "default".clone_into(&mut rule.account);
        }
        add(&mut rules, rule, (&csv.file, csv.document, pointer));
    }
    bound(whole, &mut rules);
    rules
}

/// Adds a rule unless it is a duplicate.
fn add(rules: &mut Vec<LocatedRule>, rule: facts::PermissionRule, (file, document, pointer): (&str, usize, String)) {
    // Only the last few rules are compared: a distant duplicate is reported once anyway.
    if !rules.iter().rev().take(200).any(|known| known.rule == rule) {
        rules.push(LocatedRule { rule, file: file.to_owned(), document, pointer });
    }
}

/// Adds the rights that bindings of the bundle grant to accounts.
fn bound(whole: &ParsedBundle, rules: &mut Vec<LocatedRule>) {
    let bindings = whole.objects.iter().filter(|object| matches!(object.kind(), "RoleBinding" | "ClusterRoleBinding"));
    for binding in bindings {
        let scope = if binding.kind() == "ClusterRoleBinding" { RightScope::Cluster } else { RightScope::Namespaces };
        let (kind, name) = (text(&binding.value, "/roleRef/kind"), text(&binding.value, "/roleRef/name"));
        let accounts: Vec<&str> = list(&binding.value, "/subjects")
            .iter()
            .filter(|subject| text(subject, "/kind") == "ServiceAccount")
            .map(|subject| text(subject, "/name"))
            .collect();
        let role = whole.objects.iter().find(|object| object.kind() == kind && object.name() == name);
        for account in accounts {
            match role {
                Some(role) => {
                    for (index, rule) in list(&role.value, "/rules").iter().enumerate() {
                        let rule = facts::PermissionRule::read(rule, account, scope);
                        add(rules, rule, (&role.file, role.document, format!("/rules/{index}")));
                    }
                }
                None if name == "cluster-admin" => {
                    let everything = serde_json::json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
                    let rule = facts::PermissionRule::read(&everything, account, scope);
                    add(rules, rule, (&binding.file, binding.document, "/roleRef".into()));
                }
                None => {}
            }
        }
    }
}
