//! Permissions: their severity, and which are new.

use bundle::review::security::{SecurityOptions, review};
use bundle::{Finding, LoadedBundle};
use fbc::Limits;
use testkit::BundleDir;

fn bundle(permissions: &str, modes: &str) -> LoadedBundle {
    let csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {{name: foo.v1}}
spec:
  installModes: [{modes}]
  install: {{spec: {permissions}}}
"
    );
    LoadedBundle::from_directory(BundleDir::new().manifest("csv.yaml", csv).path().to_owned(), None, &Limits::default())
        .unwrap()
}

const ALL: &str = "{type: AllNamespaces, supported: true}";
const OWN: &str = "{type: OwnNamespace, supported: true}";

fn rules(rules: &str) -> LoadedBundle {
    bundle(&format!("{{clusterPermissions: [{{serviceAccountName: a, rules: [{rules}]}}]}}"), ALL)
}

/// Returns names and severities of the findings about permissions.
fn shown(findings: &[Finding]) -> String {
    let about = |finding: &&Finding| !finding.id.starts_with("crd-") && finding.id != "install-mode";
    let mut shown: Vec<String> =
        findings.iter().filter(about).map(|finding| format!("{} {}", finding.id, finding.severity)).collect();
    shown.sort();
    shown.dedup();
    shown.join(", ")
}

fn judged(whole: &LoadedBundle) -> String {
    shown(&review(None, whole, SecurityOptions::default()).unwrap())
}

fn changed(old: &LoadedBundle, new: &LoadedBundle) -> String {
    shown(&review(Some(old), new, SecurityOptions::default()).unwrap())
}

#[test]
fn each_right_falls_under_its_rule() {
    let table = [
        ("['*']", "['*']", "['*']", "rights-admin critical"),
        ("[rbac.authorization.k8s.io]", "[clusterroles]", "[escalate]", "rights-escalate critical"),
        ("[rbac.authorization.k8s.io]", "[roles]", "[bind]", "rights-escalate critical"),
        ("[rbac.authorization.k8s.io]", "[clusterroles]", "['*']", "rights-escalate critical"),
        ("['']", "[users]", "[impersonate]", "rights-escalate critical"),
        ("['']", "[serviceaccounts/token]", "[create]", "rights-escalate critical"),
        ("['']", "[nodes/proxy]", "[get]", "rights-node-proxy critical"),
        ("['']", "[secrets]", "[get]", "rights-secrets high"),
        ("['']", "[secrets]", "[create]", "rights-secrets high"),
        ("[rbac.authorization.k8s.io]", "[rolebindings]", "[create]", "rights-rbac high"),
        ("[rbac.authorization.k8s.io]", "[rolebindings]", "[get]", "rights-read low"),
        ("[apiextensions.k8s.io]", "[customresourcedefinitions]", "[update]", "rights-admission high"),
        ("[admissionregistration.k8s.io]", "[validatingwebhookconfigurations]", "[patch]", "rights-admission high"),
        ("[apiregistration.k8s.io]", "[apiservices]", "[delete]", "rights-admission high"),
        ("['']", "[pods]", "[create]", "rights-workloads high"),
        ("[apps]", "[deployments]", "[patch]", "rights-workloads high"),
        ("[batch]", "[cronjobs]", "[update]", "rights-workloads high"),
        ("['']", "[pods]", "[delete]", "rights-write medium"),
        ("['']", "[pods/exec]", "[create]", "rights-exec high"),
        ("['']", "[pods/ephemeralcontainers]", "[patch]", "rights-exec high"),
        ("['']", "['*']", "[get]", "rights-wildcard high"),
        ("['*']", "[foos]", "[get]", "rights-wildcard high"),
        ("[foo.io]", "[foos]", "['*']", "rights-wildcard high"),
        ("['']", "[nodes]", "[update]", "rights-nodes high"),
        ("['']", "[nodes]", "[list]", "rights-read low"),
        ("[certificates.k8s.io]", "[signers]", "[approve]", "rights-csr high"),
        ("['']", "[persistentvolumes]", "[create]", "rights-volumes high"),
        ("[security.openshift.io]", "[securitycontextconstraints]", "[use]", "rights-scc high"),
        ("['']", "[configmaps]", "[create]", "rights-write medium"),
        ("['']", "[configmaps]", "[get]", "rights-read low"),
        ("['']", "[events]", "[create]", "rights-write low"),
        ("[coordination.k8s.io]", "[leases]", "[create]", "rights-write low"),
        // The APIs of the bundle itself do not count.
        ("[example.com]", "['*']", "['*']", "rights-write low"),
        ("[example.com]", "[foos/status]", "[update]", "rights-write low"),
        ("[example.com]", "[foos]", "[get]", "rights-read low"),
    ];
    for (groups, resources, verbs, expected) in table {
        let whole = rules(&format!("{{apiGroups: {groups}, resources: {resources}, verbs: {verbs}}}"));
        assert_eq!(judged(&whole), expected, "{groups} {resources} {verbs}");
    }
}

