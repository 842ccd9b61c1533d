//! Finds images of a bundle that are missing from their registries.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Collector;
use super::csv::annotation;
use super::suites::CheckInput;
use crate::pointer::{list, text};

/// Returns the images of a CSV with the first location of each: containers, related images, and the image for consoles.
pub(super) fn images<'a>(csv: &'a Value) -> BTreeMap<&'a str, String> {
    const DEPLOYMENTS: &str = "/spec/install/spec/deployments";
    let mut found: BTreeMap<&'a str, String> = BTreeMap::new();
    let mut add = |image: &'a str, pointer: String| {
        if !image.is_empty() {
            found.entry(image).or_insert(pointer);
        }
    };
    for (at, deployment) in list(csv, DEPLOYMENTS).iter().enumerate() {
        for field in ["initContainers", "containers"] {
            let base = format!("/spec/template/spec/{field}");
            for (index, container) in list(deployment, &base).iter().enumerate() {
                add(text(container, "/image"), format!("{DEPLOYMENTS}/{at}{base}/{index}/image"));
            }
        }
    }
    for (at, image) in list(csv, "/spec/relatedImages").iter().enumerate() {
        add(text(image, "/image"), format!("/spec/relatedImages/{at}/image"));
    }
    const SHOWN: &str = "containerImage";
    let shown = csv.pointer("/metadata/annotations").and_then(|all| all.get(SHOWN)?.as_str());
    add(shown.unwrap_or_default(), annotation(SHOWN));
    found
}

pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    let (Some(object), Some(platforms)) = (input.csv(), input.platforms) else { return };
    findings.set_object(object);
    for (image, pointer) in images(&object.value) {
        match platforms(image) {
            Ok(found) if found.is_empty() => {
                findings.warning("image-exists", pointer, format!("{image} is for no platform"));
            }
            Ok(_) => {}
            Err(why) => findings.warning("image-exists", pointer, format!("{image} cannot be pulled: {why}")),
        }
    }
}
