//! Pod security: determines the level that a pod needs and compares it with its namespace.

use serde_json::Value;

use super::Collector;
use super::suites::CheckInput;
use crate::pointer::{list, text};

/// A level of the pod security standards; the least restrictive is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodSecurity {
    /// Only what hardened pods need.
    Restricted,
    /// No known privilege escalation.
    Baseline,
    /// Unrestricted.
    Privileged,
}

impl PodSecurity {
    /// Returns the name, as used in namespace labels.
    pub fn name(self) -> &'static str {
        match self {
            PodSecurity::Restricted => "restricted",
            PodSecurity::Baseline => "baseline",
            PodSecurity::Privileged => "privileged",
        }
    }

    fn parse(name: &str) -> Option<PodSecurity> {
        [PodSecurity::Restricted, PodSecurity::Baseline, PodSecurity::Privileged]
            .into_iter()
            .find(|level| level.name() == name)
    }
}

/// Capabilities that the baseline level allows pods to add.
pub const BASELINE_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Sysctls that the baseline level allows.
const SYSCTLS: [&str; 10] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
];
/// SELinux types that the baseline level allows.
const SELINUX: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
/// Volume types that the restricted level allows.
const VOLUMES: [&str; 8] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"];

/// Returns the level that a pod template needs, with the first reason; the reason is empty for the restricted level.
pub fn pod_security(template: &Value) -> (PodSecurity, String) {
    let null = Value::Null;
    let pod = template.get("spec").unwrap_or(&null);
    let containers: Vec<&Value> = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|field| list(pod, &format!("/{field}")))
        .collect();
    if let Some(why) = beyond_baseline(template, pod, &containers) {
        return (PodSecurity::Privileged, why);
    }
    match beyond_restricted(pod, &containers) {
        Some(why) => (PodSecurity::Baseline, why),
        None => (PodSecurity::Restricted, String::new()),
    }
}

fn is(value: &Value, pointer: &str, wanted: bool) -> bool {
    value.pointer(pointer) == Some(&Value::Bool(wanted))
}

/// Returns the first violation of the baseline level.
fn beyond_baseline(template: &Value, pod: &Value, containers: &[&Value]) -> Option<String> {
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if is(pod, &format!("/{field}"), true) {
            return Some(field.to_owned());
        }
    }
    if list(pod, "/volumes").iter().any(|volume| volume.get("hostPath").is_some()) {
        return Some("a hostPath volume".into());
    }
    let sysctl = list(pod, "/securityContext/sysctls").iter().map(|sysctl| text(sysctl, "/name"));
    if let Some(name) = sysctl.into_iter().find(|name| !SYSCTLS.contains(name)) {
        return Some(format!("sysctl {name}"));
    }
    let annotations = template.pointer("/metadata/annotations").and_then(Value::as_object);
    for (key, value) in annotations.into_iter().flatten() {
        let profile = value.as_str().unwrap_or_default();
        if key.starts_with("container.apparmor.security.beta.kubernetes.io/")
            && !(profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/"))
        {
            return Some(format!("AppArmor profile {profile}"));
        }
    }
    context_beyond_baseline(pod).or_else(|| {
        containers.iter().find_map(|container| {
            let name = text(container, "/name");
            let named = |what: &str| Some(format!("{what} in container {name}"));
            if is(container, "/securityContext/privileged", true) {
                return named("privileged");
            }
            let added = list(container, "/securityContext/capabilities/add").iter().filter_map(Value::as_str);
            if let Some(capability) = added.into_iter().find(|capability| !BASELINE_CAPABILITIES.contains(capability)) {
                return named(&format!("capability {capability}"));
            }
            if list(container, "/ports").iter().any(|port| port.get("hostPort").is_some_and(|port| port != 0)) {
                return named("a hostPort");
            }
            if !matches!(text(container, "/securityContext/procMount"), "" | "Default") {
                return named("procMount");
            }
            context_beyond_baseline(container).and_then(|what| named(&what))
        })
    })
}

/// Returns the first violation of the baseline level in the security context of a pod or container.
fn context_beyond_baseline(holder: &Value) -> Option<String> {
    let set = |field: &str| text(holder, &format!("/securityContext/{field}"));
    if is(holder, "/securityContext/windowsOptions/hostProcess", true) {
        return Some("a process of the host".into());
    }
    let selinux = set("seLinuxOptions/type");
    if !SELINUX.contains(&selinux) {
        return Some(format!("SELinux type {selinux}"));
    }
    if !set("seLinuxOptions/user").is_empty() || !set("seLinuxOptions/role").is_empty() {
        return Some("an SELinux user or role".into());
    }
    let unconfined =
        ["seccompProfile", "appArmorProfile"].into_iter().find(|it| set(&format!("{it}/type")) == "Unconfined");
    unconfined.map(|what| format!("{what} Unconfined"))
}

