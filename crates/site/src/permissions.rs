//! What an operator may do on a cluster, and what of that deserves a second look.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::csv::{items, text};
use crate::manifest::Manifest;

/// A rule of a role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Whether it holds in the whole cluster, or in the namespaces that are watched.
    pub cluster: bool,
    /// The account that has it.
    pub account: String,
    /// API groups.
    pub groups: Vec<String>,
    /// Resources.
    pub resources: Vec<String>,
    /// What may be done with them.
    pub verbs: Vec<String>,
    /// Only those with these names.
    pub names: Vec<String>,
    /// Paths of the API server.
    pub urls: Vec<String>,
}

/// Something that deserves a second look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flag {
    /// Everything, everywhere.
    Everything,
    /// A star among groups, resources or verbs.
    Wildcard,
    /// Secrets of the whole cluster.
    Secrets,
    /// More rights than it has.
    Escalate,
    /// Roles and bindings.
    Roles,
    /// Commands in pods of others.
    Exec,
    /// The API of nodes.
    NodesProxy,
    /// Tokens of accounts.
    Tokens,
    /// Webhooks of admission.
    Webhooks,
    /// Definitions of kinds.
    Definitions,
    /// Certificates of the cluster.
    Certificates,
    /// Removal of namespaces.
    Namespaces,
    /// A webhook of its own.
    OwnWebhooks,
    /// The network, processes or files of nodes.
    Host,
    /// Containers without bounds.
    Privileged,
    /// A policy for pods that it names.
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

    /// Returns a word for it.
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

    /// Says what it means.
    pub fn sentence(self) -> &'static str {
        match self {
            Flag::Everything => "It may do everything with everything in the whole cluster.",
            Flag::Wildcard => "A rule has \u{201c}*\u{201d}: it also covers what is added to the cluster later.",
            Flag::Secrets => "It may read Secrets in every namespace, and so every credential kept there.",
            Flag::Escalate => {
                "It may give itself or others rights that it does not have (escalate, bind or impersonate)."
            }
            Flag::Roles => "It may write roles or bindings, and so change who may do what.",
            Flag::Exec => "It may run commands in containers of others (pods/exec).",
            Flag::NodesProxy => "It may reach the API of every node (nodes/proxy), and through it every container.",
            Flag::Tokens => "It may make tokens for other service accounts.",
            Flag::Webhooks => "It may write admission webhooks, which see and change what others create.",
            Flag::Definitions => "It may write definitions of kinds, also those of other operators.",
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
    /// What deserves a second look.
    pub flags: Vec<Flag>,
}

impl Permissions {
    /// Reads the permissions of a bundle; nothing when its manifests are not known.
    pub fn of(manifest: &Manifest) -> Option<Permissions> {
        if !manifest.has_manifests() {
            return None;
        }
        let install = manifest.install();
        let mut rules = Vec::new();
        for (list, cluster) in [("clusterPermissions", true), ("permissions", false)] {
            for one in items(&install[list]) {
                let account = text(&one["serviceAccountName"]);
                rules.extend(items(&one["rules"]).iter().map(|rule| Rule::of(rule, cluster, &account)));
            }
        }
        let mut flags: BTreeSet<Flag> = BTreeSet::new();
        for rule in &rules {
            rule.flags(&mut flags);
        }
        for deployment in items(&install["deployments"]) {
            pod_flags(&deployment["spec"]["template"]["spec"], &mut flags);
        }
        if !manifest.webhooks().is_empty() {
            flags.insert(Flag::OwnWebhooks);
        }
        let flags = Flag::ALL.into_iter().filter(|flag| flags.contains(flag)).collect();
        Some(Permissions { rules, flags })
    }

    /// Returns the accounts of one scope, in order.
    pub fn accounts(&self, cluster: bool) -> Vec<&str> {
        let all: BTreeSet<&str> =
            self.rules.iter().filter(|rule| rule.cluster == cluster).map(|rule| rule.account.as_str()).collect();
        all.into_iter().collect()
    }

    /// Returns the role of an account as an object.
    pub fn role(&self, name: &str, cluster: bool, account: &str) -> Value {
        let rules: Vec<Value> = self
            .rules
            .iter()
            .filter(|rule| rule.cluster == cluster && rule.account == account)
            .map(Rule::to_json)
            .collect();
        let kind = if cluster { "ClusterRole" } else { "Role" };
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": format!("{name}-{account}")},
            "rules": rules,
        })
    }
}

