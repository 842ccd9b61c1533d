//! Tests with a bundle that violates each rule, and one that satisfies all.

use std::collections::BTreeSet;

use fbc::Limits;
use testkit::BundleDir;

use super::*;
use crate::whole::read_whole;

mod additional_input;

const DIGEST: &str = "quay.io/me/foo@sha256:0123456789012345678901234567890123456789012345678901234567890123";

/// A bundle without findings.
fn good() -> String {
    format!(
        "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: foo.v1.2.3
  annotations:
    capabilities: Basic Install
    categories: Database
    containerImage: x
    createdAt: x
    repository: x
    support: x
    description: ten letters
    marketplace.openshift.io/remote-workflow: https://marketplace.redhat.com/en-us/operators/foo/pricing?utm_source=openshift_console
    marketplace.openshift.io/support-workflow: https://marketplace.redhat.com/en-us/operators/foo/support?utm_source=openshift_console
    features.operators.openshift.io/disconnected: 'true'
    features.operators.openshift.io/fips-compliant: 'true'
    features.operators.openshift.io/proxy-aware: 'true'
    features.operators.openshift.io/tls-profiles: 'true'
    features.operators.openshift.io/token-auth-aws: 'false'
    features.operators.openshift.io/token-auth-azure: 'false'
    features.operators.openshift.io/token-auth-gcp: 'false'
spec:
  version: 1.2.3
  displayName: Foo
  description: does what it should do and more
  keywords: [foo]
  maintainers: [{{name: me, email: me@example.com}}]
  links: [{{name: home, url: 'https://example.com'}}]
  provider: {{name: Example}}
  icon: [{{base64data: eA==, mediatype: image/png}}]
  installModes: [{{type: AllNamespaces, supported: true}}]
  customresourcedefinitions: {{owned: [{{name: foos.example.com, version: v1, kind: Foo, description: a foo, resources: [{{kind: Pod, version: v1}}]}}]}}
  relatedImages: [{{name: foo, image: '{DIGEST}'}}]
  install:
    strategy: deployment
    spec:
      clusterPermissions: [{{serviceAccountName: foo, rules: []}}]
      deployments:
      - name: foo
        spec: {{template: {{spec: {{serviceAccountName: foo, containers: [{{name: c, image: '{DIGEST}', env: [{{name: RELATED_IMAGE_X}}], resources: {{requests: {{cpu: 1}}}}}}]}}}}}}
"
    )
}

const ANNOTATIONS: &str = "annotations:
  operators.operatorframework.io.bundle.package.v1: foo
  operators.operatorframework.io.bundle.channels.v1: stable
";

fn bundle(csv: &str) -> BundleDir {
    BundleDir::new().manifest("csv.yaml", csv).metadata("annotations.yaml", ANNOTATIONS)
}

fn ids_of(directory: &BundleDir, kubernetes: Option<&str>, size: (u64, u64)) -> BTreeSet<&'static str> {
    let whole = read_whole(directory.path(), &Limits::default()).unwrap();
    let input = CheckInput { kubernetes, ..CheckInput::new(&whole, size) };
    // The deprecated validator adds no rules of its own.
    let names = VALIDATORS.iter().map(|validator| validator.name).filter(|name| *name != "operatorhub");
    run_validators(&input, &names.collect::<Vec<_>>()).list.into_iter().map(|finding| finding.id).collect()
}

fn ids(directory: &BundleDir) -> BTreeSet<&'static str> {
    ids_of(directory, None, (10, 10))
}

#[test]
fn a_good_bundle_has_no_findings() {
    // Unchecked conditions are reported as such, not as satisfied.
    assert_eq!(ids(&bundle(&good())), BTreeSet::from(["images-certified-unknown"]));
    let by_tag = good().replace(DIGEST, "quay.io/me/foo:v1");
    assert!(!ids(&bundle(&by_tag)).contains("images-certified-unknown"));
}

