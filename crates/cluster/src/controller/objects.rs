//! The objects of a catalog.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha224};

use crate::catalog_source::{
    CatalogSpec, Complaint, ExtractContent, MANAGED_LABEL, PORT, PodConfig, SERVING_LABEL, UPDATE_LABEL, service_name,
};
use crate::request::Requests;
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
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.object.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.object.metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }

    fn metadata(&self, name: &str) -> Value {
        json!({
            "name": name,
            "namespace": self.namespace(),
            "labels": {MANAGED_LABEL: "true"},
            "ownerReferences": [self.owner()],
        })
    }

    fn owner(&self) -> Value {
        json!({
            "apiVersion": ResourceKind::CATALOG_SOURCE.api_version(),
            "kind": ResourceKind::CATALOG_SOURCE.kind,
            "name": self.name(),
            "uid": self.object.metadata.uid,
            "controller": true,
            "blockOwnerDeletion": false,
        })
    }

    fn selector(&self) -> Value {
        json!({SERVING_LABEL: self.name(), MANAGED_LABEL: "true"})
    }

    /// Returns the companions of the pods, in creation order.
    pub(crate) fn companions(&self) -> Vec<(ResourceKind, Value)> {
        let object = |kind: ResourceKind, metadata: Value, more: Value| {
            let mut object = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata});
            if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
                object.extend(more);
            }
            (kind, object)
        };
        let secrets: Vec<Value> =
            self.spec.secrets.iter().filter(|name| !name.is_empty()).map(|name| json!({"name": name})).collect();
        let service = json!({
            "ports": [{"name": "grpc", "port": PORT, "targetPort": PORT, "protocol": "TCP"}],
            "selector": self.selector(),
            "type": "ClusterIP",
        });
        let mut service_metadata = self.metadata(&service_name(self.name()));
        service_metadata["labels"][SERVICE_HASH] = hash(&service).into();
        let policy = json!({
            "podSelector": {"matchLabels": self.selector()},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"port": PORT, "protocol": "TCP"}]}],
        });
        let policy_name = format!("{}-grpc-server", self.name());
        vec![
            object(ResourceKind::SERVICE_ACCOUNT, self.metadata(self.name()), json!({"imagePullSecrets": secrets})),
            object(ResourceKind::SERVICE, service_metadata, json!({"spec": service})),
            object(ResourceKind::NETWORK_POLICY, self.metadata(&policy_name), json!({"spec": policy})),
        ]
    }

    /// Returns the pod spec.
    pub(crate) fn pod_spec(&self, images: &PodImages) -> Result<Value, Complaint> {
        let config = self.spec.pod_config();
        let extract = self.spec.extract_content();
        let mut spec = json!({
            "serviceAccountName": self.name(),
            "nodeSelector": match &config.node_selector {
                Some(selector) => json!(selector),
                None => json!({"kubernetes.io/os": "linux"}),
            },
        });
        let priority = self.annotation(PRIORITY_CLASS).unwrap_or(&config.priority_class_name);
        if !priority.is_empty() {
            spec["priorityClassName"] = priority.into();
        }
        if !config.tolerations.is_empty() {
            spec["tolerations"] = json!(config.tolerations);
        }
        if let Some(affinity) = &config.affinity {
            spec["affinity"] = affinity.clone();
        }
        if self.restricted {
            let mut context = json!({"seccompProfile": {"type": "RuntimeDefault"}});
            if images.set_user {
                context["runAsUser"] = USER.into();
                context["runAsNonRoot"] = true.into();
            }
            spec["securityContext"] = context;
        }
        let mut server = self.container("registry-server", &self.spec.image, extract.is_some());
        self.set_server(&mut server, &config)?;
        if let Some(extract) = extract {
            self.extract_from_image(&mut spec, &mut server, &extract, images);
        }
        spec["containers"] = json!([server]);
        Ok(spec)
    }

    fn container(&self, name: &str, image: &str, read_only: bool) -> Value {
        let mut security = Map::new();
        security.insert("readOnlyRootFilesystem".into(), read_only.into());
        if self.restricted {
            security.insert("allowPrivilegeEscalation".into(), false.into());
            security.insert("capabilities".into(), json!({"drop": ["ALL"]}));
        }
        json!({
            "name": name,
            "image": image,
            "imagePullPolicy": if image.contains('@') { "IfNotPresent" } else { "Always" },
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": security,
        })
    }

    fn set_server(&self, server: &mut Value, config: &PodConfig) -> Result<(), Complaint> {
        let probe = |more: Value| {
            let command = ["grpc_health_probe", &format!("-addr=:{PORT}"), "-rpc-timeout=5s"];
            let mut probe = json!({"exec": {"command": command}, "timeoutSeconds": 5});
            if let (Some(probe), Value::Object(more)) = (probe.as_object_mut(), more) {
                probe.extend(more);
            }
            probe
        };
        server["ports"] = json!([{"name": "grpc", "containerPort": PORT, "protocol": "TCP"}]);
        server["startupProbe"] = probe(json!({"failureThreshold": 10, "periodSeconds": 10}));
        server["readinessProbe"] = probe(json!({"initialDelaySeconds": 5}));
        server["livenessProbe"] = probe(json!({"initialDelaySeconds": 10}));
        server["resources"] = json!({"requests": {"cpu": "10m", "memory": "50Mi"}});
        if let Some(target) = &config.memory_target {
            let bytes = quantity(target)
                .ok_or_else(|| Complaint::invalid(format!("memoryTarget {target} is not a quantity of bytes")))?;
            server["resources"]["requests"]["memory"] = binary(bytes).into();
            server["env"] = json!([{"name": "GOMEMLIMIT", "value": format!("{}B", binary(bytes))}]);
        }
        Ok(())
    }

    /// Makes `opm` serve content extracted from the image, instead of the image serving itself.
    fn extract_from_image(&self, spec: &mut Value, server: &mut Value, extract: &ExtractContent, images: &PodImages) {
        let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
        let catalog = mount("catalog-content", "/extracted-catalog");
        let mut utilities = self.container("extract-utilities", &images.util, true);
        utilities["command"] = json!(["cp", "/bin/copy-content", "/utilities/copy-content"]);
        utilities["volumeMounts"] = json!([mount("utilities", "/utilities")]);
        let mut content = self.container("extract-content", &self.spec.image, true);
        let mut command = vec![
            "/utilities/copy-content".to_owned(),
            format!("--catalog.from={}", extract.catalog_dir),
            "--catalog.to=/extracted-catalog/catalog".to_owned(),
        ];
        let mut arguments = vec!["serve", "/extracted-catalog/catalog"];
        let mut mounts = vec![catalog.clone()];
        let mut volumes =
            vec![json!({"name": "utilities", "emptyDir": {}}), json!({"name": "catalog-content", "emptyDir": {}})];
        if extract.cache_dir.is_empty() {
            mounts.push(mount("tmpdir", "/tmp/"));
            volumes.push(json!({"name": "tmpdir", "emptyDir": {}}));
        } else {
            command.push(format!("--cache.from={}", extract.cache_dir));
            command.push("--cache.to=/extracted-catalog/cache".to_owned());
            arguments.push("--cache-dir=/extracted-catalog/cache");
        }
        content["command"] = json!(command);
        content["volumeMounts"] = json!([mount("utilities", "/utilities"), catalog]);
        server["image"] = images.opm.as_str().into();
        server["imagePullPolicy"] = if images.opm.contains('@') { "IfNotPresent" } else { "Always" }.into();
        server["command"] = json!(["/bin/opm"]);
        server["args"] = json!(arguments);
        server["volumeMounts"] = json!(mounts);
        spec["initContainers"] = json!([utilities, content]);
        spec["volumes"] = json!(volumes);
    }

    /// Returns a serving pod or an update pod.
    pub(crate) fn pod(&self, spec: &Value, hash: &str, serving: bool) -> Value {
        let mut annotations = self.object.metadata.annotations.clone().unwrap_or_default();
        annotations.insert("cluster-autoscaler.kubernetes.io/safe-to-evict".into(), "true".into());
        let (serves, updates) = if serving { (self.name(), "") } else { ("", self.name()) };
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": format!("{}-", self.name()),
                "namespace": self.namespace(),
                "labels": {SERVING_LABEL: serves, UPDATE_LABEL: updates, MANAGED_LABEL: "true", POD_HASH: hash},
                "annotations": annotations,
                "ownerReferences": [self.owner()],
            },
            "spec": spec,
        })
    }
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
