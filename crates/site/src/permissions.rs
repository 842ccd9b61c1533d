//! The permissions of an operator on a cluster, and which of them deserve review.

use std::collections::BTreeSet;

use review::facts::{Rule, Scope};
use serde_json::{Value, json};

use crate::csv::items;
use crate::manifest::Manifest;

/// A permission that deserves review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flag {
    /// Full access to everything.
    Everything,
    /// A wildcard among groups, resources or verbs.
    Wildcard,
    /// Secrets of the whole cluster.
    Secrets,
    /// Privilege escalation.
    Escalate,
    /// Roles and bindings.
    Roles,
    /// Commands in other pods.
    Exec,
    /// The API of nodes.
    NodesProxy,
    /// Tokens of service accounts.
    Tokens,
    /// Admission webhooks.
    Webhooks,
    /// CRDs.
    Definitions,
    /// Certificates of the cluster.
    Certificates,
    /// Deletion of namespaces.
    Namespaces,
    /// A webhook of its own.
    OwnWebhooks,
    /// The network, processes or files of nodes.
    Host,
    /// Privileged containers.
    Privileged,
    /// A named security context constraint.
    SecurityContext,
}

impl Flag {
    /// All of them, in the order they are shown.
    pub const ALL: [Flag; 16] = [
        Flag::Everything,
        Flag::Escalate,
        Flag::Secrets,
        Flag::Roles,
        Flag::Exec,
        Flag::NodesProxy,
        Flag::Tokens,
        Flag::Wildcard,
        Flag::Webhooks,
        Flag::Definitions,
        Flag::Certificates,
        Flag::Namespaces,
        Flag::Privileged,
        Flag::Host,
        Flag::SecurityContext,
        Flag::OwnWebhooks,
    ];

    /// Returns a short label.
    pub fn word(self) -> &'static str {
        match self {
            Flag::Everything => "cluster admin",
            Flag::Wildcard => "wildcards",
            Flag::Secrets => "reads Secrets",
            Flag::Escalate => "escalates rights",
            Flag::Roles => "writes roles",
            Flag::Exec => "runs commands in pods",
            Flag::NodesProxy => "node proxy",
            Flag::Tokens => "mints tokens",
            Flag::Webhooks => "writes webhooks",
            Flag::Definitions => "writes CRDs",
            Flag::Certificates => "approves certificates",
            Flag::Namespaces => "deletes namespaces",
            Flag::OwnWebhooks => "has webhooks",
            Flag::Host => "host access",
            Flag::Privileged => "privileged",
            Flag::SecurityContext => "names an SCC",
        }
    }

    /// Returns an explanation.
    pub fn sentence(self) -> &'static str {
        match self {
            Flag::Everything => "It has full access to all resources of the cluster.",
            Flag::Wildcard => {
                "A rule has \u{201c}*\u{201d}: it also covers resources that are added to the cluster later."
            }
            Flag::Secrets => "It may read Secrets in every namespace, and so every credential kept there.",
            Flag::Escalate => {
                "It may grant itself or others rights that it does not have (escalate, bind or impersonate)."
            }
            Flag::Roles => "It may write roles or bindings, and so change the permissions of others.",
            Flag::Exec => "It may run commands in containers of others (pods/exec).",
            Flag::NodesProxy => "It may reach the API of every node (nodes/proxy), and through it every container.",
            Flag::Tokens => "It may create tokens for other service accounts.",
            Flag::Webhooks => "It may write admission webhooks, which see and change what others create.",
            Flag::Definitions => "It may write CRDs, including those of other operators.",
            Flag::Certificates => "It may approve certificate signing requests.",
            Flag::Namespaces => "It may delete namespaces, with everything in them.",
            Flag::OwnWebhooks => "It answers webhooks: objects of others pass through it.",
            Flag::Host => "Its pods use the network, the processes or files of the node.",
            Flag::Privileged => "It runs a privileged container: nothing separates it from the node.",
            Flag::SecurityContext => "It uses a named security context constraint.",
        }
    }
}

/// All permissions of a bundle.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    /// The rules, those of the cluster first.
    pub rules: Vec<Rule>,
    /// The permissions that deserve review.
    pub flags: Vec<Flag>,
}