#[test]
fn each_rule_has_a_csv_that_violates_it() {
    let table = [
        ("bundle-owned-crd", "version: v1, kind: Foo", "version: v9, kind: Foo"),
        ("bundle-crd-not-owned", "kind: Foo, description", "kind: Bar, description"),
        ("bundle-release-name", "  version: 1.2.3\n", "  version: 1.2.3\n  release: 2\n"),
        ("bundle-related-image", "{name: foo, image: ", "{name: bar, image: ''}, {name: foo, image: "),
        ("hub-provider", "provider: {name: Example}", "provider: {}"),
        ("hub-maintainers", "email: me@example.com", "email: nobody"),
        ("hub-links", "url: 'https://example.com'", "url: here"),
        ("hub-version", "  version: 1.2.3\n", "  version: 0.0.0\n"),
        ("hub-icon", "mediatype: image/png", "mediatype: text/plain"),
        ("hub-capabilities", "capabilities: Basic Install", "capabilities: Some"),
        ("hub-categories", "categories: Database", "categories: Cats"),
        (
            "practice-deployment",
            "deployments:\n      - name: foo\n        spec: {",
            "other:\n      - name: foo\n        spec: {",
        ),
        ("practice-resources", "resources: {requests: {cpu: 1}}", "resources: {}"),
        (
            "practice-makes-crds",
            "rules: []",
            "rules: [{apiGroups: [apiextensions.k8s.io], resources: ['*'], verbs: [create]}]",
        ),
        ("practice-description", ", description: a foo", ""),
        ("crd-has-resources", ", resources: [{kind: Pod, version: v1}]", ""),
        ("practice-version-name", "name: foo.v1.2.3", "name: foo.v1"),
        ("practice-name", "name: foo.v1.2.3", "name: foo-1.2.3"),
        ("field-display-name", "displayName: Foo", "displayName: F"),
        ("field-description", "description: does what it should do and more", "description: short"),
        ("field-icon", "icon: [{base64data: eA==, mediatype: image/png}]", "icon: []"),
        ("field-version", "  version: 1.2.3\n", "  version: '1'\n"),
        ("field-maintainers", "maintainers: [{name: me, email: me@example.com}]", "maintainers: []"),
        ("field-provider", "provider: {name: Example}", "provider: {name: E}"),
        ("field-links", "links: [{name: home, url: 'https://example.com'}]", "links: []"),
        ("field-annotation", "support: x", "support: ''"),
        ("field-keywords", "keywords: [foo]", "keywords: []"),
        ("marketplace-links", "foo/pricing", "bar/pricing"),
        ("openshift-versions", "  version: 1.2.3\n", "  version: 1.2.3\n  minKubeVersion: 1.25.0\n"),
        ("feature-annotations", "proxy-aware: 'true'", "proxy-aware: 'yes'"),
        ("images-in-related", "relatedImages: [{name: foo,", "relatedImages: []\n  other: [{name: foo,"),
        ("restricted-network", "RELATED_IMAGE_X", "OTHER"),
        (
            "scc-one",
            "rules: []",
            "rules: [{apiGroups: [security.openshift.io], resources: [securitycontextconstraints], verbs: [use], resourceNames: [a, b]}]",
        ),
        ("account-missing", "{serviceAccountName: foo, containers", "{serviceAccountName: bar, containers"),
        (
            "olmv1-conditions",
            "rules: []",
            "rules: [{apiGroups: [operators.coreos.com], resources: [operatorconditions], verbs: [get]}]",
        ),
        (
            "watch-namespace-unused",
            "[{type: AllNamespaces, supported: true}]",
            "[{type: OwnNamespace, supported: true}]",
        ),
        ("images-certified", "{name: foo, image: ", "{name: bar, image: 'quay.io/me/bar:v1'}, {name: foo, image: "),
        (
            "pod-security",
            "    support: x\n",
            "    support: x\n    operatorframework.io/suggested-namespace-template: '{\"metadata\": {\"labels\": {\"pod-security.kubernetes.io/enforce\": \"restricted\"}}}'\n",
        ),
        (
            "image-pinned",
            "containers: [{name: c, image: 'quay.io/me/foo@sha256:0123456789012345678901234567890123456789012345678901234567890123'",
            "containers: [{name: c, image: 'quay.io/me/foo:v1'",
        ),
    ];
    for (id, from, to) in table {
        let csv = good();
        assert!(csv.contains(from), "{id}: {from}");
        let found = ids(&bundle(&csv.replacen(from, to, 1)));
        assert!(found.contains(id), "{id}: {found:?}");
    }
}