#[test]
fn names_and_namespaces_lower_a_severity() {
    let secrets = "apiGroups: [''], resources: [secrets], verbs: [get]";
    assert_eq!(judged(&rules(&format!("{{{secrets}, resourceNames: [x]}}"))), "rights-secrets medium");
    let escalate = "apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [bind], resourceNames: [x]";
    assert_eq!(judged(&rules(&format!("{{{escalate}}}"))), "rights-escalate critical");
    let scoped =
        |modes| bundle(&format!("{{permissions: [{{serviceAccountName: a, rules: [{{{secrets}}}]}}]}}"), modes);
    assert_eq!(judged(&scoped(ALL)), "rights-secrets high");
    assert_eq!(judged(&scoped(OWN)), "rights-secrets medium");
    let namespaces = review(None, &scoped(ALL), SecurityOptions { namespaces: true }).unwrap();
    assert_eq!(shown(&namespaces), "rights-secrets medium");
}

#[test]
fn a_right_is_new_only_if_nothing_covered_it() {
    let rule = |groups: &str, resources: &str, verbs: &str, names: &str| {
        format!("{{apiGroups: {groups}, resources: {resources}, verbs: {verbs}, resourceNames: {names}}}")
    };
    let core = |resources: &str, verbs: &str| rule("['']", resources, verbs, "[]");
    let table = [
        (core("[secrets]", "[get]"), core("[secrets]", "[get]"), ""),
        (core("[secrets]", "['*']"), core("[secrets]", "[get, list]"), "rights-removed info"),
        (core("['*']", "[get]"), core("[secrets]", "[get]"), "rights-removed info"),
        (rule("['*']", "['*']", "['*']", "[]"), rule("[x]", "[y]", "[z]", "[]"), "rights-removed info"),
        (core("[secrets]", "[get]"), core("[secrets]", "[get, list]"), "rights-secrets high"),
        (rule("['']", "[secrets]", "[get]", "[a]"), rule("['']", "[secrets]", "[get]", "[a]"), ""),
        (rule("['']", "[secrets]", "[get]", "[]"), rule("['']", "[secrets]", "[get]", "[a]"), "rights-removed info"),
        (rule("['']", "[secrets]", "[get]", "[a]"), rule("['']", "[secrets]", "[get]", "[]"), "rights-secrets high"),
        (
            rule("['']", "[secrets]", "[get]", "[a]"),
            rule("['']", "[secrets]", "[get]", "[a, b]"),
            "rights-secrets medium",
        ),
        (core("['*/status']", "[get]"), core("[pods/status]", "[get]"), "rights-removed info"),
        (core("[pods]", "[get]"), core("[pods/log]", "[get]"), "rights-read low, rights-removed info"),
        // The same permissions, written differently.
        (core("[a, b]", "[get, list]"), format!("{}, {}", core("[b]", "[list, get]"), core("[a]", "[get, list]")), ""),
        (format!("{}, {}", core("[b]", "[get]"), core("[a]", "[get]")), core("[a, b]", "[get]"), ""),
    ];
    for (old, new, expected) in table {
        assert_eq!(changed(&rules(&old), &rules(&new)), expected, "{old} -> {new}");
    }
}

#[test]
fn rights_that_move_or_widen_are_reported_as_such() {
    let rule = "rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]";
    let of =
        |account: &str| bundle(&format!("{{clusterPermissions: [{{serviceAccountName: {account}, {rule}}}]}}"), ALL);
    assert_eq!(changed(&of("a"), &of("b")), "account-new medium, rights-moved info, rights-removed info");
    let scoped = |field: &str| bundle(&format!("{{{field}: [{{serviceAccountName: a, {rule}}}]}}"), OWN);
    assert_eq!(changed(&scoped("permissions"), &scoped("clusterPermissions")), "scope-wider high");
    assert_eq!(changed(&scoped("clusterPermissions"), &scoped("permissions")), "rights-removed info");
    // The same applies when the operator starts to watch all namespaces.
    let modes = |modes| bundle(&format!("{{permissions: [{{serviceAccountName: a, {rule}}}]}}"), modes);
    assert_eq!(changed(&modes(OWN), &modes(ALL)), "scope-wider high");
}

