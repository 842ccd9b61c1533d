//! Webhooks of OLM v0, with certificates that OLM generates itself.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Renderer, managed};
use crate::pointer::{list, text};
use crate::rehearse::input::RehearsalInput;
use crate::rehearse::{ClusterRefusal, Note, display_name};

const KINDS: [(&str, &str); 2] = [
    ("ValidatingAdmissionWebhook", "ValidatingWebhookConfiguration"),
    ("MutatingAdmissionWebhook", "MutatingWebhookConfiguration"),
];

/// Rejects webhooks that OLM v0 does not install.
pub(super) fn check(bundle: &RehearsalInput) -> Result<(), ClusterRefusal> {
    let refuse = |id, message: String| Err(ClusterRefusal { id, message });
    let mut names = BTreeSet::new();
    for webhook in &bundle.webhooks {
        let name = text(webhook, "/generateName");
        if !names.insert(name) {
            return refuse("olmv0-webhook-name", format!("repeated webhook name: {name}"));
        }
        for rule in list(webhook, "/rules") {
            let resources = || list(rule, "/resources").iter().filter_map(Value::as_str);
            for group in list(rule, "/apiGroups").iter().filter_map(Value::as_str) {
                let forbidden = match group {
                    "*" => Some("Webhook rules cannot include all groups"),
                    "operators.coreos.com" => Some("Webhook rules cannot include the OLM group"),
                    "admissionregistration.k8s.io" => resources()
                        .any(|resource| {
                            let resource = resource.to_lowercase();
                            matches!(&*resource, "*" | "mutatingwebhookconfigurations" | "validatingwebhookconfigurations")
                        })
                        .then_some("Webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources"),
                    _ => None,
                };
                if let Some(words) = forbidden {
                    return refuse("olmv0-webhook-rules", format!("webhook {name}: {words}"));
                }
            }
        }
    }
    Ok(())
}

impl Renderer<'_> {
    /// Adds the Services, Secrets, rights and configurations of webhooks.
    pub(super) fn webhooks(&mut self) {
        let mut ports: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
        for webhook in &self.bundle.webhooks {
            ports.entry(text(webhook, "/deploymentName")).or_default().insert(port(webhook));
        }
        let mut deployments: BTreeMap<&str, &Value> = BTreeMap::new();
        for deployment in &self.bundle.deployments {
            deployments.entry(text(deployment, "/name")).or_insert(deployment);
        }
        for (name, ports) in ports {
            self.service(name, deployments.get(name).copied(), &ports);
        }
        for (wanted, kind) in KINDS {
            for webhook in self.bundle.webhooks.iter().filter(|webhook| text(webhook, "/type") == wanted) {
                let configuration = self.configuration(webhook, kind);
                self.derived.push(configuration);
            }
        }
    }

    /// Adds the Service of the deployment `deployment`, which may be missing, with its ports.
    fn service(&mut self, deployment: &str, found: Option<&Value>, ports: &BTreeSet<i64>) {
        let namespace = &self.options.namespace;
        let service = format!("{deployment}-service");
        let named = |name: &str| json!({"name": name, "namespace": namespace, "labels": {"olm.managed": "true"}});
        let selector = found.and_then(|one| one.pointer("/spec/selector/matchLabels"));
        let ports: Vec<Value> =
            ports.iter().map(|port| json!({"name": port.to_string(), "port": port, "targetPort": port})).collect();
        let api = "rbac.authorization.k8s.io/v1";
        let group = "rbac.authorization.k8s.io";
        let secret = format!("{service}-cert");
        let account = match found {
            Some(one) => match text(one, "/spec/template/spec/serviceAccountName") {
                "" => "default",
                name => name,
            },
            None => "default",
        };
        let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
        let mut objects = vec![
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": named(&service),
                "spec": {"ports": ports, "selector": selector.cloned().unwrap_or_default()},
            }),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": named(&secret), "type": "kubernetes.io/tls"}),
            json!({
                "apiVersion": api, "kind": "Role", "metadata": named(&secret),
                "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret]}],
            }),
            json!({
                "apiVersion": api, "kind": "RoleBinding", "metadata": named(&secret),
                "roleRef": {"apiGroup": group, "kind": "Role", "name": secret}, "subjects": subjects,
            }),
            json!({
                "apiVersion": api, "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("{service}-system:auth-delegator")},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:auth-delegator"},
                "subjects": subjects,
            }),
            json!({
                "apiVersion": api, "kind": "RoleBinding",
                "metadata": {"name": format!("{service}-auth-reader"), "namespace": "kube-system"},
                "roleRef": {"apiGroup": group, "kind": "Role", "name": "extension-apiserver-authentication-reader"},
                "subjects": subjects,
            }),
        ];
        objects.iter_mut().for_each(managed);
        if deployment.contains('.') {
            let message = "the name has a dot, while webhooks are sent to a Service with '-' in its place: they are \
                           never reached"
                .into();
            self.notes.push(Note { id: "olmv0-dot", refused: true, message, object: display_name(&objects[0]) });
        }
        self.derived.extend(objects);
    }

    fn configuration(&self, webhook: &Value, kind: &str) -> Value {
        let generated = text(webhook, "/generateName");
        let service = format!("{}-service", text(webhook, "/deploymentName").replace('.', "-"));
        let mut webhook_entry = Map::new();
        webhook_entry.insert("name".into(), generated.into());
        let mut reference = json!({"namespace": self.options.namespace, "name": service, "port": port(webhook)});
        if let Some(path) = webhook.get("webhookPath") {
            reference["path"] = path.clone();
        }
        webhook_entry.insert("clientConfig".into(), json!({"service": reference}));
        for field in [
            "sideEffects",
            "admissionReviewVersions",
            "rules",
            "failurePolicy",
            "matchPolicy",
            "objectSelector",
            "timeoutSeconds",
        ] {
            if let Some(value) = webhook.get(field) {
                webhook_entry.insert(field.into(), value.clone());
            }
        }
        if let Some(policy) = webhook.get("reinvocationPolicy").filter(|_| kind == KINDS[1].1) {
            webhook_entry.insert("reinvocationPolicy".into(), policy.clone());
        }
        if !self.everywhere() {
            let label = format!("olm.operatorgroup.uid/{}", self.options.group);
            webhook_entry.insert("namespaceSelector".into(), json!({"matchLabels": {label: ""}}));
        }
        let mut object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {
                "generateName": format!("{generated}-"),
                "labels": {"olm.webhook-description-generate-name": generated},
            },
            "webhooks": [Value::Object(webhook_entry)],
        });
        self.own(&mut object);
        managed(&mut object);
        object
    }
}

/// Returns the port of a webhook's Service.
fn port(webhook: &Value) -> i64 {
    webhook.get("containerPort").and_then(Value::as_i64).filter(|&port| port > 0).unwrap_or(443)
}
