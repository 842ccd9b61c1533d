//! The work of a rehearsal grows linearly with a bundle: tests count steps, not seconds.

use bundle::ParsedBundle;
use bundle::rehearse::v1::{self, CertificateProvider, Profile};
use bundle::rehearse::{RehearsalInput, upgrade, v0};
use fbc::step_counter;
use serde_json::{Value, json};

const SMALL: usize = 100;

/// Checks that the steps of `task` grow with its input.
fn assert_linear(task: impl Fn(usize)) {
    testkit::assert_linear(SMALL, step_counter::count, task);
}

/// Returns a bundle with this many deployments, accounts, webhooks and CRDs that they convert.
fn bundle(size: usize) -> RehearsalInput {
    let each = |of: &dyn Fn(usize) -> Value| (0..size).map(of).collect::<Vec<Value>>();
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "foo.v1.0.0"},
        "spec": {
            "version": "1.0.0", "installModes": [{"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {
                "owned": each(&|at| json!({"name": format!("k{at}.x.com"), "version": "v1", "kind": format!("K{at}")})),
            },
            "webhookdefinitions": each(&|at| json!({
                "type": "ConversionWebhook", "generateName": format!("w{at}.x.com"), "deploymentName": format!("d{at}"),
                "containerPort": 443, "conversionCRDs": [format!("k{at}.x.com")],
            })),
            "install": {"strategy": "deployment", "spec": {
                "permissions": each(&|at| json!({
                    "serviceAccountName": format!("a{at}"),
                    "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
                })),
                "deployments": each(&|at| json!({"name": format!("d{at}"), "spec": {"template": {"spec": {
                    "serviceAccountName": format!("a{at}"), "containers": [{"name": "m", "image": "x"}],
                }}}})),
            }},
        },
    });
    let crds = each(&|at| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("k{at}.x.com")},
            "spec": {
                "group": "x.com", "scope": "Namespaced", "names": {"kind": format!("K{at}"), "plural": format!("k{at}")},
                "versions": [{"name": "v1", "served": true, "storage": true}],
            },
        })
    });
    let objects = std::iter::once(csv).chain(crds).enumerate().map(|(at, value)| bundle::BundleObject {
        file: format!("manifests/{at}.json"),
        document: 0,
        line: 1,
        item: None,
        value,
    });
    RehearsalInput::new(&ParsedBundle { package: "foo".into(), objects: objects.collect(), ..ParsedBundle::default() })
}

#[test]
fn objects_are_matched_by_name() {
    assert_linear(|size| {
        let bundle = bundle(size);
        let options = v1::V1Install {
            profile: Profile::default(),
            namespace: "ns".into(),
            extension: "ext".into(),
            certificates: CertificateProvider::CertManager,
            config: None,
        };
        let new = v1::install(&bundle, &options).unwrap();
        assert!(new.objects.len() > 3 * size, "{}", new.objects.len());
        let options =
            v0::V0Install { namespace: "ns".into(), targets: vec![String::new()], group: "group".into(), config: None };
        let old = v0::install(&bundle, &options).unwrap();
        assert!(old.plan.len() > 3 * size, "{}", old.plan.len());
        upgrade(&old.plan, &new.objects);
    });
}
