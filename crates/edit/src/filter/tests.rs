use super::*;
use crate::sample::{outline, shown};
use catalog::needs::{Need, Requirement};

const CATALOG: &str = "
    a/stable: a.v1.0.0; a.v1.1.0 r=a.v1.0.0; a.v1.2.0 r=a.v1.1.0; a.v2.0.0 r=a.v1.2.0 R=>=1.0.0_<2.0.0
    a/fast: a.v2.0.0; a.v2.1.0 r=a.v2.0.0
    b/alpha: b.v1.0.0; b.v2.0.0 r=b.v1.0.0 s=b.v1.1.0; b.v1.1.0 r=b.v1.0.0
    c/stable: c.v1.0.0; c.v2.0.0 r=c.v1.0.0
";

fn filtered(selection: &KeptPart, facts: &AllFacts) -> String {
    let mut outline = outline(CATALOG);
    match filter(&mut outline, selection, facts) {
        Ok(notes) => shown(&outline) + &notes.iter().map(|note| format!("note: {note}\n")).collect::<String>(),
        Err(refusal) => format!("refused: {refusal}\nhelp: {}\n", refusal.help.clone().unwrap_or_default()),
    }
}

fn range(package: Option<&str>, text: &str) -> (Option<String>, VersionRange) {
    (package.map(str::to_owned), VersionRange::parse(text).unwrap())
}

#[test]
fn heads_keep_their_edges() {
    let selection = KeptPart { heads_only: true, ..KeptPart::default() };
    insta::assert_snapshot!(filtered(&selection, &AllFacts::new()), @r"
    a/fast: a.v2.1.0 r=a.v2.0.0
    a/stable*: a.v2.0.0 r=a.v1.2.0 R=>=1.0.0 <2.0.0
    b/alpha*: b.v2.0.0 r=b.v1.0.0 s=b.v1.1.0
    c/stable*: c.v2.0.0 r=c.v1.0.0
    ");
}

#[test]
fn versions_are_kept_with_the_versions_between_them() {
    let versions = vec![range(Some("a"), "1.0.0 || 1.2.0"), range(None, "<2.0.0")];
    let selection = KeptPart { versions, ..KeptPart::default() };
    insta::assert_snapshot!(filtered(&selection, &AllFacts::new()), @r#"
    a/stable*: a.v1.0.0; a.v1.1.0 r=a.v1.0.0; a.v1.2.0 r=a.v1.1.0
    b/alpha*: b.v1.0.0; b.v1.1.0 r=b.v1.0.0
    c/stable*: c.v1.0.0
    note: a: "a.v1.1.0" is kept in channel "stable": it is on the upgrade path between others
    "#);
}

#[test]
fn unreachable_entries_are_skipped_by_the_head() {
    let mut outline = outline("p/c: p.v1.0.0; p.v2.0.0; p.v3.0.0 r=p.v2.0.0 s=p.v1.0.0");
    let selection = KeptPart { versions: vec![range(None, "<3.0.0")], ..KeptPart::default() };
    filter(&mut outline, &selection, &AllFacts::new()).unwrap();
    assert_eq!(shown(&outline), "p/c*: p.v1.0.0; p.v2.0.0 s=p.v1.0.0\n");
}

#[test]
fn the_default_channel_is_kept_or_chosen() {
    let channels = vec![("a".to_owned(), "fast".to_owned())];
    let selection = KeptPart { channels, ..KeptPart::default() };
    insta::assert_snapshot!(filtered(&selection, &AllFacts::new()), @r#"
    a/fast*: a.v2.0.0; a.v2.1.0 r=a.v2.0.0
    note: package "a": "fast" is the only remaining channel and becomes the default
    "#);
    let mut three = outline("p/a: p.v1.0.0\np/b: p.v1.0.0\np/c: p.v1.0.0");
    let channels = vec![("p".to_owned(), "b".to_owned()), ("p".to_owned(), "c".to_owned())];
    let mut selection = KeptPart { channels, ..KeptPart::default() };
    let refusal = filter(&mut three.clone(), &selection, &AllFacts::new()).unwrap_err();
    assert_eq!(refusal.message, "default channels would be removed:\n  p: \"a\"; remaining channels: b, c");
    selection.choose_default = true;
    let mut chosen = three.clone();
    filter(&mut chosen, &selection, &AllFacts::new()).unwrap();
    assert_eq!(shown(&chosen), "p/b*: p.v1.0.0\np/c: p.v1.0.0\n");
    selection.default_channels.push(("p".to_owned(), "c".to_owned()));
    filter(&mut three, &selection, &AllFacts::new()).unwrap();
    assert_eq!(shown(&three), "p/b: p.v1.0.0\np/c*: p.v1.0.0\n");
}

#[test]
fn dependencies_are_kept_too() {
    let api = ["g", "v1", "Thing"].map(str::to_owned);
    let of = |package: &str, bundle: &str| (package.to_owned(), bundle.to_owned());
    let requirement = |need: Need| Requirement { property: 0, need };
    let needs = |need: Need| BundleNeeds { needs: vec![requirement(need)], ..BundleNeeds::default() };
    let old_c = Need::Package("c".to_owned(), VersionRange::parse("<2.0.0").unwrap());
    let facts = AllFacts::from([
        (of("a", "a.v2.1.0"), needs(Need::Api(api.clone()))),
        // Another bundle of the same package, which cannot be installed alongside.
        (of("a", "a.v2.0.0"), BundleNeeds { provides: vec![api.clone()], ..BundleNeeds::default() }),
        (of("b", "b.v2.0.0"), BundleNeeds { provides: vec![api], ..needs(old_c) }),
    ]);
    let selection =
        KeptPart { packages: vec!["a".to_owned()], heads_only: true, dependencies: true, ..KeptPart::default() };
    insta::assert_snapshot!(filtered(&selection, &facts), @r#"
    a/fast: a.v2.1.0 r=a.v2.0.0
    a/stable*: a.v2.0.0 r=a.v1.2.0 R=>=1.0.0 <2.0.0
    b/alpha*: b.v2.0.0 r=b.v1.0.0 s=b.v1.1.0
    c/stable*: c.v1.0.0; c.v2.0.0 r=c.v1.0.0
    note: package "b" is kept: "a.v2.1.0" needs Thing (g/v1)
    note: package "c" is kept: "b.v2.0.0" needs package c <2.0.0
    note: c: "c.v1.0.0" is kept in channel "stable": "b.v2.0.0" needs package c <2.0.0
    "#);
}

#[test]
fn selected_objects_must_exist() {
    let selection = KeptPart { packages: vec!["z".to_owned()], ..KeptPart::default() };
    insta::assert_snapshot!(filtered(&selection, &AllFacts::new()), @r#"
    refused: the catalog has no package "z"
    help: available: a, b, c
    "#);
    let selection = KeptPart { versions: vec![range(Some("c"), ">5.0.0")], ..KeptPart::default() };
    insta::assert_snapshot!(filtered(&selection, &AllFacts::new()), @r#"
    refused: no bundle of package "c" is in the version range
    help: widen its range, or remove the package from the selection
    "#);
}
