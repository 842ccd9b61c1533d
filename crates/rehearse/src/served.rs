//! The kinds that a cluster knows.

/// What every current cluster has.
const BUILT_IN: &[(&str, &[&str])] = &[
    ("v1", &["ConfigMap", "Namespace", "Secret", "Service", "ServiceAccount"]),
    ("apps/v1", &["Deployment"]),
    ("rbac.authorization.k8s.io/v1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("apiextensions.k8s.io/v1", &["CustomResourceDefinition"]),
    ("admissionregistration.k8s.io/v1", &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]),
    ("networking.k8s.io/v1", &["NetworkPolicy"]),
    ("policy/v1", &["PodDisruptionBudget"]),
    ("scheduling.k8s.io/v1", &["PriorityClass"]),
];

/// What many clusters have, by those who install it.
const ADDED: &[(&str, &str, &[&str])] = &[
    ("cert-manager.io/v1", "cert-manager", &["Certificate", "Issuer"]),
    ("monitoring.coreos.com/v1", "the Prometheus operator", &["PodMonitor", "PrometheusRule", "ServiceMonitor"]),
    ("autoscaling.k8s.io/v1", "the vertical pod autoscaler", &["VerticalPodAutoscaler"]),
    (
        "console.openshift.io/v1",
        "OpenShift",
        &["ConsoleCLIDownload", "ConsoleLink", "ConsolePlugin", "ConsoleQuickStart", "ConsoleYAMLSample"],
    ),
    ("console.openshift.io/v1alpha1", "OpenShift", &["ConsolePlugin"]),
];

/// Whether a cluster knows a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// Every cluster knows it.
    Always,
    /// Clusters know it that have this.
    With(&'static str),
    /// No cluster knows it before the bundle is installed.
    Never,
}

/// Returns whether a cluster knows a kind.
pub(crate) fn served(api_version: &str, kind: &str) -> Served {
    if BUILT_IN.iter().any(|(version, kinds)| *version == api_version && kinds.contains(&kind)) {
        return Served::Always;
    }
    let added = ADDED.iter().find(|(version, _, kinds)| *version == api_version && kinds.contains(&kind));
    added.map_or(Served::Never, |(_, by, _)| Served::With(by))
}

/// The kinds that a bundle may hold beside its CSV and CRDs, and whether they belong to a namespace.
const SUPPORTED: &[(&str, bool)] = &[
    ("ClusterRole", false),
    ("ClusterRoleBinding", false),
    ("ConfigMap", true),
    ("ConsoleCLIDownload", false),
    ("ConsoleLink", false),
    ("ConsolePlugin", false),
    ("ConsoleQuickStart", false),
    ("ConsoleYAMLSample", false),
    ("NetworkPolicy", true),
    ("PodDisruptionBudget", true),
    ("PodMonitor", true),
    ("PriorityClass", false),
    ("PrometheusRule", true),
    ("Role", true),
    ("RoleBinding", true),
    ("Secret", true),
    ("Service", true),
    ("ServiceAccount", true),
    ("ServiceMonitor", true),
    // In truth namespaced; both generations take it for cluster-wide.
    ("VerticalPodAutoscaler", false),
];

/// Returns whether objects of a supported kind belong to a namespace; nothing for other kinds.
pub(crate) fn namespaced(kind: &str) -> Option<bool> {
    SUPPORTED.iter().find(|(supported, _)| *supported == kind).map(|(_, namespaced)| *namespaced)
}
