//! The objects that OLM v0 and OLM v1 create from a bundle.

use bundle::rehearse::v1::{self, CertificateProvider, Profile, Runtime};
use bundle::rehearse::{Level, OlmGeneration, RehearsalInput, Rehearse, display_name, v0};
use fbc::Limits;
use insta::assert_snapshot;
use serde_json::{Value, json};
use testkit::BundleDir;

const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: foo.v1.2.3, annotations: {a: csv, b: csv}}
spec:
  version: 1.2.3
  installModes:
  - {type: AllNamespaces, supported: true}
  - {type: OwnNamespace, supported: MODE}
  - {type: SingleNamespace, supported: MODE}
  customresourcedefinitions: {owned: [{name: foos.example.com, version: v1, kind: Foo}]}
  install:
    strategy: deployment
    spec:
      permissions:
      - {serviceAccountName: foo, rules: [{verbs: [get], apiGroups: [''], resources: [secrets]}]}
      clusterPermissions:
      - {serviceAccountName: foo, rules: [{verbs: [list], apiGroups: [''], resources: [nodes]}]}
      - {rules: [{verbs: [get], nonResourceURLs: [/x]}]}
      deployments:
      - name: foo.manager
        label: {x: y}
        spec:
          selector: {matchLabels: {app: foo}}
          template:
            metadata: {annotations: {a: template}}
            spec:
              serviceAccountName: foo
              containers:
              - {name: manager, image: i, misspelled: 1, resources: {limits: {cpu: 0.1}}, volumeMounts: [{name: c, mountPath: /tmp/k8s-webhook-server/serving-certs}]}
              volumes: [{name: c, emptyDir: {}}]
WEBHOOKS";

const WEBHOOKS: &str = "  webhookdefinitions:
  - {type: ValidatingAdmissionWebhook, generateName: v.foo.io, deploymentName: foo.manager, containerPort: 443, targetPort: 9443, webhookPath: /v, sideEffects: None, admissionReviewVersions: [v1], rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [foos]}]}
  - {type: MutatingAdmissionWebhook, generateName: m.foo.io, deploymentName: foo.manager, sideEffects: None, admissionReviewVersions: [v1]}
";

fn bundle(modes: bool, webhooks: &str) -> BundleDir {
    BundleDir::new().manifest("csv.yaml", CSV.replace("MODE", &modes.to_string()).replace("WEBHOOKS", webhooks))
}

fn read(directory: &BundleDir) -> RehearsalInput {
    RehearsalInput::new(&bundle::read_whole(directory.path(), &Limits::default()).unwrap())
}

fn options() -> v1::V1Install {
    v1::V1Install {
        profile: Profile::default(),
        namespace: "ns".into(),
        extension: "ext".into(),
        certificates: CertificateProvider::CertManager,
        config: None,
    }
}

fn listed(objects: &[Value]) -> String {
    objects.iter().map(display_name).collect::<Vec<_>>().join("\n")
}

fn refused(bundle: &RehearsalInput, options: &v1::V1Install) -> String {
    v1::install(bundle, options).unwrap_err().message
}

