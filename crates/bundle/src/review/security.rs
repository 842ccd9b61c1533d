//! Reports the rights of an operator, and what grew between two versions.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use crate::pointer::{list, text};
use crate::{BundleObject, Finding, Findings, LoadedBundle, ParsedBundle, Severity};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::review::compare::{self, Fact, TooManyRights};
use crate::review::rights::{self, LocatedRule};
use crate::review::{crd, parts, pods};

/// All finding names, with their descriptions.
pub const RULES: &[(&str, &str)] = &[
    ("rights-admin", "an account may do everything"),
    ("rights-escalate", "an account may give itself any right"),
    ("rights-node-proxy", "an account reaches every pod through its node"),
    ("rights-secrets", "an account may read or write Secrets"),
    ("rights-rbac", "an account may write roles or bindings"),
    ("rights-admission", "an account may write webhooks, policies, CRDs or API services"),
    ("rights-workloads", "an account may make pods"),
    ("rights-exec", "an account may run commands in pods"),
    ("rights-wildcard", "an account is given a right by a wildcard"),
    ("rights-nodes", "an account may write nodes"),
    ("rights-csr", "an account may approve or sign certificates"),
    ("rights-volumes", "an account may make persistent volumes"),
    ("rights-scc", "an account may use a security context constraint"),
    ("rights-write", "an account may write something else"),
    ("rights-read", "an account may read something"),
    ("rights-namespace", "an account has a right in namespaces"),
    ("rights-others", "a role widens what others may do"),
    ("rights-moved", "a right went from one account to another"),
    ("rights-removed", "a right is gone"),
    ("scope-wider", "what held in namespaces holds everywhere"),
    ("account-new", "an account is new"),
    ("pod-privileged", "a container is privileged"),
    ("pod-host-pid-ipc", "a pod shares processes or memory with its node"),
    ("pod-host-path", "a pod uses files of its node"),
    ("pod-host-network", "a pod uses the network or a port of its node"),
    ("pod-capability", "a container has a capability beyond the baseline"),
    ("pod-root", "a container runs as user 0 or may gain rights"),
    ("pod-security-level", "the pod security level that is needed"),
    ("pod-secret", "a pod uses a Secret"),
    ("pod-hardening", "a pod is less locked in than before"),
    ("webhook-fail-wide", "a webhook stops others when it does not answer"),
    ("webhook-new", "a webhook"),
    ("image-registry", "images come from a registry that was not used before"),
    ("image-repository", "images come from a repository that was not used before"),
    ("image-unpinned", "an image is not named by digest"),
    ("image-changed", "an image is another one"),
    ("priority-class", "pods have the priority of the cluster itself"),
    ("network-policy-removed", "a network policy is gone"),
    ("dependency-new", "the operator depends on something"),
    ("kube-version", "another version of Kubernetes is needed"),
    ("crd-added", "an API is new"),
    ("crd-breaking", "OLM v1 refuses the upgrade for a change of a CRD"),
];

/// The options for the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecurityOptions {
    /// Whether to assume that the operator watches single namespaces although it could watch all.
    pub namespaces: bool,
}

struct SecurityFacts {
    facts: Vec<Fact>,
    rules: Vec<LocatedRule>,
    own_groups: Vec<String>,
}

fn collect(whole: &ParsedBundle, options: SecurityOptions) -> SecurityFacts {
    let own_groups: Vec<String> = whole
        .of_kind("CustomResourceDefinition")
        .map(|crd| text(&crd.value, "/spec/group").to_owned())
        .filter(|group| !group.is_empty())
        .collect();
    let mut facts = Vec::new();
    let Some(csv) = whole.csv() else { return SecurityFacts { facts, rules: Vec::new(), own_groups } };
    let all =
        |mode: &Value| text(mode, "/type") == "AllNamespaces" && mode.get("supported") == Some(&Value::Bool(true));
    let everywhere = list(&csv.value, "/spec/installModes").iter().any(all) && !options.namespaces;
    pods::facts(csv, &mut facts);
    parts::webhooks(csv, &own_groups, &mut facts);
    parts::images(csv, &mut facts);
    parts::others(whole, csv, &mut facts);
    SecurityFacts { facts, rules: rights::collect(whole, everywhere), own_groups }
}

fn name(whole: &ParsedBundle) -> String {
    whole.csv().map(|csv| csv.name().to_owned()).unwrap_or_default()
}

/// Returns the findings about a bundle, or about its changes since `old`, with positions.
///
/// # Errors
/// Fails if the bundles cannot be evaluated.
pub fn review(
    old: Option<&LoadedBundle>,
    new: &LoadedBundle,
    options: SecurityOptions,
) -> Result<Vec<Finding>, TooManyRights> {
    let mut found = match old {
        None => judge(&new.whole, options)?,
        Some(old) => judge_change(&old.whole, &new.whole, options)?,
    };
    new.locate(&mut found);
    Ok(found)
}

