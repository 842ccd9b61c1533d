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
fn permissions_are_reported_by_severity() {
    insta::assert_snapshot!(env().opm(&["security", "new"]), @"
    exit 0
    --- stdout
    high: ServiceAccount foo: foo may get, list secrets in the whole cluster [rights-secrets]
      --> new/manifests/csv.yaml:13:11
    medium: ClusterServiceVersion foo.v1: ghcr.io/me/foo:latest is not named by digest [image-unpinned]
      --> new/manifests/csv.yaml:19:51
    info: Deployment foo: pod security level baseline: no runAsNonRoot in container manager [pod-security-level]
      --> new/manifests/csv.yaml:19:15
    --- stderr
    ");
}

#[test]
fn new_permissions_are_denied_by_severity_or_name() {
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
    assert!(env.opm(&["security", "old", "--deny", "nonsense"]).contains("unknown finding nonsense"));
}

#[test]
fn accepted_findings_are_omitted() {
    let env = env();
    env.stdout(&["security", "new", "--write-baseline", "accepted.json"]);
    insta::assert_snapshot!(env.opm(&["security", "new", "--deny", "low", "--baseline", "accepted.json"]), @"
    exit 0
    --- stdout
    --- stderr
    ");
    env.file("wrong.json", "{}");
    insta::assert_snapshot!(env.opm(&["security", "new", "--baseline", "wrong.json"]), @"
    exit 2
    --- stdout
    --- stderr
    error: wrong.json: missing field `accepted` at line 1 column 2
    ");
    for (text, why) in [
        ("{\"accepted\": [], \"acepted\": []}", "unknown field `acepted`, expected `accepted`"),
        ("{\"accepted\": [1]}", "invalid type: integer `1`, expected a string"),
    ] {
        env.file("wrong.json", text);
        let shown = env.opm(&["security", "new", "--baseline", "wrong.json"]);
        assert!(shown.starts_with("exit 2") && shown.contains(&format!("error: wrong.json: {why}")), "{shown}");
    }
}

#[test]
fn findings_are_available_as_json_and_sarif() {
    let env = env();
    let json: serde_json::Value = serde_json::from_str(&env.stdout(&["security", "new", "-o", "json"])).unwrap();
    insta::assert_snapshot!(json["findings"][0].as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" "), @"id severity message help suites rejectedBy bundle object file line column pointer");
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
      help: add another version of the API instead of changing this one, or set enforcement: None for one upgrade
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["crd-diff", "old.yaml", "new.yaml", "--crd-rules", "meaning"]), @r#"
    exit 0
    --- stdout
    info: CustomResourceDefinition foos.example.com: v1: ^.a: pattern: pattern removed : "x" -> "" (OLM v1 refuses the upgrade; the change harms nobody) [crd-upgrade-pattern]
      help: add another version of the API instead of changing this one, or set enforcement: None for one upgrade
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
    error: none.yaml: contains no CustomResourceDefinition
    ");
}

/// Writes a catalog with the objects of its bundles, one for each of `versions` with its verbs.
fn catalog(env: &TestEnv, name: &str, versions: &[(&str, &str)]) {
    let mut text = String::from("---\nschema: olm.package\nname: foo\ndefaultChannel: stable\n");
    text += "---\nschema: olm.channel\npackage: foo\nname: stable\nentries:\n";
    for (at, (version, _)) in versions.iter().enumerate() {
        text += &format!("- name: foo.v{version}\n");
        if at > 0 {
            text += &format!("  replaces: foo.v{}\n", versions[at - 1].0);
        }
    }
    for (version, verbs) in versions {
        let folder = format!("made/{name}-{version}");
        bundle(env, &folder, verbs, DIGEST);
        let csv = format!("{folder}/manifests/csv.yaml");
        let written = env.read(&csv).replace("foo.v1}", &format!("foo.v{version}}}"));
        env.file(&csv, written.replace("version: 1.0.0", &format!("version: {version}")));
        let crd = format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: foos.example.com}}\nspec: {{group: example.com, scope: Namespaced, names: {{kind: Foo, plural: foos}}, versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object, properties: {{v{}: {{type: string}}}}}}}}}}]}}\n",
            version.replace('.', "")
        );
        env.file(&format!("{folder}/manifests/crd.yaml"), crd);
        text += "---\n";
        text += &env.stdout(&["render", &folder, "-o", "yaml"]);
    }
    env.file(&format!("{name}/catalog.yaml"), text);
}

