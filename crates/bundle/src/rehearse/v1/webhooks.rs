//! Webhook configurations and the Services for webhooks.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::Renderer;
use crate::pointer::{list, text};
use crate::rehearse::names;

impl Renderer<'_> {
    /// Adds the configurations of admission webhooks, validating ones first.
    pub(super) fn webhooks(&mut self) {
        const KINDS: [(&str, &str); 2] = [
            ("ValidatingAdmissionWebhook", "ValidatingWebhookConfiguration"),
            ("MutatingAdmissionWebhook", "MutatingWebhookConfiguration"),
        ];
        for (wanted, kind) in KINDS {
            for webhook in self.bundle.webhooks.iter().filter(|webhook| text(webhook, "/type") == wanted) {
                let generated = text(webhook, "/generateName");
                let name = generated.strip_suffix('-').unwrap_or(generated);
                let service = names::service(text(webhook, "/deploymentName"));
                let mut object = json!({
                    "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
                    "webhooks": [self.webhook(webhook, name, &service, wanted == KINDS[1].0)],
                });
                self.inject(&mut object, &service);
                self.objects.push(object);
            }
        }
    }

    fn webhook(&self, webhook: &Value, name: &str, service: &str, mutating: bool) -> Value {
        let mut webhook_entry = Map::new();
        webhook_entry.insert("name".into(), name.into());
        let mut reference = json!({
            "namespace": self.options.namespace, "name": service,
            "port": webhook.get("containerPort").cloned().unwrap_or_else(|| 0.into()),
        });
        if let Some(path) = webhook.get("webhookPath") {
            reference["path"] = path.clone();
        }
        webhook_entry.insert("clientConfig".into(), json!({"service": reference}));
        // These two fields are always serialized.
        for field in ["sideEffects", "admissionReviewVersions"] {
            webhook_entry.insert(field.into(), webhook.get(field).cloned().unwrap_or_default());
        }
        for field in ["rules", "failurePolicy", "matchPolicy", "objectSelector", "timeoutSeconds"] {
            if let Some(value) = webhook.get(field) {
                webhook_entry.insert(field.into(), value.clone());
            }
        }
        if let Some(policy) = webhook.get("reinvocationPolicy").filter(|_| mutating) {
            webhook_entry.insert("reinvocationPolicy".into(), policy.clone());
        }
        if !self.targets.is_empty() && !self.targets.iter().any(String::is_empty) {
            webhook_entry.insert(
                "namespaceSelector".into(),
                json!({"matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": self.targets},
                ]}),
            );
        }
        Value::Object(webhook_entry)
    }

    /// Adds a Service for each deployment with webhooks.
    pub(super) fn services(&mut self) {
        let mut by_deployment: BTreeMap<&str, BTreeSet<(i64, WebhookPort)>> = BTreeMap::new();
        for webhook in &self.bundle.webhooks {
            by_deployment.entry(text(webhook, "/deploymentName")).or_default().insert(ports(webhook));
        }
        for deployment in &self.bundle.deployments {
            let name = text(deployment, "/name");
            let Some(ports) = by_deployment.get(name) else { continue };
            let ports: Vec<Value> = ports
                .iter()
                .map(|(port, target)| json!({"name": port.to_string(), "port": port, "targetPort": target.value()}))
                .collect();
            let mut spec = json!({"ports": ports});
            if let Some(labels) = deployment.pointer("/spec/selector/matchLabels") {
                spec["selector"] = labels.clone();
            }
            let service = names::service(name);
            let mut object = json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": service, "namespace": self.options.namespace},
                "spec": spec, "status": {"loadBalancer": {}},
            });
            self.certify(&mut object, &service);
            self.objects.push(object);
        }
    }
}

/// A container port, by number or name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum WebhookPort {
    Name(String),
    Number(i64),
}

impl WebhookPort {
    fn value(&self) -> Value {
        match self {
            WebhookPort::Name(name) => name.clone().into(),
            WebhookPort::Number(number) => (*number).into(),
        }
    }
}

/// Returns the port of a webhook's Service and its target port.
fn ports(webhook: &Value) -> (i64, WebhookPort) {
    let port = webhook.get("containerPort").and_then(Value::as_i64).filter(|&port| port > 0).unwrap_or(443);
    let target = match webhook.get("targetPort") {
        Some(Value::String(name)) => WebhookPort::Name(name.clone()),
        Some(Value::Number(number)) => WebhookPort::Number(number.as_i64().unwrap_or_default()),
        _ => WebhookPort::Number(port),
    };
    (port, target)
}

/// Returns the forbidden rules of a webhook, in the words of OLM v1.
pub(super) fn forbidden_rules(webhook: &Value) -> Vec<String> {
    const RESOURCES: [&str; 5] = [
        "*",
        "mutatingwebhookconfiguration",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfiguration",
        "validatingwebhookconfigurations",
    ];
    let name = text(webhook, "/generateName");
    let head = format!("webhook {name:?} contains forbidden rule: admission webhook rules cannot reference");
    let mut faults = Vec::new();
    for rule in list(webhook, "/rules") {
        for group in list(rule, "/apiGroups").iter().filter_map(Value::as_str) {
            if matches!(group, "*" | "olm.operatorframework.io") {
                faults.push(format!("{head} API group {group:?}"));
            }
            if group == "admissionregistration.k8s.io" {
                let resources = list(rule, "/resources").iter().filter_map(Value::as_str);
                let forbidden = resources.filter(|resource| RESOURCES.contains(&&*resource.to_lowercase()));
                faults
                    .extend(forbidden.map(|resource| format!("{head} resource {resource:?} for API group {group:?}")));
            }
        }
    }
    faults
}
