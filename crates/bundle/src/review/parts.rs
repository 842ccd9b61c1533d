//! Collects facts about webhooks, images and other parts of a bundle that affect cluster security.

use crate::pointer::{list, text, texts};
use crate::{BundleObject, Finding, ParsedBundle, Severity};
use serde_json::Value;

use crate::review::compare::Fact;

fn fact(
    id: &'static str,
    key: &str,
    severity: Severity,
    message: String,
    object: &BundleObject,
    pointer: String,
) -> Fact {
    let about = format!("{} {}", object.kind(), object.name());
    let finding = Finding::new(id, severity, message).about(about).at(&object.file, object.document, pointer);
    Fact { key: format!("{id} {key}"), finding, rank: None }
}

/// Collects facts about the webhooks of a CSV.
pub(crate) fn webhooks(csv: &BundleObject, own_groups: &[String], facts: &mut Vec<Fact>) {
    for (at, webhook) in list(&csv.value, "/spec/webhookdefinitions").iter().enumerate() {
        let (kind, name) = (text(webhook, "/type"), text(webhook, "/generateName"));
        if kind == "ConversionWebhook" {
            continue;
        }
        let groups: Vec<&str> = list(webhook, "/rules").iter().flat_map(|rule| texts(rule, "/apiGroups")).collect();
        let fails = matches!(text(webhook, "/failurePolicy"), "Fail" | "");
        let core = groups.iter().any(|group| matches!(*group, "" | "apps" | "*"));
        let foreign = groups.iter().any(|group| !own_groups.iter().any(|own| own == group));
        let selects = webhook.get("objectSelector").is_some();
        let wide = fails && (core || foreign && !selects);
        let (id, severity) =
            if wide { ("webhook-fail-wide", Severity::High) } else { ("webhook-new", Severity::Medium) };
        let what: Vec<String> =
            list(webhook, "/rules").iter().flat_map(|rule| texts(rule, "/resources")).map(str::to_owned).collect();
        let message =
            format!("{kind} {name} on {}{}", what.join(", "), if fails { ", which fails closed" } else { "" });
        facts.push(fact(
            id,
            &format!("{kind} {name}"),
            severity,
            message,
            csv,
            format!("/spec/webhookdefinitions/{at}"),
        ));
    }
}

/// An image and its parts.
struct Image<'a> {
    registry: &'a str,
    repository: &'a str,
    pinned: bool,
}

fn image(reference: &str) -> Image<'_> {
    let (name, pinned) = reference.split_once('@').map_or((reference, false), |(name, _)| (name, true));
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    let repository = name[slash..].split_once(':').map_or(name, |(last, _)| &name[..slash + last.len()]);
    let first = repository.split('/').next().unwrap_or_default();
    let host = first.contains(['.', ':']) || first == "localhost";
    let registry = if host && repository.contains('/') { first } else { "docker.io" };
    Image { registry, repository, pinned }
}

/// Collects facts about images: in deployments, `relatedImages`, environment variables and the annotation.
pub(crate) fn images(csv: &BundleObject, facts: &mut Vec<Fact>) {
    let mut found: Vec<(String, String)> = Vec::new();
    const DEPLOYMENTS: &str = "/spec/install/spec/deployments";
    for (at, deployment) in list(&csv.value, DEPLOYMENTS).iter().enumerate() {
        for field in ["containers", "initContainers"] {
            let base = format!("/spec/template/spec/{field}");
            for (index, container) in list(deployment, &base).iter().enumerate() {
                let place = format!("{DEPLOYMENTS}/{at}{base}/{index}");
                found.push((text(container, "/image").to_owned(), format!("{place}/image")));
                for (number, variable) in list(container, "/env").iter().enumerate() {
                    if text(variable, "/name").starts_with("RELATED_IMAGE_") {
                        found.push((text(variable, "/value").to_owned(), format!("{place}/env/{number}/value")));
                    }
                }
            }
        }
    }
    for (at, related) in list(&csv.value, "/spec/relatedImages").iter().enumerate() {
        found.push((text(related, "/image").to_owned(), format!("/spec/relatedImages/{at}/image")));
    }
    let mut seen = std::collections::BTreeSet::new();
    for (reference, pointer) in found {
        if reference.is_empty() || !seen.insert(reference.clone()) {
            continue;
        }
        let Image { registry, repository, pinned } = image(&reference);
        let mut add =
            |id, key: &str, severity, message| facts.push(fact(id, key, severity, message, csv, pointer.clone()));
        add("image-registry", registry, Severity::High, format!("images come from {registry}"));
        add("image-repository", repository, Severity::Medium, format!("images come from {repository}"));
        add("image-changed", &reference, Severity::Info, format!("image {reference}"));
        if !pinned {
            add("image-unpinned", repository, Severity::Medium, format!("{reference} is not named by digest"));
        }
    }
}

