//! The fields of Kubernetes types, as a table for `bundle::rehearse`.
//!
//! They come from the source of `k8s-openapi`. The lists here add what the published API description lacks: which
//! optional fields are serialized even if they are zero.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;

use crate::Project;
use anyhow::{Context, Result, bail, ensure};

/// The Kubernetes version that the types come from.
const VERSION: &str = "v1_37";

/// The types that the objects of a bundle consist of; all others are reachable from these.
const ROOTS: [&str; 5] = [
    "crate::api::apps::v1::DeploymentSpec",
    "crate::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition",
    "crate::api::rbac::v1::PolicyRule",
    "crate::apimachinery::pkg::apis::meta::v1::LabelSelector",
    "crate::api::admissionregistration::v1::RuleWithOperations",
];

/// Optional numbers and booleans that are omitted when zero; all others are kept.
const VALUES: &str = "AWSElasticBlockStoreVolumeSource.partition AWSElasticBlockStoreVolumeSource.readOnly \
    AzureFileVolumeSource.readOnly CephFSVolumeSource.readOnly CinderVolumeSource.readOnly Container.stdin \
    Container.stdinOnce Container.tty ContainerPort.hostPort CustomResourceColumnDefinition.priority \
    CustomResourceDefinitionSpec.preserveUnknownFields CustomResourceDefinitionVersion.deprecated \
    DeploymentSpec.minReadySeconds DeploymentSpec.paused EphemeralContainer.stdin EphemeralContainer.stdinOnce \
    EphemeralContainer.tty FCVolumeSource.readOnly FlexVolumeSource.readOnly GCEPersistentDiskVolumeSource.partition \
    GCEPersistentDiskVolumeSource.readOnly GlusterfsVolumeSource.readOnly ISCSIVolumeSource.chapAuthDiscovery \
    ISCSIVolumeSource.chapAuthSession ISCSIVolumeSource.readOnly JSONSchemaProps.exclusiveMaximum \
    JSONSchemaProps.exclusiveMinimum JSONSchemaProps.nullable JSONSchemaProps.uniqueItems \
    JSONSchemaProps.x-kubernetes-embedded-resource JSONSchemaProps.x-kubernetes-int-or-string \
    NFSVolumeSource.readOnly ObjectMeta.generation PersistentVolumeClaimVolumeSource.readOnly PodSpec.hostIPC \
    PodSpec.hostNetwork PodSpec.hostPID PortworxVolumeSource.readOnly Probe.failureThreshold \
    Probe.initialDelaySeconds Probe.periodSeconds Probe.successThreshold Probe.timeoutSeconds \
    QuobyteVolumeSource.readOnly RBDVolumeSource.readOnly ScaleIOVolumeSource.readOnly \
    ScaleIOVolumeSource.sslEnabled StorageOSVolumeSource.readOnly VolumeMount.readOnly";

/// Optional strings that are kept when empty; all others are omitted.
const POINTERS: &str = "AzureDiskVolumeSource.cachingMode AzureDiskVolumeSource.fsType AzureDiskVolumeSource.kind \
    CSIVolumeSource.fsType ClusterTrustBundleProjection.name ClusterTrustBundleProjection.signerName \
    Container.restartPolicy CustomResourceDefinitionVersion.deprecationWarning \
    CustomResourceSubresourceScale.labelSelectorPath GRPCAction.service HostPathVolumeSource.type \
    ISCSIVolumeSource.initiatorName JSONSchemaProps.x-kubernetes-list-type JSONSchemaProps.x-kubernetes-map-type \
    Lifecycle.stopSignal PersistentVolumeClaimSpec.storageClassName \
    PersistentVolumeClaimSpec.volumeAttributesClassName PersistentVolumeClaimSpec.volumeMode PodOS.name \
    PodResourceClaim.resourceClaimName PodResourceClaim.resourceClaimTemplateName \
    PodSecurityContext.fsGroupChangePolicy PodSecurityContext.seLinuxChangePolicy \
    PodSecurityContext.supplementalGroupsPolicy PodSpec.preemptionPolicy PodSpec.runtimeClassName PodSpec.schedulingGroup \
    RuleWithOperations.scope SeccompProfile.localhostProfile AppArmorProfile.localhostProfile SecurityContext.procMount \
    ServiceReference.path TopologySpreadConstraint.nodeAffinityPolicy TopologySpreadConstraint.nodeTaintsPolicy \
    TypedLocalObjectReference.apiGroup TypedObjectReference.apiGroup TypedObjectReference.namespace \
    ValidationRule.reason VolumeMount.mountPropagation VolumeMount.recursiveReadOnly WebhookClientConfig.url \
    WindowsSecurityContextOptions.gmsaCredentialSpec WindowsSecurityContextOptions.gmsaCredentialSpecName \
    WindowsSecurityContextOptions.runAsUserName";

/// Optional structs that are serialized even if empty.
const WRITTEN: &str = "Container.resources CustomResourceDefinition.metadata CustomResourceDefinition.status \
    CustomResourceDefinitionStatus.acceptedNames CustomResourceDefinitionStatus.conditions \
    CustomResourceDefinitionStatus.storedVersions DeploymentSpec.strategy EphemeralContainer.resources \
    PersistentVolumeClaimSpec.resources PersistentVolumeClaimTemplate.metadata PodTemplateSpec.metadata \
    PodTemplateSpec.spec ResourceFieldSelector.divisor";

