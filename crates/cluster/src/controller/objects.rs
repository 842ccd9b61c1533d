//! The objects of a catalog.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, ExecAction, LocalObjectReference,
    PodSecurityContext, PodSpec, Probe, ResourceRequirements, SeccompProfile, SecurityContext, Service, ServiceAccount,
    ServicePort, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPort, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use sha2::{Digest, Sha224};

use crate::catalog_source::{
    CatalogSpec, Complaint, ExtractContent, MANAGED_LABEL, PORT, PodConfig, SERVING_LABEL, UPDATE_LABEL, service_name,
};
use crate::request::Requests;
use crate::views::Stored;
use crate::watcher::NoReports;
use crate::{Cluster, ClusterObject, Error, ResourceKind};

/// The label with the hash of the pod spec.
pub(crate) const POD_HASH: &str = "olm.pod-spec-hash";
const SERVICE_HASH: &str = "olm.service-spec-hash";
const PRIORITY_CLASS: &str = "operatorframework.io/priorityclass";
/// The user ID of restricted containers.
const USER: i64 = 1001;

/// The timeout for cluster discovery.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// The images of pods.
#[derive(Debug, Clone)]
pub struct PodImages {
    /// The image with `opm` that serves extracted content.
    pub opm: String,
    /// The image with the program that extracts content.
    pub util: String,
    /// Whether restricted containers get a user ID; some clusters assign one themselves.
    pub set_user: bool,
}

/// Returns whether a cluster assigns user IDs to pods, as OpenShift does.
///
/// # Errors
/// Fails if the API server refuses or is unreachable.
pub async fn chooses_users(cluster: &Cluster) -> Result<bool, Error> {
    let requests = Requests::within(cluster, &NoReports, TIMEOUT);
    let groups = requests.retry("listing the groups of the API", |_| cluster.client.list_api_groups()).await?;
    Ok(groups.groups.iter().any(|group| group.name == "security.openshift.io"))
}

/// A catalog and its spec.
pub(crate) struct ManagedCatalog<'a> {
    pub(crate) object: &'a ClusterObject,
    pub(crate) spec: &'a CatalogSpec,
    pub(crate) restricted: bool,
}