impl Rule {
    fn of(value: &Value, cluster: bool, account: &str) -> Rule {
        let list = |name: &str| items(&value[name]).iter().map(text).collect();
        Rule {
            cluster,
            account: account.to_owned(),
            groups: list("apiGroups"),
            resources: list("resources"),
            verbs: list("verbs"),
            names: list("resourceNames"),
            urls: list("nonResourceURLs"),
        }
    }

    fn to_json(&self) -> Value {
        let mut rule = serde_json::Map::new();
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

    fn touches(&self, group: &str, resources: &[&str]) -> bool {
        let in_group = self.groups.iter().any(|one| one == group || one == "*");
        in_group && self.resources.iter().any(|one| one == "*" || resources.contains(&one.as_str()))
    }

    fn may(&self, verbs: &[&str]) -> bool {
        self.verbs.iter().any(|one| one == "*" || verbs.contains(&one.as_str()))
    }

    /// Writes down what of the rule deserves a second look.
    pub fn flags(&self, flags: &mut BTreeSet<Flag>) {
        const WRITE: [&str; 3] = ["create", "update", "patch"];
        let star = |list: &[String]| list.iter().any(|one| one == "*");
        let (groups, resources, verbs) = (star(&self.groups), star(&self.resources), star(&self.verbs));
        if self.cluster && groups && resources && verbs && self.names.is_empty() {
            flags.insert(Flag::Everything);
        }
        if groups || resources || verbs || self.resources.iter().any(|one| one.ends_with("/*")) || star(&self.urls) {
            flags.insert(Flag::Wildcard);
        }
        let rbac = "rbac.authorization.k8s.io";
        if self.cluster
            && self.names.is_empty()
            && self.touches("", &["secrets"])
            && self.may(&["get", "list", "watch"])
        {
            flags.insert(Flag::Secrets);
        }
        let explicit = |verb: &str| self.verbs.iter().any(|one| one == verb);
        let roles = ["roles", "clusterroles"];
        let escalates = (explicit("escalate") || explicit("bind") || verbs) && self.touches(rbac, &roles);
        let impersonates = self.may(&["impersonate"])
            && (self.touches("", &["users", "groups", "serviceaccounts"])
                || self.touches("authentication.k8s.io", &["userextras", "uids"]));
        if escalates || impersonates {
            flags.insert(Flag::Escalate);
        }
        if self.touches(rbac, &["roles", "clusterroles", "rolebindings", "clusterrolebindings"]) && self.may(&WRITE) {
            flags.insert(Flag::Roles);
        }
        if self.touches("", &["pods/exec", "pods/attach"]) && self.may(&["create", "get"]) {
            flags.insert(Flag::Exec);
        }
        if self.touches("", &["nodes/proxy"]) {
            flags.insert(Flag::NodesProxy);
        }
        if self.touches("", &["serviceaccounts/token"]) && self.may(&["create"]) {
            flags.insert(Flag::Tokens);
        }
        let webhooks = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
        if self.touches("admissionregistration.k8s.io", &webhooks) && self.may(&WRITE) {
            flags.insert(Flag::Webhooks);
        }
        if self.touches("apiextensions.k8s.io", &["customresourcedefinitions"]) && self.may(&WRITE) {
            flags.insert(Flag::Definitions);
        }
        let approval = ["certificatesigningrequests/approval", "signers"];
        if self.touches("certificates.k8s.io", &approval) && self.may(&["update", "patch", "approve", "sign"]) {
            flags.insert(Flag::Certificates);
        }
        if self.touches("", &["namespaces"]) && self.may(&["delete", "deletecollection"]) {
            flags.insert(Flag::Namespaces);
        }
        if self.touches("security.openshift.io", &["securitycontextconstraints"]) && self.may(&["use"]) {
            flags.insert(Flag::SecurityContext);
        }
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
        Rule::of(&rule, cluster, "a").flags(&mut flags);
        Flag::ALL.into_iter().filter(|flag| flags.contains(flag)).collect()
    }

    fn rule(group: &str, resource: &str, verb: &str) -> Value {
        json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
    }

    /// T-13: every flag has a rule that sets it, and one that nearly does.
    #[test]
    fn flags_are_set_by_what_they_mean_alone() {
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
