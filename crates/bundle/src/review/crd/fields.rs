//! The fields of CRDs that were added, removed or changed, for people who read what changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::Severity;
use crate::pointer::{list, text, texts};
use serde_json::Value;

use super::node::{REMOVED, SchemaChange};
use super::{KIND, rules};

/// The kind of change of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldChangeKind {
    /// The field is new.
    Added,
    /// The field is gone.
    Removed,
    /// The field has another type, is required, or allows fewer values.
    Changed,
}

/// A change of a field of a CRD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrdFieldChange {
    pub crd: String,
    /// The field, prefixed with its version: `v1.spec.size`.
    pub path: String,
    pub what: FieldChangeKind,
    /// Whether it breaks custom resources: the verdict of [`compare`](super::compare).
    pub narrows: bool,
    /// Further details, to follow the path in a sentence.
    pub detail: String,
}

/// Lists the fields that differ between CRDs of the same name, in either API version.
///
/// The versions that only one of them has are left out.
pub fn fields<'a>(
    old: impl IntoIterator<Item = &'a Value>,
    new: impl IntoIterator<Item = &'a Value>,
) -> Vec<CrdFieldChange> {
    let is_crd = |object: &&Value| text(object, "/kind") == KIND;
    let mut by_name: BTreeMap<&str, &Value> = BTreeMap::new();
    for crd in old.into_iter().filter(is_crd) {
        by_name.entry(text(crd, "/metadata/name")).or_insert(crd);
    }
    let mut changes = Vec::new();
    for crd in new.into_iter().filter(is_crd) {
        let name = text(crd, "/metadata/name");
        if let Some(before) = by_name.get(name) {
            compare_fields(name, &Fields::of(before), &Fields::of(crd), &mut changes);
        }
    }
    changes
}

/// A field of a schema.
struct SchemaField<'a> {
    schema: &'a Value,
    required: bool,
}

impl SchemaField<'_> {
    fn kind(&self) -> String {
        match (self.schema["type"].as_str(), self.schema["items"]["type"].as_str()) {
            (Some("array"), Some(inner)) => format!("list of {inner}"),
            (kind, _) => kind.unwrap_or("anything").to_owned(),
        }
    }
}

/// The fields of all versions of a CRD.
#[derive(Default)]
struct Fields<'a> {
    by_path: BTreeMap<String, SchemaField<'a>>,
    /// The versions that have fields.
    versions: BTreeSet<&'a str>,
    /// The versions that affect no client immediately.
    unserved: BTreeSet<&'a str>,
}

/// The maximum depth and number of fields to read.
const MAX_DEPTH: usize = 12;
const MAX_FIELDS: usize = 20_000;

impl<'a> Fields<'a> {
    fn of(crd: &'a Value) -> Fields<'a> {
        let mut fields = Fields::default();
        // The older API version can have one schema for all versions, and a single version next to the list or instead
        // of it.
        let common = crd.pointer("/spec/validation/openAPIV3Schema").unwrap_or(&Value::Null);
        let versions = list(crd, "/spec/versions");
        let is_served = |version: &Value| version.get("served") != Some(&Value::Bool(false));
        for version in versions {
            let name = text(version, "/name");
            if !is_served(version) {
                fields.unserved.insert(name);
            }
            fields.read(name, version.pointer("/schema/openAPIV3Schema").unwrap_or(common));
        }
        if !versions.iter().any(is_served) {
            fields.read(text(crd, "/spec/version"), common);
        }
        fields
    }

    fn read(&mut self, version: &'a str, schema: &'a Value) {
        let before = self.by_path.len();
        self.collect(schema, version, 0);
        if self.by_path.len() > before {
            self.versions.insert(version);
        }
    }

    fn collect(&mut self, schema: &'a Value, path: &str, depth: usize) {
        if depth > MAX_DEPTH || self.by_path.len() > MAX_FIELDS {
            return;
        }
        let inner = if schema["properties"].is_object() { schema } else { &schema["items"] };
        let required = texts(inner, "/required");
        for (name, schema) in inner["properties"].as_object().into_iter().flatten() {
            // Every object has these.
            if depth == 0 && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                continue;
            }
            let path = format!("{path}.{name}");
            self.collect(schema, &path, depth + 1);
            self.by_path.insert(path, SchemaField { schema, required: required.contains(&name.as_str()) });
        }
    }
}

