//! Rates the severity of a right.

use crate::Severity;

use crate::review::rights::{LocatedRule, Right, RightScope};

const RBAC: &str = "rbac.authorization.k8s.io";
const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 6] = ["create", "update", "patch", "delete", "deletecollection", "*"];

/// Resources that create pods, by group.
const WORKLOADS: [(&str, &[&str]); 3] = [
    ("", &["pods", "replicationcontrollers", "podtemplates"]),
    ("apps", &["deployments", "daemonsets", "statefulsets", "replicasets"]),
    ("batch", &["jobs", "cronjobs"]),
];

/// Resources that control admission or define APIs.
const ADMISSION: [(&str, &[&str]); 3] = [
    (
        "admissionregistration.k8s.io",
        &[
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        ],
    ),
    ("apiextensions.k8s.io", &["customresourcedefinitions"]),
    ("apiregistration.k8s.io", &["apiservices"]),
];

/// Returns the rule that a right falls under, with its severity.
pub(crate) fn judge(rule: &LocatedRule, right: &Right, own_groups: &[String]) -> (&'static str, Severity) {
    let (id, severity) = judge_cluster_wide(right, own_groups);
    let is_first = severity == Severity::Critical;
    let mut severity = severity;
    let mut id = id;
    if rule.scope == RightScope::Namespaces {
        severity = match severity {
            Severity::Critical => Severity::High,
            Severity::High => Severity::Medium,
            _ => Severity::Low,
        };
        if severity == Severity::Low {
            id = "rights-namespace";
        }
    }
    if !rule.names.is_empty() && !is_first {
        severity = severity.lower();
    }
    let own_part = own_groups.contains(&right.group)
        && right.resource.split_once('/').is_some_and(|(_, part)| matches!(part, "status" | "finalizers"));
    let small = matches!(&*right.resource, "leases" | "events") && right.group != "*";
    if own_part || small {
        severity = severity.min(Severity::Low);
        if rule.scope == RightScope::Cluster {
            id = if is_write(&right.verb) { "rights-write" } else { "rights-read" };
        }
    }
    (id, severity)
}

fn is_write(verb: &str) -> bool {
    WRITE.contains(&verb)
}

/// Rates a right in the whole cluster.
fn judge_cluster_wide(right: &Right, own_groups: &[String]) -> (&'static str, Severity) {
    let Right { group, resource, verb } = right;
    let (group, resource, verb) = (group.as_str(), resource.as_str(), verb.as_str());
    if resource.starts_with('/') {
        return ("rights-read", Severity::Low);
    }
    let verbs = |wanted: &[&str]| verb == "*" || wanted.contains(&verb);
    let of = |wanted: &str, resources: &[&str]| group == wanted && resources.contains(&resource);
    if (group, resource, verb) == ("*", "*", "*") {
        return ("rights-admin", Severity::Critical);
    }
    let roles = ["roles", "clusterroles"];
    if matches!(verb, "escalate" | "bind") && matches!(group, RBAC | "*")
        || verb == "*" && group == RBAC && (roles.contains(&resource) || resource == "*")
        || verb == "impersonate"
        || of("", &["serviceaccounts/token"]) && verbs(&["create"])
    {
        return ("rights-escalate", Severity::Critical);
    }
    if of("", &["nodes/proxy"]) {
        return ("rights-node-proxy", Severity::Critical);
    }
    let own = own_groups.iter().any(|own| own == group);
    if (group == "*" || resource == "*" || verb == "*") && !own {
        // A wildcard that covers a worse right is reported under that right.
        if resource == "*" || group == "*" {
            return ("rights-wildcard", Severity::High);
        }
    }
    let high = |id| (id, Severity::High);
    if of("", &["secrets"]) {
        return high("rights-secrets");
    }
    if of(RBAC, &["roles", "clusterroles", "rolebindings", "clusterrolebindings"]) && is_write(verb) {
        return high("rights-rbac");
    }
    if ADMISSION.iter().any(|(group, resources)| of(group, resources)) && is_write(verb) {
        return high("rights-admission");
    }
    if WORKLOADS.iter().any(|(group, resources)| of(group, resources)) && verbs(&["create", "update", "patch"]) {
        return high("rights-workloads");
    }
    if of("", &["pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers"]) {
        return high("rights-exec");
    }
    if of("", &["nodes"]) && is_write(verb) {
        return high("rights-nodes");
    }
    if group == "certificates.k8s.io" && matches!(verb, "approve" | "sign" | "*") {
        return high("rights-csr");
    }
    if of("", &["persistentvolumes"]) && verbs(&["create"]) {
        return high("rights-volumes");
    }
    if matches!(resource, "securitycontextconstraints" | "podsecuritypolicies") && verbs(&["use"]) {
        return high("rights-scc");
    }
    if verb == "*" && !own {
        return high("rights-wildcard");
    }
    if READ.contains(&verb) {
        return ("rights-read", Severity::Low);
    }
    if own { ("rights-write", Severity::Low) } else { ("rights-write", Severity::Medium) }
}