impl Permissions {
    /// Reads the permissions of a bundle; `None` if its manifests are unknown.
    pub fn of(manifest: &Manifest) -> Option<Permissions> {
        let mut rules = manifest.facts.rules.clone()?;
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.scope));
        let mut flags: BTreeSet<Flag> = BTreeSet::new();
        for rule in &rules {
            rule_flags(rule, &mut flags);
        }
        for deployment in items(&manifest.install()["deployments"]) {
            pod_flags(&deployment["spec"]["template"]["spec"], &mut flags);
        }
        if !manifest.webhooks().is_empty() {
            flags.insert(Flag::OwnWebhooks);
        }
        let flags = Flag::ALL.into_iter().filter(|flag| flags.contains(flag)).collect();
        Some(Permissions { rules, flags })
    }

    /// Returns the accounts of one scope, in order.
    pub fn accounts(&self, scope: Scope) -> Vec<&str> {
        let all: BTreeSet<&str> =
            self.rules.iter().filter(|rule| rule.scope == scope).map(|rule| rule.account.as_str()).collect();
        all.into_iter().collect()
    }

    /// Returns the role of an account as an object.
    pub fn role(&self, name: &str, scope: Scope, account: &str) -> Value {
        let rules: Vec<Value> = self
            .rules
            .iter()
            .filter(|rule| rule.scope == scope && rule.account == account)
            .map(Rule::to_json)
            .collect();
        let kind = if scope == Scope::Cluster { "ClusterRole" } else { "Role" };
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": format!("{name}-{account}")},
            "rules": rules,
        })
    }
}

fn touches(rule: &Rule, group: &str, resources: &[&str]) -> bool {
    let in_group = rule.groups.iter().any(|one| one == group || one == "*");
    in_group && rule.resources.iter().any(|one| one == "*" || resources.contains(&one.as_str()))
}

fn may(rule: &Rule, verbs: &[&str]) -> bool {
    rule.verbs.iter().any(|one| one == "*" || verbs.contains(&one.as_str()))
}

/// Records the flags of a rule.
fn rule_flags(rule: &Rule, flags: &mut BTreeSet<Flag>) {
    const WRITE: [&str; 3] = ["create", "update", "patch"];
    let cluster = rule.scope == Scope::Cluster;
    let star = |list: &[String]| list.iter().any(|one| one == "*");
    let (groups, resources, verbs) = (star(&rule.groups), star(&rule.resources), star(&rule.verbs));
    if cluster && groups && resources && verbs && rule.names.is_empty() {
        flags.insert(Flag::Everything);
    }
    if groups || resources || verbs || rule.resources.iter().any(|one| one.ends_with("/*")) || star(&rule.urls) {
        flags.insert(Flag::Wildcard);
    }
    let rbac = "rbac.authorization.k8s.io";
    if cluster && rule.names.is_empty() && touches(rule, "", &["secrets"]) && may(rule, &["get", "list", "watch"]) {
        flags.insert(Flag::Secrets);
    }
    let explicit = |verb: &str| rule.verbs.iter().any(|one| one == verb);
    let roles = ["roles", "clusterroles"];
    let escalates = (explicit("escalate") || explicit("bind") || verbs) && touches(rule, rbac, &roles);
    let impersonates = may(rule, &["impersonate"])
        && (touches(rule, "", &["users", "groups", "serviceaccounts"])
            || touches(rule, "authentication.k8s.io", &["userextras", "uids"]));
    if escalates || impersonates {
        flags.insert(Flag::Escalate);
    }
    if touches(rule, rbac, &["roles", "clusterroles", "rolebindings", "clusterrolebindings"]) && may(rule, &WRITE) {
        flags.insert(Flag::Roles);
    }
    if touches(rule, "", &["pods/exec", "pods/attach"]) && may(rule, &["create", "get"]) {
        flags.insert(Flag::Exec);
    }
    if touches(rule, "", &["nodes/proxy"]) {
        flags.insert(Flag::NodesProxy);
    }
    if touches(rule, "", &["serviceaccounts/token"]) && may(rule, &["create"]) {
        flags.insert(Flag::Tokens);
    }
    let webhooks = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    if touches(rule, "admissionregistration.k8s.io", &webhooks) && may(rule, &WRITE) {
        flags.insert(Flag::Webhooks);
    }
    if touches(rule, "apiextensions.k8s.io", &["customresourcedefinitions"]) && may(rule, &WRITE) {
        flags.insert(Flag::Definitions);
    }
    let approval = ["certificatesigningrequests/approval", "signers"];
    if touches(rule, "certificates.k8s.io", &approval) && may(rule, &["update", "patch", "approve", "sign"]) {
        flags.insert(Flag::Certificates);
    }
    if touches(rule, "", &["namespaces"]) && may(rule, &["delete", "deletecollection"]) {
        flags.insert(Flag::Namespaces);
    }
    if touches(rule, "security.openshift.io", &["securitycontextconstraints"]) && may(rule, &["use"]) {
        flags.insert(Flag::SecurityContext);
    }
}