/// Returns the first violation of the restricted level, including missing settings.
fn beyond_restricted(pod: &Value, containers: &[&Value]) -> Option<String> {
    for volume in list(pod, "/volumes") {
        let sources =
            volume.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).filter(|key| *key != "name");
        if let Some(other) = sources.into_iter().find(|source| !VOLUMES.contains(source)) {
            return Some(format!("a volume of type {other}"));
        }
    }
    if pod.pointer("/securityContext/runAsUser").is_some_and(|user| *user == 0) {
        return Some("runAsUser 0".into());
    }
    let windows = text(pod, "/os/name") == "windows";
    let user = is(pod, "/securityContext/runAsNonRoot", true);
    let confined =
        |holder: &Value| matches!(text(holder, "/securityContext/seccompProfile/type"), "RuntimeDefault" | "Localhost");
    containers.iter().find_map(|container| {
        let name = text(container, "/name");
        let named = |what: &str| Some(format!("{what} in container {name}"));
        let non_root = match container.pointer("/securityContext/runAsNonRoot") {
            Some(value) => *value == true,
            None => user,
        };
        if !non_root {
            return named("no runAsNonRoot");
        }
        if container.pointer("/securityContext/runAsUser").is_some_and(|user| *user == 0) {
            return named("runAsUser 0");
        }
        if windows {
            return None;
        }
        if !is(container, "/securityContext/allowPrivilegeEscalation", false) {
            return named("no allowPrivilegeEscalation: false");
        }
        let capabilities = |field: &str| list(container, &format!("/securityContext/capabilities/{field}"));
        if !capabilities("drop").iter().any(|one| one == "ALL") {
            return named("capabilities that are not dropped");
        }
        if capabilities("add").iter().any(|one| one != "NET_BIND_SERVICE") {
            return named("added capabilities");
        }
        if !confined(container) && (!confined(pod) || container.pointer("/securityContext/seccompProfile").is_some()) {
            return named("no seccompProfile");
        }
        None
    })
}

/// Compares the deployments of a bundle with the namespace that it suggests.
pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    const TEMPLATE: &str = "operatorframework.io/suggested-namespace-template";
    const ENFORCED: &str = "pod-security.kubernetes.io/enforce";
    let Some(object) = input.csv() else { return };
    let annotations = object.value.pointer("/metadata/annotations");
    let Some(written) = annotations.and_then(|all| all.get(TEMPLATE)?.as_str()) else { return };
    let Ok(namespace) = serde_json::from_str::<Value>(written) else { return };
    let enforced = namespace.pointer("/metadata/labels").and_then(|labels| labels.get(ENFORCED)?.as_str());
    let Some(allowed) = enforced.and_then(PodSecurity::parse) else { return };
    findings.set_object(object);
    const DEPLOYMENTS: &str = "/spec/install/spec/deployments";
    for (at, deployment) in list(&object.value, DEPLOYMENTS).iter().enumerate() {
        let Some(template) = deployment.pointer("/spec/template") else { continue };
        let (needed, why) = pod_security(template);
        if needed > allowed {
            let text = format!(
                "deployment {} needs pod security level {} ({why}), and the suggested namespace enforces {}",
                text(deployment, "/name"),
                needed.name(),
                allowed.name()
            );
            findings.warning("pod-security", format!("{DEPLOYMENTS}/{at}/spec/template/spec"), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hardened() -> Value {
        json!({"spec": {
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "a", "emptyDir": {}}],
            "containers": [{"name": "c", "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}}],
        }})
    }

    #[test]
    fn a_hardened_pod_is_restricted_and_each_setting_matters() {
        assert_eq!(pod_security(&hardened()), (PodSecurity::Restricted, String::new()));
        let without = |pointer: &str, value: Value| {
            let mut pod = hardened();
            *pod.pointer_mut(pointer).unwrap() = value;
            let (level, why) = pod_security(&pod);
            format!("{} {why}", level.name())
        };
        const CONTEXT: &str = "/spec/containers/0/securityContext";
        let context = |field: &str| format!("{CONTEXT}/{field}");
        for (pointer, value, expected) in [
            ("/spec/securityContext/runAsNonRoot".into(), json!(false), "baseline no runAsNonRoot in container c"),
            ("/spec/securityContext/seccompProfile".into(), json!({}), "baseline no seccompProfile in container c"),
            (
                "/spec/securityContext/seccompProfile".into(),
                json!({"type": "Unconfined"}),
                "privileged seccompProfile Unconfined",
            ),
            ("/spec/volumes/0".into(), json!({"name": "a", "nfs": {}}), "baseline a volume of type nfs"),
            ("/spec/volumes/0".into(), json!({"name": "a", "hostPath": {}}), "privileged a hostPath volume"),
            (
                context("allowPrivilegeEscalation"),
                json!(true),
                "baseline no allowPrivilegeEscalation: false in container c",
            ),
            (
                context("capabilities"),
                json!({"drop": ["KILL"]}),
                "baseline capabilities that are not dropped in container c",
            ),
            (
                context("capabilities"),
                json!({"drop": ["ALL"], "add": ["CHOWN"]}),
                "baseline added capabilities in container c",
            ),
            (context("capabilities"), json!({"add": ["SYS_ADMIN"]}), "privileged capability SYS_ADMIN in container c"),
            (CONTEXT.into(), json!({"privileged": true}), "privileged privileged in container c"),
            (CONTEXT.into(), json!({"procMount": "Unmasked"}), "privileged procMount in container c"),
            (
                CONTEXT.into(),
                json!({"seLinuxOptions": {"type": "spc_t"}}),
                "privileged SELinux type spc_t in container c",
            ),
            (
                "/spec/containers/0".into(),
                json!({"name": "c", "ports": [{"hostPort": 80}]}),
                "privileged a hostPort in container c",
            ),
            ("/spec".into(), json!({"hostPID": true}), "privileged hostPID"),
            (
                "/spec/securityContext".into(),
                json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
                "privileged sysctl kernel.msgmax",
            ),
        ] {
            assert_eq!(without(&pointer, value), expected, "{pointer}");
        }
    }
}
