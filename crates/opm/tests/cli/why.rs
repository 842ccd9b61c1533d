use crate::resolve::env;

#[test]
fn upgrade_paths_are_printed_step_by_step() {
    let env = env();
    insta::assert_snapshot!(env.opm(&["upgrade-path", "cat", "b", "--from", "1.0.0"]), @r"
    exit 0
    --- stdout
    b.v1.0.0
    -> b.v1.1.0  (replaces)
    b.v1.1.0 is the newest of channel stable
    --- stderr
    ");
    let by_flag = env.opm(&["upgrade-path", "cat", "-p", "b", "--from", "1.0.0"]);
    assert_eq!(by_flag, env.opm(&["upgrade-path", "cat", "b", "--from", "1.0.0"]));
    insta::assert_snapshot!(env.opm(&["upgrade-path", "cat", "k", "--from", "1.0.0"]), @r"
    exit 1
    --- stdout
    k.v1.0.0
    -> k.v1.1.0  (replaces)
    stuck at k.v1.1.0, which is not the newest of channel stable:
      k.v2.0.0 would upgrade k.v1.1.0, but cannot be installed:
        package k, channel stable of cat offers k.v2.0.0
        k.v2.0.0 requires package f 1.0.0
          f.v1.0.0 would do, but in channel stable it is skipped by f.v2.0.0
          not in the range: f.v2.0.0
    channel fast leads on: --channel fast
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["upgrade-path", "cat", "k", "--from", "k.v1.0.0", "--to", "1.1.0", "-o", "json"]), @r#"
    exit 0
    --- stdout
    {
      "package": "k",
      "channel": "stable",
      "from": "k.v1.0.0",
      "steps": [
        {
          "name": "k.v1.1.0",
          "version": "1.1.0",
          "edge": "replaces",
          "along": []
        }
      ],
      "end": "reached",
      "arrived": true,
      "explanation": [],
      "elsewhere": []
    }
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["upgrade-path", "cat", "k", "--from", "0.9.0", "--channel", "fast"]), @r"
    exit 1
    --- stdout
    k.v0.9.0
    stuck at k.v0.9.0, which is not the newest of channel fast:
      in k, channel fast of cat nothing replaces or skips k.v0.9.0 or has it in its skipRange; the newest is k.v3.0.0
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["upgrade-path", "cat", "k", "--from", "1.0.0", "--channel", "slow"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: package k has no channel "slow", only fast, stable
    "#);
}

#[test]
fn reasons_are_explained() {
    let env = env();
    insta::assert_snapshot!(env.opm(&["why", "cat", "f"]), @r"
    exit 0
    --- stdout
    channels of f:
      stable (default) of cat: head f.v2.0.0, 2 bundles, 1 of them skipped or not on the chain
    a new installation gets f.v2.0.0 (f 2.0.0, channel stable of cat)
    f meets what others require:
      2 bundles of b require Foo (g/v1)
      b.v1.1.0 requires package f >=2.0.0
    --- stderr
    ");
    assert_eq!(env.opm(&["why", "cat", "-p", "f"]), env.opm(&["why", "cat", "f"]));
    assert!(env.opm(&["why", "cat"]).ends_with("error: expected a catalog and a package\n"));
    insta::assert_snapshot!(env.opm(&["why", "cat", "f=1.0.0"]), @r"
    exit 0
    --- stdout
    f.v1.0.0:
      channel stable of cat: skipped by f.v2.0.0: not offered; a Subscription with startingCSV f.v1.0.0 still gets it
    it can be installed; it requires nothing
    upgrades:
      channel stable: it is upgraded to f.v2.0.0 (skips)
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["why", "cat", "h"]), @r"
    exit 0
    --- stdout
    channels of h:
      stable (default) of cat: head h.v2.0.0, 2 bundles
    a new installation gets h.v1.0.0 (h 1.0.0, channel stable of cat)
      h.v2.0.0 is newer, but cannot be installed: it requires Nothing (g/v1); no bundle here provides it
    nothing here requires h
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["why", "cat", "k.v2.0.0"]), @r"
    exit 0
    --- stdout
    k.v2.0.0:
      channel stable of cat: the head
    it cannot be installed:
      it requires package f 1.0.0; f.v1.0.0 would do, but in channel stable it is skipped by f.v2.0.0; not in the range: f.v2.0.0
    upgrades:
      channel stable: it is the newest
      channel stable: k.v1.1.0 upgrades to it
    --- stderr
    ");
    insta::assert_snapshot!(env.opm(&["why", "cat", "b@stable=1.1.0", "-o", "json"]), @r#"
    exit 0
    --- stdout
    {
      "package": "b",
      "version": "1.1.0",
      "answers": [
        {
          "about": "place",
          "summary": "b.v1.1.0:",
          "details": [
            "channel stable of cat: the head: new installations get it"
          ]
        },
        {
          "about": "install",
          "summary": "it can be installed, with what it requires:",
          "details": [
            "Foo (g/v1): f.v2.0.0 (f 2.0.0, channel stable of cat)",
            "package f >=2.0.0: f.v2.0.0 (f 2.0.0, channel stable of cat)"
          ]
        },
        {
          "about": "upgrades",
          "summary": "upgrades:",
          "details": [
            "channel stable: b.v1.0.0 upgrades to it",
            "channel stable: it is the newest"
          ]
        }
      ]
    }
    --- stderr
    "#);
    insta::assert_snapshot!(env.opm(&["why", "cat", "lantern"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: no package or bundle "lantern" in cat
    "#);
}
