//! Cases whose results were observed on real clusters, and their messages.

use super::sample::{read, shown};
use crate::pool::Pool;
use crate::resolver::{Resolution, ResolutionRefusal, bundle, resolve};

const UNSATISFIABLE: &str = "constraints not satisfiable: ";
const TWO_CHAINS: &str = "error: a unique replacement chain within a channel is required to determine the relative \
                          order between channel entries, but 2 replacement chains were found";

const THREE: &str = "catalog cat\na/stable*: a.v1; a.v2 r=a.v1; a.v3 r=a.v2\n";
const SKIPS: &str = "catalog cat\na/stable*: a.v1; a.v2 r=a.v1; a.v3 r=a.v1 s=a.v2\n";
const RANGE: &str = "catalog cat\na/stable*: a.v1; a.v2 r=a.v1; a.v3 r=a.v2 R=>=1.0.0_<3.0.0\n";
const TWO_HEADS: &str = "catalog cat\na/stable*: a.v1; a.v2\n";
const FORBIDDEN: &str = "catalog cat\na/stable*: a.v1; a.v2 r=a.v1 deprecated\n";
const HOPELESS: &str = "catalog cat\na/stable*: a.v1; a.v2 r=a.v1 needs=Nothing\n";
const CHANNELS: &str = "catalog cat\na/stable*: a.v3\na/fast: a.v9\n";