/// Writes catalogs `released` (1.0.0) and `next` (1.0.0 to 1.2.0) of package foo, and bundles `made/next-VERSION`.
pub(crate) fn catalogs() -> TestEnv {
    let env = TestEnv::new();
    catalog(&env, "released", &[("1.0.0", "[get]")]);
    catalog(&env, "next", &[("1.0.0", "[get]"), ("1.1.0", "[get, list]"), ("1.2.0", "['*']")]);
    env
}

#[test]
fn bundles_are_selected_from_their_catalog() {
    let env = catalogs();
    insta::assert_snapshot!(env.opm(&["security", "next", "--package", "foo", "--from", "1.0.0", "--to", "1.1.0"]), @r#"
    exit 0
    --- stdout
    high: ServiceAccount foo: foo may now list secrets in the whole cluster [rights-secrets]
    medium: CustomResourceDefinition foos.example.com: validating upgrade for CRD "foos.example.com": existingFieldRemoval: crd/foos.example.com version/v1 field/^.v100 may not be removed [crd-breaking]
    --- stderr
    "#);
    // One file of a catalog is a catalog, and a version may follow the package.
    let one = env.opm(&["security", "next/catalog.yaml", "--package", "foo=1.0.0"]);
    assert!(one.contains("foo may get secrets in the whole cluster"), "{one}");
    insta::assert_snapshot!(env.opm(&["security", "released", "next", "--deny", "high"]), @r#"
    exit 1
    --- stdout
    foo.v1.1.0: high: ServiceAccount foo: foo may now list secrets in the whole cluster [rights-secrets]
    foo.v1.2.0: high: ServiceAccount foo: foo may now * secrets in the whole cluster [rights-secrets]
    foo.v1.1.0: medium: CustomResourceDefinition foos.example.com: validating upgrade for CRD "foos.example.com": existingFieldRemoval: crd/foos.example.com version/v1 field/^.v100 may not be removed [crd-breaking]
    foo.v1.2.0: medium: CustomResourceDefinition foos.example.com: validating upgrade for CRD "foos.example.com": existingFieldRemoval: crd/foos.example.com version/v1 field/^.v110 may not be removed [crd-breaking]
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["crd-diff", "next", "--package", "foo", "--from", "1.0.0", "--to", "foo.v1.1.0", "-o", "crdify"]), @r#"
    exit 1
    --- stdout
    {
      "crdValidation": [
        {
          "name": "existingFieldRemoval",
          "errors": [
            "crd/foos.example.com version/v1 field/^.v100 may not be removed"
          ]
        }
      ]
    }
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["crd-diff", "released", "next"]), @"
    exit 1
    --- stdout
    error: CustomResourceDefinition foos.example.com: existingFieldRemoval: crd/foos.example.com version/v1 field/^.v100 may not be removed (OLM v1 refuses the upgrade; the change breaks custom resources) [crd-upgrade-field-removed]
    error: CustomResourceDefinition foos.example.com: existingFieldRemoval: crd/foos.example.com version/v1 field/^.v110 may not be removed (OLM v1 refuses the upgrade; the change breaks custom resources) [crd-upgrade-field-removed]
      help: add another version of the API instead of changing this one, or set enforcement: None for one upgrade
    --- stderr
    ");
    for (code, arguments, message) in [
        (2, &["security", "next"][..], "next is a catalog: give --package, or a second catalog"),
        (1, &["security", "next", "--package", "bar"], "next has no package \"bar\"; its packages are foo"),
        (
            1,
            &["security", "next", "--package", "foo=9.0.0"],
            "package \"foo\" has no version \"9.0.0\"; its versions are 1.0.0, 1.1.0, 1.2.0",
        ),
        (
            1,
            &["security", "next", "--package", "foo@fast"],
            "package \"foo\" has no channel \"fast\"; its channels are stable",
        ),
        (2, &["crd-diff", "next", "--package", "foo"], "--from is required"),
    ] {
        let shown = env.opm(arguments);
        assert!(shown.starts_with(&format!("exit {code}\n")) && shown.contains(message), "{shown}");
    }
}