#[test]
fn bindings_of_the_bundle_are_considered() {
    let csv =
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: foo.v1}\nspec: {}\n";
    let binding = |role: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: b}}\nroleRef: {{kind: ClusterRole, name: {role}}}\nsubjects: [{{kind: ServiceAccount, name: a}}, {{kind: Group, name: system:authenticated}}]\n"
        )
    };
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r, labels: {rbac.authorization.k8s.io/aggregate-to-edit: 'true'}}\nrules: [{apiGroups: [''], resources: [secrets], verbs: [list]}]\n";
    let read = |role_name: &str| {
        let directory =
            BundleDir::new().manifest("csv.yaml", csv).manifest("b.yaml", binding(role_name)).manifest("r.yaml", role);
        LoadedBundle::from_directory(directory.path().to_owned(), None, &Limits::default()).unwrap()
    };
    assert_eq!(judged(&read("r")), "rights-others medium, rights-secrets high");
    assert_eq!(judged(&read("cluster-admin")), "rights-admin critical, rights-others medium");
}

#[test]
fn hostile_rules_are_rejected_quickly_with_a_message() {
    let many: Vec<String> =
        (0..10_000).map(|at| format!("{{apiGroups: [g{at}], resources: [r], verbs: [get]}}")).collect();
    let (whole, other) = (rules(&many.join(",")), rules("{apiGroups: [x], resources: [y], verbs: [z]}"));
    assert!(review(None, &whole, SecurityOptions::default()).is_ok());
    assert!(review(Some(&other), &whole, SecurityOptions::default()).is_ok());
    let list = (0..3000).map(|at| format!("r{at}")).collect::<Vec<_>>().join(",");
    let wide = rules(&format!("{{apiGroups: [{list}], resources: [{list}], verbs: [get]}}"));
    assert_eq!(
        review(None, &wide, SecurityOptions::default()).unwrap_err().to_string(),
        "the bundle gives more rights than can be judged"
    );
}

/// Returns the messages of the findings about permissions and images.
fn messages(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.message.as_str()).collect()
}

#[test]
fn names_restrict_only_the_rights_of_their_own_rule() {
    let both = rules(
        "{apiGroups: [''], resources: [groups], verbs: [impersonate]}, \
         {apiGroups: [''], resources: [users], verbs: [impersonate], resourceNames: [bob]}",
    );
    assert_eq!(
        messages(&review(None, &both, SecurityOptions::default()).unwrap()),
        ["a may impersonate groups in the whole cluster", "a may impersonate users in the whole cluster, only bob",]
    );
}

#[test]
fn a_rule_that_joins_the_names_of_others_is_not_new() {
    let named =
        |names: &str| format!("{{apiGroups: [''], resources: [secrets], verbs: [get], resourceNames: [{names}]}}");
    let apart = rules(&format!("{}, {}", named("a"), named("b")));
    let joined = rules(&named("a, b"));
    assert_eq!((changed(&apart, &joined), changed(&joined, &apart)), (String::new(), String::new()));
    let more = review(Some(&apart), &rules(&named("a, b, c")), SecurityOptions::default()).unwrap();
    assert_eq!(messages(&more), ["a may now get secrets in the whole cluster, only c"]);
    let less = review(Some(&joined), &rules(&named("a")), SecurityOptions::default()).unwrap();
    assert_eq!(messages(&less), ["a may no longer get secrets in the whole cluster, only b"]);
}

#[test]
fn a_digest_that_becomes_a_tag_is_noticed_on_a_registry_with_a_port() {
    let with = |image: &str| {
        let template = format!("{{spec: {{containers: [{{name: m, image: '{image}'}}]}}}}");
        bundle(&format!("{{deployments: [{{name: d, spec: {{template: {template}}}}}]}}"), ALL)
    };
    let digest = format!("@sha256:{}", "0".repeat(64));
    for repository in ["host:5000/x", "example.com/x", "x"] {
        let (old, new) = (with(&format!("{repository}{digest}")), with(&format!("{repository}:v2")));
        let found = review(Some(&old), &new, SecurityOptions::default()).unwrap();
        let unpinned: Vec<&str> = found.iter().filter(|it| it.id == "image-unpinned").map(|it| &*it.message).collect();
        assert_eq!(unpinned, [format!("{repository}:v2 is not named by digest")]);
    }
    // An image of another repository is reported by its repository.
    let found =
        review(Some(&with(&format!("host:5000/other/x{digest}"))), &with("x:v2"), SecurityOptions::default()).unwrap();
    assert!(!found.iter().any(|finding| finding.id == "image-unpinned"));
}
