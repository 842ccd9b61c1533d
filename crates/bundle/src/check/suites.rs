//! Checks that are asked for by name or suite.

use super::{Findings, author, certified, community, good_practices, hub, objects, removed_apis, whole_bundle};
use crate::whole::{Object, Whole};

/// What is judged, and what is known beside it.
pub struct Given<'a> {
    /// The bundle.
    pub whole: &'a Whole,
    /// The version of Kubernetes that the bundle is for, as written.
    pub kubernetes: Option<&'a str>,
    /// The bytes of all files, and of all files as OLM v0 packs them: compressed, in base64.
    pub size: (u64, u64),
    /// The Dockerfile of the bundle's index, if it was given: its path, and its text if it can be read.
    pub index: Option<(&'a str, Result<String, String>)>,
}

impl Given<'_> {
    /// Returns the CSV that the existing tools look at: the first.
    pub(super) fn csv(&self) -> Option<&Object> {
        self.whole.of_kind("ClusterServiceVersion").next()
    }
}

/// A check that can be asked for.
pub struct Validator {
    /// Its name.
    pub name: &'static str,
    /// The suites that it is part of.
    pub suites: &'static [&'static str],
    /// Whether operator-sdk knows it, under this name.
    pub optional: bool,
    /// What it asks.
    pub about: &'static str,
    run: fn(&Given<'_>, &mut Findings),
}

/// All of them.
pub const VALIDATORS: &[Validator] = &[
    Validator {
        name: "bundle",
        suites: &["olm-v0", "community", "certified"],
        optional: false,
        about: "owned CRDs, names with a release, accounts, the size of the bundle, related images",
        run: whole_bundle::check,
    },
    Validator {
        name: "operatorhubv2",
        suites: &["operatorframework", "community", "certified"],
        optional: true,
        about: "what operatorhub.io asks of a CSV",
        run: |given, findings| on_csv(given, findings, hub::check_common),
    },
    Validator {
        name: "capabilities",
        suites: &["operatorframework", "community", "certified"],
        optional: true,
        about: "the annotation capabilities",
        run: |given, findings| on_csv(given, findings, hub::check_capabilities),
    },
    Validator {
        name: "categories",
        suites: &["operatorframework", "community", "certified"],
        optional: true,
        about: "the annotation categories",
        run: |given, findings| on_csv(given, findings, hub::check_categories),
    },
    Validator {
        name: "operatorhub",
        suites: &[],
        optional: true,
        about: "operatorhubv2, capabilities and categories together; deprecated",
        run: |given, findings| on_csv(given, findings, hub::check),
    },
    Validator {
        name: "community",
        suites: &["community"],
        optional: true,
        about: "the OpenShift versions of bundles that use APIs removed in Kubernetes 1.22; deprecated",
        run: community::check,
    },
    Validator {
        name: "alpha-deprecated-apis",
        suites: &["operatorframework", "community", "certified"],
        optional: true,
        about: "APIs that versions of Kubernetes do not have any more",
        run: removed_apis::check,
    },
    Validator {
        name: "good-practices",
        suites: &["operatorframework", "community"],
        optional: true,
        about: "resource requests, channel names, descriptions, names of versions, rights to make CRDs",
        run: good_practices::check,
    },
    Validator {
        name: "bundle-objects",
        suites: &["certified"],
        optional: false,
        about: "objects that harm the stability of a cluster",
        run: |given, findings| {
            for object in &given.whole.objects {
                findings.look_at_object(object);
                objects::check(&object.value, findings);
            }
        },
    },
    Validator {
        name: "required-fields",
        suites: &["community"],
        optional: false,
        about: "the fields that the community's pipeline asks for",
        run: community::check_fields,
    },
    Validator {
        name: "certification",
        suites: &["certified"],
        optional: false,
        about: "feature annotations, related images, restricted networks, security context constraints",
        run: certified::check,
    },
    Validator {
        name: "author",
        suites: &["olm-v0", "olm-v1", "community", "certified"],
        optional: false,
        about: "accounts that nobody makes, fixed namespaces, conditions, ignored namespaces, images by tag",
        run: author::check,
    },
];

/// Runs the named validators, in the order of the table.
pub fn check_more(given: &Given<'_>, names: &[&str]) -> Findings {
    let mut findings = Findings::default();
    for validator in VALIDATORS.iter().filter(|validator| names.contains(&validator.name)) {
        findings.look_at("");
        (validator.run)(given, &mut findings);
    }
    findings
}

