//! Checks that images support the platforms that a bundle declares.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Collector;
use super::suites::CheckInput;
use crate::pointer::{list, text};

const DEPLOYMENTS: &str = "/spec/install/spec/deployments";
const TERMS: &str =
    "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

/// Operating system and architecture.
type Platform = (String, String);

/// Selects one of the two.
type PlatformSet = fn(&Platform) -> &String;

/// An image of a deployment, and the platforms its pods may run on.
struct PlacedImage<'a> {
    image: &'a str,
    allowed: BTreeSet<Platform>,
}

pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    let (Some(object), Some(platforms)) = (input.csv(), input.platforms) else { return };
    findings.set_object(object);
    let (csv, name) = (&object.value, object.name());
    if let Some(tool) = input.container_tool.filter(|tool| !matches!(*tool, "" | "docker" | "podman" | "none")) {
        let text = format!("invalid value (container-tools) for ({tool}). One of: [docker, podman, none] is expected");
        findings.error("multiarch-tool", "", format!("Error: Value {name}: {text}"));
        return;
    }
    let mut warn = Vec::new();
    let (mut managers, others) = images(csv);
    let related: Vec<&str> = list(csv, "/spec/relatedImages")
        .iter()
        .map(|image| text(image, "/image"))
        .filter(|it| !it.is_empty())
        .collect();
    managers.retain(|placed| !placed.image.is_empty());
    let mut known: BTreeMap<&str, Option<BTreeSet<Platform>>> = BTreeMap::new();
    for image in managers.iter().chain(&others).map(|placed| placed.image).chain(related.iter().copied()) {
        if image.is_empty() || known.contains_key(image) {
            continue;
        }
        let found = match platforms(image) {
            Ok(found) => Some(found.into_iter().filter(|(os, arch)| is_known(os) && is_known(arch)).collect()),
            Err(why) => {
                warn.push(format!("unable to inspect the image ({image}) : {why}"));
                None
            }
        };
        known.insert(image, found);
    }
    let label = |part: &str| labels(csv, part);
    let (arch_labels, os_labels) = (label("arch"), label("os"));
    let or = |labels: &BTreeSet<String>, default: &str| match labels.is_empty() {
        true => BTreeSet::from([default.to_owned()]),
        false => labels.clone(),
    };
    let (archs, systems) = (or(&arch_labels, "amd64"), or(&os_labels, "linux"));
    for system in &systems {
        for arch in &archs {
            let platform = (system.clone(), arch.clone());
            let lacks = |found: &Option<BTreeSet<Platform>>| found.as_ref().is_some_and(|it| !it.contains(&platform));
            let missing: Vec<&str> = known.iter().filter(|(_, found)| lacks(found)).map(|(image, _)| *image).collect();
            if !missing.is_empty() {
                let text = format!(
                    "not all images specified are providing the support described via the CSV labels. Note that \
                     (OS.architecture): ({system}.{arch}) was not found for the image(s) [{}]",
                    missing.join(" ")
                );
                findings.error("multiarch-image", "/metadata/labels", format!("Error: Value {name}: {text}"));
            }
        }
    }
    let of = |images: &[PlacedImage<'_>], part: PlatformSet| -> BTreeSet<String> {
        let found = images.iter().filter_map(|placed| known.get(placed.image)?.as_ref());
        found.flatten().map(|platform| part(platform).clone()).collect()
    };
    let parts: [(&str, &str, PlatformSet, &BTreeSet<String>); 2] =
        [("arch", "Arch(s)", |it| &it.1, &archs), ("os", "OS(s)", |it| &it.0, &systems)];
    for (key, shown, part, named) in parts {
        let built = of(&managers, part);
        let unlabelled: Vec<&String> = built.difference(named).collect();
        if !unlabelled.is_empty() {
            warn.push(format!(
                "check if the CSV is missing the label (operatorframework.io/{key}.<value>) for the {shown}: {}. Be \
                 aware that your Operator manager image provides this support",
                quoted(&unlabelled)
            ));
        }
        let wanted: BTreeSet<String> = built.union(named).cloned().collect();
        for image in others.iter().map(|placed| placed.image).chain(related.iter().copied()).collect::<BTreeSet<_>>() {
            let Some(Some(found)) = known.get(image) else { continue };
            let own: BTreeSet<String> = found.iter().map(|platform| part(platform).clone()).collect();
            let missing: Vec<&String> = wanted.difference(&own).collect();
            if !missing.is_empty() {
                warn.push(format!(
                    "check if the image {image} should not support {}. Note that this CSV has labels for this {shown}",
                    quoted(&missing)
                ));
            }
        }
    }
    for placed in managers.iter().chain(&others).filter(|placed| !placed.image.is_empty()) {
        affinity(placed, known.get(placed.image).and_then(Option::as_ref), &mut warn);
    }
    for text in warn {
        findings.warning("multiarch-labels", DEPLOYMENTS, format!("Warning: Value {name}: {text}"));
    }
}

