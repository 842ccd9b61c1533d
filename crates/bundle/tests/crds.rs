//! Changes of CRDs, one by one: the verdict of OLM v1, and ours.

use bundle::Severity;
use bundle::review::crd::{CrdDifference, Rules};
use serde_json::{Value, json};

fn crd(schema: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn field(schema: Value) -> Value {
    crd(json!({"type": "object", "properties": {"spec": schema}}))
}

fn compare(old: &Value, new: &Value) -> Vec<CrdDifference> {
    bundle::review::crd::compare([old], [new])
}

fn shown(changes: &[CrdDifference]) -> Vec<String> {
    let verdict = |change: &CrdDifference| {
        let meaning = change.meaning.map_or_else(|| "-".to_owned(), |severity| severity.to_string());
        format!("{} {} {meaning}", change.rule, if change.blocks { "blocks" } else { "passes" })
    };
    changes.iter().map(verdict).collect()
}

#[test]
fn each_kind_of_change_has_two_verdicts() {
    let table = [
        (json!({"type": "string"}), json!({"type": "integer"}), "type blocks error"),
        (
            json!({"type": "string"}),
            json!({"x-kubernetes-int-or-string": true}),
            "type blocks warning, unhandled blocks -",
        ),
        (json!({"required": ["a"]}), json!({"required": ["a", "b"]}), "required blocks error"),
        (json!({}), json!({"required": ["b"], "properties": {"b": {"default": 1}}}), "required blocks warning"),
        (json!({}), json!({"default": 1}), "default blocks warning"),
        (json!({"default": 1}), json!({"default": 2}), "default blocks warning"),
        (json!({"default": 1}), json!({}), "default blocks warning"),
        (json!({"default": 1}), json!({"default": 1.0}), ""),
        (json!({}), json!({"enum": ["a"]}), "enum blocks error"),
        (json!({"enum": ["a", "b"]}), json!({"enum": ["a"]}), "enum blocks error"),
        (json!({"enum": ["a"]}), json!({"enum": ["a", "b"]}), ""),
        (json!({"enum": ["a"]}), json!({}), "enum blocks -"),
        (json!({}), json!({"maximum": 5}), "maximum blocks error"),
        (json!({"maximum": 5}), json!({"maximum": 4}), "maximum blocks error"),
        (json!({"maximum": 5}), json!({"maximum": 6}), ""),
        (json!({"maximum": 5}), json!({}), ""),
        (json!({}), json!({"maxItems": 1}), "maxItems blocks error"),
        (json!({}), json!({"maxLength": 1}), "maxLength blocks error"),
        (json!({}), json!({"maxProperties": 1}), "maxProperties blocks error"),
        (json!({}), json!({"minimum": 0}), "minimum blocks error"),
        (json!({"minimum": 1}), json!({"minimum": 2}), "minimum blocks error"),
        (json!({}), json!({"minItems": 1}), "minItems blocks error"),
        (json!({}), json!({"minLength": 0}), "minLength blocks -"),
        (json!({}), json!({"minProperties": 1}), "minProperties blocks error"),
        (json!({}), json!({"pattern": "a"}), "pattern blocks error"),
        (json!({"pattern": "a"}), json!({"pattern": "b"}), "pattern blocks error"),
        (json!({"pattern": "a"}), json!({}), "pattern blocks -"),
        (json!({}), json!({"nullable": true}), "nullable blocks -"),
        (json!({"nullable": true}), json!({"nullable": false}), "nullable blocks error"),
        (json!({}), json!({"oneOf": [{"type": "string"}]}), "oneOf blocks error"),
        (json!({"oneOf": [{"type": "string"}]}), json!({"oneOf": [{"type": "string", "description": "x"}]}), ""),
        (json!({"description": "a"}), json!({"description": "b"}), ""),
        (json!({"format": "a"}), json!({}), "unhandled blocks -"),
        (json!({}), json!({"format": "a"}), "unhandled blocks error"),
        (json!({"title": "a"}), json!({"title": "b"}), "unhandled blocks -"),
        (json!({}), json!({"x-kubernetes-validations": [{"rule": "x"}]}), "unhandled blocks error"),
        (json!({"x-kubernetes-validations": [{"rule": "x"}]}), json!({}), "unhandled blocks -"),
        (json!({}), json!({"x-kubernetes-list-type": "set"}), "unhandled blocks error"),
        (json!({}), json!({"x-kubernetes-preserve-unknown-fields": true}), "unhandled blocks -"),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!({}), "unhandled blocks error"),
        (json!({"required": []}), json!({}), ""),
        (json!({"maximum": 0}), json!({}), ""),
    ];
    for (old, new, expected) in table {
        let changes = compare(&field(old.clone()), &field(new.clone()));
        assert_eq!(shown(&changes).join(", "), expected, "{old} -> {new}");
    }
}

#[test]
fn messages_match_olm() {
    let changes = compare(&field(json!({"type": "boolean"})), &field(json!({"type": "string"})));
    assert_eq!(
        changes[0].olm_message(),
        r#"validating upgrade for CRD "foos.example.com": v1: ^.spec: type: type changed : "boolean" -> "string""#
    );
    let changes =
        compare(&field(json!({"properties": {"a": {"properties": {"b": {}}}}})), &field(json!({"properties": {}})));
    // A removed field is reported once, with all fields in it.
    assert_eq!(changes.len(), 1);
    assert_eq!(
        changes[0].olm_message(),
        "validating upgrade for CRD \"foos.example.com\": existingFieldRemoval: crd/foos.example.com version/v1 field/^.spec.a may not be removed"
    );
}

