//! What operatorhub.io asks of a ClusterServiceVersion.

use serde_json::Value;

use super::{Findings, list, text};

const CAPABILITIES: &[&str] = &["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];

const CATEGORIES: &[&str] = &[
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Database",
    "Developer Tools",
    "Integration & Delivery",
    "Logging & Tracing",
    "Modernization & Migration",
    "Monitoring",
    "Networking",
    "Observability",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
];

const ICONS: &[&str] = &["image/gif", "image/jpeg", "image/png", "image/svg+xml"];

/// Checks a CSV.
pub(super) fn check(csv: &Value, findings: &mut Findings) {
    let name = text(csv, "/metadata/name");
    let error = |detail: String| format!("Error: Value : ({name}) {detail}");
    if text(csv, "/spec/provider/name").trim().is_empty() {
        findings.error(error("csv.Spec.Provider.Name not specified".into()));
    }
    for maintainer in list(csv, "/spec/maintainers") {
        let (who, email) = (text(maintainer, "/name"), text(maintainer, "/email"));
        if who.is_empty() || email.is_empty() {
            findings.error(error("csv.Spec.Maintainers elements should contain both name and email".into()));
        }
        if !email.is_empty() && !is_address(email) {
            findings.error(error(format!("csv.Spec.Maintainers email {email} is invalid: mail: no address")));
        }
    }
    for link in list(csv, "/spec/links") {
        let (label, url) = (text(link, "/name"), text(link, "/url"));
        if label.is_empty() || url.is_empty() {
            findings.error(error("csv.Spec.Links elements should contain both name and url".into()));
        }
        let known = url.starts_with('/') || url.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
        if !url.is_empty() && !known {
            findings
                .error(error(format!("csv.Spec.Links url {url} is invalid: parse \"{url}\": invalid URI for request")));
        }
    }
    if matches!(text(csv, "/spec/version"), "" | "0.0.0") {
        findings.error(error("csv.Spec.Version must be set".into()));
    }
    check_icon(csv, name, findings);
    let annotation = |key: &str| csv.pointer("/metadata/annotations").and_then(|all| all.get(key)?.as_str());
    if let Some(level) = annotation("capabilities").filter(|level| !CAPABILITIES.contains(level)) {
        let text = format!("csv.Metadata.Annotations.Capabilities \"{level}\" is not a valid capabilities level");
        findings.error(error(text));
    }
    for category in annotation("categories").unwrap_or_default().split(',').filter(|category| !category.is_empty()) {
        if !CATEGORIES.contains(&category.trim()) {
            findings.error(error(format!(
                "csv.Metadata.Annotations[\"categories\"] value \"{category}\" is not in the set of standard categories"
            )));
        }
    }
}

fn check_icon(csv: &Value, name: &str, findings: &mut Findings) {
    let error = |detail: String| format!("Error: Value : ({name}) {detail}");
    let icons = list(csv, "/spec/icon");
    let Some(icon) = icons.first() else {
        findings.warning(format!("Warning: Value : ({name}) csv.Spec.Icon not specified"));
        return;
    };
    if icons.len() > 1 {
        findings.error(error("csv.Spec.Icon should only have one element".into()));
    }
    let media_type = text(icon, "/mediatype");
    if text(icon, "/base64data").is_empty() || media_type.is_empty() {
        findings.error(error("csv.Spec.Icon elements should contain both data and mediatype".into()));
    } else if !ICONS.contains(&media_type) {
        findings.error(error(format!("csv.Spec.Icon {media_type} does not have a valid mediatype")));
    }
}

/// Tells whether a text is an address to write to, with or without a name before it.
fn is_address(text: &str) -> bool {
    let address = match text.split_once('<') {
        Some((_, rest)) => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    let good =
        |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || "<>()[],;:\\".contains(c));
    address.trim().split_once('@').is_some_and(|(who, place)| good(who) && good(place) && !place.contains('@'))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}
