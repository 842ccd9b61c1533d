use crate::env::TestEnv;
use crate::resolve;

fn catalog(channels: &[(&str, &[&str])]) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut out = format!("schema: olm.package\nname: foo\ndefaultChannel: {}\n", channels[0].0);
    for (channel, entries) in channels {
        out += &format!("---\nschema: olm.channel\npackage: foo\nname: {channel}\nentries:\n");
        for entry in *entries {
            out += &format!("- {{name: {entry}}}\n");
            names.push(entry.split(',').next().unwrap());
        }
    }
    names.sort_unstable();
    names.dedup();
    for name in names {
        let version = name.strip_prefix("foo.v").unwrap();
        out += &format!(
            "---\nschema: olm.bundle\nname: {name}\npackage: foo\nimage: i\nproperties:\n\
             - {{type: olm.package, value: {{packageName: foo, version: {version}}}}}\n"
        );
    }
    out
}

fn env() -> TestEnv {
    let env = TestEnv::new();
    let old = &["foo.v1.0.0", "foo.v1.1.0, replaces: foo.v1.0.0", "foo.v1.2.0, replaces: foo.v1.1.0"] as &[_];
    let new = &["foo.v1.0.0", "foo.v1.3.0, replaces: foo.v1.0.0"] as &[_];
    env.file("old/foo.yaml", catalog(&[("stable", old), ("fast", &["foo.v1.2.0"])]));
    env.file("new/foo.yaml", catalog(&[("stable", new)]));
    env
}

#[test]
fn stranded_versions_are_reported_with_a_fix() {
    let env = env();
    insta::assert_snapshot!(env.opm(&["check-upgrades", "old", "new"]), @r#"
    exit 1
    --- stdout
    foo / fast
      ! foo.v1.2.0 cannot be upgraded: its channel is gone, and installing anything in its namespace fails; so far it is the newest
        fix: keep channel "fast" until nobody follows it; 'opm edit deprecate' warns them
    foo / stable
      ! foo.v1.1.0 has no path: it is not in the channel any more, and nothing upgrades it; so far it is upgraded to foo.v1.2.0
      ! foo.v1.2.0 has no path: it is not in the channel any more, and nothing upgrades it; so far it is the newest
        fix: opm edit set-edge new foo.v1.3.0 --package foo --channel stable --add-skip foo.v1.1.0,foo.v1.2.0
    3 of 4 bundles lose their upgrade
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["check-upgrades", "old", "new", "-o", "github"]), @r#"
    exit 1
    --- stdout
    ::error file=new/foo.yaml,line=2,title=upgrades::foo / fast%0Afoo.v1.2.0 cannot be upgraded: its channel is gone, and installing anything in its namespace fails; so far it is the newest%0Afix: keep channel "fast" until nobody follows it; 'opm edit deprecate' warns them
    ::error file=new/foo.yaml,line=7,title=upgrades::foo / stable%0Afoo.v1.1.0 has no path: it is not in the channel any more, and nothing upgrades it; so far it is upgraded to foo.v1.2.0%0Afoo.v1.2.0 has no path: it is not in the channel any more, and nothing upgrades it; so far it is the newest%0Afix: opm edit set-edge new foo.v1.3.0 --package foo --channel stable --add-skip foo.v1.1.0,foo.v1.2.0
    --- stderr
    "#);
    let json: serde_json::Value = {
        let output = env.command().args(["check-upgrades", "old", "new", "-o", "json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(json["regressions"], 3);
    assert_eq!(json["channels"][1]["bundles"][0]["now"]["next"], "foo.v1.3.0");
}

#[test]
fn the_suggested_fix_works() {
    let env = env();
    env.stdout(&[
        "edit",
        "set-edge",
        "new",
        "foo.v1.3.0",
        "--package",
        "foo",
        "--channel",
        "stable",
        "--add-skip",
        "foo.v1.1.0,foo.v1.2.0",
    ]);
    env.stdout(&["edit", "promote", "new", "foo.v1.3.0", "fast", "--create", "--skip", "foo.v1.2.0"]);
    insta::assert_snapshot!(env.opm(&["check-upgrades", "old", "new", "--all"]), @"
    exit 0
    --- stdout
    foo / fast
        foo.v1.2.0 is upgraded to foo.v1.3.0
    foo / stable
        foo.v1.0.0
        foo.v1.1.0
        foo.v1.2.0
        each is upgraded to foo.v1.3.0
    nobody is stranded: 4 bundles in 2 channels checked
    --- stderr
    ");
}

#[test]
fn dependencies_block_upgrades() {
    let env = TestEnv::new();
    env.file("old/catalog.yaml", resolve::catalog("h/stable: h.v1.0.0 needs=Far\nnear/stable: near.v1.0.0 gives=Near"));
    let new = "h/stable: h.v1.0.0 needs=Far; h.v2.0.0 r=h.v1.0.0 needs=Far needs=near:>=2.0.0\nnear/stable: near.v1.0.0 gives=Near";
    env.file("new/catalog.yaml", resolve::catalog(new));
    env.file("with/catalog.yaml", resolve::catalog("near/stable: near.v2.0.0"));
    insta::assert_snapshot!(env.opm(&["check-upgrades", "old", "new"]), @r"
    exit 1
    --- stdout
    h / stable
      ! h.v1.0.0 stays: h.v2.0.0 comes next, but cannot be installed: it requires package near >=2.0.0 (not in the range: near.v1.0.0); so far it is the newest
    1 of 2 bundles lose their upgrade
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["check-upgrades", "old", "new", "--with", "with", "--all"]), @r"
    exit 0
    --- stdout
    h / stable
        h.v1.0.0 is upgraded to h.v2.0.0
    near / stable
        near.v1.0.0 is the newest
    nobody is stranded: 2 bundles in 2 channels checked
    --- stderr
    ");
}

#[test]
fn neighbours_share_one_reason() {
    let env = TestEnv::new();
    let catalog = |entries: &str, last: u32| {
        let bundle = |version: u32| {
            format!(
                "---\nschema: olm.bundle\npackage: foo\nname: foo.v{version}.0.0\nimage: quay.io/e/foo:v{version}\nproperties: \
                 [{{type: olm.package, value: {{packageName: foo, version: {version}.0.0}}}}]\n"
            )
        };
        let bundles: String = (1..=last).map(bundle).collect();
        format!(
            "schema: olm.package\nname: foo\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: foo\nname: \
             stable\nentries: [{entries}]\n{bundles}"
        )
    };
    let skips = "{name: foo.v4.0.0, skips: [foo.v1.0.0, foo.v2.0.0, foo.v3.0.0]}, {name: foo.v1.0.0}, {name: foo.v2.0.0}, {name: foo.v3.0.0}";
    env.file("old/c.yaml", catalog(skips, 4));
    let part = catalog("{name: foo.v4.0.0}", 4);
    let (head, last) = (part.split("---\n").take(2), part.split("---\n").last());
    env.file("new/c.yaml", head.chain(last).collect::<Vec<_>>().join("---\n"));
    insta::assert_snapshot!(env.opm(&["check-upgrades", "old", "new"]), @"
    exit 1
    --- stdout
    foo / stable
      ! foo.v1.0.0
      ! foo.v2.0.0
      ! foo.v3.0.0
        each has no path: it is not in the channel any more, and nothing upgrades it; so far it is upgraded to foo.v4.0.0
        fix: opm edit set-edge new foo.v4.0.0 --package foo --channel stable --add-skip foo.v1.0.0,foo.v2.0.0,foo.v3.0.0
    3 of 4 bundles lose their upgrade
    --- stderr
    ");
}