#[test]
fn each_rule_has_an_object_that_violates_it() {
    let table = [
        ("bundle-account", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: foo}\n"),
        (
            "object-pdb",
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec: {maxUnavailable: 0}\n",
        ),
        (
            "object-type",
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec: {maxUnavailable: []}\n",
        ),
        (
            "object-type",
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\nrules: [{verbs: get}]\n",
        ),
        ("object-type", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: a}\nvalue: high\n"),
        (
            "object-priority-class",
            "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: a}\nglobalDefault: true\n",
        ),
        (
            "object-pdb-rights",
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\nrules: [{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [create]}]\n",
        ),
        ("removed-api", "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a}\n"),
        ("removed-api", "apiVersion: apps/v1beta2\nkind: Deployment\nmetadata: {name: a}\n"),
        ("network-policy", "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\n"),
        (
            "group-annotation-case",
            "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: a, annotations: {olm.providedApis: x}}\n",
        ),
        (
            "group-properties-annotation",
            "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: a, annotations: {olm.properties: x}}\n",
        ),
        ("several-documents", "kind: ConfigMap\nmetadata: {name: a}\n---\nkind: ConfigMap\nmetadata: {name: b}\n"),
        (
            "rbac-fixed-namespace",
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: a}\nsubjects: [{kind: ServiceAccount, name: foo, namespace: here}]\n",
        ),
        (
            "bundle-duplicate-crd",
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: foos.example.com}\nspec: {group: example.com, names: {kind: Foo, plural: foos}, versions: [{name: v1}]}\n",
        ),
        ("community-max-openshift", "apiVersion: rbac.authorization.k8s.io/v1beta1\nkind: Role\nmetadata: {name: a}\n"),
    ];
    for (id, object) in table {
        let found = ids(&bundle(&good()).manifest("z.yaml", object));
        assert!(found.contains(id), "{id}: {found:?}");
    }
    let odd = ANNOTATIONS.replace("stable", "odd");
    assert!(ids(&bundle(&good()).metadata("annotations.yaml", odd)).contains("practice-channels"));
    assert!(ids_of(&bundle(&good()), None, (10, 1_048_577)).contains("bundle-size"));
}

