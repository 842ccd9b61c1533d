//! Finds uses of APIs that Kubernetes versions have removed.

use std::collections::BTreeMap;

use fbc::version::Version;
use serde_json::Value;

use super::Collector;
use super::suites::CheckInput;
use crate::pointer::{list, text};

/// An API and some of its kinds.
type Kinds = (&'static str, &'static [&'static str]);

/// The APIs that each Kubernetes minor version removed.
const REMOVED: &[(u64, &[Kinds])] = &[
    (
        22,
        &[
            ("scheduling.k8s.io/v1beta1", &["PriorityClass"]),
            ("rbac.authorization.k8s.io/v1beta1", &["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"]),
            ("apiregistration.k8s.io/v1beta1", &["APIService"]),
            ("authentication.k8s.io/v1beta1", &["TokenReview"]),
            (
                "authorization.k8s.io/v1beta1",
                &["LocalSubjectAccessReview", "SelfSubjectAccessReview", "SubjectAccessReview"],
            ),
            (
                "admissionregistration.k8s.io/v1beta1",
                &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
            ),
            ("coordination.k8s.io/v1beta1", &["Lease"]),
            ("extensions/v1beta1", &["Ingress"]),
            ("networking.k8s.io/v1beta1", &["Ingress", "IngressClass"]),
            ("storage.k8s.io/v1beta1", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"]),
            ("certificates.k8s.io/v1beta1", &["CertificateSigningRequest"]),
        ],
    ),
    (
        25,
        &[
            ("batch/v1beta1", &["CronJob"]),
            ("discovery.k8s.io/v1beta1", &["EndpointSlice"]),
            ("events.k8s.io/v1beta1", &["Event"]),
            ("autoscaling/v2beta1", &["HorizontalPodAutoscaler"]),
            ("policy/v1beta1", &["PodDisruptionBudget", "PodSecurityPolicy"]),
            ("node.k8s.io/v1beta1", &["RuntimeClass"]),
        ],
    ),
    (26, &[("autoscaling/v2beta2", &["HorizontalPodAutoscaler"])]),
];

/// Further removals that the existing tools do not check.
const REMOVED_UNCHECKED: &[(u64, &[Kinds])] = &[
    (
        16,
        &[
            ("extensions/v1beta1", &["DaemonSet", "Deployment", "NetworkPolicy", "PodSecurityPolicy", "ReplicaSet"]),
            ("apps/v1beta1", &["ControllerRevision", "Deployment", "StatefulSet"]),
            ("apps/v1beta2", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
        ],
    ),
    (27, &[("storage.k8s.io/v1beta1", &["CSIStorageCapacity"])]),
    (29, &[("flowcontrol.apiserver.k8s.io/v1beta2", &["FlowSchema", "PriorityLevelConfiguration"])]),
    (32, &[("flowcontrol.apiserver.k8s.io/v1beta3", &["FlowSchema", "PriorityLevelConfiguration"])]),
];

/// Returns the objects of a bundle whose API a Kubernetes version removed, by kind.
pub(super) fn used(input: &CheckInput<'_>, minor: u64) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let Some((_, apis)) = REMOVED.iter().find(|(version, _)| *version == minor) else { return found };
    let is_removed =
        |version: &str, kind: &str| apis.iter().any(|(api, kinds)| *api == version && kinds.contains(&kind));
    for object in &input.whole.objects {
        let version = text(&object.value, "/apiVersion");
        if minor == 22 && object.kind() == "CustomResourceDefinition" && version == "apiextensions.k8s.io/v1beta1" {
            found.entry("CRD".into()).or_default().push(object.name().to_owned());
        } else if is_removed(version, object.kind()) {
            found.entry(object.kind().to_owned()).or_default().push(object.name().to_owned());
        }
    }
    if minor == 22 {
        return found;
    }
    let Some(csv) = input.csv() else { return found };
    for (field, shown) in [("owned", "Owned"), ("required", "Required")] {
        for (at, described) in list(&csv.value, &format!("/spec/customresourcedefinitions/{field}")).iter().enumerate()
        {
            for (index, resource) in list(described, "/resources").iter().enumerate() {
                let kind = text(resource, "/kind");
                if is_removed(text(resource, "/version"), kind) {
                    let name =
                        format!("ClusterServiceVersion.Spec.CustomResourceDefinitions.{shown}[{at}].Resource[{index}]");
                    found.entry(kind.to_owned()).or_default().push(name);
                }
            }
        }
    }
    found
}

/// Returns the rules for pod security policies, which 1.25 removed.
fn policy_rules(csv: &Value) -> Vec<String> {
    let mut names = Vec::new();
    for (field, shown) in [("clusterPermissions", "ClusterPermissions"), ("permissions", "Permissions")] {
        for (at, permission) in list(csv, &format!("/spec/install/spec/{field}")).iter().enumerate() {
            for (index, rule) in list(permission, "/rules").iter().enumerate() {
                let has = |pointer, wanted: &str| list(rule, pointer).iter().any(|value| value == wanted);
                if has("/apiGroups", "policy") && has("/resources", "podsecuritypolicies") {
                    names.push(format!(
                        "ClusterServiceVersion.Spec.InstallStrategy.StrategySpec.{shown}[{at}].Rules[{index}]"
                    ));
                }
            }
        }
    }
    names
}

fn message(minor: u64, found: &BTreeMap<String, Vec<String>>) -> String {
    let kinds: Vec<String> = found
        .iter()
        .map(|(kind, names)| {
            let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
            format!("{kind}: ([{}])", names.join(" "))
        })
        .collect();
    format!(
        "this bundle is using APIs which were deprecated and removed in v1.{minor}. More info: \
         https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-{minor}. Migrate the API(s) for {}",
        kinds.join(",")
    )
}

pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    let Some(csv) = input.csv() else { return };
    findings.set_object(csv);
    let name = csv.name();
    let error = |text: String| format!("Error: Value {name}: {text}");
    let target = match input.kubernetes.map(|version| (version, Version::parse_tolerant(version))) {
        None => None,
        Some((_, Ok(version))) => Some(version),
        Some((written, Err(_))) => {
            let text = format!("invalid value informed via the k8s key option : {written}");
            findings.error("removed-api", "", error(text));
            return;
        }
    };
    let minimum = text(&csv.value, "/spec/minKubeVersion").trim();
    let least = match minimum {
        "" => None,
        written => match Version::parse_tolerant(written) {
            Ok(version) => Some(version),
            Err(_) => {
                let text = format!(
                    "unable to use csv.Spec.MinKubeVersion to verify the CRD/Webhook apis because it has an invalid value: \
                     {written}"
                );
                findings.error("removed-api", "/spec/minKubeVersion", error(text));
                return;
            }
        },
    };
    for (minor, _) in REMOVED {
        let reached =
            |version: &Option<Version>| version.as_ref().is_some_and(|it| (it.major(), it.minor()) >= (1, *minor));
        let found = used(input, *minor);
        if !found.is_empty() {
            let place = place_of(input, *minor);
            findings.set_file(place.0);
            if reached(&target) || reached(&least) {
                findings.error("removed-api", place.1, error(message(*minor, &found)));
            } else {
                let text = format!("Warning: Value {name}: {}", message(*minor, &found));
                findings.warning("removed-api", place.1, text);
            }
            findings.set_object(csv);
        }
        let rules = if *minor == 25 { policy_rules(&csv.value) } else { Vec::new() };
        if !rules.is_empty() && !found.contains_key("PodSecurityPolicy") {
            let found = BTreeMap::from([("PodSecurityPolicy".to_owned(), rules)]);
            let text = format!("Warning: Value {name}: {}", message(*minor, &found));
            findings.warning("removed-api", "/spec/install/spec", text);
        }
    }
}

/// Finds objects of removed APIs that the existing tools do not check.
pub(super) fn check_unchecked(input: &CheckInput<'_>, findings: &mut Collector) {
    let minimum = input.csv().map(|csv| text(&csv.value, "/spec/minKubeVersion").trim().to_owned());
    let versions = [input.kubernetes.map(str::to_owned), minimum];
    let versions: Vec<Version> = versions.iter().flatten().filter_map(|it| Version::parse_tolerant(it).ok()).collect();
    for object in &input.whole.objects {
        let (api, kind) = (text(&object.value, "/apiVersion"), object.kind());
        let removes = |(_, apis): &&(u64, &[Kinds])| apis.iter().any(|(it, kinds)| *it == api && kinds.contains(&kind));
        let Some((minor, _)) = REMOVED_UNCHECKED.iter().find(removes) else { continue };
        findings.set_object(object);
        let text = format!("{kind} {} uses {api}, which Kubernetes 1.{minor} removed", object.name());
        match versions.iter().any(|it| (it.major(), it.minor()) >= (1, *minor)) {
            true => findings.error("removed-api", "/apiVersion", text),
            false => findings.warning("removed-api", "/apiVersion", text),
        }
    }
}

/// Returns the location of the first use of a removed API.
fn place_of(input: &CheckInput<'_>, minor: u64) -> (String, &'static str) {
    let Some((_, apis)) = REMOVED.iter().find(|(version, _)| *version == minor) else { return Default::default() };
    let found = input.whole.objects.iter().find(|object| {
        let version = text(&object.value, "/apiVersion");
        apis.iter().any(|(api, kinds)| *api == version && kinds.contains(&object.kind()))
            || minor == 22 && version == "apiextensions.k8s.io/v1beta1"
    });
    match found.or(input.csv()) {
        Some(object) if object.kind() == "ClusterServiceVersion" => {
            (object.file.clone(), "/spec/customresourcedefinitions")
        }
        Some(object) => (object.file.clone(), "/apiVersion"),
        None => Default::default(),
    }
}