#[test]
fn olm_v1_creates_objects_in_the_order_of_helm() {
    let installed = v1::install(&read(&bundle(true, WEBHOOKS)), &options()).unwrap();
    assert_snapshot!(listed(&installed.objects), @"
    ServiceAccount ns/foo
    CustomResourceDefinition foos.example.com
    ClusterRole foo.v1.2.3-foo-1ssf3kri83pdl8zzzzxq11s11qbsuty0d6i7z92bp0fj
    ClusterRole foo.v1.2.3-default-2dox1xkak0du8tbyhcva22nvipen0syeitlr1dwrvc2
    ClusterRole foo.v1.2.3-foo-26nic02qwxmmwggr45z4b25rllycghpwx4vvok7pbwa5
    ClusterRoleBinding foo.v1.2.3-foo-1ssf3kri83pdl8zzzzxq11s11qbsuty0d6i7z92bp0fj
    ClusterRoleBinding foo.v1.2.3-default-2dox1xkak0du8tbyhcva22nvipen0syeitlr1dwrvc2
    ClusterRoleBinding foo.v1.2.3-foo-26nic02qwxmmwggr45z4b25rllycghpwx4vvok7pbwa5
    Service ns/foo-manager-service
    Deployment ns/foo.manager
    Certificate ns/foo-manager-service-cert
    Issuer ns/foo-manager-service-cert-selfsigned-issuer
    MutatingWebhookConfiguration m.foo.io
    ValidatingWebhookConfiguration v.foo.io
    ");
    let deployment = &installed.objects[9];
    assert_eq!(
        deployment["spec"]["template"]["metadata"]["annotations"],
        json!({"a": "template", "b": "csv", "olm.targetNamespaces": "", "olm.operatorNamespace": "ns"})
    );
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"]["cpu"], "100m");
    assert_eq!(container.get("misspelled"), None);
    assert_eq!(container["volumeMounts"][0]["name"], "webhook-cert");
    // The missing port is written as 0, which the cluster rejects.
    let refused: Vec<_> = installed.notes.iter().filter(|note| note.refused).map(|note| &*note.object).collect();
    assert_eq!(refused, ["MutatingWebhookConfiguration m.foo.io"]);
}

#[test]
fn unknown_fields_are_reported() {
    let unknown = read(&bundle(true, "")).unknown;
    assert_eq!(unknown[0].file, "manifests/csv.yaml");
    assert_eq!(unknown[0].pointer, "/spec/install/spec/deployments/0/spec/template/spec/containers/0/misspelled");
}

#[test]
fn a_watched_namespace_gets_roles() {
    let config = Some(json!({"watchNamespace": "other"}));
    let installed = v1::install(&read(&bundle(true, "")), &v1::V1Install { config, ..options() }).unwrap();
    assert_eq!(installed.targets, ["other"]);
    let listed = listed(&installed.objects);
    assert!(listed.contains("Role other/foo.v1.2.3-foo-"), "{listed}");
    assert_eq!(listed.matches("\nClusterRole ").count(), 2, "{listed}");
}

#[test]
fn boxcutter_applies_in_phases() {
    let profile = Profile { runtime: Runtime::Boxcutter, ..Profile::default() };
    let installed = v1::install(&read(&bundle(true, WEBHOOKS)), &v1::V1Install { profile, ..options() }).unwrap();
    let mut phases: Vec<_> =
        installed.objects.iter().map(|object| v1::phase(object["kind"].as_str().unwrap())).collect();
    phases.dedup();
    assert_eq!(phases, ["identity", "crds", "roles", "bindings", "infrastructure", "deploy", "admission"]);
    assert!(installed.objects.iter().all(|object| object.get("status").is_none()));
    assert_eq!(installed.objects[0]["metadata"]["annotations"]["olm.operatorframework.io/bundle-version"], "1.2.3");
}

#[test]
fn openshift_requests_certificates_by_annotation() {
    let certificates = CertificateProvider::OpenShift;
    let installed = v1::install(&read(&bundle(true, WEBHOOKS)), &v1::V1Install { certificates, ..options() }).unwrap();
    let service = installed.objects.iter().find(|object| object["kind"] == "Service").unwrap();
    assert_eq!(
        service["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"],
        "foo-manager-service-cert"
    );
    assert!(!installed.objects.iter().any(|object| object["kind"] == "Certificate"));
}

#[test]
fn refusals_have_the_messages_of_olm() {
    let none = v1::V1Install { certificates: CertificateProvider::None, ..options() };
    assert_snapshot!(refused(&read(&bundle(true, WEBHOOKS)), &none), @r#"error for resolved bundle "foo.v1.2.3" with version "1.2.3": unsupported bundle: webhookDefinitions are not supported: certificate provider is nil"#);
    let conversion = "  webhookdefinitions:\n  - {type: ConversionWebhook, generateName: c-, deploymentName: gone, conversionCRDs: [foos.example.com, bars.example.com]}\n  - {type: ConversionWebhook, generateName: d, deploymentName: foo.manager, conversionCRDs: [foos.example.com]}\n  - {type: ValidatingAdmissionWebhook, generateName: e, deploymentName: foo.manager, rules: [{apiGroups: ['*', admissionregistration.k8s.io], resources: ['*']}]}\n";
    let odd = bundle(true, conversion).manifest("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n");
    assert_snapshot!(refused(&read(&odd), &options()), @r#"
    error for resolved bundle "foo.v1.2.3" with version "1.2.3": bundle contains conversion webhook "c-" and supports install modes [AllNamespaces OwnNamespace SingleNamespace] - conversion webhooks are only supported for bundles that only support AllNamespaces install mode
    bundle contains conversion webhook "d" and supports install modes [AllNamespaces OwnNamespace SingleNamespace] - conversion webhooks are only supported for bundles that only support AllNamespaces install mode
    webhook of type 'ConversionWebhook' with name 'c-' references non-existent deployment 'gone'
    webhook of type 'ConversionWebhook' has invalid name 'c-': a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
    conversion webhooks [c-,d] reference same custom resource definition 'foos.example.com'
    conversion webhook 'c-' references custom resource definition 'bars.example.com' not owned bundle
    webhook "e" contains forbidden rule: admission webhook rules cannot reference API group "*"
    webhook "e" contains forbidden rule: admission webhook rules cannot reference resource "*" for API group "admissionregistration.k8s.io"
    unsupported resource "p" with kind "Pod"
    "#);
    let needy = bundle(true, "").metadata(
        "dependencies.yaml",
        "dependencies:\n- {type: olm.package, value: {packageName: a, version: 1.0.0}}\n",
    );
    assert_snapshot!(refused(&read(&needy), &options()), @r#"validating bundle "foo.v1.2.3": bundle "foo.v1.2.3" has a dependency declared via property "olm.package.required" which is currently not supported"#);
    let wrong = v1::V1Install { config: Some(json!({"watchNamespace": 1, "other": 2})), ..options() };
    assert_snapshot!(refused(&read(&bundle(true, "")), &wrong), @r#"
    error for resolved bundle "foo.v1.2.3" with version "1.2.3": invalid ClusterExtension configuration: invalid configuration: multiple errors found:
      - unknown field "other"
      - invalid type for field "watchNamespace": got number, want string or null
    "#);
    let unknown = v1::V1Install { config: Some(json!({"watchNamespace": "x"})), ..options() };
    assert_snapshot!(refused(&read(&bundle(false, "")), &unknown), @r#"error for resolved bundle "foo.v1.2.3" with version "1.2.3": invalid ClusterExtension configuration: invalid configuration: unknown field "watchNamespace""#);
}

#[test]
fn configuration_changes_only_containers_of_a_deployment() {
    let config = Some(json!({"deploymentConfig": {
        "env": [{"name": "A", "value": "1"}], "tolerations": [{"key": "k"}], "nodeSelector": {"x": "y"},
        "resources": {"limits": {"memory": "1024Mi"}}, "annotations": {"a": "config", "z": "config"},
        "affinity": {}, "volumes": [{"name": "v", "emptyDir": {}}], "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }}));
    let profile = Profile { deployment_config: true, ..Profile::default() };
    let installed = v1::install(&read(&bundle(true, "")), &v1::V1Install { profile, config, ..options() }).unwrap();
    let deployment = installed.objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["env"], json!([{"name": "A", "value": "1"}]));
    assert_eq!(pod["containers"][0]["resources"], json!({"limits": {"memory": "1Gi"}}));
    assert_eq!(pod["nodeSelector"], json!({"x": "y"}));
    assert_eq!(pod["volumes"][1]["name"], "v");
    assert_eq!(deployment["metadata"]["annotations"], json!({"a": "config", "z": "config"}));
    assert_eq!(deployment["spec"]["template"]["metadata"]["annotations"]["a"], "template");
    assert_eq!(deployment["spec"]["template"]["metadata"]["annotations"]["z"], "config");
}

fn v0_options(targets: &[&str]) -> v0::V0Install {
    let targets = targets.iter().map(|&target| target.to_owned()).collect();
    v0::V0Install { namespace: "ns".into(), targets, group: "group".into(), config: None }
}

#[test]
fn olm_v0_creates_an_install_plan_and_then_the_other_objects() {
    let installed = v0::install(&read(&bundle(true, WEBHOOKS)), &v0_options(&[""])).unwrap();
    assert_snapshot!(listed(&installed.plan), @"
    ClusterServiceVersion ns/foo.v1.2.3
    CustomResourceDefinition foos.example.com
    ClusterRole foo.v1.2.3-bWk4QGC3JUZRrduf6f7kysGWcW0CSEcjbc13zC
    ClusterRoleBinding foo.v1.2.3-bWk4QGC3JUZRrduf6f7kysGWcW0CSEcjbc13zC
    ServiceAccount ns/foo
    Role ns/foo.v1.2.3-foo-1fzIrDx3B9bVuAoglmoNp8ftzjNgYdYMC9M631
    RoleBinding ns/foo.v1.2.3-foo-1fzIrDx3B9bVuAoglmoNp8ftzjNgYdYMC9M631
    ClusterRole foo.v1.2.3-foo-1fzIrDx3B9bVuAoglmoNp8ftzjNgYdYMC9M631
    ClusterRoleBinding foo.v1.2.3-foo-1fzIrDx3B9bVuAoglmoNp8ftzjNgYdYMC9M631
    ClusterRole foo.v1.2.3-2yRKRA58uUcI5Ns1e9BG6mXkmY5LlBx4nlN1Qi
    ClusterRoleBinding foo.v1.2.3-2yRKRA58uUcI5Ns1e9BG6mXkmY5LlBx4nlN1Qi
    ");
    assert_snapshot!(listed(&installed.derived), @"
    Deployment ns/foo.manager
    OperatorCondition ns/foo.v1.2.3
    Role ns/foo.v1.2.3
    RoleBinding ns/foo.v1.2.3
    ClusterRole foos.example.com-v1-admin
    ClusterRole foos.example.com-v1-edit
    ClusterRole foos.example.com-v1-view
    ClusterRole foos.example.com-v1-crdview
    Service ns/foo.manager-service
    Secret ns/foo.manager-service-cert
    Role ns/foo.manager-service-cert
    RoleBinding ns/foo.manager-service-cert
    ClusterRoleBinding foo.manager-service-system:auth-delegator
    RoleBinding kube-system/foo.manager-service-auth-reader
    ValidatingWebhookConfiguration v.foo.io-*
    MutatingWebhookConfiguration m.foo.io-*
    ");
    let deployment = &installed.derived[0];
    // Annotations of the CSV win here.
    assert_eq!(deployment["spec"]["template"]["metadata"]["annotations"]["a"], "csv");
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["env"],
        json!([{"name": "OPERATOR_CONDITION_NAME", "value": "foo.v1.2.3"}])
    );
    assert!(installed.notes.iter().any(|note| note.id == "olmv0-dot"));
}

#[test]
fn refusals_of_olm_v0_have_its_messages() {
    let monitor = bundle(true, "")
        .manifest("m.yaml", "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nmetadata: {name: m}\n");
    let refused =
        |bundle: &BundleDir, targets: &[&str]| v0::install(&read(bundle), &v0_options(targets)).unwrap_err().message;
    assert_snapshot!(refused(&monitor, &[""]), @"the InstallPlan contains invalid data: PodMonitor is not supported");
    assert_snapshot!(refused(&bundle(false, ""), &["ns"]), @"UnsupportedOperatorGroup: OwnNamespace InstallModeType not supported, cannot configure to watch own namespace");
}

#[test]
fn olm_v0_compares_only_full_versions_of_kubernetes() {
    let needing = |version: &str| {
        let csv = CSV.replace("MODE", "true").replace("WEBHOOKS", &format!("  minKubeVersion: '{version}'\n"));
        v0::install(&read(&BundleDir::new().manifest("csv.yaml", csv)), &v0_options(&[""])).err()
    };
    assert_eq!(needing("1.25.0"), None);
    assert_eq!(needing("v1.25.0"), None);
    assert_eq!(needing("1.25").unwrap().id, "olmv0-min-kube-version");
}

/// OLM v0 installs the CRDs of a bundle and of its dependencies before its other objects, and sends core kinds as such.
#[test]
fn kinds_that_the_bundle_brings_or_requires_are_known_to_olm_v0() {
    let object = |group: &str, kind: &str| format!("apiVersion: {group}/v1\nkind: {kind}\nmetadata: {{name: one}}\n");
    let crd = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prometheusrules.own.example.com}
spec:
  group: own.example.com
  names: {kind: PrometheusRule, plural: prometheusrules}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true}]
";
    let needed = |group: &str, kind: &str| {
        let required = "  customresourcedefinitions: {required: [{name: prometheusrules.other.example.com, version: v1, kind: PrometheusRule}], owned";
        let csv = CSV.replace("MODE", "true").replace("WEBHOOKS", "");
        let csv = csv.replace("  customresourcedefinitions: {owned", required);
        let directory = BundleDir::new()
            .manifest("csv.yaml", csv)
            .manifest("crd.yaml", crd)
            .manifest("one.yaml", object(group, kind));
        let notes = v0::install(&read(&directory), &v0_options(&[""])).unwrap().notes;
        let about = notes.into_iter().filter(|note| note.id == "rehearse-needs-api");
        about.map(|note| (note.refused, note.message)).collect::<Vec<_>>()
    };
    assert_eq!(needed("own.example.com", "PrometheusRule"), []);
    assert_eq!(needed("iam.example.com", "Role"), []);
    let from_another = "needs other.example.com/v1 PrometheusRule, which the bundle requires from another operator";
    assert_eq!(needed("other.example.com", "PrometheusRule"), [(false, from_another.to_owned())]);
    let unknown = "no current cluster knows PrometheusRule in third.example.com/v1";
    assert_eq!(needed("third.example.com", "PrometheusRule"), [(true, unknown.to_owned())]);
}

#[test]
fn a_bundle_without_schemas_is_judged_like_a_complete_one() {
    let crd = |name: &str, versions: &[(&str, usize)]| {
        let versions: Vec<Value> = versions
            .iter()
            .map(|(version, size)| {
                let schema = json!({"openAPIV3Schema": {"type": "object", "description": "x".repeat(*size), "odd": 1}});
                json!({"name": version, "served": true, "storage": true, "schema": schema})
            })
            .collect();
        let names = json!({"kind": "Foo", "plural": name, "singular": "foo"});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{name}.example.com")},
            "spec": {"group": "example.com", "names": names, "scope": "Cluster", "versions": versions},
        })
        .to_string()
    };
    let directory = bundle(true, WEBHOOKS)
        .manifest("crd.yaml", crd("foos", &[("v1", 10), ("v2", 1_400_000)]))
        .manifest("large.yaml", crd("bars", &[("v1", 1_600_000)]))
        .manifest("small.yaml", crd("bazs", &[("v1", 1000)]));
    let judged = || RehearsalInput::without_schemas(bundle::read_whole(directory.path(), &Limits::default()).unwrap());
    let (whole, judged) = (read(&directory), judged());
    assert!(judged.crds.iter().all(|crd| crd.pointer("/spec/versions/0/schema").is_none()));
    assert_eq!(judged.unknown, whole.unknown);
    let predicted = |bundle: &RehearsalInput, generation| {
        let predicted = Rehearse::new(generation).predict(bundle, "ns");
        let limits = predicted.limits.into_iter().map(|it| (it.id, it.level, it.object, it.size)).collect::<Vec<_>>();
        (limits, predicted.notes)
    };
    let found = predicted(&judged, OlmGeneration::V1);
    assert_eq!(found, predicted(&whole, OlmGeneration::V1));
    assert_eq!(
        found.0.iter().map(|it| (it.0, it.1)).collect::<Vec<_>>(),
        [("size-object", Level::Near), ("size-object", Level::Over),]
    );
    assert_eq!(predicted(&judged, OlmGeneration::V0), predicted(&whole, OlmGeneration::V0));
    // Measuring a release compresses it, so large schemas stay complete.
    let large = bundle(true, "").manifest("crd.yaml", crd("foos", &[("v1", 7_000_000)]));
    let large = RehearsalInput::without_schemas(bundle::read_whole(large.path(), &Limits::default()).unwrap());
    assert!(large.crds[0].pointer("/spec/versions/0/schema").is_some());
}
