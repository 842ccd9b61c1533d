//! Deployments, with the volumes for webhook certificates.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{CertificateProvider, Renderer, deployment_config, part};
use crate::pointer::{list, text};
use crate::rehearse::names;

/// The name, path, certificate file and key file of each certificate volume.
pub(crate) const CERTIFICATE_VOLUMES: [(&str, &str, &str, &str); 2] = [
    ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs", "tls.crt", "tls.key"),
    ("apiservice-cert", "/apiserver.local.config/certificates", "apiserver.crt", "apiserver.key"),
];

impl Renderer<'_> {
    /// Adds the deployments of the CSV.
    pub(super) fn deployments(&mut self, config: Option<&Value>) {
        let webhooks = self.bundle.webhook_deployments();
        for deployment in &self.bundle.deployments {
            let name = text(deployment, "/name");
            let mut spec = deployment.get("spec").cloned().unwrap_or_else(|| json!({}));
            self.annotate(&mut spec);
            spec["revisionHistoryLimit"] = 1.into();
            let mut metadata = json!({"name": name, "namespace": self.options.namespace});
            if let Some(labels) = deployment.get("label") {
                metadata["labels"] = labels.clone();
            }
            let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec, "status": {}});
            if webhooks.contains(name) && self.options.certificates != CertificateProvider::None {
                mount_certificate(&mut object, &names::certificate(&names::service(name)));
            }
            if let Some(config) = config {
                deployment_config::apply(&mut object, config);
            }
            self.objects.push(object);
        }
    }

    /// Merges the annotations of the CSV into the pod template, which takes precedence.
    fn annotate(&self, spec: &mut Value) {
        let template = part(spec, "template");
        let metadata = template.entry("metadata").or_insert_with(|| json!({}));
        let own = metadata.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
        let annotations = part(metadata, "annotations");
        annotations.clear();
        annotations.extend(self.bundle.annotations.iter().map(|(key, value)| (key.clone(), value.clone().into())));
        annotations.extend(own);
        annotations.insert("olm.targetNamespaces".into(), self.targets.join(",").into());
        if self.options.profile.operator_namespace() {
            annotations.insert("olm.operatorNamespace".into(), self.options.namespace.clone().into());
        }
    }
}

/// Mounts the certificate of a Secret where webhooks read it, replacing existing mounts.
fn mount_certificate(deployment: &mut Value, secret: &str) {
    let Some(pod) = deployment.pointer_mut("/spec/template/spec") else { return };
    let mut replaced: BTreeSet<String> = CERTIFICATE_VOLUMES.iter().map(|volume| volume.0.to_owned()).collect();
    for container in list(pod, "/containers") {
        for mount in list(container, "/volumeMounts") {
            if CERTIFICATE_VOLUMES.iter().any(|volume| volume.1 == text(mount, "/mountPath")) {
                replaced.insert(text(mount, "/name").to_owned());
            }
        }
    }
    let keep = |entries: &[Value]| -> Vec<Value> {
        entries.iter().filter(|entry| !replaced.contains(text(entry, "/name"))).cloned().collect()
    };
    let mut volumes = keep(list(pod, "/volumes"));
    volumes.extend(CERTIFICATE_VOLUMES.iter().map(|(name, _, certificate, key)| {
        json!({"name": name, "secret": {"secretName": secret, "items": [
            {"key": "tls.crt", "path": certificate}, {"key": "tls.key", "path": key},
        ]}})
    }));
    pod["volumes"] = volumes.into();
    let Some(containers) = pod.get_mut("containers").and_then(Value::as_array_mut) else { return };
    for container in containers.iter_mut().filter(|container| container.is_object()) {
        let mut mounts = keep(list(container, "/volumeMounts"));
        mounts.extend(CERTIFICATE_VOLUMES.iter().map(|(name, path, ..)| json!({"name": name, "mountPath": path})));
        container["volumeMounts"] = mounts.into();
    }
}