#[test]
fn every_command_gives_the_same_verdict_on_a_crd() {
    let env = catalogs();
    let says = "validating upgrade for CRD \"foos.example.com\": existingFieldRemoval: \
                crd/foos.example.com version/v1 field/^.v100 may not be removed";
    let finding = "existingFieldRemoval: crd/foos.example.com version/v1 field/^.v100 may not be removed (OLM v1 refuses \
                   the upgrade; the change breaks custom resources)";
    let (old, new) = ("made/next-1.0.0", "made/next-1.1.0");
    for (arguments, words) in [
        (&["crd-diff", old, new][..], finding),
        (&["crd-diff", "next", "--package", "foo", "--from", "1.0.0", "--to", "1.1.0"], finding),
        (&["rehearse", new, "--from", old], finding),
        (&["rehearse", "next", "foo=1.1.0", "--from", "1.0.0"], finding),
        (&["bundle", "validate", new, "--previous", old], finding),
        (&["bundle", "validate", new, "--previous", "released"], finding),
        (&["security", old, new, "--deny", "crd-breaking"], says),
        (&["diff", "released", "next", "--changelog", "--exit-code"], says),
        (&["upgrade-path", "next", "foo", "--from", "1.0.0", "--olm", "v1"], says),
    ] {
        let shown = env.opm(arguments);
        assert!(shown.starts_with("exit 1") && shown.contains(words), "{arguments:?}\n{shown}");
    }
    let json = |arguments: &[&str]| -> serde_json::Value { serde_json::from_str(&env.stdout(arguments)).unwrap() };
    let differences = json(&["diff", "released", "next", "--changelog", "-o", "json"]);
    assert_eq!(differences["packages"][0]["bundles"][0]["crdVerdicts"][0]["olmSays"], says);
    // OLM v0 compares stored versions only.
    let v0 = env.opm(&["rehearse", new, "--from", old, "--olm", "v0"]);
    assert!(
        v0.starts_with("exit 0")
            && v0.contains(&format!("warning: CustomResourceDefinition foos.example.com: {finding}")),
        "{v0}"
    );
}

