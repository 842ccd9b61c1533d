//! Collects facts about the pods of an operator: their access to the node, and their hardening.

use crate::pointer::{list, text, texts};
use crate::{BASELINE_CAPABILITIES, BundleObject, Finding, Severity, pod_security};
use serde_json::Value;

use crate::review::compare::Fact;

/// Collects facts about the deployments of a CSV.
pub(crate) fn facts(csv: &BundleObject, facts: &mut Vec<Fact>) {
    const DEPLOYMENTS: &str = "/spec/install/spec/deployments";
    for (at, deployment) in list(&csv.value, DEPLOYMENTS).iter().enumerate() {
        let name = text(deployment, "/name");
        let Some(template) = deployment.pointer("/spec/template") else { continue };
        let Some(spec) = template.get("spec") else { continue };
        let mut pod = Pod {
            csv,
            object: format!("Deployment {name}"),
            base: format!("{DEPLOYMENTS}/{at}/spec/template/spec"),
            facts,
        };
        pod.add_facts(spec);
        let (level, why) = pod_security(template);
        let why = if why.is_empty() { why } else { format!(": {why}") };
        let message = format!("pod security level {}{why}", level.name());
        let fact = pod.fact("pod-security-level", "", level.name(), Severity::Info, message);
        // Only a higher level matters.
        facts.push(Fact { rank: Some(level as usize), ..fact });
    }
}

struct Pod<'a> {
    csv: &'a BundleObject,
    object: String,
    base: String,
    facts: &'a mut Vec<Fact>,
}

impl Pod<'_> {
    fn fact(&self, id: &'static str, pointer: &str, key: &str, severity: Severity, message: String) -> Fact {
        let finding = Finding::new(id, severity, message).about(self.object.clone()).at(
            &self.csv.file,
            self.csv.document,
            format!("{}{pointer}", self.base),
        );
        Fact { key: format!("{id} {} {key}", self.object), finding, rank: None }
    }

    fn add(&mut self, id: &'static str, pointer: &str, key: &str, severity: Severity, message: String) {
        let fact = self.fact(id, pointer, key, severity, message);
        self.facts.push(fact);
    }

    fn add_facts(&mut self, pod: &Value) {
        let is = |value: &Value, field: &str| value.get(field) == Some(&Value::Bool(true));
        for field in ["hostPID", "hostIPC"] {
            if is(pod, field) {
                self.add(
                    "pod-host-pid-ipc",
                    &format!("/{field}"),
                    field,
                    Severity::Critical,
                    format!("shares the node's {}", &field[4..]),
                );
            }
        }
        if is(pod, "hostNetwork") {
            self.add("pod-host-network", "/hostNetwork", "", Severity::High, "uses the network of the node".into());
        }
        self.volumes(pod);
        if runs_as_root(pod.get("securityContext")) {
            self.add("pod-root", "/securityContext/runAsUser", "", Severity::High, "runs as user 0".into());
        }
        for field in ["initContainers", "containers"] {
            for (at, container) in list(pod, &format!("/{field}")).iter().enumerate() {
                self.container(container, &format!("/{field}/{at}"));
            }
        }
    }

    fn volumes(&mut self, pod: &Value) {
        let mounts: Vec<&Value> = ["containers", "initContainers"]
            .iter()
            .flat_map(|field| list(pod, &format!("/{field}")))
            .flat_map(|container| list(container, "/volumeMounts"))
            .collect();
        for (at, volume) in list(pod, "/volumes").iter().enumerate() {
            let name = text(volume, "/name");
            if let Some(host) = volume.get("hostPath") {
                let path = text(host, "/path");
                let mut used = mounts.iter().filter(|mount| text(mount, "/name") == name);
                let writable = used.any(|mount| mount.get("readOnly") != Some(&Value::Bool(true)));
                let socket = path.ends_with(".sock") || path == "/var/run" || path == "/run";
                let severity = if writable || path == "/" || socket { Severity::Critical } else { Severity::High };
                let how = if writable { "writes to" } else { "reads" };
                let key = format!("{path} {writable}");
                self.add(
                    "pod-host-path",
                    &format!("/volumes/{at}/hostPath"),
                    &key,
                    severity,
                    format!("{how} {path} of the node"),
                );
            }
            let secret = text(volume, "/secret/secretName");
            if !secret.is_empty() {
                self.add(
                    "pod-secret",
                    &format!("/volumes/{at}/secret"),
                    secret,
                    Severity::Low,
                    format!("mounts Secret {secret}"),
                );
            }
        }
    }

    fn container(&mut self, container: &Value, pointer: &str) {
        let name = text(container, "/name");
        let context = container.get("securityContext");
        let is = |field: &str| context.and_then(|context| context.get(field)) == Some(&Value::Bool(true));
        let at = |field: &str| format!("{pointer}/securityContext/{field}");
        if is("privileged") {
            self.add(
                "pod-privileged",
                &at("privileged"),
                name,
                Severity::Critical,
                format!("container {name} is privileged"),
            );
        }
        if runs_as_root(context) {
            self.add("pod-root", &at("runAsUser"), name, Severity::High, format!("container {name} runs as user 0"));
        }
        if is("allowPrivilegeEscalation") {
            let message = format!("container {name} may gain rights (allowPrivilegeEscalation)");
            self.add(
                "pod-root",
                &at("allowPrivilegeEscalation"),
                &format!("{name} escalation"),
                Severity::High,
                message,
            );
        }
        let added = context.map(|context| texts(context, "/capabilities/add")).unwrap_or_default();
        for capability in added.iter().filter(|capability| !BASELINE_CAPABILITIES.contains(*capability)) {
            let message = format!("container {name} has capability {capability}");
            self.add(
                "pod-capability",
                &at("capabilities/add"),
                &format!("{name} {capability}"),
                Severity::High,
                message,
            );
        }
        for port in
            list(container, "/ports").iter().filter_map(|port| port.get("hostPort")?.as_i64()).filter(|port| *port > 0)
        {
            let message = format!("container {name} takes port {port} of the node");
            self.add(
                "pod-host-network",
                &format!("{pointer}/ports"),
                &format!("{name} {port}"),
                Severity::High,
                message,
            );
        }
        for (index, variable) in list(container, "/env").iter().enumerate() {
            let secret = text(variable, "/valueFrom/secretKeyRef/name");
            if !secret.is_empty() {
                let message = format!("container {name} reads Secret {secret}");
                self.add("pod-secret", &format!("{pointer}/env/{index}"), secret, Severity::Low, message);
            }
        }
        let dropped = context.map(|context| texts(context, "/capabilities/drop")).unwrap_or_default();
        let hardened = [
            ("drops capabilities", dropped.contains(&"ALL")),
            ("has a read-only file system", is("readOnlyRootFilesystem")),
            ("has limits", container.pointer("/resources/limits").is_some()),
        ];
        for (what, good) in hardened {
            if good {
                let message = format!("container {name} {what}");
                let fact = self.fact("pod-hardening", pointer, &format!("{name} {what}"), Severity::Info, message);
                self.facts.push(fact);
            }
        }
    }
}

fn runs_as_root(context: Option<&Value>) -> bool {
    context.and_then(|context| context.get("runAsUser")).and_then(Value::as_i64) == Some(0)
}
