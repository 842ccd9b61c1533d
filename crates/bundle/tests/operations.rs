//! What commands ask about a bundle: its findings, and what OLM does with it.

use std::path::Path;

use bundle::rehearse::{OlmGeneration, Rehearse, rehearse};
use bundle::{BundleCheck, BundleDirectory, CheckError, CheckedBundle, Finding, LoadedBundle, Severity, check};
use fbc::Limits;
use fbc::spelling::calendar::Date;
use testkit::BundleDir;

const TODAY: Date = Date::constant(2026, 1, 31);

fn csv(modes: &str) -> String {
    format!(
        "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {{name: foo.v1.0.0}}
spec:
  version: 1.0.0
  displayName: Foo
  description: Foo
  installModes: [{modes}]
  customresourcedefinitions: {{owned: [{{name: foos.example.com, version: v1, kind: Foo}}]}}
  install:
    strategy: deployment
    spec: {{deployments: [{{name: foo, spec: {{template: {{spec: {{containers: [{{name: foo, image: foo}}]}}}}}}}}]}}
"
    )
}

fn bundle(modes: &str) -> BundleDir {
    with_csv(csv(modes))
}

fn with_csv(csv: String) -> BundleDir {
    const PREFIX: &str = "operators.operatorframework.io.bundle";
    let annotations = format!(
        "annotations: {{{PREFIX}.mediatype.v1: registry+v1, {PREFIX}.manifests.v1: manifests/, {PREFIX}.metadata.v1: \
         metadata/, {PREFIX}.package.v1: foo, {PREFIX}.channels.v1: stable}}\n"
    );
    BundleDir::new().metadata("annotations.yaml", annotations).manifest("csv.yaml", csv)
}

const ALL: &str = "{type: AllNamespaces, supported: true}";

fn checked(directory: &BundleDir, suites: &[&str]) -> Result<CheckedBundle, CheckError> {
    let limits = Limits::default();
    let suites: Vec<String> = suites.iter().map(|&suite| suite.to_owned()).collect();
    let request =
        BundleCheck { suites: &suites, unused_waivers: !suites.is_empty(), ..BundleCheck::plain(&limits, TODAY) };
    let path = directory.path();
    check(BundleDirectory::read(path.to_owned(), Some(path.display().to_string()), &limits), &request, None)
}

fn ids(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| format!("{} {}", finding.severity, finding.id)).collect()
}

#[test]
fn levels_and_waivers_hold_whatever_is_checked() {
    let directory = bundle(ALL);
    let configure = |text: &str| std::fs::write(directory.path().join(".opm.yaml"), text).unwrap();
    let findings = |suites: &[&str]| ids(&checked(&directory, suites).unwrap().findings);
    assert!(findings(&[]).contains(&"warning csv-min-kube-version".to_owned()), "{:?}", findings(&[]));
    configure("checks: {levels: {csv-min-kube-version: off}}");
    for suites in [&[][..], &["olm-v0"], &["olm-v1"]] {
        assert!(!findings(suites).iter().any(|id| id.ends_with("csv-min-kube-version")), "{suites:?}");
    }
    configure("checks: {levels: {csv-min-kube-version: error}}");
    assert!(findings(&[]).contains(&"error csv-min-kube-version".to_owned()));
    configure("checks: {waivers: [{id: csv-min-kube-version, file: manifests/csv.yaml, reason: it runs everywhere}]}");
    for suites in [&[][..], &["olm-v0"]] {
        let waived = checked(&directory, suites).unwrap().waived;
        let waived: Vec<_> = waived.iter().map(|one| (one.finding.id, one.reason.as_str())).collect();
        assert_eq!(waived, [("csv-min-kube-version", "it runs everywhere")]);
    }
    configure("checks: {level: {}}");
    assert!(
        checked(&directory, &[]).unwrap_err().to_string().ends_with("unknown key checks.level; did you mean levels?")
    );
}

/// An error of a suite is what its name promises: that OLM does not install the bundle, or that a pipeline rejects it.
#[test]
fn a_suite_has_errors_only_for_what_rejects_a_bundle() {
    // The example does not fit the schema, and a name of the standard checks is in the wrong case: neither stops OLM.
    let examples = "alm-examples: '[]', olm.skiprange: '<1.0.0', olm.maxOpenShiftVersion: '4.10'";
    let directory =
        with_csv(csv(ALL).replace("name: foo.v1.0.0", &format!("name: foo.v1.0.0, annotations: {{{examples}}}")));
    let of_suites = |suites: &[&str]| {
        let found = checked(&directory, suites).unwrap().findings;
        let found = found.into_iter().find(|finding| finding.id == "csv-annotation-case").unwrap();
        let rejecting: Vec<&str> = found.rejected_by().collect();
        (found.severity, found.suites.join(" "), rejecting.join(" "))
    };
    let of = |severity, suites: &str, rejecting: &str| (severity, suites.to_owned(), rejecting.to_owned());
    assert_eq!(of_suites(&["olm-v0"]), of(Severity::Warning, "olm-v0", ""));
    assert_eq!(of_suites(&["olm-v0", "community"]), of(Severity::Error, "olm-v0 community", "community"));
    assert_eq!(of_suites(&["all"]), of(Severity::Error, "olm-v0 olm-v1 community certified", "community certified"));
    // Without suites, the checks and their severities are those of the existing tool.
    let plain = of(Severity::Error, "olm-v0 olm-v1 community certified marketplace", "community certified");
    assert_eq!(of_suites(&[]), plain);
}

