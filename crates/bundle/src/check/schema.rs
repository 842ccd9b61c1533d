//! Checks CRD schemas as API servers do, and validates examples against them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Collector;
use super::csv::annotation;
use super::suites::CheckInput;
use crate::pointer::{list, text};
use crate::whole::BundleObject;

mod fits;
mod pattern;
mod structural;

pub(crate) use fits::kind as json_type;

const EXAMPLES: &str = "alm-examples";
/// The maximum number of reported faults per schema or example.
const MAX_FAULTS: usize = 5;

/// A violation and its location, as a path such as `spec.size`.
struct SchemaFault {
    path: String,
    why: String,
}

pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    for object in input.whole.of_kind("CustomResourceDefinition") {
        // Schemas of v1beta1 are unrestricted.
        if text(&object.value, "/apiVersion") != "apiextensions.k8s.io/v1" {
            continue;
        }
        findings.set_object(object);
        for (at, version) in list(&object.value, "/spec/versions").iter().enumerate() {
            let pointer = format!("/spec/versions/{at}/schema/openAPIV3Schema");
            let shown = format!("{} {}", object.name(), text(version, "/name"));
            match version.pointer("/schema/openAPIV3Schema") {
                None => {
                    let text = format!("{shown} has no schema, which apiextensions.k8s.io/v1 requires");
                    findings.error("crd-structural", format!("/spec/versions/{at}"), text);
                }
                Some(schema) => {
                    for fault in structural::faults(schema) {
                        findings.error("crd-structural", pointer.clone(), format!("{shown}: {}", fault.message()));
                    }
                }
            }
        }
    }
    check_examples(input, findings);
}

/// Returns the violations of a schema by a value, with paths; `None` if the check would take too long.
pub(crate) fn schema_faults(schema: &Value, value: &Value) -> Option<Vec<String>> {
    fits::faults(schema, value).ok().map(|faults| faults.iter().map(SchemaFault::message).collect())
}

impl SchemaFault {
    fn message(&self) -> String {
        if self.path.is_empty() { self.why.clone() } else { format!("{}: {}", self.path, self.why) }
    }
}

fn check_examples(input: &CheckInput<'_>, findings: &mut Collector) {
    let Some(object) = input.csv() else { return };
    findings.set_object(object);
    let annotations = object.value.pointer("/metadata/annotations");
    let written = annotations.and_then(|all| all.get(EXAMPLES)?.as_str()).unwrap_or_default();
    // If it is not a list, the CSV check has reported it.
    let examples: Vec<Value> = serde_json::from_str(written).unwrap_or_default();
    let crds = by_kind(input);
    for example in &examples {
        let Some(schema) = schema_of(&crds, example) else { continue };
        let shown = format!("example {} {:?}", text(example, "/kind"), text(example, "/metadata/name"));
        match fits::faults(schema, example) {
            Ok(faults) => {
                for fault in faults {
                    let text = format!("{shown} does not match its schema: {}", fault.message());
                    findings.error("example-fits-schema", annotation(EXAMPLES), text);
                }
            }
            Err(()) => {
                let text = format!("{shown} and its schema are too large to compare");
                findings.warning("example-fits-schema", annotation(EXAMPLES), text);
            }
        }
    }
}

/// The CRDs of a bundle by group and kind; the first of duplicates.
pub(super) type Crds<'a> = BTreeMap<(&'a str, &'a str), &'a BundleObject>;

/// Returns the CRDs of a bundle by group and kind.
pub(super) fn by_kind<'a>(input: &'a CheckInput<'_>) -> Crds<'a> {
    let mut crds = Crds::new();
    for crd in input.whole.of_kind("CustomResourceDefinition") {
        crds.entry((text(&crd.value, "/spec/group"), text(&crd.value, "/spec/names/kind"))).or_insert(crd);
    }
    crds
}

/// Returns the schema that the bundle contains for an example.
fn schema_of<'a>(crds: &Crds<'a>, example: &Value) -> Option<&'a Value> {
    let (group, wanted) = text(example, "/apiVersion").rsplit_once('/')?;
    let crd = crds.get(&(group, text(example, "/kind")))?;
    let version = list(&crd.value, "/spec/versions").iter().find(|version| text(version, "/name") == wanted)?;
    version.pointer("/schema/openAPIV3Schema")
}