/// Returns the table, with one line per type.
pub(crate) fn table(project: &Project) -> Result<String> {
    let source = project.source_of("k8s-openapi")?.join("src").join(VERSION);
    let mut types: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut queue: VecDeque<String> = ROOTS.iter().map(|&root| root.to_owned()).collect();
    while let Some(path) = queue.pop_front() {
        let name = last(&path).to_owned();
        if let Some((known, _)) = types.get(&name) {
            ensure!(*known == path, "{known} and {path} share a name");
            continue;
        }
        types.insert(name.clone(), (path.clone(), String::new()));
        let line = fields(&source, &path, &name, &mut queue).with_context(|| format!("type {path}"))?;
        types.insert(name, (path, line));
    }
    let mut table = String::from(
        "# Kubernetes types and their fields, generated by `cargo xtask codegen`. A field is its name, a colon, `!` if it is\n\
         # always written or `?` if it is kept when zero, and its type: s string, i integer, f float, b boolean, q quantity,\n\
         # x integer or string, j any value, [] list of, {} map to, or the name of a type.\n",
    );
    for (name, (_, line)) in types {
        table.push_str(&format!("{name}{line}\n"));
    }
    Ok(table)
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// Returns the fields of the type at `path` and queues the types they refer to.
fn fields(source: &Path, path: &str, name: &str, queue: &mut VecDeque<String>) -> Result<String> {
    let module = path.strip_prefix("crate::").and_then(|path| path.rsplit_once("::")).context("no path")?.0;
    let directory = source.join(module.replace("::", "/"));
    let opening = format!("pub struct {name} {{");
    let mut text = None;
    for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
        let found = fs::read_to_string(entry?.path()).unwrap_or_default();
        if found.contains(&opening) {
            text = Some(found);
        } else if found.contains(&format!("pub struct {name}(")) {
            // A type without fields.
            return Ok(String::new());
        }
    }
    let text = text.context("no file defines it")?;
    let (_, body) = text.split_once(&opening).context("no struct")?;
    let (body, rest) = body.split_once("\n}").context("no end")?;
    let mut line = String::new();
    for field in body.lines().filter_map(|line| line.trim().strip_prefix("pub ")) {
        let (rust, kind) = field.trim_end_matches(',').split_once(": ").context("no type")?;
        let json = json_name(rest, rust).with_context(|| format!("field {rust} is not serialized"))?;
        let (kind, optional) = match kind.strip_prefix("Option<").and_then(|kind| kind.strip_suffix('>')) {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        let kind = shape(kind, queue)?;
        let full = format!("{name}.{json}");
        let is = |list: &str| list.split_whitespace().any(|entry| entry == full);
        let written = match (&*kind, optional) {
            (_, false) => "!",
            _ if is(WRITTEN) => "!",
            ("i" | "b" | "f" | "x", true) if is(VALUES) => "",
            ("s", true) if !is(POINTERS) => "",
            (kind, true) if kind.starts_with(['[', '{']) => "",
            _ => "?",
        };
        line.push_str(&format!(" {json}:{written}{kind}"));
    }
    Ok(line)
}

/// Returns the JSON name of a field.
fn json_name(text: &str, rust: &str) -> Option<String> {
    let key = format!("Field::Key_{},", rust.trim_start_matches("r#").trim_end_matches('_'));
    let exact = format!("Field::Key_{},", rust.trim_start_matches("r#"));
    let line = text.lines().find(|line| line.contains("=> ") && (line.ends_with(&exact) || line.ends_with(&key)))?;
    line.trim().strip_prefix('"')?.split('"').next().map(str::to_owned)
}

fn shape(kind: &str, queue: &mut VecDeque<String>) -> Result<String> {
    let inner = |prefix: &str| kind.strip_prefix(prefix).and_then(|kind| kind.strip_suffix('>'));
    if let Some(item) = inner("std::vec::Vec<") {
        return Ok(format!("[]{}", shape(item, queue)?));
    }
    if let Some(item) = inner("std::boxed::Box<") {
        return shape(item, queue);
    }
    if let Some(value) = inner("std::collections::BTreeMap<std::string::String, ") {
        return Ok(format!("{{}}{}", shape(value, queue)?));
    }
    Ok(match kind {
        "std::string::String" | "crate::ByteString" => "s".into(),
        "i32" | "i64" => "i".into(),
        "f64" => "f".into(),
        "bool" => "b".into(),
        path if path.starts_with("crate::") => match last(path) {
            "Quantity" => "q".into(),
            "IntOrString" => "x".into(),
            "Time" | "MicroTime" => "s".into(),
            "JSON" | "FieldsV1" => "j".into(),
            "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray" => {
                "JSONSchemaProps".into()
            }
            name => {
                queue.push_back(path.to_owned());
                name.into()
            }
        },
        other => bail!("unknown type {other}"),
    })
}