/// A name, a catalog, the lines of a namespace, and the start of the result.
const CASES: &[(&str, &str, &str, &str)] = &[
    ("head of the chain", THREE, "sub a", "a.v3"),
    ("starting csv", THREE, "sub a start=a.v1", "a.v1"),
    ("one step at a time", THREE, "sub a installed=a.v1\ncsv a.v1", "a.v2"),
    ("starting csv is ignored later", THREE, "sub a start=a.v1 installed=a.v1\ncsv a.v1", "a.v2"),
    ("skips from below", SKIPS, "sub a installed=a.v1\ncsv a.v1", "a.v3"),
    ("skips from the skipped", SKIPS, "sub a installed=a.v2\ncsv a.v2", "a.v3"),
    ("starting csv may be skipped", SKIPS, "sub a start=a.v2", "a.v2"),
    ("range", RANGE, "sub a installed=a.v1\ncsv a.v1", "a.v3"),
    ("range with a pre-release", RANGE, "sub a installed=a.v2.0.0-rc1\ncsv a.v2.0.0-rc1", "a.v3"),
    (
        "the way is skipped",
        "catalog cat\na/stable*: a.v1; a.v2 r=a.v1; a.v3 s=a.v2",
        "sub a installed=a.v1\ncsv a.v1",
        "=a.v1",
    ),
    ("replaced is absent", "catalog cat\na/stable*: a.v1; a.v3 r=a.v2", "sub a", TWO_CHAINS),
    ("two heads", TWO_HEADS, "sub a", TWO_CHAINS),
    ("two heads and a starting csv", TWO_HEADS, "sub a start=a.v1", "a.v1"),
    ("installed is gone", "catalog cat\na/stable*: a.v2 r=a.v1", "sub a installed=a.v1\ncsv a.v1", "a.v2"),
    ("forbidden head", FORBIDDEN, "sub a", "a.v1"),
    ("forbidden starting csv", FORBIDDEN, "sub a start=a.v2", UNSATISFIABLE),
    ("head that cannot be", HOPELESS, "sub a", "a.v1"),
    ("upgrade that cannot be", HOPELESS, "sub a installed=a.v1\ncsv a.v1", "=a.v1"),
    ("other channel without edges", CHANNELS, "sub a @fast installed=a.v3\ncsv a.v3", "=a.v3"),
    ("channel is gone", "catalog cat\na/stable*: a.v3", "sub a @fast installed=a.v3\ncsv a.v3", UNSATISFIABLE),
    ("default channel", "catalog cat\na/alpha: a.v9\na/stable*: a.v3", "sub a", "a.v3"),
    (
        "own catalog before priority",
        "catalog cat\nb/stable*: b.v1 needs=Foo\nf/beta: f.v1 gives=Foo; f.v2 r=f.v1 gives=Foo\ncatalog other 50\nalt/stable*: alt.v1 gives=Foo",
        "sub b",
        "b.v1 f.v2",
    ),
    (
        "priority",
        "catalog cat\nb/stable*: b.v1 needs=Foo\ncatalog d 0\nd/stable*: d.v1 gives=Foo\ncatalog e 10\ne/stable*: e.v1 gives=Foo",
        "sub b",
        "b.v1 e.v1",
    ),
    (
        "same priority",
        "catalog cat\nb/stable*: b.v1 needs=Foo\ncatalog e 0\ne/stable*: e.v1 gives=Foo\ncatalog d 0\nd/stable*: d.v1 gives=Foo",
        "sub b",
        "b.v1 d.v1",
    ),
    (
        "own namespace before the global one",
        "catalog cat\nb/stable*: b.v1 needs=Foo\ncatalog d 0 olm\nd/stable*: d.v1 gives=Foo\ncatalog z 0 here\nz/stable*: z.v1 gives=Foo",
        "sub b",
        "b.v1 z.v1",
    ),
    (
        "installed is preferred",
        "catalog cat\nb/stable*: b.v1 needs=Foo\nf/stable*: f.v1 gives=Foo",
        "sub b\ncsv own.v1 gives=Foo",
        "=own.v1 b.v1",
    ),
    (
        "default channels first",
        "catalog cat\nb/stable*: b.v1 needs=Foo\nf/aaa: f.v1 gives=Foo\nz/zzz*: z.v1 gives=Foo",
        "sub b",
        "b.v1 z.v1",
    ),
    (
        "all means one bundle",
        r#"catalog cat
        b/stable*: b.v1 c={"all":{"constraints":[{"package":{"packageName":"f","versionRange":">=1.0.0"}},{"gvk":{"group":"g","version":"v1","kind":"Foo"}}]}}
        f/stable*: f.v1
        z/stable*: z.v1 gives=Foo"#,
        "sub b",
        UNSATISFIABLE,
    ),
    (
        "not in all",
        r#"catalog cat
        b/stable*: b.v1 c={"all":{"constraints":[{"package":{"packageName":"f","versionRange":">=1.0.0"}},{"not":{"constraints":[{"gvk":{"group":"g","version":"v1","kind":"Foo"}}]}}]}}
        f/stable*: f.v1; f.v2 r=f.v1 gives=Foo"#,
        "sub b",
        "b.v1 f.v1",
    ),
    (
        "bare not forbids nothing",
        r#"catalog cat
        b/stable*: b.v1 c={"not":{"constraints":[{"gvk":{"group":"g","version":"v1","kind":"Foo"}}]}}
        f/stable*: f.v1 gives=Foo"#,
        "sub b\nsub f",
        "b.v1 f.v1",
    ),
    (
        "any by name, not by list",
        r#"catalog cat
        b/stable*: b.v1 c={"any":{"constraints":[{"package":{"packageName":"zz","versionRange":">=1.0.0"}},{"package":{"packageName":"f","versionRange":">=1.0.0"}}]}}
        f/stable*: f.v1
        zz/stable*: zz.v1"#,
        "sub b",
        "b.v1 f.v1",
    ),
    (
        "needed version is skipped",
        "catalog cat\nb/stable*: b.v1 needs=f:1.0.0\nf/stable*: f.v1; f.v2 s=f.v1",
        "sub b",
        UNSATISFIABLE,
    ),
    (
        "broken channel of another provider",
        "catalog cat\nb/stable*: b.v1 needs=Foo\nf/stable*: f.v1 gives=Foo\ng/stable*: g.v1 gives=Foo; g.v2 gives=Foo",
        "sub b",
        TWO_CHAINS,
    ),
    (
        "upgrade for a dependency",
        "catalog cat\nb/stable*: b.v1 needs=a:>=2.0.0\na/stable*: a.v1; a.v2 r=a.v1; a.v3 r=a.v2",
        "sub a installed=a.v1\ncsv a.v1\nsub b",
        "a.v2 b.v1",
    ),
    ("free csv in the way", "catalog cat\na/stable*: a.v2; a.v3 r=a.v2", "csv a.v2\nsub a", UNSATISFIABLE),
    (
        "two providers",
        "catalog cat\na/stable*: a.v1 gives=Foo\nb/stable*: b.v1 gives=Foo",
        "sub a\nsub b",
        UNSATISFIABLE,
    ),
    (
        "two channels of one package",
        "catalog cat\na/stable*: a.v1\na/fast: a.v2",
        "sub a @stable\nsub a @fast name=other",
        UNSATISFIABLE,
    ),
];

