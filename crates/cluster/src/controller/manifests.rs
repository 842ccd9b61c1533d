//! The manifests of a controller deployment.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource, HTTPGetAction,
    ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity, PodSecurityContext, PodSpec, PodTemplateSpec, Probe,
    ResourceRequirements, SeccompProfile, SecretVolumeSource, SecurityContext, Service, ServiceAccount, ServicePort,
    ServiceSpec, Volume, VolumeMount, WeightedPodAffinityTerm,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use crate::ResourceKind;

/// How a controller is deployed.
#[derive(Debug, Clone)]
pub struct ManifestPlan {
    /// The name of all objects.
    pub name: String,
    /// The namespace of the controller.
    pub namespace: String,
    /// The namespace of the catalogs to serve; `None` means all.
    pub watched: Option<String>,
    /// The image with `opm`.
    pub image: String,
    /// The number of replicas, of which one is active.
    pub replicas: u32,
    /// Additional arguments of the controller.
    pub arguments: Vec<String>,
    /// How ClusterCatalogs are served; `None` for a controller of CatalogSources.
    pub cluster_catalogs: Option<ServedCatalogs>,
}

/// How a controller serves ClusterCatalogs.
#[derive(Debug, Clone)]
pub struct ServedCatalogs {
    /// The Secret of type `kubernetes.io/tls` with the certificate; without one, catalogs are served over plain HTTP.
    pub tls_secret: Option<String>,
}

/// The port of health and metrics.
const HTTP_PORT: u16 = 8080;
/// The port of ClusterCatalogs.
const CATALOGS_PORT: u16 = 8443;
/// The mount path of the certificate.
const CERTIFICATE: &str = "/var/run/opm-controller/tls";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the objects of a controller deployment, in creation order.
pub fn manifests(plan: &ManifestPlan) -> Vec<Value> {
    let (own, watched) = (Some(&plan.namespace), plan.watched.as_ref());
    let subjects = Some(vec![Subject {
        kind: "ServiceAccount".to_owned(),
        name: plan.name.clone(),
        namespace: own.cloned(),
        api_group: None,
    }]);
    let role_ref =
        |kind: &str, name: &str| RoleRef { api_group: RBAC.to_owned(), kind: kind.to_owned(), name: name.to_owned() };
    let lease = format!("{}-lease", plan.name);
    let (metadata, rules) = (plan.metadata(&plan.name, watched), Some(rules(plan)));
    let mut objects = vec![json!(ServiceAccount { metadata: plan.metadata(&plan.name, own), ..Default::default() })];
    objects.extend(match watched {
        Some(_) => [
            json!(Role { metadata: metadata.clone(), rules }),
            json!(RoleBinding { metadata, role_ref: role_ref("Role", &plan.name), subjects: subjects.clone() }),
        ],
        None => {
            let role_ref = role_ref("ClusterRole", &plan.name);
            [
                json!(ClusterRole { metadata: metadata.clone(), rules, aggregation_rule: None }),
                json!(ClusterRoleBinding { metadata, role_ref, subjects: subjects.clone() }),
            ]
        }
    });
    let leases = ResourceKind::LEASE;
    let named = PolicyRule {
        resource_names: Some(vec![plan.name.clone()]),
        ..rule(leases.group, &[leases.plural], &["get", "update"])
    };
    objects.extend([
        json!(Role {
            metadata: plan.metadata(&lease, own),
            rules: Some(vec![rule(leases.group, &[leases.plural], &["create"]), named]),
        }),
        json!(RoleBinding { metadata: plan.metadata(&lease, own), role_ref: role_ref("Role", &lease), subjects }),
    ]);
    if let Some(catalogs) = &plan.cluster_catalogs {
        let port = ServicePort {
            name: Some("catalogs".to_owned()),
            port: catalogs.port().into(),
            target_port: Some(IntOrString::String("catalogs".to_owned())),
            protocol: Some("TCP".to_owned()),
            ..ServicePort::default()
        };
        let spec = ServiceSpec { selector: Some(plan.labels()), ports: Some(vec![port]), ..ServiceSpec::default() };
        let metadata = plan.metadata(&plan.name, own);
        objects.push(json!(Service { metadata, spec: Some(spec), ..Service::default() }));
    }
    objects.push(json!(deployment(plan)));
    objects
}

impl ManifestPlan {
    fn labels(&self) -> BTreeMap<String, String> {
        [("app.kubernetes.io/name".to_owned(), self.name.clone())].into()
    }

    fn metadata(&self, name: &str, namespace: Option<&String>) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: namespace.cloned(),
            labels: Some(self.labels()),
            ..ObjectMeta::default()
        }
    }
}

impl ServedCatalogs {
    /// The service port: the default of the scheme, so that URLs need no port.
    fn port(&self) -> u16 {
        if self.tls_secret.is_some() { 443 } else { 80 }
    }

    fn arguments(&self, plan: &ManifestPlan) -> Vec<String> {
        let mut arguments = vec![
            "--olm=v1".to_owned(),
            format!("--catalogs-address=:{CATALOGS_PORT}"),
            format!("--external-address={}.{}.svc", plan.name, plan.namespace),
        ];
        if self.tls_secret.is_some() {
            arguments.extend([format!("--tls-cert={CERTIFICATE}/tls.crt"), format!("--tls-key={CERTIFICATE}/tls.key")]);
        }
        arguments
    }
}

/// Returns a container port. The protocol is part of its key, and older API servers do not default it in server-side apply.
fn container_port(name: &str, port: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: port.into(),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

fn requests(memory: &str) -> ResourceRequirements {
    let requests =
        [("cpu", "10m"), ("memory", memory)].map(|(name, size)| (name.to_owned(), Quantity(size.to_owned())));
    ResourceRequirements { requests: Some(requests.into()), ..ResourceRequirements::default() }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(words(&[group])),
        resources: Some(words(resources)),
        verbs: words(verbs),
        ..PolicyRule::default()
    }
}

