//! Expensive input: checks end quickly, with a clear message.

use std::time::{Duration, Instant};

use bundle::rehearse::v1::{Certificates, Options, Profile};
use bundle::rehearse::{Bundle, Generation, Level, Rehearse, v1};
use bundle::review::security;
use bundle::{CheckInput, VALIDATORS, Whole};
use fbc::Limits;
use testkit::BundleDir;

const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: foo.v1, annotations: {ANNOTATIONS}}
spec:
  version: 1.0.0
  installModes: [{type: AllNamespaces, supported: true}]
  install: {strategy: deployment, spec: {clusterPermissions: [{serviceAccountName: a, rules: [RULES]}], deployments: [{name: foo, spec: {template: {spec: {containers: [{name: c, image: x}]}}}}]}}
";

fn options() -> Options {
    Options {
        profile: Profile::default(),
        namespace: "ns".into(),
        extension: "ext".into(),
        certificates: Certificates::CertManager,
        config: None,
    }
}

/// Runs every check and returns how long they take.
fn judge(whole: &Whole) -> Duration {
    let started = Instant::now();
    let names: Vec<&str> = VALIDATORS.iter().map(|validator| validator.name).collect();
    let input = CheckInput { kubernetes: Some("1.30"), ..CheckInput::new(whole, (1, 1)) };
    bundle::run_validators(&input, &names);
    let _ = security::judge(whole, security::Options::default());
    let _ = security::judge_change(whole, whole, security::Options::default());
    let _ = v1::install(&Bundle::new(whole), &options());
    started.elapsed()
}

fn read(directory: &BundleDir) -> Whole {
    bundle::read_whole(directory.path(), &Limits::default()).unwrap()
}

#[test]
fn ten_thousand_rules_are_judged() {
    let rules: Vec<String> = (0..10_000)
        .map(|at| format!("{{apiGroups: [g{at}, ''], resources: [r, secrets], verbs: [get, list]}}"))
        .collect();
    let csv = CSV.replace("ANNOTATIONS", "").replace("RULES", &rules.join(","));
    let whole = read(&BundleDir::new().manifest("csv.yaml", csv));
    assert!(judge(&whole) < Duration::from_secs(60));
}

#[test]
fn annotations_beyond_the_limit_are_reported() {
    let csv = CSV.replace("ANNOTATIONS", &format!("big: {}", "x".repeat(400_000))).replace("RULES", "");
    let whole = read(&BundleDir::new().manifest("csv.yaml", csv));
    judge(&whole);
    let prediction = Rehearse::new(Generation::V1).predict(&Bundle::new(&whole), "ns");
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
    let whole = read(&BundleDir::new().manifest("csv.yaml", &csv).manifest("crd.yaml", crd(&deep)));
    let refused = whole.refused.clone().unwrap();
    assert!(refused.contains("manifests/crd.yaml") && refused.len() < 300, "{refused}");
    judge(&whole);
    let mut bomb = String::from("kind: ConfigMap\na0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let item = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![item; 9].join(", ")));
    }
    let whole = read(&BundleDir::new().manifest("csv.yaml", &csv).manifest("bomb.yaml", bomb));
    let refused = whole.refused.unwrap();
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
        let whole = read(&BundleDir::new().manifest("csv.yaml", &csv).manifest("crd.yaml", crd));
        assert!(judge(&whole) < Duration::from_secs(10), "{schema}");
        let found = bundle::run_validators(&CheckInput::new(&whole, (1, 1)), &["schemas"]).list;
        assert!(found.iter().any(|finding| finding.message.ends_with("is not allowed")), "{schema}: {found:?}");
        let crd = &whole.of_kind("CustomResourceDefinition").next().unwrap().value;
        assert_eq!(bundle::review::crd::compare([crd], [crd]), []);
    }
}
