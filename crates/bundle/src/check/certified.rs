//! Certification requirements that can be checked offline.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Collector;
use super::csv::annotation as annotation_pointer;
use super::image_exists::images;
use super::suites::CheckInput;
use crate::pointer::{list, text};

const FEATURES: &str = "features.operators.openshift.io/";
const REQUIRED_FEATURES: [&str; 7] = [
    "disconnected",
    "fips-compliant",
    "proxy-aware",
    "tls-profiles",
    "token-auth-aws",
    "token-auth-azure",
    "token-auth-gcp",
];
const OPTIONAL_FEATURES: [&str; 3] = ["cnf", "cni", "csi"];

pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    let Some(object) = input.csv() else { return };
    findings.set_object(object);
    let csv = &object.value;
    let annotation = |key: &str| csv.pointer("/metadata/annotations").and_then(|all| all.get(key)?.as_str());
    for feature in REQUIRED_FEATURES.iter().chain(&OPTIONAL_FEATURES) {
        let key = format!("{FEATURES}{feature}");
        match annotation(&key) {
            Some("true" | "false") => {}
            None if OPTIONAL_FEATURES.contains(feature) => {}
            Some(other) => {
                let text = format!("annotation {key} is {other:?}; it must be true or false");
                findings.error("feature-annotations", annotation_pointer(&key), text);
            }
            None => {
                let text = format!("annotation {key} is missing; it must be true or false");
                findings.error("feature-annotations", "/metadata/annotations", text);
            }
        }
    }
    let mut pinned = 0;
    for (image, pointer) in images(csv).into_iter().filter(|(_, pointer)| !pointer.starts_with("/metadata")) {
        if image.contains('@') {
            pinned += 1;
            continue;
        }
        let text = format!("{image} is not named by digest, and only images by digest are certified");
        findings.warning("images-certified", pointer, text);
    }
    if pinned > 0 {
        let images = if pinned == 1 { "image was" } else { "images were" };
        let text = format!("{pinned} {images} not checked for certification: only the vendor's service knows it");
        findings.info("images-certified-unknown", "/spec/relatedImages", text);
    }
    let related: BTreeSet<&str> = list(csv, "/spec/relatedImages").iter().map(|image| text(image, "/image")).collect();
    let mut variables = false;
    const DEPLOYMENTS: &str = "/spec/install/spec/deployments";
    for (at, deployment) in list(csv, DEPLOYMENTS).iter().enumerate() {
        for field in ["containers", "initContainers"] {
            let base = format!("/spec/template/spec/{field}");
            for (index, container) in list(deployment, &base).iter().enumerate() {
                let image = text(container, "/image");
                if !image.is_empty() && !related.contains(image) {
                    let pointer = format!("{DEPLOYMENTS}/{at}{base}/{index}/image");
                    findings.warning("images-in-related", pointer, format!("{image} is not in relatedImages"));
                }
                let names = list(container, "/env").iter().map(|variable| text(variable, "/name"));
                variables |= names.into_iter().any(|name| name.starts_with("RELATED_IMAGE_"));
            }
        }
    }
    let old = annotation("operators.openshift.io/infrastructure-features").unwrap_or_default().to_lowercase();
    let claims_disconnected =
        annotation(&format!("{FEATURES}disconnected")) == Some("true") || old.contains("disconnected");
    if claims_disconnected {
        let pinned = !related.is_empty() && related.iter().all(|image| image.contains('@'));
        if !pinned || !variables {
            let text = "the bundle claims_disconnected that it works in restricted networks: list all images by digest in relatedImages, and \
                        give them to containers as RELATED_IMAGE_*";
            findings.warning("restricted-network", "/spec/relatedImages", text);
        }
    }
    let constraints: BTreeSet<&str> = list(csv, "/spec/install/spec/clusterPermissions")
        .iter()
        .flat_map(|permission| list(permission, "/rules"))
        .filter(|rule| list(rule, "/resources").iter().any(|resource| resource == "securitycontextconstraints"))
        .flat_map(|rule| list(rule, "/resourceNames"))
        .filter_map(Value::as_str)
        .collect();
    if constraints.len() > 1 {
        let names = constraints.into_iter().collect::<Vec<_>>().join(", ");
        let text = format!("at most one security context constraint can be named, not {names}");
        findings.error("scc-one", "/spec/install/spec/clusterPermissions", text);
    }
}
