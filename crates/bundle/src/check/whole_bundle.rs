//! Checks the parts of a bundle against each other.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Collector;
use super::suites::CheckInput;
use crate::pointer::{list, text};

/// The maximum size of a ConfigMap, which OLM v0 unpacks a bundle into.
const MAX_CONFIG_MAP_SIZE: u64 = 1_048_576;

pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    let Some(csv) = input.csv() else { return };
    let name = csv.name().to_owned();
    check_crds(input, &csv.value, &name, findings);
    findings.set_object(csv);
    check_release(input, &csv.value, &name, findings);
    check_accounts(input, &csv.value, findings);
    findings.set_object(csv);
    check_size(input.size, findings);
    check_images(&csv.value, findings);
}

/// Formats group, version and kind as Go does.
fn written(group: &str, version: &str, kind: &str) -> String {
    format!("{group}/{version}, Kind={kind}")
}

fn versions(crd: &Value) -> Vec<&str> {
    let mut versions: Vec<&str> = list(crd, "/spec/versions").iter().map(|version| text(version, "/name")).collect();
    if versions.is_empty() {
        versions.push(text(crd, "/spec/version"));
    }
    versions
}

fn check_crds(input: &CheckInput<'_>, csv: &Value, name: &str, findings: &mut Collector) {
    let owned: Vec<(String, &str, &str)> = list(csv, "/spec/customresourcedefinitions/owned")
        .iter()
        .map(|owned| {
            let crd = text(owned, "/name");
            let group = crd.split_once('.').map_or(crd, |(_, group)| group);
            (group.to_owned(), text(owned, "/version"), text(owned, "/kind"))
        })
        .collect();
    let owned_kinds: BTreeSet<(&str, &str)> = owned.iter().map(|(group, _, kind)| (group.as_str(), *kind)).collect();
    let mut present = BTreeSet::new();
    for object in input.whole.of_kind("CustomResourceDefinition") {
        let crd = &object.value;
        let (group, kind) = (text(crd, "/spec/group"), text(crd, "/spec/names/kind"));
        findings.set_object(object);
        for version in versions(crd) {
            let shown = written(group, version, kind);
            if !present.insert(shown.clone()) {
                let text = format!("Error: Value {shown}: duplicate CRD {shown:?} in bundle {name:?}");
                findings.error("bundle-duplicate-crd", "/spec/names", text);
            }
            if !owned_kinds.contains(&(group, kind)) {
                let text =
                    format!("Error: Value {shown}: CRD {shown:?} is present in bundle {name:?} but not defined in CSV");
                findings.error("bundle-crd-not-owned", "/metadata/name", text);
            }
        }
    }
    if let Some(csv) = input.csv() {
        findings.set_object(csv);
    }
    for (at, (group, version, kind)) in owned.iter().enumerate() {
        let shown = written(group, version, kind);
        if !present.contains(&shown) {
            let text = format!("Error: Value {shown}: owned CRD {shown:?} not found in bundle {name:?}");
            findings.error("bundle-owned-crd", format!("/spec/customresourcedefinitions/owned/{at}"), text);
        }
    }
}

fn check_release(input: &CheckInput<'_>, csv: &Value, name: &str, findings: &mut Collector) {
    let release = match csv.pointer("/spec/release") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => return,
    };
    let expected = format!("{}-v{}-{release}", input.whole.package, text(csv, "/spec/version"));
    if !release.is_empty() && name != expected {
        let text = format!(
            "Error: Value {name}: bundle name with release versioning {name:?} does not match expected name {expected:?}"
        );
        findings.error("bundle-release-name", "/metadata/name", text);
    }
}

fn check_accounts(input: &CheckInput<'_>, csv: &Value, findings: &mut Collector) {
    let used: BTreeSet<&str> = list(csv, "/spec/install/spec/deployments")
        .iter()
        .map(|deployment| text(deployment, "/spec/template/spec/serviceAccountName"))
        .filter(|name| !name.is_empty())
        .collect();
    for object in input.whole.of_kind("ServiceAccount").filter(|object| used.contains(object.name())) {
        findings.set_object(object);
        let name = object.name();
        let text = format!(
            "Error: Value {name}: invalid service account found in bundle. This service account {name} in your bundle is \
             not valid, because a service account with the same name was already specified in your CSV. If this was \
             unintentional, please remove the service account manifest from your bundle. If it was intentional to specify \
             a separate service account, please rename the SA in either the bundle manifest or the CSV."
        );
        findings.error("bundle-account", "/metadata/name", text);
    }
}

