//! Schemas of CRDs as API servers ask for them, and whether examples fit them.

use serde_json::Value;

use super::csv::annotation;
use super::suites::Given;
use super::{Findings, list, text};

mod fits;
mod pattern;
mod structural;

pub use fits::kind as json_type;

const EXAMPLES: &str = "alm-examples";
/// So many faults of one schema or example are reported.
const FAULTS: usize = 5;

/// Something that does not fit, and where, as a path like `spec.size`.
struct Fault {
    path: String,
    why: String,
}

pub(super) fn check(given: &Given<'_>, findings: &mut Findings) {
    for object in given.whole.of_kind("CustomResourceDefinition") {
        // Schemas of v1beta1 may be anything.
        if text(&object.value, "/apiVersion") != "apiextensions.k8s.io/v1" {
            continue;
        }
        findings.look_at_object(object);
        for (at, version) in list(&object.value, "/spec/versions").iter().enumerate() {
            let pointer = format!("/spec/versions/{at}/schema/openAPIV3Schema");
            let shown = format!("{} {}", object.name(), text(version, "/name"));
            match version.pointer("/schema/openAPIV3Schema") {
                None => {
                    let text = format!("{shown} has no schema, which apiextensions.k8s.io/v1 asks for");
                    findings.error("crd-structural", format!("/spec/versions/{at}"), text);
                }
                Some(schema) => {
                    for fault in structural::faults(schema) {
                        findings.error("crd-structural", pointer.clone(), format!("{shown}: {}", fault.said()));
                    }
                }
            }
        }
    }
    check_examples(given, findings);
}

/// Returns how a value does not fit a schema, each fault with its path; nothing where that would take too long.
pub fn schema_faults(schema: &Value, value: &Value) -> Option<Vec<String>> {
    fits::faults(schema, value).ok().map(|faults| faults.iter().map(Fault::said).collect())
}

impl Fault {
    fn said(&self) -> String {
        if self.path.is_empty() { self.why.clone() } else { format!("{}: {}", self.path, self.why) }
    }
}

fn check_examples(given: &Given<'_>, findings: &mut Findings) {
    let Some(object) = given.csv() else { return };
    findings.look_at_object(object);
    let annotations = object.value.pointer("/metadata/annotations");
    let written = annotations.and_then(|all| all.get(EXAMPLES)?.as_str()).unwrap_or_default();
    // What is no list has been reported with the CSV.
    let examples: Vec<Value> = serde_json::from_str(written).unwrap_or_default();
    for example in &examples {
        let Some(schema) = schema_of(given, example) else { continue };
        let shown = format!("example {} {:?}", text(example, "/kind"), text(example, "/metadata/name"));
        match fits::faults(schema, example) {
            Ok(faults) => {
                for fault in faults {
                    let text = format!("{shown} does not fit its schema: {}", fault.said());
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

/// Returns the schema that the bundle has for an example.
fn schema_of<'a>(given: &'a Given<'_>, example: &Value) -> Option<&'a Value> {
    let (group, wanted) = text(example, "/apiVersion").rsplit_once('/')?;
    let crd = given.whole.of_kind("CustomResourceDefinition").find(|crd| {
        text(&crd.value, "/spec/group") == group && text(&crd.value, "/spec/names/kind") == text(example, "/kind")
    })?;
    let version = list(&crd.value, "/spec/versions").iter().find(|version| text(version, "/name") == wanted)?;
    version.pointer("/schema/openAPIV3Schema")
}
