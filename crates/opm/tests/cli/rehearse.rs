use crate::env::TestEnv;

const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: foo.vVERSION}
spec:
  version: VERSION
  installModes: [{type: AllNamespaces, supported: ALL}, {type: OwnNamespace, supported: true}]
  install:
    strategy: deployment
    spec:
      clusterPermissions:
      - {serviceAccountName: foo, rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}
      deployments:
      - name: foo
        spec:
          selector: {matchLabels: {app: foo}}
          template:
            metadata: {labels: {app: foo}}
            spec:
              serviceAccountName: foo
              containers: [{name: manager, image: example.com/foo:VERSION, imagePolicy: Always}]
";

fn bundle(env: &TestEnv, name: &str, version: &str, all: bool) {
    let csv = CSV.replace("VERSION", version).replace("ALL", &all.to_string());
    env.file(&format!("{name}/manifests/csv.yaml"), csv);
    env.file(
        &format!("{name}/metadata/annotations.yaml"),
        "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n  operators.operatorframework.io.bundle.channels.v1: stable\n",
    );
}

#[test]
fn objects_are_listed_with_the_differences_of_the_other_olm() {
    let env = TestEnv::new();
    bundle(&env, "new", "1.1.0", true);
    bundle(&env, "old", "1.0.0", true);
    insta::assert_snapshot!(env.opm(&["rehearse", "new", "--from", "old"]), @"
    exit 0
    --- stdout
    OLM v1 (1.11, helm) installs foo.v1.1.0 in namespace foo-system, watching all namespaces

    #  KIND                NAME                                                         BYTES  NOTE
    1  ServiceAccount      foo-system/foo                                               206
    2  ClusterRole         foo.v1.1.0-foo-2bi22284kbio8nvaxyhmhsfoth9thiss4bix4ntcvqff  326
    3  ClusterRoleBinding  foo.v1.1.0-foo-2bi22284kbio8nvaxyhmhsfoth9thiss4bix4ntcvqff  485
    4  Deployment          foo-system/foo                                               553

    warning: /spec/install/spec/deployments/0/spec/template/spec/containers/0/imagePolicy is unknown to Kubernetes and will be dropped (new/manifests/csv.yaml:20) [rehearse-unknown-field]

    The upgrade:
      deletes ClusterRole foo.v1.0.0-foo-2bi22284kbio8nvaxyhmhsfoth9thiss4bix4ntcvqff
      deletes ClusterRoleBinding foo.v1.0.0-foo-2bi22284kbio8nvaxyhmhsfoth9thiss4bix4ntcvqff
      restarts Deployment foo-system/foo: /spec/template/spec/containers/0/image
      creates ClusterRole foo.v1.1.0-foo-2bi22284kbio8nvaxyhmhsfoth9thiss4bix4ntcvqff
      creates ClusterRoleBinding foo.v1.1.0-foo-2bi22284kbio8nvaxyhmhsfoth9thiss4bix4ntcvqff

    OLM v0 differs:
      also makes ClusterServiceVersion foo-system/foo.v1.1.0
      also makes OperatorCondition foo-system/foo.v1.1.0
      also makes Role foo-system/foo.v1.1.0
      also makes RoleBinding foo-system/foo.v1.1.0
    --- stderr
    ");
}

#[test]
fn a_refusal_has_the_message_of_the_cluster() {
    let env = TestEnv::new();
    bundle(&env, "own", "1.0.0", false);
    insta::assert_snapshot!(env.opm(&["rehearse", "own"]), @r#"
    exit 1
    --- stdout
    OLM v1 (1.11, helm) refuses foo.v1.0.0

    error: error for resolved bundle "foo.v1.0.0" with version "1.0.0": unsupported bundle: bundle does not support AllNamespaces install mode (own/manifests/csv.yaml:6) [olmv1-all-namespaces]
    warning: /spec/install/spec/deployments/0/spec/template/spec/containers/0/imagePolicy is unknown to Kubernetes and will be dropped (own/manifests/csv.yaml:20) [rehearse-unknown-field]

    OLM v0 differs:
      installs the bundle
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["rehearse", "own", "-o", "yaml"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: OLM v1 (1.11, helm) refuses: error for resolved bundle "foo.v1.0.0" with version "1.0.0": unsupported bundle: bundle does not support AllNamespaces install mode
    "#);
    insta::assert_snapshot!(env.opm(&["rehearse", "own", "-o", "github"]), @r#"
    exit 1
    --- stdout
    ::error file=own/manifests/csv.yaml,line=6,col=17,title=olmv1-all-namespaces::error for resolved bundle "foo.v1.0.0" with version "1.0.0": unsupported bundle: bundle does not support AllNamespaces install mode
    ::warning file=own/manifests/csv.yaml,line=20,col=87,title=rehearse-unknown-field::/spec/install/spec/deployments/0/spec/template/spec/containers/0/imagePolicy is unknown to Kubernetes and will be dropped
    --- stderr
    "#);
    let gate = ["--gate", "SingleOwnNamespaceInstallSupport"];
    insta::assert_snapshot!(env.opm(&["rehearse", "own", gate[0], gate[1]]), @r#"
    exit 1
    --- stdout
    OLM v1 (1.11, helm) refuses foo.v1.0.0

    error: error for resolved bundle "foo.v1.0.0" with version "1.0.0": invalid ClusterExtension configuration: invalid configuration: required field "watchNamespace" is missing (own/manifests/csv.yaml:1) [olmv1-config]
    warning: /spec/install/spec/deployments/0/spec/template/spec/containers/0/imagePolicy is unknown to Kubernetes and will be dropped (own/manifests/csv.yaml:20) [rehearse-unknown-field]

    OLM v0 differs:
      installs the bundle
    --- stderr
    "#);
    let watched =
        env.stdout(&["rehearse", "own", gate[0], gate[1], "-n", "here", "--set", "watchNamespace=here", "-o", "yaml"]);
    assert!(watched.contains("olm.targetNamespaces: here\n"), "{watched}");
}

#[test]
fn objects_are_written_to_files_in_order() {
    let env = TestEnv::new();
    bundle(&env, "new", "1.1.0", true);
    insta::assert_snapshot!(env.opm(&["rehearse", "new", "--output-dir", "out"]), @"
    exit 0
    --- stdout
    --- stderr
    wrote 4 objects to out
    ");
    insta::assert_snapshot!(env.names("out").join("\n"), @"
    001-serviceaccount-foo.yaml
    002-clusterrole-foo.v1.1.0-foo-2bi22284kbio8nvaxyhmhsfoth9thiss4bix4ntcvqff.yaml
    003-clusterrolebinding-foo.v1.1.0-foo-2bi22284kbio8nvaxyhmhsfoth9thiss4bix4ntcvqff.yaml
    004-deployment-foo.yaml
    ");
    insta::assert_snapshot!(env.read("out/001-serviceaccount-foo.yaml"), @"
    apiVersion: v1
    kind: ServiceAccount
    metadata:
      labels:
        olm.operatorframework.io/owner-kind: ClusterExtension
        olm.operatorframework.io/owner-name: foo
      name: foo
      namespace: foo-system
    ");
    // Existing files are not overwritten.
    insta::assert_snapshot!(env.opm(&["rehearse", "new", "--output-dir", "out"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: output dir "out" must be empty
    "#);
    let refused = env.opm(&["rehearse", "new", "--certificates", "nobody"]);
    assert!(refused.contains("possible values: cert-manager, openshift, none"), "{refused}");
}

#[test]
fn an_installer_gets_a_minimal_role() {
    let env = TestEnv::new();
    bundle(&env, "new", "1.1.0", true);
    let short = env.stdout(&["rehearse", "new", "--installer=short"]);
    assert!(short.contains("  - bind\n  - escalate\n"), "{short}");
    let every = env.stdout(&["rehearse", "new", "--installer"]);
    assert!(!every.contains("escalate") && every.contains("  - pods\n"), "{every}");
    insta::assert_snapshot!(env.opm(&["rehearse", "new", "--olm", "v0", "--installer"]), @"
    exit 2
    --- stdout
    --- stderr
    error: --installer requires OLM v1: OLM v0 installs with its own permissions
    ");
}

#[test]
fn json_has_objects_findings_and_differences() {
    let env = TestEnv::new();
    bundle(&env, "new", "1.1.0", true);
    let json: serde_json::Value = serde_json::from_str(&env.stdout(&["rehearse", "new", "-o", "json"])).unwrap();
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    insta::assert_snapshot!(format!("{keys:?}"), @r#"["olm", "bundle", "package", "namespace", "targets", "installable", "refusal", "objects", "upgrade", "other", "findings", "counts"]"#);
    assert_eq!(json["installable"], true);
    assert_eq!(json["objects"][0]["object"]["kind"], "ServiceAccount");
    assert_eq!(json["findings"][0]["id"], "rehearse-unknown-field");
    assert_eq!(json["findings"][0]["line"], 20);
}

#[test]
fn missing_sources_are_reported() {
    let env = TestEnv::new();
    for command in [&["rehearse", "nowhere"][..], &["security", "nowhere"], &["check-upgrades", "nowhere", "."]] {
        let shown = env.opm(command);
        assert!(
            shown.starts_with("exit 1\n--- stdout\n--- stderr\nerror: \"nowhere\": the path does not exist"),
            "{shown}"
        );
    }
}

/// Sets the suggested namespace of a bundle.
fn suggest(env: &TestEnv, name: &str, namespace: &str) {
    let path = format!("{name}/manifests/csv.yaml");
    let annotation = format!("annotations: {{operatorframework.io/suggested-namespace: {namespace}}}, name: foo");
    env.file(&path, env.read(&path).replace("metadata: {name: foo.v", &format!("metadata: {{{annotation}.v")));
}

#[test]
fn a_namespace_is_a_dns_label() {
    let env = TestEnv::new();
    for (namespace, fault) in [
        ("Bad_Name".to_owned(), "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"),
        ("n".repeat(70), "must be no more than 63 characters"),
    ] {
        bundle(&env, "new", "1.1.0", true);
        suggest(&env, "new", &namespace);
        for olm in ["v0", "v1"] {
            let shown = env.opm(&["rehearse", "new", "--olm", olm]);
            let message =
                format!("error: Namespace \"{namespace}\" is invalid: metadata.name: Invalid value: \"{namespace}\": ");
            assert!(shown.starts_with("exit 1") && shown.contains(&message) && shown.contains(fault), "{shown}");
            assert!(shown.contains("[namespace-name]"), "{shown}");
            assert!(env.opm(&["rehearse", "new", "--olm", olm, "-n", "good"]).starts_with("exit 0"));
        }
    }
    bundle(&env, "new", "1.1.0", true);
    suggest(&env, "new", &"n".repeat(63));
    assert!(env.opm(&["rehearse", "new"]).starts_with("exit 0"));
}

#[test]
fn an_upgrade_stays_in_the_namespace_of_the_installed_version() {
    let env = TestEnv::new();
    bundle(&env, "old", "1.0.0", true);
    bundle(&env, "new", "1.1.0", true);
    suggest(&env, "new", "elsewhere");
    let shown = env.opm(&["rehearse", "new", "--from", "old"]);
    assert!(shown.starts_with("exit 0") && shown.contains("installs foo.v1.1.0 in namespace foo-system"), "{shown}");
    assert!(
        shown.contains(
            "info: the upgrade stays in namespace foo-system, not in elsewhere: spec.namespace of a ClusterExtension is \
             immutable [namespace-kept]"
        ),
        "{shown}"
    );
    assert!(shown.contains("restarts Deployment foo-system/foo"), "{shown}");
    assert!(!shown.contains("deletes Deployment") && !shown.contains("creates Deployment"), "{shown}");
    let chosen = env.opm(&["rehearse", "new", "--from", "old", "-n", "chosen"]);
    assert!(chosen.contains("in namespace chosen") && !chosen.contains("namespace-kept"), "{chosen}");
}

#[test]
fn metadata_decides_what_it_can_about_bundles_without_objects() {
    let env = TestEnv::new();
    let mut text = String::new();
    for (package, all, more) in [
        ("fits", "true", ""),
        ("needs", "true", "- {type: olm.package.required, value: {packageName: x, versionRange: '>=1.0.0'}}"),
        ("own", "false", ""),
    ] {
        text += &format!(
            "---\nschema: olm.package\nname: {package}\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: \
             {package}\nname: stable\nentries: [{{name: {package}.v1.0.0}}]\n---\nschema: olm.bundle\nname: \
             {package}.v1.0.0\npackage: {package}\nimage: example.com/{package}:1\nproperties:\n- {{type: olm.package, \
             value: {{packageName: {package}, version: 1.0.0}}}}\n- type: olm.csv.metadata\n  value: {{installModes: \
             [{{type: AllNamespaces, supported: {all}}}, {{type: OwnNamespace, supported: true}}]}}\n{more}\n"
        );
    }
    env.file("catalog/catalog.yaml", text);
    insta::assert_snapshot!(env.opm(&["rehearse", "catalog", "--all", "--no-pull"]), @r#"
    exit 0
    --- stdout
    PACKAGE  BUNDLE        V0  V1  WHY NOT
    fits     fits.v1.0.0   ?   ?
    needs    needs.v1.0.0  ?   no  validating bundle "needs.v1.0.0": bundle "needs.v1.0.0" has a dependency declared via property "olm.package.required" which is currently not supported
    own      own.v1.0.0    ?   no  error for resolved bundle "own.v1.0.0" with version "1.0.0": unsupported bundle: bundle does not support AllNamespaces install mode

    OLM v0 installs 0 and refuses 0 of 3 bundles; 3 need their images
    OLM v1 installs 0 and refuses 2 of 3 bundles; 1 need their images
    --- stderr
    "#);
    let json = env.stdout(&["rehearse", "catalog", "--all", "--no-pull", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json[0]["v1"]["installs"], &json[2]["v1"]["installs"]), (&serde_json::Value::Null, &false.into()));
}

#[test]
fn olm_v0_makes_roles_for_users_of_owned_versions_only() {
    let env = TestEnv::new();
    bundle(&env, "new", "1.1.0", true);
    env.file(
        "new/manifests/crd.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: foos.example.com}\nspec: {group: example.com, scope: Namespaced, names: {kind: Foo, plural: foos}, versions: [{name: v1, served: true, storage: true}, {name: v1beta1, served: true, storage: false}]}\n",
    );
    let csv = env.read("new/manifests/csv.yaml");
    let owned =
        "spec:\n  customresourcedefinitions: {owned: [{name: foos.example.com, version: v1, kind: Foo}]}\n  version:";
    env.file("new/manifests/csv.yaml", csv.replace("spec:\n  version:", owned));
    let shown = env.stdout(&["rehearse", "new", "--olm", "v0"]);
    for end in ["admin", "edit", "view", "crdview"] {
        assert!(shown.contains(&format!("foos.example.com-v1-{end}")), "{shown}");
        assert!(!shown.contains(&format!("foos.example.com-v1beta1-{end}")), "{shown}");
    }
}
