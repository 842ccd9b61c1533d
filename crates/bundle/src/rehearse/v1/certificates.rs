//! Certificates for webhooks.

use serde_json::{Value, json};

use super::{CertificateProvider, Renderer, part};
use crate::rehearse::names;

const INJECT_CERT_MANAGER: &str = "cert-manager.io/inject-ca-from";
const INJECT_OPENSHIFT: &str = "service.beta.openshift.io/inject-cabundle";
const SECRET_OPENSHIFT: &str = "service.beta.openshift.io/serving-cert-secret-name";

impl Renderer<'_> {
    /// Requests the injection of a Service's CA into an object.
    pub(super) fn inject(&self, object: &mut Value, service: &str) {
        let (key, value) = match self.options.certificates {
            CertificateProvider::CertManager => {
                (INJECT_CERT_MANAGER, format!("{}/{}", self.options.namespace, names::certificate(service)))
            }
            CertificateProvider::OpenShift => (INJECT_OPENSHIFT, "true".into()),
            CertificateProvider::None => return,
        };
        part(&mut object["metadata"], "annotations").insert(key.into(), value.into());
    }

    /// Requests a certificate for a Service.
    pub(super) fn certify(&self, service: &mut Value, name: &str) {
        if self.options.certificates == CertificateProvider::OpenShift {
            let annotations = part(&mut service["metadata"], "annotations");
            annotations.insert(SECRET_OPENSHIFT.into(), names::certificate(name).into());
        }
    }

    /// Adds an Issuer and a Certificate for each deployment with webhooks, by name.
    pub(super) fn certificates(&mut self) {
        if self.options.certificates != CertificateProvider::CertManager {
            return;
        }
        const API: &str = "cert-manager.io/v1";
        let namespace = &self.options.namespace;
        for deployment in self.bundle.webhook_deployments() {
            let service = names::service(deployment);
            let certificate = names::certificate(&service);
            let issuer = names::issuer(&certificate);
            let host = format!("{service}.{namespace}");
            self.objects.push(json!({
                "apiVersion": API, "kind": "Issuer", "metadata": {"name": issuer, "namespace": namespace},
                "spec": {"selfSigned": {}}, "status": {},
            }));
            self.objects.push(json!({
                "apiVersion": API, "kind": "Certificate", "metadata": {"name": certificate, "namespace": namespace},
                "spec": {
                    "secretName": certificate,
                    "usages": ["server auth"],
                    "commonName": host,
                    "dnsNames": [host, format!("{host}.svc"), format!("{host}.svc.cluster.local")],
                    "issuerRef": {"name": issuer},
                    "duration": "17520h0m0s",
                    "renewBefore": "24h0m0s",
                },
                "status": {},
            }));
        }
    }
}