fn is_known(part: &str) -> bool {
    !part.is_empty() && part != "unknown"
}

fn quoted(names: &[&String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    format!("[{}]", names.join(" "))
}

/// Returns the platforms that the labels of a CSV declare.
fn labels(csv: &Value, part: &str) -> BTreeSet<String> {
    let prefix = format!("operatorframework.io/{part}.");
    let labels = csv.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    labels
        .filter(|(_, value)| *value == "supported")
        .filter_map(|(key, _)| key.strip_prefix(&prefix).map(str::to_owned))
        .collect()
}

/// Returns the images of manager containers and of other containers.
fn images(csv: &Value) -> (Vec<PlacedImage<'_>>, Vec<PlacedImage<'_>>) {
    let (mut managers, mut others) = (Vec::new(), Vec::new());
    for deployment in list(csv, DEPLOYMENTS) {
        let allowed = allowed(deployment);
        let containers = list(deployment, "/spec/template/spec/containers");
        let named = containers.iter().any(|container| text(container, "/name") == "manager");
        for container in containers {
            let placed = PlacedImage { image: text(container, "/image"), allowed: allowed.clone() };
            let manages = match text(container, "/name") {
                "manager" => true,
                "kube-rbac-proxy" => false,
                _ => !named,
            };
            if manages { managers.push(placed) } else { others.push(placed) }
        }
    }
    (managers, others)
}

/// Returns the platforms in the node affinity of a deployment.
fn allowed(deployment: &Value) -> BTreeSet<Platform> {
    let mut allowed = BTreeSet::new();
    for term in list(deployment, TERMS) {
        let values = |key: &str| -> Vec<&str> {
            let rules = list(term, "/matchExpressions").iter();
            let fits = rules.filter(|rule| text(rule, "/key") == key && text(rule, "/operator") == "In");
            fits.flat_map(|rule| list(rule, "/values")).filter_map(Value::as_str).collect()
        };
        for os in values("kubernetes.io/os") {
            allowed.extend(values("kubernetes.io/arch").into_iter().map(|arch| (os.to_owned(), arch.to_owned())));
        }
    }
    allowed
}

fn affinity(placed: &PlacedImage<'_>, found: Option<&BTreeSet<Platform>>, warn: &mut Vec<String>) {
    let PlacedImage { image, allowed } = placed;
    let shown = |platforms: Vec<&Platform>| {
        let names: Vec<String> = platforms.iter().map(|(os, arch)| format!("{os}.{arch}")).collect();
        format!("[{}]", names.join(" "))
    };
    if allowed.is_empty() {
        if found.is_none() {
            warn.push(format!(
                "check if the CSV is missing a node affinity configuration for the image: \"{image}\". "
            ));
        }
        warn.push(format!(
            "check if the CSV has a missing or invalid node affinity configuration for the image: \"{image}\". "
        ));
        return;
    }
    let Some(found) = found else { return };
    let (extra, missing): (Vec<_>, Vec<_>) = (allowed.difference(found).collect(), found.difference(allowed).collect());
    if !extra.is_empty() {
        let extra = shown(extra);
        warn.push(format!("the CSV includes {extra} in the node affinity configuration for the image: \"{image}\", which the image does not support"));
    }
    if !missing.is_empty() {
        let missing = shown(missing);
        warn.push(format!("the image data indicates {missing} is supported for the image: \"{image}\", and the node affinity does not name it"));
    }
}
