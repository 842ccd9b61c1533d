use crate::env::TestEnv;

fn env() -> TestEnv {
    let env = TestEnv::new();
    env.copy_of("examples/bundles/lantern/1.3.0");
    env
}

#[test]
fn a_suite_adds_checks() {
    insta::assert_snapshot!(env().opm(&["bundle", "validate", "1.3.0", "--suite", "olm-v0,olm-v1"]), @r#"
    exit 1
    --- stdout
    error: validating bundle "lantern.v1.3.0": bundle "lantern.v1.3.0" has a dependency declared via property "olm.gvk.required" which is currently not supported [olmv1-dependency]
      --> 1.3.0/manifests/lantern.clusterserviceversion.yaml:20:5
      suites: rejected by olm-v1
      help: remove them, and say in the description what must be installed
    warning: (lantern.v1.3.0) example annotations not found [csv-examples]
      --> 1.3.0/manifests/lantern.clusterserviceversion.yaml:6:5
      suites: advice of olm-v0, olm-v1
      help: correct the annotation, or add it: users start from examples
    warning: (lantern.v1.3.0) csv.Spec.minKubeVersion is not informed. It is recommended you provide this information. Otherwise, it would mean that your operator project can be distributed and installed in any cluster version available, which is not necessarily the case for all projects. [csv-min-kube-version]
      --> 1.3.0/manifests/lantern.clusterserviceversion.yaml:9:3
      suites: advice of olm-v0, olm-v1
      help: add it, as in 1.25.0, so that OLM refuses clusters that are too old
    warning: registry.example.com/harbour/lantern:v1.3.0 is not named by digest [image-pinned]
      --> 1.3.0/manifests/lantern.clusterserviceversion.yaml:35:24
      suites: advice of olm-v0, olm-v1
      help: replace tags by digests, so that what was tested is what runs
    --- stderr
    "#);
    let all = env().opm(&["bundle", "validate", "1.3.0", "--suite", "all"]);
    assert!(all.contains("[field-icon]") && all.contains("[feature-annotations]"), "{all}");
    assert!(env().opm(&["bundle", "validate", "1.3.0", "--suite", "none"]).contains("possible values: olm-v0, olm-v1"));
}

#[test]
fn optional_checks_are_selected_by_label() {
    let env = env();
    insta::assert_snapshot!(env.opm(&["bundle", "validate", "1.3.0", "--select-optional", "name=good-practices"]), @r#"
    exit 0
    --- stdout
    warning: (lantern.v1.3.0) example annotations not found [csv-examples]
      --> 1.3.0/manifests/lantern.clusterserviceversion.yaml:6:5
      suites: advice of all
      help: correct the annotation, or add it: users start from examples
    warning: (lantern.v1.3.0) csv.Spec.minKubeVersion is not informed. It is recommended you provide this information. Otherwise, it would mean that your operator project can be distributed and installed in any cluster version available, which is not necessarily the case for all projects. [csv-min-kube-version]
      --> 1.3.0/manifests/lantern.clusterserviceversion.yaml:9:3
      suites: advice of all
      help: add it, as in 1.25.0, so that OLM refuses clusters that are too old
    warning: Value lantern.v1.3.0: owned CRD "lanterns.harbour.example.com" has an empty description [practice-description]
      --> 1.3.0/manifests/lantern.clusterserviceversion.yaml:21:7
      suites: advice of community
      help: add them
    warning: Value lantern.v1.3.0: unable to find the resource requests for the container: (lantern). It is recommended to ensure the resource request for CPU and Memory. Be aware that for some clusters configurations it is required to specify requests or limits for those values. Otherwise, the system or quota may reject Pod creation. More info: https://master.sdk.operatorframework.io/docs/best-practices/managing-resources/ [practice-resources]
      --> 1.3.0/manifests/lantern.clusterserviceversion.yaml:34:17
      suites: advice of community
      help: add resources.requests: clusters with quotas refuse pods without
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["bundle", "validate", "1.3.0", "--select-optional", "name=nothing"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: invalid command args: selector "name=nothing" does not match any validator labels
    "#);
    insta::assert_snapshot!(env.opm(&["bundle", "validate", "--list-optional"]), @"
    exit 0
    --- stdout
    NAME                   LABELS                                                                              DESCRIPTION
    bundle                 name=bundle,suite=olm-v0,suite=community,suite=certified                            owned CRDs, names with a release, accounts, the size of the bundle, related images
    operatorhubv2          name=operatorhubv2,suite=operatorframework,suite=community,suite=certified          what operatorhub.io asks of a CSV
    capabilities           name=capabilities,suite=operatorframework,suite=community,suite=certified           the annotation capabilities
    categories             name=categories,suite=operatorframework,suite=community,suite=certified             the annotation categories
    operatorhub            name=operatorhub                                                                    operatorhubv2, capabilities and categories together; deprecated
    community              name=community,suite=community                                                      the OpenShift versions of bundles that use APIs removed in Kubernetes 1.22; deprecated
    alpha-deprecated-apis  name=alpha-deprecated-apis,suite=operatorframework,suite=community,suite=certified  APIs that newer versions of Kubernetes removed
    removed-apis           name=removed-apis,suite=olm-v0,suite=olm-v1,suite=community,suite=certified         APIs that Kubernetes 1.16, 1.27, 1.29 and 1.32 removed
    multiarch              name=multiarch                                                                      whether images are for the platforms that the CSV names; asks their registries
    images                 name=images                                                                         whether registries have all images; asks them
    pod-security           name=pod-security,suite=olm-v0,suite=olm-v1,suite=community,suite=certified         whether the suggested namespace allows what pods do
    scorecard              name=scorecard,suite=certified                                                      examples, schemas, resources and descriptors, as the OLM tests of scorecard require them
    operator-group         name=operator-group,suite=community,suite=certified                                 annotations of OperatorGroups
    network-policy         name=network-policy,suite=community,suite=certified                                 no NetworkPolicy, which the public pipelines refuse
    good-practices         name=good-practices,suite=operatorframework,suite=community                         resource requests, channel names, descriptions, names of versions, permissions to create CRDs
    bundle-objects         name=bundle-objects,suite=certified                                                 objects that harm the stability of a cluster
    required-fields        name=required-fields,suite=community                                                the fields that the community's pipeline requires
    certification          name=certification,suite=certified                                                  feature annotations, related images, restricted networks, security context constraints
    schemas                name=schemas,suite=olm-v0,suite=olm-v1,suite=community,suite=certified              whether schemas of CRDs are structural, and examples fit them
    openshift-versions     name=openshift-versions,suite=community                                             the versions of OpenShift that the bundle is for
    marketplace            name=marketplace,suite=marketplace                                                  links of the marketplace
    author                 name=author,suite=olm-v0,suite=olm-v1,suite=community,suite=certified               accounts that are never created, fixed namespaces, conditions, ignored namespaces, images by tag
    --- stderr
    ");
}

#[test]
fn levels_and_waivers_are_configured() {
    let env = env();
    let practices = ["bundle", "validate", "1.3.0", "--select-optional", "name=good-practices", "--fail-on", "warning"];
    assert!(env.opm(&practices).starts_with("exit 1"));
    env.file(
        ".opm.yaml",
        "checks:
  levels: {csv-examples: off, csv-min-kube-version: info, csv-example-missing: off}
  waivers:
  - {id: practice-resources, reason: the quota of this cluster sets them}
  - {id: practice-description, reason: it is in the CRD}
  - {id: practice-name, reason: it is known by this name}
",
    );
    insta::assert_snapshot!(env.opm(&practices), @"
    exit 1
    --- stdout
    warning: the waiver of practice-name matches no finding: remove it [waiver]
      --> [SCRATCH]/.opm.yaml
      help: renew or remove the waiver
    info: (lantern.v1.3.0) csv.Spec.minKubeVersion is not informed. It is recommended you provide this information. Otherwise, it would mean that your operator project can be distributed and installed in any cluster version available, which is not necessarily the case for all projects. [csv-min-kube-version]
      --> 1.3.0/manifests/lantern.clusterserviceversion.yaml:9:3
      suites: advice of all
      help: add it, as in 1.25.0, so that OLM refuses clusters that are too old
    --- stderr
    2 findings are waived
    ");
    env.file(".opm.yaml", "checks: {waivers: [{id: practice-resources}]}\n");
    insta::assert_snapshot!(env.opm(&practices), @"
    exit 1
    --- stdout
    --- stderr
    error: [SCRATCH]/.opm.yaml: the waiver of practice-resources needs a reason
    ");
    // A misspelt key would hold everywhere and for ever.
    env.file(".opm.yaml", "checks: {waivers: [{id: practice-resources, reason: r, untill: 2000-01-01}]}\n");
    let misspelt = env.opm(&practices);
    assert!(misspelt.starts_with("exit 1"), "{misspelt}");
    assert!(misspelt.contains("unknown key checks.waivers[0].untill; did you mean until?"), "{misspelt}");
}

#[test]
fn levels_and_waivers_hold_in_the_form_of_the_existing_tools() {
    let env = env();
    let plain = ["bundle", "validate", "1.3.0"];
    let before = env.opm(&plain);
    assert!(before.contains("minKubeVersion") && before.contains("example annotations not found"), "{before}");
    let waivers = "[{id: csv-examples, reason: the docs have them}, {id: practice-name, reason: for another suite}]";
    env.file(".opm.yaml", format!("checks: {{levels: {{csv-min-kube-version: off}}, waivers: {waivers}}}\n"));
    insta::assert_snapshot!(env.opm(&plain), @"
    exit 0
    --- stdout
    --- stderr
    1 finding is waived
    ");
    env.file(".opm.yaml", "checks: {levels: {csv-min-kube-version: error}}\n");
    let stricter = env.opm(&plain);
    assert!(stricter.starts_with("exit 1") && stricter.contains("error: "), "{stricter}");
}

#[test]
fn waived_findings_are_counted_and_listed() {
    let env = env();
    env.file(".opm.yaml", "checks: {waivers: [{id: practice-resources, reason: the quota sets them}]}\n");
    let practices = ["bundle", "validate", "1.3.0", "--select-optional", "name=good-practices"];
    let shown = env.opm(&practices);
    assert!(shown.contains("--- stderr\n1 finding is waived\n"), "{shown}");
    let json: serde_json::Value =
        serde_json::from_str(&env.stdout(&[&practices[..], &["-O", "json"]].concat())).unwrap();
    assert_eq!(json["waived"][0]["id"], "practice-resources");
    assert_eq!(json["waived"][0]["reason"], "the quota sets them");
    assert!(json["waived"][0]["file"].as_str().unwrap().ends_with("clusterserviceversion.yaml"));
}

#[test]
fn findings_are_available_as_json() {
    let env = env();
    let json: serde_json::Value =
        serde_json::from_str(&env.stdout(&["bundle", "validate", "1.3.0", "--output", "json"])).unwrap();
    assert_eq!(json["passed"], true);
    assert_eq!(json["counts"]["warning"], 2);
    insta::assert_snapshot!(format!("{:#}", json["findings"][0]), @r#"
    {
      "id": "csv-examples",
      "severity": "warning",
      "message": "(lantern.v1.3.0) example annotations not found",
      "help": "correct the annotation, or add it: users start from examples",
      "suites": [
        "olm-v0",
        "olm-v1",
        "community",
        "certified",
        "marketplace"
      ],
      "rejectedBy": [],
      "bundle": "lantern.v1.3.0",
      "object": "",
      "file": "1.3.0/manifests/lantern.clusterserviceversion.yaml",
      "line": 6,
      "column": 5,
      "pointer": "/metadata/annotations"
    }
    "#);
    insta::assert_snapshot!(env.opm(&["bundle", "validate", "1.3.0", "-O", "github"]), @"
    exit 0
    --- stdout
    ::warning file=1.3.0/manifests/lantern.clusterserviceversion.yaml,line=6,col=5,title=csv-examples::(lantern.v1.3.0) example annotations not found
    ::warning file=1.3.0/manifests/lantern.clusterserviceversion.yaml,line=9,col=3,title=csv-min-kube-version::(lantern.v1.3.0) csv.Spec.minKubeVersion is not informed. It is recommended you provide this information. Otherwise, it would mean that your operator project can be distributed and installed in any cluster version available, which is not necessarily the case for all projects.
    --- stderr
    ");
}

#[test]
fn several_bundles_are_checked_together() {
    let env = env();
    env.copy_of("examples/bundles/lantern/1.3.0");
    let csv = env.read("1.3.0/manifests/lantern.clusterserviceversion.yaml");
    env.file("other/manifests/csv.yaml", csv.replace("lantern.v1.3.0", "lantern.v1.4.0"));
    env.file("other/metadata/annotations.yaml", env.read("1.3.0/metadata/annotations.yaml"));
    let json = |arguments: &[&str]| -> serde_json::Value {
        let output = env.command().args(["bundle", "validate"]).args(arguments).args(["-O", "json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let count = |json: &serde_json::Value, bundle: &str| {
        json["findings"].as_array().unwrap().iter().filter(|finding| finding["bundle"] == bundle).count()
    };
    let (one, other) = (json(&["1.3.0", "--suite", "olm-v1"]), json(&["other", "--suite", "olm-v1"]));
    let both = json(&["1.3.0", "other", "--suite", "olm-v1"]);
    assert!(count(&one, "lantern.v1.3.0") > 0 && count(&other, "lantern.v1.4.0") > 0);
    assert_eq!(count(&both, "lantern.v1.3.0"), count(&one, "lantern.v1.3.0"));
    assert_eq!(count(&both, "lantern.v1.4.0"), count(&other, "lantern.v1.4.0"));
    let all = |json: &serde_json::Value| json["findings"].as_array().unwrap().len();
    assert_eq!(all(&both), all(&one) + all(&other));
    // Without a suite, several bundles are judged like one.
    let text = env.opm(&["bundle", "validate", "1.3.0", "other"]);
    assert!(text.contains("1.3.0/manifests/") && text.contains("other/manifests/csv.yaml"), "{text}");
}

#[test]
fn findings_about_the_example_bundles_are_counted_by_rule() {
    let env = env();
    let output = env.command().args(["bundle", "validate", "1.3.0", "--suite", "all", "-O", "json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut counts = std::collections::BTreeMap::new();
    for finding in json["findings"].as_array().unwrap() {
        *counts.entry(finding["id"].as_str().unwrap().to_owned()).or_insert(0) += 1;
    }
    let text: Vec<String> = counts.iter().map(|(id, count)| format!("{count} {id}")).collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn versions_of_an_operator_are_checked_together() {
    let env = TestEnv::new();
    let csv = |version: &str, more: &str| {
        format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: foo.v{version}\nspec:\n  version: \
             {version}\n{more}"
        )
    };
    let annotations = "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n  operators.operatorframework.io.bundle.channels.v1: stable\n";
    for (version, more) in [("1.0.0", ""), ("1.1.0", "  replaces: foo.v0.9.0\n")] {
        env.file(&format!("foo/{version}/manifests/csv.yaml"), csv(version, more));
        env.file(&format!("foo/{version}/metadata/annotations.yaml"), annotations);
    }
    insta::assert_snapshot!(env.opm(&["bundle", "validate", "--repo", "foo"]), @r#"
    exit 1
    --- stdout
    foo.v1.0.0: error: nothing replaces or skips it in channel "stable", and it is not the head [dangling-bundle]
      --> foo/1.0.0/manifests/csv.yaml:4:9
      suites: rejected by community, certified
      help: add replaces or skips to the version after it
    foo.v1.1.0: error: it replaces "foo.v0.9.0", which is not another version of the operator [replaces-exists]
      --> foo/1.1.0/manifests/csv.yaml:7:13
      suites: rejected by community, certified
      help: correct spec.replaces, or add the version
    warning: the operator is not kept as a file-based catalog: fbc.enabled in ci.yaml is not true [fbc-used]
      suites: advice of community, certified
      help: set fbc.enabled in ci.yaml, and add catalog templates
    warning: ci.yaml does not set updateGraph; the default is replaces-mode [update-graph]
      suites: advice of community, certified
      help: add updateGraph: replaces-mode to ci.yaml
    --- stderr
    "#);
    env.file("foo.package.yaml", "packageName: foo\nchannels:\n- name: a\n");
    let printed = env.opm(&["bundle", "validate", "--package-manifest", "foo.package.yaml"]);
    assert!(printed.starts_with("exit 1") && printed.contains("(foo) channel \"a\" currentCSV is empty"), "{printed}");
    assert!(env.opm(&["bundle", "validate", "--repo", "nowhere"]).starts_with("exit 1"));
}

/// Writes a version of the operator foo to a repository of operators.
fn version(env: &TestEnv, version: &str) {
    let csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: foo.v{version}\nspec:\n  version: {version}\n"
    );
    let annotations = "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n  operators.operatorframework.io.bundle.channels.v1: stable\n";
    env.file(&format!("operators/foo/{version}/manifests/csv.yaml"), csv);
    env.file(&format!("operators/foo/{version}/metadata/annotations.yaml"), annotations);
}

/// Returns a catalog with one bundle.
fn catalog(image: &str, property: &str) -> String {
    format!(
        "schema: olm.package\nname: foo\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: foo\nname: stable\nentries:\n- name: foo.v1.0.0\n---\nschema: olm.bundle\npackage: foo\nname: foo.v1.0.0\nimage: {image}\nproperties:\n- type: olm.package\n  value: {{packageName: foo, version: 1.0.0}}\n- {property}\n"
    )
}

const OBJECT: &str = "{type: olm.bundle.object, value: {data: e30=}}";
const METADATA: &str = "{type: olm.csv.metadata, value: {displayName: Foo}}";

#[test]
fn files_next_to_bundles_and_catalogs_of_a_repository_are_checked() {
    let env = TestEnv::new();
    version(&env, "1.0.0");
    version(&env, "1.1.0");
    env.file("operators/foo/ci.yaml", "updateGraph: other\nmerge: 1\n");
    env.file("operators/foo/1.1.0/release-config.yaml", "catalog_templates: []\n");
    env.file("catalogs/v4.16/foo/catalog.yaml", catalog("quay.io/me/foo:v1", OBJECT));
    env.file("catalogs/v4.17/foo/catalog.yaml", catalog("quay.io/me/foo:v1", OBJECT));
    env.file("catalogs/v4.18/foo/catalog.yaml", catalog("docker.io/me/foo:v1", METADATA));
    env.file("ci/pipeline-config.yaml", "allowed_bundle_registries: [quay.io/me/]\n");
    insta::assert_snapshot!(env.opm(&["bundle", "validate", "--repo", "operators/foo"]), @r#"
    exit 1
    --- stdout
    error: updateGraph: "other" is none of "replaces-mode", "semver-mode" [ci-config]
      --> operators/foo/ci.yaml:1:14
      suites: rejected by community, certified
      help: correct the field that the message names
    error: updateGraph is "other"; it must be replaces-mode or semver-mode [update-graph]
      --> operators/foo/ci.yaml:1:14
      suites: rejected by community; advice of certified
      help: add updateGraph: replaces-mode to ci.yaml
    error: merge: number instead of boolean [ci-config]
      --> operators/foo/ci.yaml:2:8
      suites: rejected by community, certified
      help: correct the field that the message names
    foo.v1.0.0: error: the bundle carries its objects (olm.bundle.object), and catalogs from OpenShift 4.17 on have olm.csv.metadata in their place [bundle-object-in-catalog]
      --> [SCRATCH]/catalogs/v4.17/foo/catalog.yaml:16:1
      suites: rejected by community, certified
      help: render the catalog again with --migrate-level bundle-object-to-csv-metadata
    foo.v1.0.0: error: docker.io/me/foo:v1 comes from none of quay.io/me/ [bundle-registry]
      --> [SCRATCH]/catalogs/v4.18/foo/catalog.yaml:14:8
      suites: rejected by community, certified
      help: push the bundle to one of them, and render the catalog again
    foo.v1.0.0: error: nothing replaces or skips it in channel "stable", and it is not the head [dangling-bundle]
      --> operators/foo/1.0.0/manifests/csv.yaml:4:9
      suites: rejected by community, certified
      help: add replaces or skips to the version after it
    foo.v1.1.0: error: catalog_templates: has 0 items; the schema requires at least 1 [release-config]
      --> operators/foo/1.1.0/release-config.yaml:1:20
    foo.v1.1.0: error: fbc.enabled in ci.yaml is not true, so that release-config.yaml has no effect [release-config]
      --> operators/foo/1.1.0/release-config.yaml:1:1
      suites: rejected by community, certified
      help: correct the field that the message names
    warning: the operator is not kept as a file-based catalog: fbc.enabled in ci.yaml is not true [fbc-used]
      --> operators/foo/ci.yaml:1:1
      suites: advice of community, certified
      help: set fbc.enabled in ci.yaml, and add catalog templates
    --- stderr
    "#);
    // A valid repository; operators that are kept as a catalog need no `replaces`.
    let ci = "fbc:\n  enabled: true\n  catalog_mapping:\n  - {template_name: a.yaml, type: olm.semver, catalog_names: [v4.18]}\n";
    env.file("operators/foo/ci.yaml", ci);
    let config = "catalog_templates:\n- {template_name: a.yaml, channels: [Fast]}\n";
    env.file("operators/foo/1.1.0/release-config.yaml", config);
    env.file("catalogs/v4.17/foo/catalog.yaml", catalog("quay.io/me/foo:v1", METADATA));
    env.file("catalogs/v4.18/foo/catalog.yaml", catalog("quay.io/me/foo:v1", METADATA));
    assert_eq!(env.opm(&["bundle", "validate", "--repo", "operators/foo"]), "exit 0\n--- stdout\n--- stderr\n");
}

#[test]
fn a_catalog_is_checked_against_allowed_registries() {
    let env = TestEnv::new();
    env.file("v4.16/catalog.yaml", catalog("quay.io/me/foo:v1", OBJECT));
    env.file("new/catalog.yaml", catalog("quay.io/me/foo:v1", OBJECT));
    let printed = env.opm(&["bundle", "validate", "--catalog", "v4.16", "--bundle-registry", "quay.io/me/"]);
    assert_eq!(printed, "exit 0\n--- stdout\n--- stderr\n");
    let printed = env.opm(&["bundle", "validate", "--catalog", "new", "--bundle-registry", "r.test/", "-O", "github"]);
    assert!(printed.starts_with("exit 1"), "{printed}");
    assert!(printed.contains("bundle-object-in-catalog") && printed.contains("bundle-registry"), "{printed}");
    assert!(printed.contains("file=new/catalog.yaml,line=14,col=8,title=bundle-registry"), "{printed}");
}

#[test]
fn a_file_in_the_environment_defines_the_categories() {
    let env = env();
    let path = "1.3.0/manifests/lantern.clusterserviceversion.yaml";
    let csv = env.read(path).replacen("  annotations:\n", "  annotations:\n    categories: Lamps\n", 1);
    env.file(path, csv).file("categories.json", r#"{"categories": ["Lamps"]}"#);
    let validate = |file: Option<&str>| {
        let mut command = env.command();
        command.args(["bundle", "validate", "1.3.0", "-o", "operatorhub"]);
        command.envs(file.map(|file| ("OPERATOR_BUNDLE_CATEGORIES", file)));
        env.show(command.output().unwrap())
    };
    assert!(validate(None).contains("value \"Lamps\" is not in the set of standard categories"));
    assert!(!validate(Some("categories.json")).contains("categories"), "{}", validate(Some("categories.json")));
    assert!(validate(Some("none.json")).contains("could not extract custom categories from categories \"none.json\""));
}

#[test]
fn crds_are_compared_with_the_previous_version() {
    let env = crate::security::catalogs();
    let upgrade = |arguments: &[&str]| {
        let shown = env.opm(&[&["bundle", "validate"], arguments].concat());
        let lines: Vec<&str> = shown.lines().collect();
        let (first, rest) = lines.split_first().expect("an exit code");
        let mut matching = vec![*first];
        for (at, line) in rest.iter().enumerate() {
            if line.contains("[crd-upgrade-") || line.contains("[previous-unknown]") || line.starts_with("error: \"") {
                matching.push(line);
                matching.extend(rest.get(at + 1).filter(|next| next.starts_with("  -->")));
            }
        }
        matching.join("\n")
    };
    // In a catalog, a bundle that replaces nothing is compared with the next lower version.
    insta::assert_snapshot!(upgrade(&["made/next-1.2.0", "--previous", "next"]), @"
    exit 1
    error: CustomResourceDefinition foos.example.com: existingFieldRemoval: crd/foos.example.com version/v1 field/^.v110 may not be removed (OLM v1 refuses the upgrade; the change breaks custom resources) [crd-upgrade-field-removed]
      --> made/next-1.2.0/manifests/crd.yaml:4:7
    ");
    insta::assert_snapshot!(upgrade(&["made/next-1.2.0", "--previous", "released"]), @"
    exit 1
    error: CustomResourceDefinition foos.example.com: existingFieldRemoval: crd/foos.example.com version/v1 field/^.v100 may not be removed (OLM v1 refuses the upgrade; the change breaks custom resources) [crd-upgrade-field-removed]
      --> made/next-1.2.0/manifests/crd.yaml:4:7
    ");
    insta::assert_snapshot!(upgrade(&["made/next-1.2.0", "--previous", "made/next-1.1.0", "--suite", "olm-v1"]), @"
    exit 1
    error: CustomResourceDefinition foos.example.com: existingFieldRemoval: crd/foos.example.com version/v1 field/^.v110 may not be removed (OLM v1 refuses the upgrade; the change breaks custom resources) [crd-upgrade-field-removed]
      --> made/next-1.2.0/manifests/crd.yaml:4:7
    ");
    insta::assert_snapshot!(upgrade(&["made/next-1.2.0", "--previous", "made/next-1.2.0"]), @"exit 1");
    insta::assert_snapshot!(upgrade(&["made/next-1.0.0", "--previous", "released"]), @"
    exit 1
    info: no version in released comes before it: its CRDs were not compared [previous-unknown]
    ");
    let csv = "made/next-1.2.0/manifests/csv.yaml";
    env.file(csv, env.read(csv).replace("version: 1.2.0", "version: 1.2.0\n  replaces: foo.v1.0.0"));
    assert!(upgrade(&["made/next-1.2.0", "--previous", "next"]).contains("field/^.v100 may not be removed"));
    // Findings of an upgrade have levels and waivers like all others.
    env.file(".opm.yaml", "checks: {levels: {crd-upgrade-field-removed: off}}\n");
    assert!(!upgrade(&["made/next-1.2.0", "--previous", "next"]).contains("crd-upgrade"));
    env.copy_of("examples/bundles/lantern/1.3.0");
    insta::assert_snapshot!(upgrade(&["1.3.0", "--previous", "made/next-1.1.0"]), @r#"
    exit 1
    error: "made/next-1.1.0" belongs to package "foo", but the bundle belongs to package "lantern"
    "#);
    let other = env.opm(&["bundle", "validate", "1.3.0", "--previous", "next"]);
    assert!(other.ends_with("error: next has no package \"lantern\"; its packages are foo\n"), "{other}");
    insta::assert_snapshot!(upgrade(&["made/next-1.2.0", "--previous", "./nothing"]), @r#"
    exit 1
    error: "./nothing": the path does not exist
    "#);
}

#[test]
fn a_message_has_its_level_once() {
    let env = env();
    for command in [&["bundle", "validate", "1.3.0"][..], &["bundle", "validate", "1.3.0", "--suite", "all"]] {
        let shown = env.opm(command);
        assert!(shown.contains("warning: ") && !shown.contains("Warning: "), "{shown}");
    }
}

/// Nothing that only follows from the file is reported.
#[test]
fn a_tab_in_a_csv_is_reported_first_with_its_place() {
    let env = env();
    let file = "1.3.0/manifests/lantern.clusterserviceversion.yaml";
    env.copy_of("examples/bundles/lantern/1.3.0");
    env.file(file, env.read(file).replacen("spec:", "\tspec:", 1));
    insta::assert_snapshot!(env.opm(&["bundle", "validate", "1.3.0"]), @"
    exit 1
    --- stdout
    --- stderr
    error: lantern.clusterserviceversion.yaml: line 8: found character that cannot start any token
      --> 1.3.0/manifests/lantern.clusterserviceversion.yaml:8:1
    help: indent with spaces instead of tabs, and quote a value that starts with '@', '`' or '%'
    ");
    insta::assert_snapshot!(env.opm(&["bundle", "validate", "1.3.0", "--suite", "all"]), @"
    exit 1
    --- stdout
    error: lantern.clusterserviceversion.yaml: line 8: found character that cannot start any token [bundle-readable]
      --> 1.3.0/manifests/lantern.clusterserviceversion.yaml:8:1
      suites: rejected by olm-v0, olm-v1, community, certified
      help: indent with spaces instead of tabs, and quote a value that starts with '@', '`' or '%'
    --- stderr
    ");
}