/// Collects all other facts.
pub(crate) fn others(whole: &ParsedBundle, csv: &BundleObject, facts: &mut Vec<Fact>) {
    for object in &whole.objects {
        let name = object.name();
        match object.kind() {
            "PriorityClass" => {
                let value = object.value.get("value").and_then(Value::as_i64).unwrap_or_default();
                if value >= 1_000_000_000 || name.starts_with("system-") {
                    let message = format!("priority {value} is that of the cluster itself");
                    facts.push(fact("priority-class", name, Severity::Medium, message, object, "/value".into()));
                }
            }
            "NetworkPolicy" => {
                let message = "protects pods".to_owned();
                facts.push(fact("network-policy-removed", name, Severity::Info, message, object, String::new()));
            }
            "ClusterRole" => aggregated(object, facts),
            "CustomResourceDefinition" => {
                facts.push(fact("crd-added", name, Severity::Info, "is defined".into(), object, String::new()));
            }
            "RoleBinding" | "ClusterRoleBinding" => {
                for (at, subject) in list(&object.value, "/subjects").iter().enumerate() {
                    let (kind, who) = (text(subject, "/kind"), text(subject, "/name"));
                    if matches!(kind, "User" | "Group") {
                        let message = format!("gives {} to {kind} {who}", text(&object.value, "/roleRef/name"));
                        let key = format!("{name} {who}");
                        facts.push(fact(
                            "rights-others",
                            &key,
                            Severity::Medium,
                            message,
                            object,
                            format!("/subjects/{at}"),
                        ));
                    }
                }
            }
            _ => {}
        }
    }
    for (at, mode) in list(&csv.value, "/spec/installModes").iter().enumerate() {
        if mode.get("supported") == Some(&Value::Bool(true)) {
            let kind = text(mode, "/type");
            facts.push(fact(
                "install-mode",
                kind,
                Severity::Info,
                format!("supports {kind}"),
                csv,
                format!("/spec/installModes/{at}"),
            ));
        }
    }
    let minimum = text(&csv.value, "/spec/minKubeVersion");
    if !minimum.is_empty() {
        let message = format!("needs Kubernetes {minimum}");
        facts.push(fact("kube-version", minimum, Severity::Info, message, csv, "/spec/minKubeVersion".into()));
    }
    for dependency in &whole.dependencies {
        let value = dependency.get("value").map(Value::to_string).unwrap_or_default();
        let message = format!("depends on {} {value}", text(dependency, "/type"));
        facts.push(fact("dependency-new", &value, Severity::Info, message, csv, String::new()));
    }
}

fn aggregated(object: &BundleObject, facts: &mut Vec<Fact>) {
    const LABEL: &str = "rbac.authorization.k8s.io/aggregate-to-";
    let labels = object.value.pointer("/metadata/labels").and_then(Value::as_object);
    for (label, value) in labels.into_iter().flatten() {
        if let Some(role) = label.strip_prefix(LABEL).filter(|_| value == "true") {
            let message = format!("widens what {role} may do");
            let key = format!("{} {role}", object.name());
            facts.push(fact("rights-others", &key, Severity::Medium, message, object, "/metadata/labels".into()));
        }
    }
}