#[test]
fn every_finding_of_a_suite_names_it_and_has_advice() {
    let broken = csv("{type: MultiNamespace, supported: true}").replace("foo.v1.0.0", "Foo_1");
    let broken = broken.replace("kind: Foo}", "kind: Bar}").replace("image: foo", "image: foo, odd: 1");
    let directories = [bundle(ALL), with_csv(broken), with_csv("kind: ClusterServiceVersion\n".into())];
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bundles/lantern/1.3.0");
    let paths = directories.iter().map(|it| it.path().to_owned()).chain([published]);
    for path in paths {
        for suite in bundle::SUITES.into_iter().chain(["all"]) {
            let (limits, suites) = (Limits::default(), [suite.to_owned()]);
            let request = BundleCheck { suites: &suites, ..BundleCheck::plain(&limits, TODAY) };
            let read = BundleDirectory::read(path.clone(), None, &limits);
            for finding in check(read, &request, None).unwrap().findings {
                assert!(!finding.help.is_empty(), "{finding:?}");
                assert!(!finding.suites.is_empty(), "{finding:?}");
                assert!(suite == "all" || finding.suites == [suite], "{finding:?}");
                assert_eq!(finding.severity >= Severity::Error, finding.rejected_by().next().is_some(), "{finding:?}");
            }
        }
    }
}

#[test]
fn a_waiver_for_a_suite_is_unused_only_if_suites_run() {
    let directory = bundle(ALL);
    let text = "checks: {waivers: [{id: image-pinned, object: x, reason: r}]}";
    std::fs::write(directory.path().join(".opm.yaml"), text).unwrap();
    let has = |suites: &[&str]| ids(&checked(&directory, suites).unwrap().findings).contains(&"warning waiver".into());
    assert!(!has(&[]));
    assert!(has(&["olm-v0"]));
}

/// Returns whether OLM installs the bundle, as `rehearse` and as the suite say it, with the errors of both.
fn answers(directory: &BundleDir, generation: OlmGeneration) -> [Vec<String>; 2] {
    let limits = Limits::default();
    let path = directory.path();
    let loaded = LoadedBundle::from_directory(path.to_owned(), Some(path.display().to_string()), &limits).unwrap();
    let rehearsal = rehearse(&Rehearse::new(generation), None, &loaded);
    let errors = |findings: &[Finding]| -> Vec<String> {
        let errors = findings.iter().filter(|finding| finding.severity >= Severity::Error);
        errors.map(|error| format!("{} {} {:?}", error.id, error.message, error.position)).collect()
    };
    let found = errors(&rehearsal.findings.findings);
    assert_eq!(rehearsal.is_installable(), found.is_empty());
    let suite = if generation == OlmGeneration::V0 { "olm-v0" } else { "olm-v1" };
    [found, errors(&checked(directory, &[suite]).unwrap().findings)]
}

#[test]
fn rehearsals_and_suites_agree_about_install_modes() {
    let only = |mode: &str| bundle(&format!("{{type: {mode}, supported: true}}"));
    for mode in ["AllNamespaces", "OwnNamespace", "SingleNamespace", "MultiNamespace"] {
        assert_eq!(answers(&only(mode), OlmGeneration::V0), [Vec::<String>::new(), Vec::new()], "{mode}");
    }
    let [rehearsed, suite] = answers(&only("SingleNamespace"), OlmGeneration::V1);
    assert_eq!(rehearsed, suite);
    assert!(rehearsed[0].starts_with("olmv1-"), "{rehearsed:?}");
}

#[test]
fn rehearsals_and_suites_agree_about_the_suggested_namespace() {
    let suggested = csv(ALL).replace(
        "{name: foo.v1.0.0}",
        "{name: foo.v1.0.0, annotations: {operatorframework.io/suggested-namespace: Not_A_Name}}",
    );
    let directory = with_csv(suggested);
    for generation in [OlmGeneration::V0, OlmGeneration::V1] {
        let [rehearsed, suite] = answers(&directory, generation);
        assert!(suite.iter().any(|error| rehearsed.contains(error)), "{rehearsed:?} {suite:?}");
    }
}

#[test]
fn objects_of_a_catalog_are_judged_like_files() {
    let directory = bundle("{type: SingleNamespace, supported: true}");
    let limits = Limits::default();
    let read = LoadedBundle::from_directory(directory.path().to_owned(), None, &limits).unwrap();
    let objects = read.whole.values().map(ToString::to_string).collect();
    let of_catalog = LoadedBundle::from_objects("foo", objects, &[], &limits).unwrap();
    for generation in [OlmGeneration::V0, OlmGeneration::V1] {
        let [from_files, from_catalog] = [&read, &of_catalog].map(|bundle| {
            let rehearsal = rehearse(&Rehearse::new(generation), None, bundle);
            serde_json::to_value(&rehearsal).unwrap()
        });
        assert_eq!(from_files["objects"], from_catalog["objects"]);
        assert_eq!(from_files["refusal"], from_catalog["refusal"]);
        assert!(from_catalog["findings"].as_array().unwrap().iter().all(|finding| finding["file"] == ""));
    }
}
