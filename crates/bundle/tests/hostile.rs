//! Expensive input: checks end quickly, with a clear message.

use std::time::{Duration, Instant};

use bundle::rehearse::{Level, OlmGeneration, RehearsalInput, Rehearse, rehearse};
use bundle::review::security;
use bundle::{BundleCheck, BundleDirectory, Finding, LoadedBundle};
use fbc::Limits;
use fbc::spelling::calendar::Date;
use testkit::BundleDir;

const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: foo.v1, annotations: {ANNOTATIONS}}
spec:
  version: 1.0.0
  installModes: [{type: AllNamespaces, supported: true}]
  install: {strategy: deployment, spec: {clusterPermissions: [{serviceAccountName: a, rules: [RULES]}], deployments: [{name: foo, spec: {template: {spec: {containers: [{name: c, image: x}]}}}}]}}
";

/// Asks everything about a bundle and returns the findings of the checks, and how long it takes.
fn judge(directory: &BundleDir) -> (Vec<Finding>, Duration) {
    let started = Instant::now();
    let limits = Limits::default();
    let suites = ["all".to_owned(), "marketplace".to_owned()];
    let today = Date::constant(2026, 1, 31);
    let request = BundleCheck { suites: &suites, kubernetes: Some("1.30"), ..BundleCheck::plain(&limits, today) };
    let read = BundleDirectory::read(directory.path().to_owned(), None, &limits);
    let found = bundle::check(read, &request, None).unwrap().findings;
    let read = read_bundle(directory);
    let _ = security::review(None, &read, security::SecurityOptions::default());
    let _ = security::review(Some(&read), &read, security::SecurityOptions::default());
    rehearse(&Rehearse::new(OlmGeneration::V1), Some(&read), &read);
    (found, started.elapsed())
}

fn read_bundle(directory: &BundleDir) -> LoadedBundle {
    LoadedBundle::from_directory(directory.path().to_owned(), None, &Limits::default()).unwrap()
}

#[test]
fn ten_thousand_rules_are_judged() {
    let rules: Vec<String> = (0..10_000)
        .map(|at| format!("{{apiGroups: [g{at}, ''], resources: [r, secrets], verbs: [get, list]}}"))
        .collect();
    let csv = CSV.replace("ANNOTATIONS", "").replace("RULES", &rules.join(","));
    let (_, time) = judge(&BundleDir::new().manifest("csv.yaml", csv));
    assert!(time < Duration::from_secs(60));
}

#[test]
fn annotations_beyond_the_limit_are_reported() {
    let csv = CSV.replace("ANNOTATIONS", &format!("big: {}", "x".repeat(400_000))).replace("RULES", "");
    let directory = BundleDir::new().manifest("csv.yaml", csv);
    judge(&directory);
    let prediction =
        Rehearse::new(OlmGeneration::V1).predict(&RehearsalInput::new(&read_bundle(&directory).whole), "ns");
    let over: Vec<String> = prediction
        .limits
        .into_iter()
        .filter(|limit| limit.level == Level::Over)
        .map(|limit| format!("{} {}", limit.id, limit.object))
        .collect();
    assert_eq!(over, ["size-annotations pods of Deployment ns/foo"]);
}

#[test]
fn deeply_nested_schemas_are_rejected_with_a_message() {
    let csv = CSV.replace("ANNOTATIONS", "").replace("RULES", "");
    let crd = |schema: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: foos.example.com}}\nspec: {{versions: [{{name: v1, schema: {{openAPIV3Schema: {schema}}}}}]}}\n"
        )
    };
    let deep = format!("{}{{}}{}", "{items: ".repeat(5_000), "}".repeat(5_000));
    let directory = BundleDir::new().manifest("csv.yaml", &csv).manifest("crd.yaml", crd(&deep));
    let refused = read_bundle(&directory).whole.refused.unwrap();
    assert!(refused.contains("manifests/crd.yaml") && refused.len() < 300, "{refused}");
    judge(&directory);
    let mut bomb = String::from("kind: ConfigMap\na0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let item = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![item; 9].join(", ")));
    }
    let directory = BundleDir::new().manifest("csv.yaml", &csv).manifest("bomb.yaml", bomb);
    let refused = read_bundle(&directory).whole.refused.unwrap();
    assert!(refused.contains("manifests/bomb.yaml") && refused.contains("aliasing"), "{refused}");
}

#[test]
fn recursive_schemas_are_rejected_quickly_with_a_message() {
    let example =
        "alm-examples: '[{\"apiVersion\": \"example.com/v1\", \"kind\": \"Foo\", \"spec\": {\"a\": {\"a\": {}}}}]'";
    let csv = CSV.replace("ANNOTATIONS", example).replace("RULES", "");
    for schema in [
        "{$ref: '#'}",
        "{type: object, properties: {spec: {type: object, properties: {a: {$ref: '#/properties/spec'}}}}}",
        "{type: object, definitions: {a: {$ref: '#/definitions/b'}, b: {$ref: '#/definitions/a'}}, properties: {spec: {allOf: [{$ref: '#/definitions/a'}]}}}",
    ] {
        let crd = format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: foos.example.com}}\nspec: {{group: example.com, names: {{kind: Foo, plural: foos}}, versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {schema}}}}}]}}\n"
        );
        let directory = BundleDir::new().manifest("csv.yaml", &csv).manifest("crd.yaml", crd);
        let (found, time) = judge(&directory);
        assert!(time < Duration::from_secs(10), "{schema}");
        let whole = read_bundle(&directory).whole;
        assert!(found.iter().any(|finding| finding.message.ends_with("is not allowed")), "{schema}: {found:?}");
        let crd = &whole.of_kind("CustomResourceDefinition").next().unwrap().value;
        assert_eq!(bundle::review::crd::compare([crd], [crd]), []);
    }
}