#[test]
fn removed_apis_are_errors_for_kubernetes_versions_without_them() {
    let beta = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a}\n";
    let directory = bundle(&good()).manifest("z.yaml", beta);
    let judged = |kubernetes| {
        let whole = read_whole(directory.path(), &Limits::default()).unwrap();
        let input = CheckInput { kubernetes, ..CheckInput::new(&whole, (1, 1)) };
        let found = run_validators(&input, &["alpha-deprecated-apis"]);
        found.list.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(judged(None), @r#"Warning: Value foo.v1.2.3: this bundle is using APIs which were deprecated and removed in v1.25. More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-25. Migrate the API(s) for PodDisruptionBudget: (["a"])"#);
    assert!(judged(Some("1.24")).starts_with("Warning"));
    assert!(judged(Some("1.25")).starts_with("Error"));
    insta::assert_snapshot!(judged(Some("new")), @"Error: Value foo.v1.2.3: invalid value informed via the k8s key option : new");
}

#[test]
fn sizes_near_and_over_the_limit_are_reported() {
    let directory = bundle(&good());
    let whole = read_whole(directory.path(), &Limits::default()).unwrap();
    let judged = |size| {
        let input = CheckInput::new(&whole, size);
        run_validators(&input, &["bundle"]).list.first().map(|finding| finding.message.clone()).unwrap_or_default()
    };
    assert_eq!(judged((1, 800_000)), "");
    insta::assert_snapshot!(judged((3_000_000, 1_000_000)), @"Warning: : nearing maximum bundle compressed size with gzip: size=~1.0 MB , max=1.0 MB. Bundle uncompressed size is 3.0 MB");
    insta::assert_snapshot!(judged((3_000_000, 2_000_000)), @"Error: : maximum bundle compressed size with gzip size exceeded: size=~2.0 MB , max=1.0 MB. Bundle uncompressed size is 3.0 MB");
    assert_eq!(judged((0, 0)), "Warning: : unable to check the bundle compressed size");
}

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  names: {kind: Foo, plural: foos}
  versions:
  - name: v1
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
";

#[test]
fn examples_match_schemas_and_descriptors() {
    let judged = |example: &str, descriptors: &str| {
        let csv = good()
            .replacen("    capabilities:", &format!("    alm-examples: '{example}'\n    capabilities:"), 1)
            .replacen(", description: a foo", &format!(", description: a foo{descriptors}"), 1);
        let directory = bundle(&csv).manifest("crd.yaml", CRD);
        let whole = read_whole(directory.path(), &Limits::default()).unwrap();
        let found = run_validators(&CheckInput::new(&whole, (1, 1)), &["scorecard"]);
        found.list.iter().map(|finding| format!("{} {}", finding.severity, finding.id)).collect::<Vec<_>>().join(", ")
    };
    let example =
        |rest: &str| format!(r#"[{{"apiVersion":"example.com/v1","kind":"Foo","metadata":{{"name":"a"}}{rest}}}]"#);
    let described = ", specDescriptors: [{path: size}]";
    assert_eq!(judged(&example(r#","spec":{"size":1}"#), described), "");
    assert_eq!(
        judged(
            &example(r#","spec":{"size":1},"status":{"any":1}"#),
            ", specDescriptors: [{path: size}], statusDescriptors: [{path: any}]"
        ),
        ""
    );
    assert_eq!(
        judged(&example(r#","spec":{"size":1,"other":2}"#), described),
        "error spec-descriptors, error crd-has-schema"
    );
    assert_eq!(judged(&example(r#","spec":{"size":1}"#), ""), "error spec-descriptors");
    assert_eq!(judged(&example(""), described), "info spec-block, error spec-descriptors");
    assert_eq!(judged(&example(r#","spec":{"size":1},"status":{"any":1}"#), described), "error status-descriptors");
    assert_eq!(judged("no list", described), "");
}

#[test]
fn schemas_are_structural_and_examples_match_them() {
    let judged = |crd: &str, example: &str| {
        let csv = good().replacen("    capabilities:", &format!("    alm-examples: '{example}'\n    capabilities:"), 1);
        let directory = bundle(&csv).manifest("crd.yaml", crd);
        let whole = read_whole(directory.path(), &Limits::default()).unwrap();
        let found = run_validators(&CheckInput::new(&whole, (1, 1)), &["schemas"]);
        found.list.iter().map(|finding| format!("{} {}", finding.id, finding.message)).collect::<Vec<_>>().join("\n")
    };
    let example = |size: &str| {
        format!(
            r#"[{{"apiVersion":"example.com/v1","kind":"Foo","metadata":{{"name":"a"}},"spec":{{"size":{size}}}}}]"#
        )
    };
    assert_eq!(judged(CRD, &example("1")), "");
    insta::assert_snapshot!(judged(CRD, &example("true")), @r#"example-fits-schema example Foo "a" does not match its schema: spec.size: boolean instead of integer"#);
    insta::assert_snapshot!(judged(&CRD.replace("size: {type: integer}", "size: {}"), &example("1")), @"crd-structural foos.example.com v1: spec.size: the type is missing");
    insta::assert_snapshot!(judged(&CRD.replace("schema: {", "other: {"), &example("1")), @"crd-structural foos.example.com v1 has no schema, which apiextensions.k8s.io/v1 requires");
}

#[test]
fn openshift_versions_must_include_the_required_kubernetes_version() {
    let judged = |least: &str, versions: &str| {
        let csv = good().replacen("  version: 1.2.3\n", &format!("  version: 1.2.3\n  minKubeVersion: {least}\n"), 1);
        let annotations = format!("{ANNOTATIONS}  com.redhat.openshift.versions: '{versions}'\n");
        let directory = bundle(&csv).metadata("annotations.yaml", annotations);
        let whole = read_whole(directory.path(), &Limits::default()).unwrap();
        let found = run_validators(&CheckInput::new(&whole, (1, 1)), &["openshift-versions"]);
        found.list.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(judged("1.25.0", "v4.12-v4.16"), "");
    assert_eq!(judged("1.25.0", "=v4.12"), "");
    assert_eq!(judged("1.17.0", "v4.5,v4.6"), "");
    insta::assert_snapshot!(judged("1.25.0", "v4.11"), @"minKubeVersion 1.25.0 is newer than OpenShift 4.11, which is Kubernetes 1.24");
    insta::assert_snapshot!(judged("1.25.0", "v4.12,v4.13"), @r#"com.redhat.openshift.versions is "v4.12,v4.13": the only list with a comma is v4.5,v4.6; use a range"#);
    insta::assert_snapshot!(judged("1.25.0", "four"), @r#"com.redhat.openshift.versions "four" is not a range such as v4.12-v4.16"#);
}

#[test]
fn images_must_support_the_platforms_in_labels() {
    const AFFINITY: &str = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}, {key: kubernetes.io/arch, operator: In, values: [ARCHS]}]}]}}}, containers: [";
    let judged = |labels: &str, archs: &str, platforms: &PlatformsOf<'_>, tool: Option<&str>| {
        let csv = good().replacen("metadata:\n", &format!("metadata:\n  labels: {{{labels}}}\n"), 1).replacen(
            "containers: [",
            &AFFINITY.replace("ARCHS", archs),
            1,
        );
        let directory = bundle(&csv);
        let whole = read_whole(directory.path(), &Limits::default()).unwrap();
        let input = CheckInput { platforms: Some(platforms), container_tool: tool, ..CheckInput::new(&whole, (1, 1)) };
        let found = run_validators(&input, &["multiarch"]);
        found.list.iter().map(|finding| format!("{}\n", finding.message.replace(DIGEST, "IMAGE"))).collect::<String>()
    };
    let of = |archs: &'static [&'static str]| {
        move |_: &str| Ok(archs.iter().map(|arch| ("linux".to_owned(), (*arch).to_owned())).collect::<Vec<_>>())
    };
    let both = "operatorframework.io/arch.amd64: supported, operatorframework.io/arch.arm64: supported";
    assert_eq!(judged("", "amd64", &of(&["amd64", "unknown"]), None), "");
    assert_eq!(judged(both, "amd64, arm64", &of(&["amd64", "arm64"]), Some("podman")), "");
    insta::assert_snapshot!(judged(both, "amd64, arm64", &of(&["amd64"]), None), @r#"
    Error: Value foo.v1.2.3: not all images specified are providing the support described via the CSV labels. Note that (OS.architecture): (linux.arm64) was not found for the image(s) [IMAGE]
    Warning: Value foo.v1.2.3: check if the image IMAGE should not support ["arm64"]. Note that this CSV has labels for this Arch(s)
    Warning: Value foo.v1.2.3: the CSV includes [linux.arm64] in the node affinity configuration for the image: "IMAGE", which the image does not support
    "#);
    // A label for arm64 does not cover arm.
    insta::assert_snapshot!(judged(both, "amd64, arm64", &of(&["amd64", "arm64", "arm"]), None), @r#"
    Warning: Value foo.v1.2.3: check if the CSV is missing the label (operatorframework.io/arch.<value>) for the Arch(s): ["arm"]. Be aware that your Operator manager image provides this support
    Warning: Value foo.v1.2.3: the image data indicates [linux.arm] is supported for the image: "IMAGE", and the node affinity does not name it
    "#);
    let away = |_: &str| Err(crate::PlatformsError::new(std::io::Error::other("no route")));
    insta::assert_snapshot!(judged("", "amd64", &away, None), @"Warning: Value foo.v1.2.3: unable to inspect the image (IMAGE) : no route");
    insta::assert_snapshot!(judged("", "amd64", &away, Some("rkt")), @"Error: Value foo.v1.2.3: invalid value (container-tools) for (rkt). One of: [docker, podman, none] is expected");
}