/// Which findings are accepted, and which ones to fail on.
#[derive(Debug, Clone, Default)]
pub struct SecurityPolicy {
    /// What to fail on.
    pub deny: Vec<Denial>,
    /// What to ignore.
    pub allow: Vec<Allowance>,
    /// The findings that were accepted before.
    pub baseline: Baseline,
}

/// Findings to fail on.
#[derive(Debug, Clone)]
pub enum Denial {
    /// Those of this severity or a higher one.
    Severity(Severity),
    /// Those with this name.
    Id(String),
}

/// Findings to ignore: those with this name, or only those about one service account.
#[derive(Debug, Clone)]
pub struct Allowance {
    id: String,
    account: Option<String>,
}

/// The name of a finding is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown finding {0}")]
pub struct UnknownFinding(String);

fn known(id: &str) -> Result<String, UnknownFinding> {
    let known = RULES.iter().any(|(name, _)| *name == id);
    known.then(|| id.to_owned()).ok_or_else(|| UnknownFinding(id.to_owned()))
}

impl FromStr for Denial {
    type Err = UnknownFinding;

    fn from_str(text: &str) -> Result<Denial, UnknownFinding> {
        match Severity::parse(text) {
            Some(severity) => Ok(Denial::Severity(severity)),
            None => known(text).map(Denial::Id),
        }
    }
}

impl FromStr for Allowance {
    type Err = UnknownFinding;

    /// Parses `ID` or `ID:ACCOUNT`.
    fn from_str(text: &str) -> Result<Allowance, UnknownFinding> {
        let (id, account) = text.split_once(':').map_or((text, None), |(id, account)| (id, Some(account.to_owned())));
        Ok(Allowance { id: known(id)?, account })
    }
}

impl Denial {
    fn covers(&self, finding: &Finding) -> bool {
        match self {
            Denial::Severity(severity) => finding.severity >= *severity,
            Denial::Id(id) => finding.id == id,
        }
    }
}

impl Allowance {
    fn covers(&self, finding: &Finding) -> bool {
        let of = |account: &String| finding.object == format!("ServiceAccount {account}");
        finding.id == self.id && self.account.as_ref().is_none_or(of)
    }
}

/// Findings that were accepted: a file of `opm security`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    accepted: BTreeSet<String>,
}

impl Baseline {
    /// Accepts findings.
    pub fn of(findings: &[Finding]) -> Baseline {
        Baseline { accepted: findings.iter().map(Baseline::key).collect() }
    }

    /// Returns the identity of a finding across runs. The line is not part of it.
    fn key(finding: &Finding) -> String {
        format!("{} | {} | {}", finding.id, finding.object, finding.message)
    }
}

impl SecurityPolicy {
    /// Removes the accepted findings, and decides about the others.
    pub fn apply(&self, mut findings: Vec<Finding>) -> Findings {
        findings.retain(|finding| {
            let accepted = self.baseline.accepted.contains(&Baseline::key(finding));
            !accepted && !self.allow.iter().any(|allowance| allowance.covers(finding))
        });
        Findings::new(findings, |finding| self.deny.iter().any(|denial| denial.covers(finding)))
    }
}

/// Returns the findings about a bundle.
///
/// # Errors
/// Returns why the bundle cannot be evaluated.
pub fn judge(whole: &ParsedBundle, options: SecurityOptions) -> Result<Vec<Finding>, TooManyRights> {
    let SecurityFacts { facts, rules, own_groups } = collect(whole, options);
    let mut findings = compare::rights(&rules, &own_groups)?;
    findings.extend(compare::present(facts));
    Ok(named(findings, &name(whole)))
}

/// Returns the changes between two bundles.
///
/// # Errors
/// Returns why the bundles cannot be evaluated.
pub fn judge_change(
    old: &ParsedBundle,
    new: &ParsedBundle,
    options: SecurityOptions,
) -> Result<Vec<Finding>, TooManyRights> {
    let (before, now) = (collect(old, options), collect(new, options));
    let mut findings = compare::changed_rights(&before.rules, &now.rules, &now.own_groups)?;
    findings.extend(compare::changed(&before.facts, &now.facts));
    let definitions: BTreeMap<&str, &BundleObject> =
        new.of_kind("CustomResourceDefinition").map(|object| (object.name(), object)).collect();
    for change in crd::compare(old.values(), new.values()).into_iter().filter(|change| change.blocks) {
        let object = definitions.get(&*change.crd);
        let mut finding = Finding::new("crd-breaking", Severity::Medium, change.olm_message())
            .about(format!("CustomResourceDefinition {}", change.crd));
        if let Some(object) = object {
            finding = finding.at(&object.file, object.document, "");
        }
        findings.push(finding);
    }
    Ok(named(findings, &name(new)))
}

fn named(findings: Vec<Finding>, bundle: &str) -> Vec<Finding> {
    findings.into_iter().map(|finding| finding.of(bundle)).collect()
}