fn on_csv(given: &Given<'_>, findings: &mut Findings, check: fn(&serde_json::Value, &mut Findings)) {
    if let Some(csv) = given.csv() {
        findings.look_at_object(csv);
        check(&csv.value, findings);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fbc::Limits;
    use testkit::BundleDir;

    use super::*;
    use crate::whole::read_whole;

    const DIGEST: &str = "quay.io/me/foo@sha256:0123456789012345678901234567890123456789012345678901234567890123";

    /// A bundle that no check has anything against.
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
  customresourcedefinitions: {{owned: [{{name: foos.example.com, version: v1, kind: Foo, description: a foo}}]}}
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
        let given = Given { whole: &whole, kubernetes, size, index: None };
        let names: Vec<&str> = VALIDATORS.iter().map(|validator| validator.name).collect();
        check_more(&given, &names).list.into_iter().map(|finding| finding.id).collect()
    }

    fn ids(directory: &BundleDir) -> BTreeSet<&'static str> {
        ids_of(directory, None, (10, 10))
    }

    #[test]
    fn nothing_is_said_against_a_good_bundle() {
        assert_eq!(ids(&bundle(&good())), BTreeSet::new());
    }

    #[test]
    fn each_rule_has_a_csv_that_trips_it() {
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
    fn each_rule_has_an_object_that_trips_it() {
        let table = [
            ("bundle-account", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: foo}\n"),
            (
                "object-pdb",
                "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\nspec: {maxUnavailable: 0}\n",
            ),
            (
                "object-priority-class",
                "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: a}\nglobalDefault: true\n",
            ),
            (
                "object-pdb-rights",
                "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\nrules: [{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [create]}]\n",
            ),
            ("removed-api", "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a}\n"),
            ("several-documents", "kind: ConfigMap\nmetadata: {name: a}\n---\nkind: ConfigMap\nmetadata: {name: b}\n"),
            (
                "rbac-fixed-namespace",
                "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: a}\nsubjects: [{kind: ServiceAccount, name: foo, namespace: here}]\n",
            ),
            (
                "bundle-duplicate-crd",
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: foos.example.com}\nspec: {group: example.com, names: {kind: Foo, plural: foos}, versions: [{name: v1}]}\n",
            ),
            (
                "community-max-openshift",
                "apiVersion: rbac.authorization.k8s.io/v1beta1\nkind: Role\nmetadata: {name: a}\n",
            ),
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
    fn removed_apis_are_errors_where_they_are_removed() {
        let beta = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a}\n";
        let directory = bundle(&good()).manifest("z.yaml", beta);
        let judged = |kubernetes| {
            let whole = read_whole(directory.path(), &Limits::default()).unwrap();
            let given = Given { whole: &whole, kubernetes, size: (1, 1), index: None };
            let found = check_more(&given, &["alpha-deprecated-apis"]);
            found.list.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(judged(None), @r#"Warning: Value foo.v1.2.3: this bundle is using APIs which were deprecated and removed in v1.25. More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-25. Migrate the API(s) for PodDisruptionBudget: (["a"])"#);
        assert!(judged(Some("1.24")).starts_with("Warning"));
        assert!(judged(Some("1.25")).starts_with("Error"));
        insta::assert_snapshot!(judged(Some("new")), @"Error: Value foo.v1.2.3: invalid value informed via the k8s key option : new");
    }

    #[test]
    fn sizes_near_and_over_the_limit_are_told() {
        let directory = bundle(&good());
        let whole = read_whole(directory.path(), &Limits::default()).unwrap();
        let judged = |size| {
            let given = Given { whole: &whole, kubernetes: None, size, index: None };
            check_more(&given, &["bundle"]).list.first().map(|finding| finding.message.clone()).unwrap_or_default()
        };
        assert_eq!(judged((1, 800_000)), "");
        insta::assert_snapshot!(judged((3_000_000, 1_000_000)), @"Warning: : nearing maximum bundle compressed size with gzip: size=~1.0 MB , max=1.0 MB. Bundle uncompressed size is 3.0 MB");
        insta::assert_snapshot!(judged((3_000_000, 2_000_000)), @"Error: : maximum bundle compressed size with gzip size exceeded: size=~2.0 MB , max=1.0 MB. Bundle uncompressed size is 3.0 MB");
        assert_eq!(judged((0, 0)), "Warning: : unable to check the bundle compressed size");
    }
}