/// Adds what serving ClusterCatalogs needs to a pod: a volume for images, a port and a certificate.
fn serve(volumes: &mut Vec<Volume>, container: &mut Container, catalogs: &ServedCatalogs) {
    let mount = |name: &str, path: &str, read_only: Option<bool>| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only,
        ..VolumeMount::default()
    };
    let images = Some(EmptyDirVolumeSource::default());
    volumes.push(Volume { name: "images".to_owned(), empty_dir: images, ..Volume::default() });
    let mut mounts = vec![mount("images", "/tmp", None)];
    if let Some(secret) = &catalogs.tls_secret {
        let secret = SecretVolumeSource { secret_name: Some(secret.clone()), ..SecretVolumeSource::default() };
        volumes.push(Volume { name: "tls".to_owned(), secret: Some(secret), ..Volume::default() });
        mounts.push(mount("tls", CERTIFICATE, Some(true)));
    }
    container.volume_mounts = Some(mounts);
    container.ports.get_or_insert_default().push(container_port("catalogs", CATALOGS_PORT));
    container.resources = Some(requests("128Mi"));
}

/// The permissions of the controller: exactly what it uses.
fn rules(plan: &ManifestPlan) -> Vec<PolicyRule> {
    if plan.cluster_catalogs.is_some() {
        let group = ResourceKind::CLUSTER_CATALOG.group;
        return vec![
            rule(group, &["clustercatalogs"], &["list", "watch", "patch"]),
            rule(group, &["clustercatalogs/status"], &["patch"]),
        ];
    }
    let group = ResourceKind::CATALOG_SOURCE.group;
    let changed = ["get", "list", "watch", "create", "patch", "delete"];
    vec![
        rule(group, &["catalogsources"], &["get", "list", "watch", "patch"]),
        rule(group, &["catalogsources/status"], &["patch"]),
        rule("", &["pods"], &["list", "watch", "create", "patch", "delete"]),
        rule("", &["services", "serviceaccounts"], &changed),
        rule("networking.k8s.io", &["networkpolicies"], &["get", "create", "patch", "delete"]),
        PolicyRule {
            // The Role of a namespace can allow reading that namespace, whose labels state the pod security level.
            resource_names: plan.watched.clone().map(|watched| vec![watched]),
            ..rule("", &["namespaces"], &["get"])
        },
    ]
}

fn deployment(plan: &ManifestPlan) -> Deployment {
    let probe = |path: &str| {
        let port = IntOrString::String("http".to_owned());
        let http_get = HTTPGetAction { path: Some(path.to_owned()), port, ..HTTPGetAction::default() };
        Some(Probe { http_get: Some(http_get), ..Probe::default() })
    };
    let mut arguments = vec![
        "controller".to_owned(),
        format!("--http=:{HTTP_PORT}"),
        format!("--lease-name={}", plan.name),
        format!("--lease-namespace={}", plan.namespace),
    ];
    if let Some(watched) = &plan.watched {
        arguments.push(format!("--namespace={watched}"));
    }
    arguments.extend(plan.cluster_catalogs.iter().flat_map(|catalogs| catalogs.arguments(plan)));
    arguments.extend(plan.arguments.iter().cloned());
    let pod_name = ObjectFieldSelector { field_path: "metadata.name".to_owned(), api_version: None };
    let mut container = Container {
        name: "controller".to_owned(),
        image: Some(plan.image.clone()),
        command: Some(vec!["/bin/opm".to_owned()]),
        args: Some(arguments),
        env: Some(vec![EnvVar {
            name: "POD_NAME".to_owned(),
            value: None,
            value_from: Some(EnvVarSource { field_ref: Some(pod_name), ..EnvVarSource::default() }),
        }]),
        ports: Some(vec![container_port("http", HTTP_PORT)]),
        liveness_probe: probe("/healthz"),
        readiness_probe: probe("/readyz"),
        resources: Some(requests("32Mi")),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    };
    let mut volumes = Vec::new();
    if let Some(catalogs) = &plan.cluster_catalogs {
        serve(&mut volumes, &mut container, catalogs);
    }
    let selector = LabelSelector { match_labels: Some(plan.labels()), ..LabelSelector::default() };
    let apart = WeightedPodAffinityTerm {
        weight: 100,
        pod_affinity_term: PodAffinityTerm {
            label_selector: Some(selector.clone()),
            topology_key: "kubernetes.io/hostname".to_owned(),
            ..PodAffinityTerm::default()
        },
    };
    let pod = PodSpec {
        service_account_name: Some(plan.name.clone()),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
            ..PodSecurityContext::default()
        }),
        affinity: Some(Affinity {
            pod_anti_affinity: Some(PodAntiAffinity {
                preferred_during_scheduling_ignored_during_execution: Some(vec![apart]),
                ..PodAntiAffinity::default()
            }),
            ..Affinity::default()
        }),
        containers: vec![container],
        volumes: Some(volumes).filter(|volumes| !volumes.is_empty()),
        ..PodSpec::default()
    };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(plan.labels()), ..ObjectMeta::default() }),
        spec: Some(pod),
    };
    let replicas = Some(i32::try_from(plan.replicas).unwrap_or(i32::MAX));
    Deployment {
        metadata: plan.metadata(&plan.name, Some(&plan.namespace)),
        spec: Some(DeploymentSpec { replicas, selector, template, ..DeploymentSpec::default() }),
        status: None,
    }
}