#[test]
fn every_observed_case_is_reproduced() {
    let mut wrong = Vec::new();
    for (name, catalog, state, expected) in CASES {
        let result = shown(&format!("{catalog}\n{state}"));
        let right = if expected.ends_with(' ') || expected.ends_with("found") {
            result.starts_with(expected)
        } else {
            result == *expected
        };
        if !right {
            wrong.push(format!("{name}: {result}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn messages_match_clusters() {
    let cases = [
        (
            "channel is gone",
            "catalog cat\na/stable*: a.v3",
            "sub a @fast installed=a.v3\ncsv a.v3",
            "no operators found in channel fast of package a in the catalog referenced by subscription a-sub, subscription a-sub exists",
        ),
        (
            "no package",
            "catalog cat\na/stable*: a.v3",
            "sub b",
            "no operators found in package b in the catalog referenced by subscription b-sub, subscription b-sub exists",
        ),
        (
            "no name",
            THREE,
            "sub a @stable start=a.v7",
            "no operators found with name a.v7 in channel stable of package a in the catalog referenced by subscription a-sub, subscription a-sub exists",
        ),
        (
            "no catalog",
            THREE,
            "sub a from=none",
            "no operators found from catalog none in namespace olm referenced by subscription a-sub, subscription a-sub exists",
        ),
        (
            "forbidden",
            FORBIDDEN,
            "sub a start=a.v2",
            "bundle cat/olm/stable/a.v2 is deprecated, subscription a-sub exists, subscription a-sub requires cat/olm/stable/a.v2",
        ),
        (
            "needed version is skipped",
            "catalog cat\nb/stable*: b.v1 needs=f:1.0.0\nf/stable*: f.v1; f.v2 s=f.v1",
            "sub b",
            "bundle b.v1 requires an operator with package: f and with version in range: 1.0.0, subscription b-sub exists, subscription b-sub requires cat/olm/stable/b.v1",
        ),
        (
            "api",
            "catalog cat\nb/stable*: b.v1 needs=Foo",
            "sub b",
            "bundle b.v1 requires an operator providing an API with group: g, version: v1, kind: Foo, subscription b-sub exists, subscription b-sub requires cat/olm/stable/b.v1",
        ),
        (
            "label",
            "catalog cat\nb/stable*: b.v1 wants-label=x",
            "sub b",
            "bundle b.v1 requires an operator with label: x, subscription b-sub exists, subscription b-sub requires cat/olm/stable/b.v1",
        ),
        (
            "rule",
            r#"catalog cat
            b/stable*: b.v1 c={"failureMessage":"why","cel":{"rule":"false"}}"#,
            "sub b",
            r#"bundle b.v1 requires an operator with constraint: "false" and message: "why", subscription b-sub exists, subscription b-sub requires cat/olm/stable/b.v1"#,
        ),
        (
            "two providers",
            "catalog cat\na/stable*: a.v1 gives=Foo\nb/stable*: b.v1 gives=Foo",
            "sub a\nsub b",
            "cat/olm/stable/a.v1 and cat/olm/stable/b.v1 provide Foo (g/v1), subscription a-sub exists, subscription a-sub requires cat/olm/stable/a.v1, subscription b-sub exists, subscription b-sub requires cat/olm/stable/b.v1, there can be only one provider of Foo (g/v1)",
        ),
        (
            "free csv in the way",
            "catalog cat\na/stable*: a.v2; a.v3 r=a.v2",
            "csv a.v2\nsub a",
            "@existing/here//a.v2, cat/olm/stable/a.v2 and cat/olm/stable/a.v3 originate from package a, clusterserviceversion a.v2 exists and is not referenced by a subscription, subscription a-sub exists, subscription a-sub requires at least one of cat/olm/stable/a.v3 or cat/olm/stable/a.v2, there can be only one operator from package a",
        ),
    ];
    for (name, catalog, state, expected) in cases {
        assert_eq!(shown(&format!("{catalog}\n{state}")), format!("{UNSATISFIABLE}{expected}"), "{name}");
    }
}

#[test]
fn invalid_dependencies_fail_the_resolution() {
    for (need, message) in [
        ("needs=f:", "package \"f\" in invalid range \"\""),
        (r#"c={}"#, "parse olm.constraint: constraint is empty"),
        (r#"c={"gvk":null,"other":1}"#, "parse olm.constraint: json: unknown field \"other\""),
        (r#"c={"cel":{"rule":"1~+"}}"#, "convert olm.constraint to resolver predicate: "),
        (r#"c={"cel":{"rule":"unknown"}}"#, "undeclared reference to 'unknown'"),
    ] {
        let result = shown(&format!("catalog cat\nb/stable*: b.v1 {need}\nsub b"));
        assert!(result.starts_with("error: ") && result.contains(message), "{need}: {result}");
        // Only where a cluster encounters it.
        assert_eq!(shown(&format!("catalog cat\na/stable*: a.v1\nb/stable*: b.v1 {need}\nsub a")), "a.v1");
    }
}

#[test]
fn rules_and_labels_select_bundles() {
    let rule = r#"catalog cat
        b/stable*: b.v1 c={"cel":{"rule":"properties.exists(p,p.type=='olm.package'&&p.value.packageName=='f'&&semver_compare(p.value.version,'2')<0)"}}
        f/stable*: f.v1; f.v2 r=f.v1
        sub b"#;
    assert_eq!(shown(rule), "b.v1 f.v1");
    assert_eq!(
        shown("catalog cat\nb/stable*: b.v1 wants-label=x\nf/stable*: f.v1 label=y\ng/stable*: g.v1 label=x\nsub b"),
        "b.v1 g.v1"
    );
}

#[test]
fn bundles_may_depend_on_themselves_and_each_other() {
    assert_eq!(shown("catalog cat\nb/stable*: b.v1 gives=Foo needs=Foo\nsub b"), "b.v1");
    assert_eq!(
        shown("catalog cat\nb/stable*: b.v1 gives=Foo needs=Bar\nf/stable*: f.v1 gives=Bar needs=Foo\nsub b"),
        "b.v1 f.v1"
    );
}

#[test]
fn hostile_catalogs_end_in_bounded_time() {
    // Every package requires every other, and none can be installed together.
    let mut lines = "catalog cat\n".to_owned();
    for package in 0..60 {
        lines += &format!("p{package}/stable*: ");
        for version in 1..40 {
            let separator = if version > 1 { "; " } else { "" };
            let needs: String = (0..6).map(|of| format!(" needs=p{}:>=1.0.0", (package + of * 7 + 1) % 60)).collect();
            let edge = if version > 1 { format!(" r=p{package}.v{}", version - 1) } else { String::new() };
            lines += &format!("{separator}p{package}.v{version}{edge}{needs} gives=K{}", (package * version) % 50);
        }
        lines += "\n";
    }
    lines += "sub p0\n";
    let result = shown(&lines);
    assert!(result.starts_with("error: gave up") || result.starts_with(UNSATISFIABLE), "{result}");
    // Constraints that every bundle meets, in every bundle.
    let mut lines = "catalog cat\n".to_owned();
    for package in 0..300 {
        let c = format!(
            r#"c={{"not":{{"constraints":[{{"package":{{"packageName":"x{package}","versionRange":"1.0.0"}}}}]}}}}"#
        );
        lines += &format!("p{package}/stable*: p{package}.v1 {c}\n");
    }
    lines += "sub p0\n";
    let result = shown(&lines);
    assert_eq!(result, "p0.v1");
}

#[test]
fn the_head_of_a_long_channel_is_installed() {
    let work = |entries: usize| {
        let (sources, state) = read(&format!("{}sub a", super::path::chain(entries)));
        let pool = Pool::new(&sources, "here");
        let before = pool.work_left();
        let Resolution::Solved(chosen) = resolve(&pool, &state) else { panic!("{entries} entries have no solution") };
        let names: Vec<&str> = chosen.iter().map(|it| bundle(&pool, &state, it.item).name.as_str()).collect();
        assert_eq!(names, [format!("a.v{entries}")]);
        before - pool.work_left()
    };
    let (one, four) = (work(1000), work(4000));
    assert!(four <= 5 * one, "{one} steps of work became {four}");
}

#[test]
fn a_limit_of_opm_is_not_attributed_to_clusters() {
    assert_eq!(ResolutionRefusal::Olm("no".into()).said(), "OLM says: no");
    assert!(ResolutionRefusal::GaveUp.said().starts_with("opm gave up: "));
}
