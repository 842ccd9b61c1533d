//! The kinds that a cluster serves.

/// The kinds that every current cluster serves.
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

/// The kinds that common extensions add, with the extension.
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

/// Whether a cluster serves a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    /// Every cluster serves it.
    Always,
    /// Clusters with this extension serve it.
    With(&'static str),
    /// No cluster serves it before the bundle is installed.
    Never,
}

/// Returns whether a cluster serves a kind.
pub(crate) fn served(api_version: &str, kind: &str) -> Availability {
    if BUILT_IN.iter().any(|(version, kinds)| *version == api_version && kinds.contains(&kind)) {
        return Availability::Always;
    }
    let added = ADDED.iter().find(|(version, _, kinds)| *version == api_version && kinds.contains(&kind));
    added.map_or(Availability::Never, |(_, by, _)| Availability::With(by))
}

/// The kinds that a bundle may contain besides its CSV and CRDs, and whether they are namespaced.
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
    // Actually namespaced; both generations of OLM treat it as cluster-scoped.
    ("VerticalPodAutoscaler", false),
];

/// Returns whether a supported kind is namespaced; `None` for other kinds.
pub(crate) fn namespaced(kind: &str) -> Option<bool> {
    SUPPORTED.iter().find(|(supported, _)| *supported == kind).map(|(_, namespaced)| *namespaced)
}
