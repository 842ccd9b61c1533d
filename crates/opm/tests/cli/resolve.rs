use crate::env::TestEnv;

/// Writes catalogs from lines like `b/stable: b.v1.0.0; b.v1.1.0 r=b.v1.0.0 needs=f:>=1.0.0 gives=Foo`.
pub(crate) fn catalog(lines: &str) -> String {
    let mut out = String::new();
    let mut packages: Vec<&str> = Vec::new();
    let mut bundles: Vec<&str> = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (place, entries) = line.split_once(": ").unwrap();
        let (package, channel) = place.split_once('/').unwrap();
        if !packages.contains(&package) {
            packages.push(package);
            out += &format!("---\nschema: olm.package\nname: {package}\ndefaultChannel: {channel}\n");
        }
        out += &format!("---\nschema: olm.channel\npackage: {package}\nname: {channel}\nentries:\n");
        let mut blobs = String::new();
        for entry in entries.split("; ") {
            let mut words = entry.split(' ');
            let name = words.next().unwrap();
            out += &format!("- name: {name}\n");
            let version = name.split_once(".v").unwrap().1;
            let mut bundle = format!(
                "---\nschema: olm.bundle\nname: {name}\npackage: {package}\nimage: i\nproperties:\n\
                 - {{type: olm.package, value: {{packageName: {package}, version: {version}}}}}\n"
            );
            for word in words {
                let (key, value) = word.split_once('=').unwrap();
                let api = format!("{{group: g, version: v1, kind: {value}}}");
                match (key, value.split_once(':')) {
                    ("r", _) => out += &format!("  replaces: {value}\n"),
                    ("s", _) => out += &format!("  skips: [{value}]\n"),
                    ("R", _) => out += &format!("  skipRange: '{}'\n", value.replace('_', " ")),
                    ("gives", _) => bundle += &format!("- {{type: olm.gvk, value: {api}}}\n"),
                    ("rule", _) => {
                        bundle += &format!(
                            "- {{type: olm.constraint, value: {{failureMessage: why, cel: {{rule: \"{value}\"}}}}}}\n"
                        );
                    }
                    (_, None) => bundle += &format!("- {{type: olm.gvk.required, value: {api}}}\n"),
                    (_, Some((package, range))) => {
                        bundle += &format!(
                            "- {{type: olm.package.required, value: {{packageName: {package}, versionRange: '{range}'}}}}\n"
                        );
                    }
                }
            }
            if !bundles.contains(&name) {
                bundles.push(name);
                blobs += &bundle;
            }
        }
        out += &blobs;
    }
    out
}

const CATALOG: &str = "
    b/stable: b.v1.0.0 needs=Foo; b.v1.1.0 r=b.v1.0.0 needs=Foo needs=f:>=2.0.0
    f/stable: f.v1.0.0 gives=Foo; f.v2.0.0 s=f.v1.0.0 gives=Foo
    h/stable: h.v1.0.0; h.v2.0.0 r=h.v1.0.0 needs=Nothing
    k/stable: k.v1.0.0; k.v1.1.0 r=k.v1.0.0; k.v2.0.0 r=k.v1.1.0 needs=f:1.0.0
    k/fast: k.v3.0.0 R=>=1.0.0_<3.0.0
    z/stable: z.v1.0.0 gives=Foo
";

pub(crate) fn env() -> TestEnv {
    let env = TestEnv::new();
    env.file("cat/catalog.yaml", catalog(CATALOG));
    env
}

