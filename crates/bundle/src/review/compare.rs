//! Finds what is new between two lists of facts or two lists of rules.

use std::collections::{BTreeMap, BTreeSet};

use fbc::fault::{Class, Fault};

use crate::{Finding, Severity};

use crate::review::judge::judge;
use crate::review::rights::{LocatedRule, Right, RightScope};

/// A fact about a bundle.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    /// The key that identifies the same fact in another version.
    pub(crate) key: String,
    pub(crate) finding: Finding,
    /// The rank on a scale, for facts that every bundle has exactly once.
    pub(crate) rank: Option<usize>,
}

/// The maximum number of comparisons of rules; more of them count as hostile input.
const MAX_COMPARISONS: usize = 30_000_000;
/// The maximum number of rights that a finding lists.
const MAX_NAMED: usize = 6;

/// Returns the facts about one bundle that are worth reporting.
pub(crate) fn present(facts: Vec<Fact>) -> Vec<Finding> {
    // These matter only if they change.
    const CHANGES: [&str; 8] = [
        "image-registry",
        "image-repository",
        "image-changed",
        "crd-added",
        "network-policy-removed",
        "pod-hardening",
        "install-mode",
        "kube-version",
    ];
    facts.into_iter().filter(|fact| !CHANGES.contains(&fact.finding.id)).map(|fact| fact.finding).collect()
}

/// Returns new facts, and removed facts that protected the cluster.
pub(crate) fn changed(old: &[Fact], new: &[Fact]) -> Vec<Finding> {
    let known: BTreeSet<&str> = old.iter().map(|fact| fact.key.as_str()).collect();
    let now: BTreeSet<&str> = new.iter().map(|fact| fact.key.as_str()).collect();
    let mut findings = Vec::new();
    for fact in new.iter().filter(|fact| !known.contains(fact.key.as_str())) {
        let mut finding = fact.finding.clone();
        match finding.id {
            // An improvement, or reported elsewhere.
            "network-policy-removed" | "pod-hardening" => continue,
            "install-mode" => {
                if !(fact.key == "install-mode AllNamespaces"
                    && old.iter().any(|fact| fact.finding.id == "install-mode"))
                {
                    continue;
                }
                let alone = new.iter().filter(|fact| fact.finding.id == "install-mode").count() == 1;
                if !alone {
                    continue;
                }
                finding.id = "scope-wider";
                finding.severity = Severity::High;
                finding.message = "AllNamespaces became the only install mode".into();
            }
            "kube-version" => {
                finding.severity = Severity::Low;
                finding.message = format!("{}, other than before", finding.message);
            }
            "dependency-new" => finding.severity = Severity::Medium,
            "pod-security-level" => {
                let before = old.iter().find(|it| it.finding.id == finding.id && it.finding.object == finding.object);
                match (before.and_then(|fact| fact.rank), fact.rank) {
                    (Some(before), Some(now)) if now > before => finding.severity = Severity::Medium,
                    _ => continue,
                }
            }
            // A digest that became a tag. New images are reported by repository.
            "image-unpinned" => {
                let repository = fact.key.replacen("image-unpinned", "image-repository", 1);
                if !known.contains(&*repository) {
                    continue;
                }
            }
            // Without images in the old version, no image counts as new.
            "image-registry" | "image-repository" if !old.iter().any(|fact| fact.finding.id == finding.id) => continue,
            _ => {}
        }
        findings.push(finding);
    }
    for fact in old.iter().filter(|fact| !now.contains(fact.key.as_str())) {
        let mut finding = fact.finding.clone();
        match finding.id {
            "network-policy-removed" => {
                finding.severity = Severity::Medium;
                finding.message = "is gone: it protected pods".into();
            }
            "pod-hardening" => {
                let gone = !new.iter().any(|it| it.finding.object == finding.object);
                if gone {
                    continue;
                }
                finding.severity = Severity::Low;
                finding.message = format!("no longer so: {}", finding.message);
            }
            _ => continue,
        }
        finding.file = String::new();
        finding.pointer = String::new();
        findings.push(finding);
    }
    findings
}

/// Returns the rights of accounts, with the worst severity of each kind.
pub(crate) fn rights(rules: &[LocatedRule], own_groups: &[String]) -> Result<Vec<Finding>, TooManyRights> {
    let mut reported = Reported::default();
    let mut size = 0usize;
    for rule in rules {
        size = size.saturating_add(rule.size());
        if size > MAX_COMPARISONS / 10 {
            return Err(TooManyRights);
        }
        for right in rule.rights() {
            let (id, severity) = judge(rule, &right, own_groups);
            reported.add(id, severity, rule, right, "may");
        }
    }
    Ok(reported.findings())
}

/// The bundle is too large to judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bundle gives more rights than can be judged")]
pub struct TooManyRights;