impl ManagedCatalog<'_> {
    pub(crate) fn name(&self) -> &str {
        self.object.metadata.name()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.object.metadata.namespace()
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.object.metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }

    fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace().to_owned()),
            labels: Some(labels([(MANAGED_LABEL, "true")])),
            owner_references: Some(vec![self.owner()]),
            ..ObjectMeta::default()
        }
    }

    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: ResourceKind::CATALOG_SOURCE.api_version(),
            kind: ResourceKind::CATALOG_SOURCE.kind.to_owned(),
            name: self.name().to_owned(),
            uid: self.object.metadata.uid().to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(false),
        }
    }

    fn selector(&self) -> BTreeMap<String, String> {
        labels([(SERVING_LABEL, self.name()), (MANAGED_LABEL, "true")])
    }

    /// Returns the companions of the pods, in creation order.
    pub(crate) fn companions(&self) -> Vec<(ResourceKind, Value)> {
        let secrets = self.spec.secrets.iter().filter(|name| !name.is_empty());
        let account = ServiceAccount {
            metadata: self.metadata(self.name()),
            image_pull_secrets: Some(secrets.map(|name| LocalObjectReference { name: name.clone() }).collect()),
            ..ServiceAccount::default()
        };
        let spec = ServiceSpec {
            ports: Some(vec![ServicePort {
                name: Some("grpc".to_owned()),
                port: PORT.into(),
                target_port: Some(IntOrString::Int(PORT.into())),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            selector: Some(self.selector()),
            type_: Some("ClusterIP".to_owned()),
            ..ServiceSpec::default()
        };
        let mut metadata = self.metadata(&service_name(self.name()));
        metadata.labels.get_or_insert_default().insert(SERVICE_HASH.to_owned(), hash(&json!(spec)));
        let service = Service { metadata, spec: Some(spec), ..Service::default() };
        let port = NetworkPolicyPort {
            port: Some(IntOrString::Int(PORT.into())),
            protocol: Some("TCP".to_owned()),
            ..NetworkPolicyPort::default()
        };
        let policy = NetworkPolicy {
            metadata: self.metadata(&format!("{}-grpc-server", self.name())),
            spec: Some(NetworkPolicySpec {
                pod_selector: Some(LabelSelector { match_labels: Some(self.selector()), ..LabelSelector::default() }),
                policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
                ingress: Some(vec![NetworkPolicyIngressRule { ports: Some(vec![port]), from: None }]),
                egress: None,
            }),
        };
        vec![
            (ResourceKind::SERVICE_ACCOUNT, json!(account)),
            (ResourceKind::SERVICE, json!(service)),
            (ResourceKind::NETWORK_POLICY, json!(policy)),
        ]
    }

    /// Returns the pod spec.
    pub(crate) fn pod_spec(&self, images: &PodImages) -> Result<Value, Complaint> {
        let config = self.spec.pod_config();
        let extract = self.spec.extract_content();
        let priority = self.annotation(PRIORITY_CLASS).unwrap_or(&config.priority_class_name);
        let mut spec = PodSpec {
            service_account_name: Some(self.name().to_owned()),
            node_selector: Some(
                config.node_selector.clone().unwrap_or_else(|| labels([("kubernetes.io/os", "linux")])),
            ),
            priority_class_name: Some(priority.to_owned()).filter(|priority| !priority.is_empty()),
            security_context: self.restricted.then(|| PodSecurityContext {
                seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
                run_as_user: images.set_user.then_some(USER),
                run_as_non_root: images.set_user.then_some(true),
                ..PodSecurityContext::default()
            }),
            ..PodSpec::default()
        };
        let mut server = self.container("registry-server", &self.spec.image, extract.is_some());
        set_server(&mut server, &config)?;
        if let Some(extract) = extract {
            self.extract_from_image(&mut spec, &mut server, &extract, images);
        }
        spec.containers = vec![server];
        Ok(with_scheduling(&spec, &config))
    }

    fn container(&self, name: &str, image: &str, read_only: bool) -> Container {
        Container {
            name: name.to_owned(),
            image: Some(image.to_owned()),
            image_pull_policy: Some(pull_policy(image)),
            termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
            security_context: Some(SecurityContext {
                read_only_root_filesystem: Some(read_only),
                allow_privilege_escalation: self.restricted.then_some(false),
                capabilities: self
                    .restricted
                    .then(|| Capabilities { drop: Some(vec!["ALL".to_owned()]), ..Capabilities::default() }),
                ..SecurityContext::default()
            }),
            ..Container::default()
        }
    }

    /// Makes `opm` serve content extracted from the image, instead of the image serving itself.
    fn extract_from_image(
        &self,
        spec: &mut PodSpec,
        server: &mut Container,
        extract: &ExtractContent,
        images: &PodImages,
    ) {
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let mount = |name: &str, path: &str| VolumeMount {
            name: name.to_owned(),
            mount_path: path.to_owned(),
            ..VolumeMount::default()
        };
        let volume = |name: &str| Volume {
            name: name.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        };
        let catalog = mount("catalog-content", "/extracted-catalog");
        let utilities = Container {
            command: words(&["cp", "/bin/copy-content", "/utilities/copy-content"]),
            volume_mounts: Some(vec![mount("utilities", "/utilities")]),
            ..self.container("extract-utilities", &images.util, true)
        };
        let mut command = vec![
            "/utilities/copy-content".to_owned(),
            format!("--catalog.from={}", extract.catalog_dir),
            "--catalog.to=/extracted-catalog/catalog".to_owned(),
        ];
        let mut arguments = vec!["serve", "/extracted-catalog/catalog"];
        let mut mounts = vec![catalog.clone()];
        let mut volumes = vec![volume("utilities"), volume("catalog-content")];
        if extract.cache_dir.is_empty() {
            mounts.push(mount("tmpdir", "/tmp/"));
            volumes.push(volume("tmpdir"));
        } else {
            command.push(format!("--cache.from={}", extract.cache_dir));
            command.push("--cache.to=/extracted-catalog/cache".to_owned());
            arguments.push("--cache-dir=/extracted-catalog/cache");
        }
        let content = Container {
            command: Some(command),
            volume_mounts: Some(vec![mount("utilities", "/utilities"), catalog]),
            ..self.container("extract-content", &self.spec.image, true)
        };
        server.image = Some(images.opm.clone());
        server.image_pull_policy = Some(pull_policy(&images.opm));
        server.command = words(&["/bin/opm"]);
        server.args = words(&arguments);
        server.volume_mounts = Some(mounts);
        spec.init_containers = Some(vec![utilities, content]);
        spec.volumes = Some(volumes);
    }

    /// Returns a serving pod or an update pod.
    pub(crate) fn pod(&self, spec: &Value, hash: &str, serving: bool) -> Value {
        let mut annotations = self.object.metadata.annotations.clone().unwrap_or_default();
        annotations.insert("cluster-autoscaler.kubernetes.io/safe-to-evict".into(), "true".into());
        let (serves, updates) = if serving { (self.name(), "") } else { ("", self.name()) };
        let metadata = ObjectMeta {
            generate_name: Some(format!("{}-", self.name())),
            namespace: Some(self.namespace().to_owned()),
            labels: Some(labels([
                (SERVING_LABEL, serves),
                (UPDATE_LABEL, updates),
                (MANAGED_LABEL, "true"),
                (POD_HASH, hash),
            ])),
            annotations: Some(annotations),
            owner_references: Some(vec![self.owner()]),
            ..ObjectMeta::default()
        };
        json!({
            "apiVersion": ResourceKind::POD.api_version(),
            "kind": ResourceKind::POD.kind,
            "metadata": metadata,
            "spec": spec,
        })
    }
}

fn labels<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn pull_policy(image: &str) -> String {
    if image.contains('@') { "IfNotPresent" } else { "Always" }.to_owned()
}

/// Adds what the user asks of the scheduler, which passes through as it is.
fn with_scheduling(spec: &PodSpec, config: &PodConfig) -> Value {
    let mut spec = json!(spec);
    if let Some(fields) = spec.as_object_mut() {
        if !config.tolerations.is_empty() {
            fields.insert("tolerations".to_owned(), json!(config.tolerations));
        }
        if let Some(affinity) = &config.affinity {
            fields.insert("affinity".to_owned(), affinity.clone());
        }
    }
    spec
}

/// Adds the port, the probes and the resources of a catalog server.
fn set_server(server: &mut Container, config: &PodConfig) -> Result<(), Complaint> {
    let probe = || {
        let command = ["grpc_health_probe", &format!("-addr=:{PORT}"), "-rpc-timeout=5s"];
        let command = Some(command.map(str::to_owned).into());
        Probe { exec: Some(ExecAction { command }), timeout_seconds: Some(5), ..Probe::default() }
    };
    let mut requests = BTreeMap::from([("cpu", "10m".to_owned()), ("memory", "50Mi".to_owned())]);
    server.ports = Some(vec![ContainerPort {
        name: Some("grpc".to_owned()),
        container_port: PORT.into(),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }]);
    server.startup_probe = Some(Probe { failure_threshold: Some(10), period_seconds: Some(10), ..probe() });
    server.readiness_probe = Some(Probe { initial_delay_seconds: Some(5), ..probe() });
    server.liveness_probe = Some(Probe { initial_delay_seconds: Some(10), ..probe() });
    if let Some(target) = &config.memory_target {
        let bytes = quantity(target)
            .ok_or_else(|| Complaint::invalid(format!("memoryTarget {target} is not a quantity of bytes")))?;
        requests.insert("memory", binary(bytes));
        server.env = Some(vec![EnvVar {
            name: "GOMEMLIMIT".to_owned(),
            value: Some(format!("{}B", binary(bytes))),
            value_from: None,
        }]);
    }
    let requests = requests.into_iter().map(|(name, size)| (name.to_owned(), Quantity(size)));
    server.resources = Some(ResourceRequirements { requests: Some(requests.collect()), ..Default::default() });
    Ok(())
}

/// Returns a short hash of a value, in letters and digits.
pub(crate) fn hash(value: &Value) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut number = Sha224::digest(value.to_string().as_bytes()).to_vec();
    let mut text = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut rest = 0u32;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            *byte = (value / 62) as u8;
            rest = value % 62;
        }
        text.push(DIGITS[rest as usize]);
    }
    text.reverse();
    String::from_utf8_lossy(&text).into_owned()
}

