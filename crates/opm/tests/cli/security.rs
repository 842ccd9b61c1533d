use crate::env::TestEnv;

fn bundle(env: &TestEnv, name: &str, verbs: &str, image: &str) {
    let csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {{name: foo.v1}}
spec:
  version: 1.0.0
  installModes: [{{type: AllNamespaces, supported: true}}]
  install:
    strategy: deployment
    spec:
      clusterPermissions:
      - serviceAccountName: foo
        rules:
        - {{apiGroups: [''], resources: [secrets], verbs: {verbs}}}
      deployments:
      - name: foo
        spec:
          template:
            spec:
              containers: [{{name: manager, image: {image}}}]
"
    );
    env.file(&format!("{name}/manifests/csv.yaml"), csv);
    env.file(
        &format!("{name}/metadata/annotations.yaml"),
        "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n  operators.operatorframework.io.bundle.channels.v1: stable\n",
    );
}

const DIGEST: &str = "quay.io/me/foo@sha256:0123456789012345678901234567890123456789012345678901234567890123";

fn env() -> TestEnv {
    let env = TestEnv::new();
    bundle(&env, "old", "[get]", DIGEST);
    bundle(&env, "new", "[get, list]", "ghcr.io/me/foo:latest");
    env
}

#[test]
fn what_a_bundle_may_do_is_told_worst_first() {
    insta::assert_snapshot!(env().opm(&["security", "new"]), @"
    exit 0
    --- stdout
    high: ServiceAccount foo: foo may get, list secrets in the whole cluster [rights-secrets]
      --> new/manifests/csv.yaml:13:11
    medium: ClusterServiceVersion foo.v1: ghcr.io/me/foo:latest is not named by digest [image-unpinned]
      --> new/manifests/csv.yaml:19:51
    info: Deployment foo: pod security level baseline [pod-security-level]
      --> new/manifests/csv.yaml:19:15
    --- stderr
    ");
}

#[test]
fn what_grew_is_denied_by_severity_or_name() {
    let env = env();
    insta::assert_snapshot!(env.opm(&["security", "old", "new", "--deny", "high"]), @"
    exit 1
    --- stdout
    high: ServiceAccount foo: foo may now list secrets in the whole cluster [rights-secrets]
      --> new/manifests/csv.yaml:13:11
    high: ClusterServiceVersion foo.v1: images come from ghcr.io [image-registry]
      --> new/manifests/csv.yaml:19:51
    medium: ClusterServiceVersion foo.v1: images come from ghcr.io/me/foo [image-repository]
      --> new/manifests/csv.yaml:19:51
    info: ClusterServiceVersion foo.v1: image ghcr.io/me/foo:latest [image-changed]
      --> new/manifests/csv.yaml:19:51
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["security", "old", "new", "--deny", "critical", "-o", "markdown"]), @"
    exit 0
    --- stdout
    | severity | rule | object | what | where |
    |---|---|---|---|---|
    | high | rights-secrets | ServiceAccount foo | foo may now list secrets in the whole cluster | `new/manifests/csv.yaml:13:11` |
    | high | image-registry | ClusterServiceVersion foo.v1 | images come from ghcr.io | `new/manifests/csv.yaml:19:51` |
    | medium | image-repository | ClusterServiceVersion foo.v1 | images come from ghcr.io/me/foo | `new/manifests/csv.yaml:19:51` |
    | info | image-changed | ClusterServiceVersion foo.v1 | image ghcr.io/me/foo:latest | `new/manifests/csv.yaml:19:51` |
    --- stderr
    ");
    let denied = |flags: &[&str]| {
        let mut all = vec!["security", "old", "new"];
        all.extend(flags);
        env.opm(&all).starts_with("exit 1")
    };
    assert!(denied(&["--deny", "image-registry"]));
    assert!(!denied(&["--deny", "crd-breaking"]));
    assert!(!denied(&["--deny", "rights-secrets", "--allow", "rights-secrets:foo"]));
    assert!(denied(&["--deny", "rights-secrets", "--allow", "rights-secrets:other"]));
    assert!(env.opm(&["security", "old", "--deny", "nonsense"]).contains("nothing is called nonsense"));
}

#[test]
fn what_is_accepted_is_left_out() {
    let env = env();
    env.stdout(&["security", "new", "--write-baseline", "accepted.json"]);
    insta::assert_snapshot!(env.opm(&["security", "new", "--deny", "low", "--baseline", "accepted.json"]), @"
    exit 0
    --- stdout
    --- stderr
    ");
    env.file("wrong.json", "{}");
    insta::assert_snapshot!(env.opm(&["security", "new", "--baseline", "wrong.json"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: wrong.json: no list "accepted" in it
    "#);
}

#[test]
fn programs_get_json_and_sarif() {
    let env = env();
    let json: serde_json::Value = serde_json::from_str(&env.stdout(&["security", "new", "-o", "json"])).unwrap();
    insta::assert_snapshot!(json["findings"][0].as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" "), @"id severity message help bundle object file line column pointer");
    assert_eq!(json["passed"], true);
    assert_eq!(json["counts"]["high"], 1);
    let sarif: serde_json::Value = serde_json::from_str(&env.stdout(&["security", "new", "-o", "sarif"])).unwrap();
    let run = &sarif["runs"][0];
    assert_eq!(run["results"][0]["ruleId"], "rights-secrets");
    assert_eq!(
        run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
        "new/manifests/csv.yaml"
    );
    assert_eq!(run["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"], 13);
    let rule = run["results"][0]["ruleIndex"].as_u64().unwrap() as usize;
    assert_eq!(run["tool"]["driver"]["rules"][rule]["properties"]["security-severity"], "8.0");
}

#[test]
fn crds_are_compared_with_two_verdicts() {
    let env = TestEnv::new();
    let crd = |schema: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: foos.example.com}}\nspec: {{scope: Namespaced, versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {schema}}}}}]}}\n"
        )
    };
    env.file("old.yaml", crd("{properties: {a: {pattern: x}, b: {type: string}}}"));
    env.file("new.yaml", crd("{properties: {a: {}, b: {type: string}, c: {}}}"));
    env.file("worse.yaml", crd("{properties: {a: {pattern: x}}}"));
    insta::assert_snapshot!(env.opm(&["crd-diff", "old.yaml", "new.yaml"]), @r#"
    exit 1
    --- stdout
    error: CustomResourceDefinition foos.example.com: v1: ^.a: pattern: pattern removed : "x" -> "" (OLM v1 refuses the upgrade; the change harms nobody) [crd-upgrade-pattern]
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["crd-diff", "old.yaml", "new.yaml", "--crd-rules", "meaning"]), @r#"
    exit 0
    --- stdout
    info: CustomResourceDefinition foos.example.com: v1: ^.a: pattern: pattern removed : "x" -> "" (OLM v1 refuses the upgrade; the change harms nobody) [crd-upgrade-pattern]
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["crd-diff", "old.yaml", "worse.yaml", "--crd-rules", "meaning", "-o", "json"]), @r#"
    exit 1
    --- stdout
    {
      "passed": false,
      "changes": [
        {
          "id": "crd-upgrade-field-removed",
          "crd": "foos.example.com",
          "version": "",
          "path": "",
          "rule": "existingFieldRemoval",
          "message": "crd/foos.example.com version/v1 field/^.b may not be removed",
          "blocks": true,
          "olmSays": "validating upgrade for CRD \"foos.example.com\": existingFieldRemoval: crd/foos.example.com version/v1 field/^.b may not be removed",
          "meaning": "error"
        }
      ]
    }
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["crd-diff", "old.yaml", "old.yaml"]), @"
    exit 0
    --- stdout
    --- stderr
    ");
    env.file("none.yaml", "kind: ConfigMap\n");
    insta::assert_snapshot!(env.opm(&["crd-diff", "old.yaml", "none.yaml"]), @"
    exit 1
    --- stdout
    --- stderr
    error: none.yaml: no CustomResourceDefinition in it
    ");
}