impl Fault for TooManyRights {
    fn class(&self) -> Class {
        Class::Refused
    }
}

/// Returns the rights that are new, moved or removed.
pub(crate) fn changed_rights(
    old: &[LocatedRule],
    new: &[LocatedRule],
    own_groups: &[String],
) -> Result<Vec<Finding>, TooManyRights> {
    let mut reported = Reported::default();
    let mut left = MAX_COMPARISONS;
    let of = |rules: &[LocatedRule]| -> BTreeMap<String, Vec<LocatedRule>> {
        let mut by_account: BTreeMap<String, Vec<LocatedRule>> = BTreeMap::new();
        rules.iter().for_each(|rule| by_account.entry(rule.account.clone()).or_default().push(rule.clone()));
        by_account
    };
    let (old_by, new_by) = (of(old), of(new));
    let nothing = Vec::new();
    for rule in new {
        let before = old_by.get(&rule.account).unwrap_or(&nothing);
        for right in rule.rights() {
            left = left.checked_sub(before.len().max(1)).ok_or(TooManyRights)?;
            let Some(rule) = rule.beyond(&right, rule.scope, before.iter()) else { continue };
            if rule.scope == RightScope::Cluster && rule.beyond(&right, RightScope::Namespaces, before.iter()).is_none()
            {
                reported.add("scope-wider", Severity::High, &rule, right, "may now in the whole cluster");
                continue;
            }
            left = left.checked_sub(old.len().max(1)).ok_or(TooManyRights)?;
            let others = old.iter().filter(|known| known.account != rule.account);
            if rule.beyond(&right, rule.scope, others).is_none() {
                reported.add("rights-moved", Severity::Info, &rule, right, "may now, as another account could,");
                continue;
            }
            let (id, severity) = judge(&rule, &right, own_groups);
            reported.add(id, severity, &rule, right, "may now");
        }
    }
    for rule in old {
        let now = new_by.get(&rule.account).unwrap_or(&nothing);
        for right in rule.rights() {
            left = left.checked_sub(now.len().max(1)).ok_or(TooManyRights)?;
            if let Some(rule) = rule.beyond(&right, rule.scope, now.iter()) {
                let gone = LocatedRule { file: String::new(), pointer: String::new(), ..rule };
                reported.add("rights-removed", Severity::Info, &gone, right, "may no longer");
            }
        }
    }
    let mut findings = reported.findings();
    for account in new_by.keys().filter(|account| !old_by.contains_key(*account)) {
        let message = format!("ServiceAccount {account} is new");
        findings
            .push(Finding::new("account-new", Severity::Medium, message).about(format!("ServiceAccount {account}")));
    }
    Ok(findings)
}

/// Rights grouped by finding, so that a rule with many rights is reported once. Rights for other names are another
/// finding.
#[derive(Default)]
struct Reported(BTreeMap<Key, Group>);

/// The rule, the account, the scope, the severity, the verb of the sentence, and the names.
type Key = (&'static str, String, RightScope, Severity, &'static str, BTreeSet<String>);

struct Group {
    file: String,
    document: usize,
    pointer: String,
    rights: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Reported {
    fn add(&mut self, id: &'static str, severity: Severity, rule: &LocatedRule, right: Right, verb: &'static str) {
        let key = (id, rule.account.clone(), rule.scope, severity, verb, rule.names.iter().cloned().collect());
        let group = self.0.entry(key).or_insert_with(|| Group {
            file: rule.file.clone(),
            document: rule.document,
            pointer: rule.pointer.clone(),
            rights: BTreeMap::new(),
        });
        group.rights.entry((right.group, right.resource)).or_default().insert(right.verb);
    }

    fn findings(self) -> Vec<Finding> {
        let made = self.0.into_iter().map(|((id, account, scope, severity, may, names), group)| {
            let mut named: Vec<String> = group
                .rights
                .iter()
                .take(MAX_NAMED)
                .map(|((group, resource), verbs)| {
                    let verbs = verbs.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
                    format!("{verbs} {resource}{group}")
                })
                .collect();
            if group.rights.len() > MAX_NAMED {
                named.push(format!("and {} more", group.rights.len() - MAX_NAMED));
            }
            let place = if scope == RightScope::Cluster { "in the whole cluster" } else { "in namespaces" };
            let only = match names.iter().next() {
                None => String::new(),
                Some(first) if names.len() == 1 => format!(", only {first}"),
                Some(first) => format!(", only {first} and {} more", names.len() - 1),
            };
            let message = format!("{account} {may} {} {place}{only}", named.join("; "));
            let finding = Finding::new(id, severity, message).about(format!("ServiceAccount {account}"));
            if group.file.is_empty() { finding } else { finding.at(&group.file, group.document, group.pointer) }
        });
        made.collect()
    }
}