fn compare_fields(crd: &str, old: &Fields<'_>, new: &Fields<'_>, changes: &mut Vec<CrdFieldChange>) {
    let version = |path: &str| path.split('.').next().unwrap_or_default().to_owned();
    let mut add = |what, path: &str, meaning: Option<Severity>, detail: String| {
        // A version that is not served affects no client immediately.
        let narrows = meaning >= Some(Severity::Error) && !new.unserved.contains(&*version(path));
        changes.push(CrdFieldChange { crd: crd.to_owned(), path: path.to_owned(), what, narrows, detail });
    };
    for (path, field) in &new.by_path {
        let meaning_if_required = if field.required { rules::requiring(field.schema) } else { None };
        let Some(was) = old.by_path.get(path) else {
            if old.versions.contains(&*version(path)) {
                let required = if field.required { ", required" } else { "" };
                add(FieldChangeKind::Added, path, meaning_if_required, format!("{}{required}", field.kind()));
            }
            continue;
        };
        let (kind, before) = (field.kind(), was.kind());
        if kind != before {
            let own = meaning(was.schema, field.schema, "type");
            let items = meaning(&was.schema["items"], &field.schema["items"], "type");
            add(FieldChangeKind::Changed, path, own.max(items), format!("is {kind} instead of {before}"));
        }
        if field.required && !was.required {
            add(FieldChangeKind::Changed, path, meaning_if_required, "is required now".to_owned());
        }
        let values = meaning(was.schema, field.schema, "enum");
        if values.is_some() {
            let allowed = list(field.schema, "/enum");
            let gone = list(was.schema, "/enum").iter().filter(|value| !allowed.contains(value));
            let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let gone: BTreeSet<String> = gone.map(shown).collect();
            let detail = match gone.is_empty() {
                true => "allows only some values now".to_owned(),
                false => format!("no longer allows {}", gone.into_iter().collect::<Vec<_>>().join(", ")),
            };
            add(FieldChangeKind::Changed, path, values, detail);
        }
    }
    for path in old.by_path.keys().filter(|path| !new.by_path.contains_key(*path)) {
        // The report of a removed field covers its nested fields.
        let parent = path.rsplit_once('.').map(|(parent, _)| parent);
        let with_it =
            parent.is_some_and(|parent| old.by_path.contains_key(parent) && !new.by_path.contains_key(parent));
        if new.versions.contains(&*version(path)) && !with_it {
            add(FieldChangeKind::Removed, path, REMOVED, String::new());
        }
    }
}

/// Returns the actual severity of what a rule says about two schemas; `None` if that is harmless.
fn meaning(old: &Value, new: &Value, rule: &str) -> Option<Severity> {
    let mut found: Vec<SchemaChange> = Vec::new();
    rules::check(old, new, "", &mut found);
    found.into_iter().filter(|change| change.rule == rule).filter_map(|change| change.meaning).max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(spec: Value) -> Value {
        json!({"kind": KIND, "metadata": {"name": "things.x"}, "spec": spec})
    }

    fn versions(served: bool, schema: &Value) -> Value {
        crd(json!({"versions": [{"name": "v1", "served": served, "storage": true,
            "schema": {"openAPIV3Schema": schema}}]}))
    }

    fn object(required: &[&str], properties: Value) -> Value {
        json!({"properties": {"kind": {}, "spec": {"required": required, "properties": properties}}})
    }

    fn shown(old: &Value, new: &Value) -> Vec<String> {
        let line = |change: CrdFieldChange| {
            let mark = if change.narrows { " !" } else { "" };
            format!("{:?} {} {}{mark}", change.what, change.path, change.detail)
        };
        fields([old], [new]).into_iter().map(line).collect()
    }

    #[test]
    fn both_api_versions_of_crds_are_compared() {
        let schema =
            object(&["a"], json!({"a": {"type": "array", "items": {"type": "string"}}, "b": {"enum": ["x", "y"]}}));
        let first = crd(json!({"version": "v1", "validation": {"openAPIV3Schema": schema}}));
        let second = versions(true, &schema);
        assert_eq!(shown(&first, &second), [""; 0]);
        let changed = object(&[], json!({"a": {"type": "array", "items": {"type": "integer"}}, "b": {"enum": ["x"]}}));
        let expected = [
            "Changed v1.spec.a is list of integer instead of list of string !",
            "Changed v1.spec.b no longer allows y !",
        ];
        assert_eq!(shown(&first, &versions(true, &changed)), expected);
    }

    /// The list of fields and the verdict on the CRD never disagree.
    #[test]
    fn what_breaks_nothing_does_not_narrow() {
        let old = object(&[], json!({"a": {"type": "string"}, "b": {"type": "integer", "default": 1}}));
        let new = object(
            &["b", "c"],
            json!({"a": {"x-kubernetes-int-or-string": true}, "b": {"type": "integer", "default": 1},
                "c": {"type": "string", "default": "x"}}),
        );
        let (before, after) = (versions(true, &old), versions(true, &new));
        assert!(super::super::compare([&before], [&after]).iter().all(|change| change.meaning < Some(Severity::Error)));
        let expected = [
            "Changed v1.spec.a is anything instead of string",
            "Changed v1.spec.b is required now",
            "Added v1.spec.c string, required",
        ];
        assert_eq!(shown(&before, &after), expected);
        let gone = versions(false, &object(&[], json!({})));
        assert_eq!(shown(&before, &gone), ["Removed v1.spec.a ", "Removed v1.spec.b "]);
    }
}