fn check_size((size, packed): (u64, u64), findings: &mut Collector) {
    if packed == 0 {
        findings.warning("bundle-size", "", "Warning: : unable to check the bundle compressed size");
        return;
    }
    if size == 0 {
        findings.warning("bundle-size", "", "Warning: : unable to check the bundle size");
    }
    let (shown, whole, most) = (readable(packed), readable(size), readable(MAX_CONFIG_MAP_SIZE));
    if packed > MAX_CONFIG_MAP_SIZE {
        let text = format!(
            "Error: : maximum bundle compressed size with gzip size exceeded: size=~{shown} , max={most}. Bundle \
             uncompressed size is {whole}"
        );
        findings.error("bundle-size", "", text);
    } else if packed * 100 > MAX_CONFIG_MAP_SIZE * 85 {
        let text = format!(
            "Warning: : nearing maximum bundle compressed size with gzip: size=~{shown} , max={most}. Bundle uncompressed \
             size is {whole}"
        );
        findings.warning("bundle-size", "", text);
    }
}

/// Formats a size in powers of 1000.
fn readable(size: u64) -> String {
    if size < 1000 {
        return format!("{size} B");
    }
    let mut value = size as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit < 6 {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}B", ["", "k", "M", "G", "T", "P", "E"][unit])
}

fn check_images(csv: &Value, findings: &mut Collector) {
    for (at, related) in list(csv, "/spec/relatedImages").iter().enumerate() {
        let (place, image) = (format!("spec.relatedImages[{at}].image"), text(related, "/image"));
        let pointer = format!("/spec/relatedImages/{at}/image");
        if image.is_empty() {
            let text = format!("Error: Value {place}: relatedImages[{at}] has an empty image field");
            findings.error("bundle-related-image", pointer, text);
        } else if !is_reference(image) {
            let text = format!(
                "Error: Value {place}: relatedImages[{at}] has an invalid image pullspec {image:?}: invalid reference \
                 format"
            );
            findings.error("bundle-related-image", pointer, text);
        }
    }
}

/// Returns whether a string is an image reference, with or without a registry.
fn is_reference(text: &str) -> bool {
    let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
    let digest_fits = digest.is_none_or(|digest| {
        let hex = digest.strip_prefix("sha256:").filter(|hex| hex.len() == 64);
        let long = digest.strip_prefix("sha512:").filter(|hex| hex.len() == 128);
        hex.or(long).is_some_and(|hex| hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
    });
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match name[slash..].split_once(':') {
        Some((last, tag)) => (&name[..slash + last.len()], Some(tag)),
        None => (name, None),
    };
    let tag_fits = tag.is_none_or(|tag| {
        (1..=128).contains(&tag.len())
            && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
            && !tag.starts_with(['.', '-'])
    });
    let mut parts = path.split('/').peekable();
    let first = path.split('/').next().unwrap_or_default();
    let has_host = path.contains('/')
        && (first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|byte| byte.is_ascii_uppercase()));
    if has_host {
        parts.next();
    }
    let good = |part: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|&byte| inner(byte))
            && bytes.last().is_some_and(|&byte| inner(byte))
            && bytes.iter().all(|&byte| inner(byte) || matches!(byte, b'-' | b'_' | b'.'))
    };
    digest_fits && tag_fits && parts.peek().is_some() && parts.all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        assert_eq!(readable(999), "999 B");
        assert_eq!(readable(1500), "1.5 kB");
        assert_eq!(readable(1_048_576), "1.0 MB");
    }

    #[test]
    fn references_are_recognised() {
        let digest = "a".repeat(64);
        for good in ["foo", "quay.io/me/foo:v1", "localhost:5000/foo", &format!("a.b/c@sha256:{digest}"), "me/foo"] {
            assert!(is_reference(good), "{good}");
        }
        for bad in ["", "Foo Bar", "quay.io/Me/foo", "foo:", "foo@sha256:1", "a//b", "-foo"] {
            assert!(!is_reference(bad), "{bad}");
        }
    }
}