#[test]
fn dependencies_are_installed_with_their_reasons() {
    let env = env();
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--install", "b"]), @r"
    exit 0
    --- stdout
    install  b.v1.1.0  (b 1.1.0, channel stable of cat)
               requested
    install  f.v2.0.0  (f 2.0.0, channel stable of cat)
               b.v1.1.0 requires Foo (g/v1)
               b.v1.1.0 requires package f >=2.0.0
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--install", "b=1.0.0", "--installed", "z.v1.0.0"]), @r"
    exit 0
    --- stdout
    install  b.v1.0.0  (b 1.0.0, channel stable of cat)
               requested
    keep     z.v1.0.0
               nothing upgrades it
               b.v1.0.0 requires Foo (g/v1)
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--installed", "b.v1.0.0", "--installed", "f=2.0.0", "-o", "json"]), @r#"
    exit 0
    --- stdout
    {
      "resolved": true,
      "bundles": [
        {
          "action": "upgrade",
          "name": "b.v1.1.0",
          "package": "b",
          "version": "1.1.0",
          "channel": "stable",
          "catalog": "cat",
          "replaces": "b.v1.0.0",
          "edge": "replaces",
          "reasons": [
            "it replaces b.v1.0.0"
          ],
          "passedOver": []
        },
        {
          "action": "keep",
          "name": "f.v2.0.0",
          "package": "f",
          "version": "2.0.0",
          "channel": null,
          "catalog": null,
          "replaces": null,
          "edge": null,
          "reasons": [
            "nothing upgrades it",
            "b.v1.1.0 requires Foo (g/v1)",
            "b.v1.1.0 requires package f >=2.0.0"
          ],
          "passedOver": []
        }
      ]
    }
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--installed", "k=1.0.0", "--install", "k@fast"]), @r"
    exit 0
    --- stdout
    upgrade  k.v1.0.0 to k.v3.0.0  (k 3.0.0, channel fast of cat)
               the version of k.v1.0.0 is in its skipRange
    --- stderr
    ");
}

#[test]
fn failed_resolutions_are_explained() {
    let env = env();
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--install", "k=2.0.0"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: resolution failed: the cluster would install and upgrade nothing in this namespace
      package k, channel stable of cat offers k.v2.0.0
      k.v2.0.0 requires package f 1.0.0
        f.v1.0.0 would do, but in channel stable it is skipped by f.v2.0.0
        not in the range: f.v2.0.0
    OLM says: constraints not satisfiable: bundle k.v2.0.0 requires an operator with package: f and with version in range: 1.0.0, subscription k exists, subscription k requires cat/olm/stable/k.v2.0.0
    ");
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--install", "f", "--install", "z", "-o", "json"]), @r#"
    exit 1
    --- stdout
    {
      "resolved": false,
      "reason": "ConstraintsNotSatisfiable",
      "message": "constraints not satisfiable: cat/olm/stable/f.v2.0.0 and cat/olm/stable/z.v1.0.0 provide Foo (g/v1), subscription f exists, subscription f requires cat/olm/stable/f.v2.0.0, subscription z exists, subscription z requires cat/olm/stable/z.v1.0.0, there can be only one provider of Foo (g/v1)",
      "explanation": [
        "package f, channel stable of cat offers f.v2.0.0",
        "package z, channel stable of cat offers z.v1.0.0",
        "only one bundle can provide Foo (g/v1): f.v2.0.0 and z.v1.0.0"
      ]
    }
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--install", "b", "--unsubscribed", "z.v1.0.0"]), @r"
    exit 0
    --- stdout
    keep     z.v1.0.0
               installed without a Subscription
               b.v1.0.0 requires Foo (g/v1)
    install  b.v1.0.0  (b 1.0.0, channel stable of cat)
               requested
               b.v1.1.0 is newer, but cannot be installed:
                 package b, channel stable of cat offers b.v1.1.0
                 z.v1.0.0 is installed without a Subscription, so that nothing may take its place
                 only one bundle can provide Foo (g/v1): z.v1.0.0 (installed), f.v2.0.0 and z.v1.0.0
                 b.v1.1.0 requires package f >=2.0.0
                   f.v2.0.0 provides Foo, which has another provider
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--install", "nothing"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: resolution failed: the cluster would install and upgrade nothing in this namespace
      catalog cat has no package "nothing"
    OLM says: constraints not satisfiable: no operators found in package nothing in the catalog referenced by subscription nothing, subscription nothing exists
    "#);
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--install", "b=7.0.0"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: package b has no version 7.0.0, only 1.1.0, 1.0.0
    ");
    insta::assert_snapshot!(env.opm(&["resolve", "cat"]), @r"
    exit 2
    --- stdout
    --- stderr
    error: nothing to resolve: give --install, --installed, --unsubscribed or --state
    ");
}

#[test]
fn a_namespace_is_read_in_the_format_of_kubectl() {
    let env = env();
    env.file(
        "state.json",
        r#"{"apiVersion":"v1","kind":"List","items":[
        {"kind":"Subscription","metadata":{"name":"my-k","namespace":"operators"},
         "spec":{"name":"k","channel":"stable","source":"community","sourceNamespace":"olm"},"status":{"installedCSV":"k.v1.0.0"}},
        {"kind":"ClusterServiceVersion","metadata":{"name":"k.v1.0.0","namespace":"operators"},"spec":{"version":"1.0.0"}},
        {"kind":"ClusterServiceVersion","metadata":{"name":"z.v1.0.0","namespace":"operators"},
         "spec":{"version":"1.0.0","customresourcedefinitions":{"owned":[{"name":"foos.g","version":"v1","kind":"Foo"}]}}}]}"#,
    );
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--state", "state.json", "--install", "b=1.0.0"]), @r"
    exit 0
    --- stdout
    keep     z.v1.0.0
               installed without a Subscription
               b.v1.0.0 requires Foo (g/v1)
    install  b.v1.0.0  (b 1.0.0, channel stable of community)
               requested
    upgrade  k.v1.0.0 to k.v1.1.0  (k 1.1.0, channel stable of community)
               it replaces k.v1.0.0
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "cat", "--state", "state.json"]), @r#"
    exit 2
    --- stdout
    --- stderr
    error: Subscription my-k uses catalog "community", but the given catalogs are named cat, cat-2
    help: add the catalog with its name: community=SOURCE
    "#);
    env.file("broken.yaml", "a: [");
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--state", "broken.yaml"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: broken.yaml: line 1: yaml: did not find expected node content
    ");
}