/// Parses a quantity of bytes.
fn quantity(value: &Value) -> Option<u64> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let factor = match &text[end..] {
        "" => 1.0,
        "Ki" => 1024.0,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return None,
    };
    let bytes = number * factor;
    (1.0..1e18).contains(&bytes).then_some(bytes as u64)
}

/// Formats bytes with the largest binary unit that gives a whole number.
fn binary(bytes: u64) -> String {
    let units = [("Ti", 1u64 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let unit = units.iter().find(|(_, size)| bytes.is_multiple_of(*size));
    unit.map_or_else(|| bytes.to_string(), |(name, size)| format!("{}{name}", bytes / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod_spec(spec: Value, restricted: bool) -> Result<Value, Complaint> {
        let object: ClusterObject = serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "a.b", "namespace": "ns", "uid": "u"}, "spec": spec,
        }))
        .unwrap();
        let spec = CatalogSpec::of(&object).unwrap();
        let images = PodImages { opm: "r.test/opm@sha256:1".into(), util: "r.test/util".into(), set_user: true };
        ManagedCatalog { object: &object, spec: &spec, restricted }.pod_spec(&images)
    }

    #[test]
    fn an_image_serves_itself() {
        let spec = pod_spec(json!({"sourceType": "grpc", "image": "r.test/a:v1"}), false).unwrap();
        let server = &spec["containers"][0];
        assert_eq!(server.get("command"), None);
        assert_eq!(server.get("args"), None);
        assert_eq!(server["imagePullPolicy"], "Always");
        assert_eq!(server["securityContext"], json!({"readOnlyRootFilesystem": false}));
        assert_eq!(spec.get("securityContext"), None);
        let spec = pod_spec(json!({"sourceType": "grpc", "image": "r.test/a@sha256:1"}), true).unwrap();
        assert_eq!(spec["containers"][0]["imagePullPolicy"], "IfNotPresent");
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
        assert_eq!(spec["containers"][0]["securityContext"]["capabilities"], json!({"drop": ["ALL"]}));
    }

    #[test]
    fn content_is_extracted_from_an_image_that_does_not_serve() {
        let extract = |extract: Value| {
            let config = json!({"extractContent": extract, "memoryTarget": "30Mi", "priorityClassName": "high"});
            pod_spec(json!({"sourceType": "grpc", "image": "r.test/a:v1", "grpcPodConfig": config}), false).unwrap()
        };
        let spec = extract(json!({"catalogDir": "/configs", "cacheDir": "/tmp/cache"}));
        assert_eq!(
            spec["initContainers"][1]["command"],
            json!([
                "/utilities/copy-content",
                "--catalog.from=/configs",
                "--catalog.to=/extracted-catalog/catalog",
                "--cache.from=/tmp/cache",
                "--cache.to=/extracted-catalog/cache"
            ])
        );
        let server = &spec["containers"][0];
        assert_eq!(
            server["args"],
            json!(["serve", "/extracted-catalog/catalog", "--cache-dir=/extracted-catalog/cache"])
        );
        assert_eq!(server["image"], "r.test/opm@sha256:1");
        assert_eq!(server["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(server["env"], json!([{"name": "GOMEMLIMIT", "value": "30MiB"}]));
        assert_eq!(spec["priorityClassName"], "high");
        let spec = extract(json!({"catalogDir": "/configs"}));
        assert_eq!(spec["containers"][0]["volumeMounts"][1]["mountPath"], "/tmp/");
    }

    #[test]
    fn quantities_are_formatted_in_binary_units() {
        let formatted = |value: Value| quantity(&value).map(binary);
        assert_eq!(formatted(json!("30Mi")).as_deref(), Some("30Mi"));
        assert_eq!(formatted(json!("2048Mi")).as_deref(), Some("2Gi"));
        assert_eq!(formatted(json!(1024)).as_deref(), Some("1Ki"));
        assert_eq!(formatted(json!("1M")).as_deref(), Some("1000000"));
        assert_eq!(formatted(json!("much")), None);
        assert_eq!(formatted(json!("-1")), None);
    }

    #[test]
    fn digests_are_labels() {
        let text = hash(&json!({"a": 1}));
        assert!(text.len() < 63 && text.chars().all(|c| c.is_ascii_alphanumeric()), "{text}");
        assert_ne!(text, hash(&json!({"a": 2})));
    }
}
