//! Requirements of the operator-sdk scorecard: examples, schemas and descriptors that match each other.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Collector;
use super::csv::annotation;
use super::schema::{self, Crds};
use super::suites::CheckInput;
use crate::finding::{Finding, Severity};
use crate::pointer::{list, text};

const OWNED: &str = "/spec/customresourcedefinitions/owned";
const EXAMPLES: &str = "alm-examples";

pub(super) fn check(input: &CheckInput<'_>, findings: &mut Collector) {
    let Some(object) = input.csv() else { return };
    findings.set_object(object);
    let csv = &object.value;
    for (at, owned) in list(csv, OWNED).iter().enumerate() {
        if list(owned, "/resources").is_empty() {
            let text = format!("owned CRD {:?} does not list the resources that it uses", text(owned, "/name"));
            findings.error("crd-has-resources", format!("{OWNED}/{at}"), text);
        }
    }
    let written = csv.pointer("/metadata/annotations").and_then(|all| all.get(EXAMPLES)?.as_str()).unwrap_or_default();
    // If it is not a list, the CSV check has reported it.
    let examples: Vec<Value> = serde_json::from_str(written).unwrap_or_default();
    let crds = schema::by_kind(input);
    let mut owned = Owned::new();
    for one in list(csv, OWNED) {
        let group = text(one, "/name").split_once('.').map_or("", |(_, group)| group);
        owned.entry((group, text(one, "/version"), text(one, "/kind"))).or_insert(one);
    }
    for example in &examples {
        check_example(&owned, &crds, example, findings);
    }
}

/// The owned CRDs by group, version and kind; the first of duplicates.
type Owned<'a> = BTreeMap<(&'a str, &'a str, &'a str), &'a Value>;

fn check_example(owned: &Owned<'_>, crds: &Crds<'_>, example: &Value, findings: &mut Collector) {
    let (kind, version) = (text(example, "/kind"), text(example, "/apiVersion"));
    let shown = format!("example {kind} {:?}", text(example, "/metadata/name"));
    let pointer = annotation(EXAMPLES);
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let fields = |part: &str| example.get(part).and_then(Value::as_object);
    if fields("spec").is_none() {
        let text = format!("{shown} has no spec: give one, so that users see what they can set");
        findings.list.push(Finding::new("spec-block", Severity::Info, text).at(
            &findings.file.clone(),
            findings.document,
            pointer.clone(),
        ));
    }
    if let Some(described) = owned.get(&(group, version, kind)) {
        let paths: Vec<&str> = list(described, "/specDescriptors").iter().map(|one| text(one, "/path")).collect();
        match fields("spec") {
            None => {
                findings.error("spec-descriptors", pointer.clone(), format!("{shown} has no spec to describe"));
            }
            Some(spec) => {
                for field in spec.keys().filter(|field| !paths.contains(&field.as_str())) {
                    let text = format!("{shown}: no descriptor has the path {field:?} of its spec");
                    findings.error("spec-descriptors", pointer.clone(), text);
                }
            }
        }
        if fields("status").is_some() && list(described, "/statusDescriptors").is_empty() {
            let text = format!("{shown} has a status but no status descriptor");
            findings.error("status-descriptors", pointer.clone(), text);
        }
    }
    let Some(crd) = crds.get(&(group, kind)) else { return };
    let versions = list(&crd.value, "/spec/versions").iter();
    let schema = versions
        .filter(|one| text(one, "/name") == version)
        .find_map(|one| one.pointer("/schema/openAPIV3Schema"))
        .or_else(|| crd.value.pointer("/spec/validation/openAPIV3Schema"));
    for part in ["spec", "status"] {
        let node = schema.and_then(|schema| schema.pointer(&format!("/properties/{part}")));
        let open = node.is_some_and(|node| {
            node.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
                || node.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false))
        });
        let known = node.and_then(|node| node.get("properties")).and_then(Value::as_object);
        for field in fields(part).into_iter().flat_map(serde_json::Map::keys) {
            if !open && !known.is_some_and(|known| known.contains_key(field)) {
                let text = format!("{shown}: {part}.{field} is not in the schema of {}", crd.name());
                findings.error("crd-has-schema", pointer.clone(), text);
            }
        }
    }
}