#[test]
fn catalogs_have_names_and_priorities() {
    let env = env();
    env.file("d/catalog.yaml", catalog("d/stable: d.v1.0.0 gives=Bar"));
    env.file("e/catalog.yaml", catalog("e/stable: e.v1.0.0 gives=Bar\nx/stable: x.v1.0.0"));
    env.file("m/catalog.yaml", catalog("m/stable: m.v1.0.0 needs=Bar"));
    let chosen = |arguments: &[&str]| {
        let all: Vec<&str> =
            ["resolve", "m", "d", "other=e", "--install", "m"].iter().chain(arguments).copied().collect();
        env.stdout(&all)
    };
    assert!(chosen(&[]).contains("install  d.v1.0.0  (d 1.0.0, channel stable of d)"));
    assert!(chosen(&["--priority", "other=10"]).contains("install  e.v1.0.0  (e 1.0.0, channel stable of other)"));
}

#[test]
fn olm_v1_selects_the_highest_version() {
    let env = env();
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--olm", "v1", "--install", "k", "--install", "b=~1.0"]), @r"
    exit 0
    --- stdout
    install  k.v3.0.0  (k 3.0.0, channel fast of cat)
    install  b.v1.0.0  (b 1.0.0, channel stable of cat)
               it has dependencies, which this OLM does not install
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--olm", "v1", "--install", "k@stable", "--installed", "k.v1.0.0"]), @r"
    exit 0
    --- stdout
    upgrade  k.v1.0.0 to k.v1.1.0  (k 1.1.0, channel stable of cat)
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--olm", "v1", "--install", "k=^1.1", "--installed", "k.v2.0.0"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: upgrading from currently installed version "2.0.0": no bundles found for package "k" matching version "^1.1"
    "#);
    insta::assert_snapshot!(env.opm(&["resolve", "cat", "--olm", "v1", "--install", "k=^1.1", "--installed", "k.v2.0.0", "--self-certified"]), @r"
    exit 0
    --- stdout
    upgrade  k.v2.0.0 to k.v1.1.0  (k 1.1.0, channel stable of cat)
    --- stderr
    ");
}