#[test]
fn changes_are_found_in_nested_schemas() {
    let wrap = |inner: Value| json!({"properties": {"a": {"items": {"additionalProperties": {"anyOf": [inner.clone()], "allOf": [inner.clone()], "not": inner}}}}});
    let changes = compare(&field(wrap(json!({"type": "string"}))), &field(wrap(json!({"type": "object"}))));
    let paths: Vec<&str> = changes.iter().filter(|change| change.rule == "type").map(|change| &*change.path).collect();
    assert_eq!(
        paths,
        [
            "^.spec.a.items.additionalProperties.not",
            "^.spec.a.items.additionalProperties.allOf[0]",
            "^.spec.a.items.additionalProperties.anyOf[0]"
        ]
    );
    // OLM reports them again at their parents; opm does not.
    assert!(changes.iter().filter(|change| change.rule == "unhandled").all(|change| change.meaning.is_none()));
}

#[test]
fn served_versions_are_compared_with_each_other() {
    let two = |extra: Value, conversion: &str| {
        let mut crd = field(json!({"type": "string"}));
        crd["spec"]["conversion"] = json!({"strategy": conversion});
        crd["spec"]["versions"] = json!([
            {"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"properties": {"a": {"enum": ["x"]}, "b": extra}}}},
            {"name": "v1", "served": true, "schema": {"openAPIV3Schema": {"properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "boolean"}}}}},
        ]);
        crd
    };
    let same = two(json!({"type": "boolean"}), "None");
    assert_eq!(compare(&same, &same), []);
    let changes = compare(&same, &two(json!({"type": "string"}), "None"));
    let pair: Vec<String> =
        changes.iter().filter(|change| change.version == "v1 -> v2").map(CrdDifference::olm_message).collect();
    assert_eq!(
        pair,
        [r#"validating upgrade for CRD "foos.example.com": v1 -> v2: ^.b: type: type changed : "boolean" -> "string""#]
    );
    let converted = compare(&same, &two(json!({"type": "string"}), "Webhook"));
    assert!(!converted.iter().any(|change| change.version.contains("->")));
}

#[test]
fn changes_that_olm_ignores_are_reported() {
    let old = field(json!({}));
    let mut new = old.clone();
    new["spec"]["scope"] = "Cluster".into();
    new["spec"]["versions"] =
        json!([{"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {}}}]);
    assert_eq!(
        shown(&compare(&old, &new)),
        ["scope blocks error", "storedVersionRemoval blocks error", "servedVersionRemoval passes error"]
    );
    assert_eq!(shown(&bundle::review::crd::compare(&[old], &[])), ["crdRemoval passes error"]);
}

#[test]
fn a_version_that_is_not_served_matters_less() {
    let unserved = |schema| {
        let mut crd = field(schema);
        crd["spec"]["versions"][0]["served"] = false.into();
        crd
    };
    let changes = compare(&unserved(json!({"properties": {"a": {}}})), &unserved(json!({"properties": {}})));
    assert_eq!(changes[0].meaning, Some(Severity::Warning));
    assert!(changes[0].blocks);
}

#[test]
fn hostile_schemas_end_quickly() {
    let mut deep = json!({"type": "string"});
    for _ in 0..100 {
        deep = json!({"properties": {"a": deep}, "$ref": "#/x"});
    }
    assert_eq!(compare(&field(deep.clone()), &field(deep)), []);
    let wide: serde_json::Map<String, Value> =
        (0..20_000).map(|at| (format!("f{at}"), json!({"type": "string"}))).collect();
    let changes = compare(&field(json!({"properties": wide})), &field(json!({"properties": {}})));
    assert_eq!(changes.len(), 20_000);
}

#[test]
fn a_conversion_webhook_of_the_csv_converts_between_versions() {
    let schema = |kind: &str| json!({"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": kind}}}});
    let old = crd(json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let mut new = old.clone();
    new["spec"]["versions"] = json!([
        {"name": "v1", "served": true, "storage": true, "schema": schema("string")},
        {"name": "v2", "served": true, "storage": false, "schema": schema("integer")},
    ]);
    let csv = json!({"kind": "ClusterServiceVersion", "spec": {"webhookdefinitions": [
        {"type": "ConversionWebhook", "conversionCRDs": ["foos.example.com"]}]}});
    assert_eq!(shown(&bundle::review::crd::compare([&old], [&new])), ["type blocks error"]);
    assert_eq!(shown(&bundle::review::crd::compare([&old], [&csv, &new])), ["conversion passes warning"]);
}

#[test]
fn only_the_refusals_of_a_generation_are_errors_of_its_rehearsal() {
    let removed = compare(&field(json!({"properties": {"a": {}}})), &field(json!({"properties": {}})));
    let severities = |change: &CrdDifference| {
        [Rules::Olm, Rules::Meaning, Rules::ClusterV0, Rules::ClusterV1].map(|rules| change.severity(rules).to_string())
    };
    assert_eq!(severities(&removed[0]), ["error", "error", "warning", "error"]);
    let gone = bundle::review::crd::compare(&[field(json!({}))], &[]);
    assert_eq!(severities(&gone[0]), ["error", "error", "warning", "warning"]);
    let mut other = field(json!({}));
    other["spec"]["versions"][0]["name"] = json!("v2");
    let stored = compare(&field(json!({})), &other);
    assert_eq!((stored[0].rule, severities(&stored[0])), ("storedVersionRemoval", ["error"; 4].map(str::to_owned)));
}
