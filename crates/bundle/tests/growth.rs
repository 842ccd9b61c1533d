//! The work of checks grows linearly with a bundle: tests count steps, not seconds.

use bundle::{BundleCheck, BundleDirectory, check};
use fbc::spelling::calendar::Date;
use fbc::{Limits, step_counter};
use serde_json::{Value, json};
use testkit::BundleDir;

const SMALL: usize = 100;

/// Checks that the steps of `task` grow with its input.
fn assert_linear(task: impl Fn(usize)) {
    testkit::assert_linear(SMALL, step_counter::count, task);
}

/// Returns a bundle with this many owned CRDs, each with an example.
fn bundle(size: usize) -> BundleDir {
    let each = |of: fn(String) -> Value| (0..size).map(|at| of(format!("K{at}"))).collect::<Vec<Value>>();
    let crds = each(|kind| {
        let name = format!("{}s.example.com", kind.to_lowercase());
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": kind, "plural": "ks"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        })
    });
    let examples = each(|kind| json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "x"}}));
    let owned =
        each(|kind| json!({"name": format!("{}s.example.com", kind.to_lowercase()), "version": "v1", "kind": kind}));
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "foo.v1.0.0", "annotations": {"alm-examples": json!(examples).to_string()}},
        "spec": {"version": "1.0.0", "customresourcedefinitions": {"owned": owned}},
    });
    let mut bundle = BundleDir::new().manifest("csv.json", csv.to_string());
    for (at, crd) in crds.iter().enumerate() {
        bundle = bundle.manifest(&format!("crd{at}.json"), crd.to_string());
    }
    bundle
}

#[test]
fn owned_crds_and_examples_are_matched_by_name() {
    assert_linear(|size| {
        let bundle = bundle(size);
        let limits = Limits::default();
        let today = Date::constant(2026, 1, 31);
        let suites = ["community".to_owned(), "certified".to_owned(), "marketplace".to_owned()];
        let request = BundleCheck { suites: &suites, ..BundleCheck::plain(&limits, today) };
        let found = check(BundleDirectory::read(bundle.path().to_owned(), None, &limits), &request, None).unwrap();
        assert_eq!(found.findings.iter().filter(|finding| finding.id == "owned-crd").count(), 0);
    });
}
