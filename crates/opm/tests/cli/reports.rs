//! What commands print as JSON has the form of its schema.

use std::collections::BTreeSet;

use testkit::assert_report;

use crate::env::{SMALL, TestEnv};

/// Reports whose commands need a registry or a cluster: tests beside those check them.
const ELSEWHERE: &[&str] = &[
    "catalog-list",
    "catalog-status",
    "cleanup",
    "mirror-plan",
    "mirror-prune",
    "mirror-pull",
    "mirror-push",
    "mirror-verify",
    "registry-doctor",
    "run",
    "verify",
];

/// Commands on examples, each with its report. A command may fail: that is a report, too.
const COMMANDS: &[(&str, &str)] = &[
    ("check-upgrades", "check-upgrades catalog small"),
    ("check-upgrades", "check-upgrades catalog catalog"),
    ("copy", "copy oci:built:v1 oci-archive:built.tar:v1"),
    ("unpack", "unpack oci-archive:built.tar:v1"),
    ("crd-diff", "crd-diff lantern/1.3.0 lantern/1.3.0"),
    ("crd-diff", "crd-diff old-crd.yaml new-crd.yaml"),
    ("diff", "diff catalog small --changelog"),
    ("diff", "diff small catalog"),
    ("edit", "edit add-bundle catalog lantern/1.3.0 --image r.test/l:v1 --channel extra --create --dry-run"),
    ("edit", "edit deprecate small --bundle foo.v1.0.0 --message old"),
    ("edit", "edit filter catalog --package lantern --to filtered"),
    ("edit", "edit merge small catalog --to merged"),
    ("edit", "edit promote small foo.v1.0.0 fast --create"),
    ("edit", "edit set-default small foo fast"),
    ("edit", "edit set-edge small foo.v1.0.0 --channel fast --skip-range <1.0.0"),
    ("edit", "edit remove small --package foo --channel stable --allow-stranded --dry-run"),
    ("findings", "bundle validate lantern/1.3.0 --suite all -O"),
    ("findings", "security lantern/1.3.0 lantern/1.3.0"),
    ("findings", "security lantern/1.3.0"),
    ("list-bundles", "list bundles catalog"),
    ("list-channels", "list channels catalog"),
    ("list-packages", "list packages catalog"),
    ("rehearse", "rehearse lantern/1.3.0"),
    ("rehearse", "rehearse lantern/1.3.0 --olm v1 --from lantern/1.3.0"),
    ("rehearse", "rehearse catalog --all --no-pull"),
    ("resolve", "resolve catalog --install lantern --install buoy"),
    ("resolve", "resolve lonely --install bar"),
    ("resolve", "resolve catalog --olm v1 --install lantern --install nothing"),
    ("resolve", "resolve catalog --olm v1 --install buoy"),
    ("upgrade-path", "upgrade-path small foo --from 0.1.0"),
    ("upgrade-path", "upgrade-path small foo --from 1.0.0 --olm v1"),
    ("validate", "validate catalog --warnings"),
    ("validate", "validate lonely --deps"),
    ("validate", "validate broken"),
    ("version", "version"),
    ("why", "why catalog lantern"),
    ("why", "why small foo=1.0.0"),
];

const CRD: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  names: {kind: Foo, plural: foos}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {size: {type: TYPE}}}}
";

#[test]
fn reports_of_all_commands_match_their_schemas() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog").copy_of("examples/bundles/lantern").file("small/foo.yaml", SMALL);
    env.file("old-crd.yaml", CRD.replace("TYPE", "string")).file("new-crd.yaml", CRD.replace("TYPE", "integer"));
    let required = "- type: olm.package.required\n  value: {packageName: none, versionRange: '>=1.0.0'}\n";
    env.file("lonely/bar.yaml", format!("{}{required}", SMALL.replace("foo", "bar")));
    env.file("broken/foo.yaml", SMALL.replace("defaultChannel: stable", "defaultChannel: none"));
    env.stdout(&["build", "small", "--data-only", "--to", "oci:built:v1"]);
    for (report, line) in COMMANDS {
        let mut words: Vec<&str> = line.split(' ').collect();
        if words.last() != Some(&"-O") {
            words.push("-o");
        }
        words.push("json");
        let output = env.command().args(&words).output().expect("opm runs");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{line}: {}", env.show(output));
        assert!(!output.stdout.is_empty(), "{line}: {}", env.show(output));
        assert_report(report, &output.stdout);
    }
    let names = env.stdout(&["schema", "--list"]);
    let all: BTreeSet<&str> = names.lines().filter_map(|name| name.strip_prefix("report/")).collect();
    let checked: BTreeSet<&str> = COMMANDS.iter().map(|(report, _)| *report).chain(ELSEWHERE.iter().copied()).collect();
    assert_eq!(all, checked);
}
