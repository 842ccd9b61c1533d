//! CustomResourceDefinitions and their conversion webhooks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Renderer;
use crate::pointer::{list, text};
use crate::rehearse::ClusterRefusal;
use crate::rehearse::names;

impl Renderer<'_> {
    /// Adds the CRDs, with the conversion webhooks that refer to them.
    pub(super) fn crds(&mut self) -> Result<(), ClusterRefusal> {
        let mut conversions: BTreeMap<&str, &Value> = BTreeMap::new();
        for webhook in self.bundle.webhooks.iter().filter(|webhook| text(webhook, "/type") == "ConversionWebhook") {
            for crd in list(webhook, "/conversionCRDs").iter().filter_map(Value::as_str) {
                conversions.entry(crd).or_insert(webhook);
            }
        }
        for crd in &self.bundle.crds {
            let mut crd = crd.clone();
            let name = text(&crd, "/metadata/name").to_owned();
            if let Some(webhook) = conversions.get(&*name) {
                if crd.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)) {
                    return Err(ClusterRefusal {
                        id: "olmv1-preserve-unknown-fields",
                        message: format!(
                            "custom resource definition '{name}' must have .spec.preserveUnknownFields set to false to \
                             let API Server call webhook to do the conversion"
                        ),
                    });
                }
                let service = names::service(text(webhook, "/deploymentName"));
                let path = webhook.get("webhookPath").cloned().unwrap_or_else(|| "/".into());
                let versions = webhook.get("admissionReviewVersions").cloned().unwrap_or_default();
                crd["spec"]["conversion"] = json!({
                    "strategy": "Webhook",
                    "webhook": {
                        "clientConfig": {"service": {
                            "namespace": self.options.namespace, "name": service, "path": path,
                            "port": webhook.get("containerPort").cloned().unwrap_or_else(|| 0.into()),
                        }},
                        "conversionReviewVersions": versions,
                    },
                });
                self.inject(&mut crd, &service);
            }
            self.objects.push(crd);
        }
        Ok(())
    }
}
