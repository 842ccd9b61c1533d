//! The phases in which Boxcutter applies objects.

use serde_json::{Map, Value};

use super::part;
use crate::pointer::text;
use crate::rehearse::input::RehearsalInput;

/// Phases with their kinds; unlisted kinds belong to the deploy phase.
const PHASES: &[(&str, &[&str])] = &[
    ("namespaces", &["Namespace"]),
    ("policies", &["NetworkPolicy", "PodDisruptionBudget", "PriorityClass"]),
    ("identity", &["ServiceAccount"]),
    ("configuration", &["Secret", "ConfigMap"]),
    ("storage", &["PersistentVolume", "PersistentVolumeClaim", "StorageClass"]),
    ("crds", &["CustomResourceDefinition"]),
    ("roles", &["ClusterRole", "Role"]),
    ("bindings", &["ClusterRoleBinding", "RoleBinding"]),
    ("infrastructure", &["Service", "Issuer", "Certificate"]),
    (DEPLOY, &["Deployment"]),
    ("scaling", &["VerticalPodAutoscaler"]),
    (
        "publish",
        &[
            "PrometheusRule",
            "ServiceMonitor",
            "PodMonitor",
            "Ingress",
            "Route",
            "ConsoleYAMLSample",
            "ConsoleQuickStart",
            "ConsoleCLIDownload",
            "ConsoleLink",
            "ConsolePlugin",
        ],
    ),
    ("admission", &["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]),
];
const DEPLOY: &str = "deploy";

fn at(kind: &str) -> usize {
    let named = PHASES.iter().position(|(_, kinds)| kinds.contains(&kind));
    named.or_else(|| PHASES.iter().position(|(name, _)| *name == DEPLOY)).unwrap_or_default()
}

/// Returns the phase in which objects of a kind are applied.
pub fn phase(kind: &str) -> &'static str {
    PHASES[at(kind)].0
}

/// Sorts objects into phases and reduces their metadata to what Boxcutter keeps.
pub(super) fn arrange(objects: &mut [Value], bundle: &RehearsalInput) {
    for object in objects.iter_mut() {
        let metadata = part(object, "metadata");
        let kept = ["annotations", "labels", "name", "namespace"];
        let metadata: Map<String, Value> =
            std::mem::take(metadata).into_iter().filter(|(key, _)| kept.contains(&&**key)).collect();
        object["metadata"] = Value::Object(metadata);
        let annotations = part(&mut object["metadata"], "annotations");
        annotations.insert("olm.operatorframework.io/bundle-version".into(), bundle.version.clone().into());
        annotations.insert("olm.operatorframework.io/package-name".into(), bundle.package.clone().into());
        object.as_object_mut().map(|object| object.remove("status"));
    }
    objects.sort_by_cached_key(|object| {
        let field = |pointer| text(object, pointer).to_owned();
        let version = field("/apiVersion");
        let (group, version) = version.split_once('/').map_or(("", &*version), |(group, version)| (group, version));
        let (group, version) = (group.to_owned(), version.to_owned());
        (at(&field("/kind")), group, version, field("/kind"), field("/metadata/namespace"), field("/metadata/name"))
    });
}
