//! Requirements of operatorhub.io for a ClusterServiceVersion.

use std::io;
use std::path::Path;

use serde_json::Value;

use super::Collector;
use crate::file;
use crate::pointer::{list, text};

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

/// Custom categories to accept instead of the standard ones, or the reason why they cannot be read.
pub type Categories = Result<Vec<String>, CategoriesError>;

/// Why custom categories cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path:?}: {fault}")]
pub struct CategoriesError {
    /// The file.
    pub(super) path: String,
    /// Why.
    pub(super) fault: CategoriesFault,
}

/// What is wrong with a file of custom categories.
#[derive(Debug, thiserror::Error)]
pub enum CategoriesFault {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is larger than this number of bytes.
    #[error("it has more than {0} bytes")]
    TooLarge(usize),
    /// It is not JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// The maximum size of a file of categories in bytes.
const MAX_SIZE: usize = 1 << 20;

/// Reads custom categories from a file.
pub fn read_categories(path: &str) -> Categories {
    let read = || -> Result<Vec<String>, CategoriesFault> {
        let text = file::read_up_to(Path::new(path), MAX_SIZE)?;
        if text.len() > MAX_SIZE {
            return Err(CategoriesFault::TooLarge(MAX_SIZE));
        }
        let json: Value = serde_json::from_slice(&text)?;
        Ok(list(&json, "/categories").iter().filter_map(Value::as_str).map(str::to_owned).collect())
    };
    read().map_err(|fault| CategoriesError { path: path.to_owned(), fault })
}

/// Checks a CSV.
pub(super) fn check(csv: &Value, custom: Option<&Categories>, findings: &mut Collector) {
    check_common(csv, findings);
    check_capabilities(csv, findings);
    check_categories(csv, custom, findings);
}

/// Checks the description of the operator and its provider.
pub(super) fn check_common(csv: &Value, findings: &mut Collector) {
    let name = text(csv, "/metadata/name");
    let error = |detail: String| format!("Error: Value : ({name}) {detail}");
    if text(csv, "/spec/provider/name").trim().is_empty() {
        findings.error("hub-provider", "/spec/provider", error("csv.Spec.Provider.Name not specified".into()));
    }
    for (at, maintainer) in list(csv, "/spec/maintainers").iter().enumerate() {
        let (who, email) = (text(maintainer, "/name"), text(maintainer, "/email"));
        if who.is_empty() || email.is_empty() {
            let text = error("csv.Spec.Maintainers elements should contain both name and email".into());
            findings.error("hub-maintainers", format!("/spec/maintainers/{at}"), text);
        }
        if !email.is_empty() && !is_address(email) {
            let text = error(format!("csv.Spec.Maintainers email {email} is invalid: mail: no address"));
            findings.error("hub-maintainers", format!("/spec/maintainers/{at}/email"), text);
        }
    }
    for (at, link) in list(csv, "/spec/links").iter().enumerate() {
        let (label, url) = (text(link, "/name"), text(link, "/url"));
        if label.is_empty() || url.is_empty() {
            let text = error("csv.Spec.Links elements should contain both name and url".into());
            findings.error("hub-links", format!("/spec/links/{at}"), text);
        }
        let known = url.starts_with('/') || url.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
        if !url.is_empty() && !known {
            let text = error(format!("csv.Spec.Links url {url} is invalid: parse \"{url}\": invalid URI for request"));
            findings.error("hub-links", format!("/spec/links/{at}/url"), text);
        }
    }
    if matches!(text(csv, "/spec/version"), "" | "0.0.0") {
        findings.error("hub-version", "/spec/version", error("csv.Spec.Version must be set".into()));
    }
    check_icon(csv, name, findings);
}

fn annotation<'a>(csv: &'a Value, key: &str) -> Option<&'a str> {
    csv.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// Checks the declared capability level.
pub(super) fn check_capabilities(csv: &Value, findings: &mut Collector) {
    let name = text(csv, "/metadata/name");
    if let Some(level) = annotation(csv, "capabilities").filter(|level| !CAPABILITIES.contains(level)) {
        let text = format!(
            "Error: Value : ({name}) csv.Metadata.Annotations.Capabilities \"{level}\" is not a valid capabilities level"
        );
        findings.error("hub-capabilities", super::csv::annotation("capabilities"), text);
    }
}

/// Checks the declared categories.
pub(super) fn check_categories(csv: &Value, custom: Option<&Categories>, findings: &mut Collector) {
    let name = text(csv, "/metadata/name");
    let pointer = super::csv::annotation("categories");
    let custom = match custom {
        Some(Err(why)) => {
            let text = format!("Error: Value : ({name}) could not extract custom categories from categories {why}");
            return findings.error("hub-categories", pointer, text);
        }
        Some(Ok(custom)) => Some(custom),
        None => None,
    };
    let categories = annotation(csv, "categories").unwrap_or_default().split(',');
    for category in categories.filter(|category| !category.is_empty()) {
        let wanted = category.trim();
        let known = match custom {
            Some(custom) => custom.iter().any(|one| one == wanted),
            None => CATEGORIES.contains(&wanted),
        };
        if !known {
            let set = if custom.is_some() { "custom" } else { "standard" };
            let text = format!(
                "Error: Value : ({name}) csv.Metadata.Annotations[\"categories\"] value \"{category}\" is not in the set of \
                 {set} categories"
            );
            findings.error("hub-categories", pointer.clone(), text);
        }
    }
}

fn check_icon(csv: &Value, name: &str, findings: &mut Collector) {
    let error = |detail: String| format!("Error: Value : ({name}) {detail}");
    let icons = list(csv, "/spec/icon");
    let Some(icon) = icons.first() else {
        findings.warning("hub-icon", "/spec", format!("Warning: Value : ({name}) csv.Spec.Icon not specified"));
        return;
    };
    if icons.len() > 1 {
        findings.error("hub-icon", "/spec/icon", error("csv.Spec.Icon should only have one element".into()));
    }
    let media_type = text(icon, "/mediatype");
    if text(icon, "/base64data").is_empty() || media_type.is_empty() {
        let text = error("csv.Spec.Icon elements should contain both data and mediatype".into());
        findings.error("hub-icon", "/spec/icon/0", text);
    }
    if !media_type.is_empty() && !ICONS.contains(&media_type) {
        let text = error(format!("csv.Spec.Icon {media_type} does not have a valid mediatype"));
        findings.error("hub-icon", "/spec/icon/0/mediatype", text);
    }
}

/// Returns whether a string is an email address, with or without a display name.
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
