use super::*;
use crate::sample::outline;

fn report(old: &str, new: &str) -> String {
    let (old, new) = (outline(old), outline(new));
    let (none, all) = (Forbidden::new(), Unmet::new());
    let unmet = Unmet::from([(("p".to_owned(), "p.v9.0.0".to_owned()), "it requires q".to_owned())]);
    let reports = check(
        UpgradeCatalog { outline: &old, forbidden: &none, unmet: &all },
        UpgradeCatalog { outline: &new, forbidden: &none, unmet: &unmet },
    );
    let mut out = String::new();
    for report in reports {
        for outcome in &report.outcomes {
            let mark = if outcome.is_regression() { "!" } else { " " };
            out += &format!("{mark} {} {:?}\n", outcome.bundle, outcome.now);
        }
        if let Some(fix) = report.fix {
            out += &format!("{fix:?}\n");
        }
    }
    out
}

#[test]
fn upgrades_follow_the_rules_of_clusters() {
    let chain = "p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0; p.v3.0.0 r=p.v2.0.0";
    insta::assert_snapshot!(report(chain, chain), @r#"
          p.v1.0.0 Upgraded(UpgradeRun { next: "p.v2.0.0", end: "p.v3.0.0", steps: 2 })
          p.v2.0.0 Upgraded(UpgradeRun { next: "p.v3.0.0", end: "p.v3.0.0", steps: 1 })
          p.v3.0.0 Latest
        "#);
    insta::assert_snapshot!(report(chain, "p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0; p.v3.0.0 r=p.v1.0.0 s=p.v2.0.0"), @r#"
          p.v1.0.0 Upgraded(UpgradeRun { next: "p.v3.0.0", end: "p.v3.0.0", steps: 1 })
          p.v2.0.0 Upgraded(UpgradeRun { next: "p.v3.0.0", end: "p.v3.0.0", steps: 1 })
          p.v3.0.0 Latest
        "#);
    insta::assert_snapshot!(report("p/c: p.v2.0.0-rc1", "p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0; p.v3.0.0 r=p.v2.0.0 R=>=1.0.0_<3.0.0"), @r#"  p.v2.0.0-rc1 Upgraded(UpgradeRun { next: "p.v3.0.0", end: "p.v3.0.0", steps: 1 })"#);
    insta::assert_snapshot!(report("p/c: p.v1.0.0", "p/c: p.v2.0.0 r=p.v1.0.0"), @r#"  p.v1.0.0 Upgraded(UpgradeRun { next: "p.v2.0.0", end: "p.v2.0.0", steps: 1 })"#);
}

#[test]
fn skipping_the_middle_entry_strands_older_ones() {
    // A valid chain, but without an edge from v1 to v3.
    insta::assert_snapshot!(report("p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0", "p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0; p.v3.0.0 s=p.v2.0.0,p.v1.5.0"), @r#"
        ! p.v1.0.0 Stuck(None)
          p.v2.0.0 Upgraded(UpgradeRun { next: "p.v3.0.0", end: "p.v3.0.0", steps: 1 })
        AddSkips { bundle: "p.v3.0.0", skips: ["p.v1.0.0"] }
        "#);
}

#[test]
fn removed_versions_need_an_upgrade() {
    insta::assert_snapshot!(report("p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0\np/d: p.v1.0.0\nq/c: q.v1.0.0", "p/c: p.v3.0.0 r=p.v0.9.0"), @r#"
        ! p.v1.0.0 NoPath
        ! p.v2.0.0 NoPath
        AddSkips { bundle: "p.v3.0.0", skips: ["p.v1.0.0", "p.v2.0.0"] }
        ! p.v1.0.0 ChannelGone
        KeepChannel
        ! q.v1.0.0 PackageGone
        KeepPackage
        "#);
}

#[test]
fn uninstallable_versions_block_upgrades() {
    insta::assert_snapshot!(report("p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0", "p/c: p.v1.0.0; p.v2.0.0 r=p.v1.0.0; p.v9.0.0 r=p.v2.0.0"), @r#"
        ! p.v1.0.0 HeldBack { path: Some(UpgradeRun { next: "p.v2.0.0", end: "p.v2.0.0", steps: 1 }), by: "p.v9.0.0", why: "it requires q" }
        ! p.v2.0.0 HeldBack { path: None, by: "p.v9.0.0", why: "it requires q" }
        "#);
}

#[test]
fn a_range_fixes_many_stranded_versions() {
    let old = "p/c: p.v1.0.0; p.v1.0.1 r=p.v1.0.0; p.v1.0.2 r=p.v1.0.1; p.v1.0.3 r=p.v1.0.2; p.v1.0.4 r=p.v1.0.3; p.v1.0.5 r=p.v1.0.4";
    let report = report(old, "p/c: p.v2.0.0 R=<1.0.0");
    assert!(report.ends_with("SkipRange { bundle: \"p.v2.0.0\", range: \"<1.0.0 || >=1.0.0 <2.0.0\" }\n"), "{report}");
}

#[test]
fn several_heads_block_all_upgrades() {
    insta::assert_snapshot!(report("p/c: p.v1.0.0", "p/c: p.v1.0.0; p.v2.0.0"), @r#"
        ! p.v1.0.0 Broken(["p.v1.0.0", "p.v2.0.0"])
        OneHead
        "#);
}
