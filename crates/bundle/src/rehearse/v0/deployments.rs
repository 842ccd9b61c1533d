//! Deployments of OLM v0.

use serde_json::{Value, json};

use super::{Renderer, managed};
use crate::pointer::{list, text};
use crate::rehearse::v1::{self, CERTIFICATE_VOLUMES, apply_deployment_config};

impl Renderer<'_> {
    /// Adds the deployments of the CSV.
    pub(super) fn deployments(&mut self) {
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
            let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
            if webhooks.contains(name) {
                mount_certificate(&mut object, &format!("{name}-service-cert"));
            }
            if let Some(config) = &self.options.config {
                apply_deployment_config(&mut object, config);
            }
            self.name_condition(&mut object);
            self.own(&mut object);
            managed(&mut object);
            self.derived.push(object);
        }
    }

    /// Merges the annotations of the CSV into the pod template, overriding its own.
    fn annotate(&self, spec: &mut Value) {
        let template = v1::part(spec, "template");
        let metadata = template.entry("metadata").or_insert_with(|| json!({}));
        let annotations = v1::part(metadata, "annotations");
        annotations.extend(self.bundle.annotations.iter().map(|(key, value)| (key.clone(), value.clone().into())));
        for (key, value) in self.group_annotations() {
            annotations.insert(key.into(), value.into());
        }
    }

    /// Sets the name of the OperatorCondition in containers.
    fn name_condition(&self, deployment: &mut Value) {
        const VARIABLE: &str = "OPERATOR_CONDITION_NAME";
        let containers = deployment.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|container| container.is_object()) {
            let mut env = list(container, "/env").to_vec();
            env.retain(|variable| text(variable, "/name") != VARIABLE);
            env.push(json!({"name": VARIABLE, "value": self.bundle.name}));
            container["env"] = env.into();
        }
    }
}

/// Mounts the certificate of a Secret where webhooks read it. Existing volumes with the two names and the first mount
/// at each path are removed first.
fn mount_certificate(deployment: &mut Value, secret: &str) {
    let Some(pod) = deployment.pointer_mut("/spec/template/spec").filter(|pod| pod.is_object()) else { return };
    let mut volumes = list(pod, "/volumes").to_vec();
    volumes.retain(|volume| !CERTIFICATE_VOLUMES.iter().any(|known| known.0 == text(volume, "/name")));
    volumes.extend(CERTIFICATE_VOLUMES.iter().map(|(name, _, certificate, key)| {
        json!({"name": name, "secret": {"secretName": secret, "items": [
            {"key": "tls.crt", "path": certificate}, {"key": "tls.key", "path": key},
        ]}})
    }));
    pod["volumes"] = volumes.into();
    let containers = pod.get_mut("containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten().filter(|container| container.is_object()) {
        let mut mounts = list(container, "/volumeMounts").to_vec();
        for (name, path, ..) in CERTIFICATE_VOLUMES {
            if let Some(at) = mounts.iter().position(|mount| text(mount, "/mountPath") == path) {
                mounts.remove(at);
            }
            mounts.push(json!({"name": name, "mountPath": path}));
        }
        container["volumeMounts"] = mounts.into();
    }
}