fn pod_flags(pod: &Value, flags: &mut BTreeSet<Flag>) {
    let yes = |value: &Value| value.as_bool().unwrap_or_default();
    let paths = items(&pod["volumes"]).iter().any(|volume| volume.get("hostPath").is_some());
    if yes(&pod["hostNetwork"]) || yes(&pod["hostPID"]) || yes(&pod["hostIPC"]) || paths {
        flags.insert(Flag::Host);
    }
    let containers = items(&pod["containers"]).iter().chain(items(&pod["initContainers"]));
    if containers.into_iter().any(|container| yes(&container["securityContext"]["privileged"])) {
        flags.insert(Flag::Privileged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(rule: Value, cluster: bool) -> Vec<Flag> {
        let mut flags = BTreeSet::new();
        let scope = if cluster { Scope::Cluster } else { Scope::Namespaces };
        rule_flags(&Rule::read(&rule, "a", scope), &mut flags);
        Flag::ALL.into_iter().filter(|flag| flags.contains(flag)).collect()
    }

    fn rule(group: &str, resource: &str, verb: &str) -> Value {
        json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
    }

    /// T-13: every flag has a rule that sets it, and one that nearly does.
    #[test]
    fn each_flag_is_set_by_its_rules_only() {
        let rbac = "rbac.authorization.k8s.io";
        for (flag, set, unset) in [
            (Flag::Wildcard, rule("apps", "*", "get"), rule("apps", "deployments", "get")),
            (Flag::Secrets, rule("", "secrets", "list"), rule("", "secrets", "create")),
            (Flag::Escalate, rule(rbac, "clusterroles", "bind"), rule(rbac, "clusterroles", "get")),
            (Flag::Escalate, rule("", "users", "impersonate"), rule("", "users", "get")),
            (Flag::Roles, rule(rbac, "rolebindings", "create"), rule(rbac, "rolebindings", "list")),
            (Flag::Exec, rule("", "pods/exec", "create"), rule("", "pods", "create")),
            (Flag::NodesProxy, rule("", "nodes/proxy", "get"), rule("", "nodes", "get")),
            (Flag::Tokens, rule("", "serviceaccounts/token", "create"), rule("", "serviceaccounts", "create")),
            (
                Flag::Webhooks,
                rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "patch"),
                rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "get"),
            ),
            (
                Flag::Definitions,
                rule("apiextensions.k8s.io", "customresourcedefinitions", "create"),
                rule("apiextensions.k8s.io", "customresourcedefinitions", "get"),
            ),
            (
                Flag::Certificates,
                rule("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
                rule("certificates.k8s.io", "certificatesigningrequests", "update"),
            ),
            (Flag::Namespaces, rule("", "namespaces", "delete"), rule("", "namespaces", "create")),
            (
                Flag::SecurityContext,
                rule("security.openshift.io", "securitycontextconstraints", "use"),
                rule("security.openshift.io", "securitycontextconstraints", "get"),
            ),
        ] {
            assert!(flags(set, true).contains(&flag), "{flag:?} is not set");
            assert!(!flags(unset, true).contains(&flag), "{flag:?} is set");
        }
        assert!(flags(rule("*", "*", "*"), true).contains(&Flag::Everything));
        assert!(!flags(rule("*", "*", "*"), false).contains(&Flag::Everything));
        assert!(!flags(rule("", "secrets", "get"), false).contains(&Flag::Secrets));
        let named = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["one"]});
        assert!(!flags(named, true).contains(&Flag::Secrets));
        for (pod, flag) in [
            (json!({"hostNetwork": true}), Some(Flag::Host)),
            (json!({"volumes": [{"hostPath": {"path": "/"}}]}), Some(Flag::Host)),
            (json!({"containers": [{"securityContext": {"privileged": true}}]}), Some(Flag::Privileged)),
            (json!({"containers": [{"securityContext": {"privileged": false}}], "volumes": [{}]}), None),
        ] {
            let mut found = BTreeSet::new();
            pod_flags(&pod, &mut found);
            assert_eq!(found.into_iter().next(), flag);
        }
    }
}