#[test]
fn an_upgrade_path_of_olm_v1_stops_where_it_refuses_a_crd() {
    let env = catalogs();
    let next = env
        .read("next/catalog.yaml")
        .replace("  replaces: foo.v1.1.0\n", "  replaces: foo.v1.1.0\n  skips: [foo.v1.0.0]\n");
    env.file("skipping/catalog.yaml", next);
    insta::assert_snapshot!(env.opm(&["upgrade-path", "skipping", "foo", "--from", "1.0.0", "--olm", "v1"]), @r#"
    exit 1
    --- stdout
    foo.v1.0.0
    stuck at foo.v1.0.0: OLM v1 refuses the upgrade to foo.v1.2.0
    OLM says: validating upgrade for CRD "foos.example.com": existingFieldRemoval: crd/foos.example.com version/v1 field/^.v100 may not be removed
    --- stderr
    "#);
    let json = env.opm(&["upgrade-path", "skipping", "foo", "--from", "1.0.0", "--olm", "v1", "-o", "json"]);
    assert!(json.contains("\"end\": \"refused\"") && json.contains("\"refused\": \"foo.v1.2.0\""), "{json}");
    // Without objects nothing can be compared.
    let bundle = |version: &str| {
        format!(
            "---\nschema: olm.bundle\npackage: foo\nname: foo.v{version}\nimage: example.com/foo:{version}\nproperties: [{{type: olm.package, value: {{packageName: foo, version: {version}}}}}]\n"
        )
    };
    env.file("bare/catalog.yaml", format!("schema: olm.package\nname: foo\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: foo\nname: stable\nentries: [{{name: foo.v1.0.0}}, {{name: foo.v1.1.0, replaces: foo.v1.0.0}}, {{name: foo.v1.2.0, replaces: foo.v1.1.0, skips: [foo.v1.0.0]}}]\n{}{}{}", bundle("1.0.0"), bundle("1.1.0"), bundle("1.2.0")));
    insta::assert_snapshot!(env.opm(&["upgrade-path", "bare", "foo", "--from", "1.0.0", "--olm", "v1"]), @"
    exit 0
    --- stdout
    foo.v1.0.0
    -> foo.v1.2.0  (skips)
    no edge of channel stable leads from foo.v1.2.0 to a higher version
    the CRDs of one step were not compared: the catalog does not contain the objects; use 'opm crd-diff'
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["upgrade-path", "bare", "foo", "--from", "1.0.0", "--to", "1.1.0", "--olm", "v1"]), @"
    exit 0
    --- stdout
    foo.v1.0.0
    -> foo.v1.1.0  (replaces)
    foo.v1.1.0 is reached in one step
    the CRDs of one step were not compared: the catalog does not contain the objects; use 'opm crd-diff'
    --- stderr
    ");
}

#[test]
fn bundles_with_objects_in_images_are_skipped_without_pulling() {
    let env = TestEnv::new();
    env.file("old/catalog.yaml", crate::env::SMALL);
    let newer = crate::env::SMALL.replace("v1.0.0", "v1.1.0").replace("version: 1.0.0", "version: 1.1.0");
    env.file("new/catalog.yaml", newer);
    insta::assert_snapshot!(env.opm(&["security", "old", "new", "--no-pull"]), @"
    exit 0
    --- stdout
    --- stderr
    warning: skipping foo.v1.1.0: its objects are only in its image, and --no-pull is given
    ");
}

#[test]
fn a_catalog_is_rehearsed_by_package_or_completely() {
    let env = catalogs();
    let one = env.opm(&["rehearse", "next", "foo@stable", "--from", "1.0.0"]);
    assert!(one.starts_with("exit 1") && one.contains("ServiceAccount"), "{one}");
    insta::assert_snapshot!(env.opm(&["rehearse", "next", "--all"]), @"
    exit 0
    --- stdout
    PACKAGE  BUNDLE      V0   V1   WHY NOT
    foo      foo.v1.0.0  yes  yes
    foo      foo.v1.1.0  yes  yes
    foo      foo.v1.2.0  yes  yes

    OLM v0 installs 3 of 3 bundles, OLM v1 3
    --- stderr
    ");
    let json: serde_json::Value =
        serde_json::from_str(&env.stdout(&["rehearse", "next", "--all", "-o", "json"])).unwrap();
    assert_eq!((&json[2]["bundle"], &json[2]["v1"]["installs"]), (&"foo.v1.2.0".into(), &true.into()));
    assert!(env.opm(&["rehearse", "next"]).contains("next is a catalog: give a package or --all"));
    assert!(
        env.opm(&["rehearse", "made/next-1.0.0", "foo"]).contains("is a bundle: PACKAGE and --all require a catalog")
    );
}

#[test]
fn findings_are_explained() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.opm(&["explain", "image-pinned"]), @"
    exit 0
    --- stdout
    image-pinned: a check of bundles (warning)

      Images are named by digest.

      To fix it: replace tags by digests, so that what was tested is what runs.
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["explain", "rights-secrets"]), @"
    exit 0
    --- stdout
    rights-secrets: a finding of 'opm security'

      An account may read or write Secrets.

      docs/security.md has its severity; 'opm security --allow rights-secrets' accepts it.
    --- stderr
    ");
    assert!(env.stdout(&["explain", "crd-upgrade-type"]).contains("The rule type compares a CRD"));
    assert!(env.stdout(&["explain"]).contains("\nRules for bundles:\n"));
}

/// Every rule that the code uses is explained, and no other.
#[test]
fn rules_match_the_code() {
    let table = std::fs::read_to_string(crate::env::project("crates/bundle/src/rules.txt")).unwrap();
    let names: std::collections::BTreeSet<&str> = table.lines().filter_map(|line| line.split('|').next()).collect();
    assert_eq!(names.len(), table.lines().count(), "a rule is listed twice");
    for line in table.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let [_, _, about, fix, rejecting] = *fields else { panic!("{line}") };
        assert!(!about.is_empty() && !fix.is_empty(), "{line}");
        assert!(rejecting.split_whitespace().all(|suite| bundle::SUITES.contains(&suite)), "{line}");
    }
    let mut code = String::new();
    for path in ["bundle/src/check", "bundle/src/rehearse"] {
        add(&crate::env::project("crates").join(path), &mut code);
    }
    let page = std::fs::read_to_string(crate::env::project("docs/bundle-checks.md")).unwrap();
    for name in &names {
        assert!(code.contains(&format!("\"{name}\"")), "no check reports {name}");
        assert!(page.contains(&format!("`{name}`")), "{name} is not on docs/bundle-checks.md");
    }
    for call in ["findings.error(", "findings.warning(", "findings.info(", "Finding::new("] {
        for rest in code.split(call).skip(1) {
            let Some(rest) = rest.trim_start().strip_prefix('"') else { continue };
            let name = rest.split('"').next().unwrap_or_default();
            assert!(names.contains(name), "{name} is not explained");
        }
    }
}

/// Appends the text of a file, or of all files of a directory.
fn add(path: &std::path::Path, code: &mut String) {
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| add(&entry.unwrap().path(), code));
    } else {
        code.push_str(&std::fs::read_to_string(path).unwrap());
    }
}
