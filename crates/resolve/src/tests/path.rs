//! Upgrade paths.

use super::sample::read;
use crate::path::{Start, V0End, path};
use crate::pool::Pool;

fn shown(lines: &str, channel: Option<&str>, to: Option<&str>) -> String {
    let (sources, state) = read(lines);
    let pool = Pool::new(&sources, "here");
    let start = Start { source: 0, package: "a", channel, from: state.installed[0].clone(), to };
    let path = path(&pool, &start);
    let mut out = String::new();
    for step in &path.steps {
        out += &format!("{} by {}\n", pool.member(step.to).bundle.name, step.edge.field());
        for along in &step.companions {
            let old = along.replaces.as_deref().unwrap_or("nothing");
            out += &format!("  with {} for {old}: {}\n", pool.member(along.node).bundle.name, along.needed.join(", "));
        }
    }
    match path.end {
        V0End::Latest => out += "latest\n",
        V0End::Reached => out += "reached\n",
        V0End::Stuck(lines) => out += &format!("stuck\n{}\n", lines.join("\n")),
        V0End::Blocked(message, lines) => out += &format!("blocked: {message}\n{}\n", lines.join("\n")),
    }
    out
}

#[test]
fn steps_are_listed_with_their_dependencies() {
    let chain = "catalog cat
        a/stable*: a.v1 needs=f:<3.0.0; a.v2 r=a.v1 needs=f:>=2.0.0; a.v3 s=a.v2x r=a.v2 needs=New; a.v4 r=a.v3 R=>=3.0.0_<4.0.0
        f/stable*: f.v1; f.v2 r=f.v1
        n/stable*: n.v1 gives=New
        csv a.v1";
    insta::assert_snapshot!(shown(chain, None, None), @r"
    a.v2 by replaces
    a.v3 by replaces
      with n.v1 for nothing: a.v3 requires New (g/v1)
    a.v4 by replaces
    latest
    ");
    insta::assert_snapshot!(shown(chain, None, Some("a.v2")), @r"
    a.v2 by replaces
    reached
    ");
}

#[test]
fn a_dead_end_is_explained() {
    insta::assert_snapshot!(shown("catalog cat\na/stable*: a.v1; a.v2 r=a.v1; a.v3 s=a.v2\ncsv a.v1", None, None), @r"
    stuck
    a.v2 would upgrade a.v1, but in channel stable it is skipped by a.v3
    ");
    insta::assert_snapshot!(shown("catalog cat\na/stable*: a.v1; a.v2 r=a.v1 needs=Nothing\ncsv a.v1", None, None), @r"
    stuck
    a.v2 would upgrade a.v1, but cannot be installed:
      package a, channel stable of cat offers a.v2
      a.v2 requires Nothing (g/v1)
        no bundle here provides it
    ");
    insta::assert_snapshot!(shown("catalog cat\na/stable*: a.v5\ncsv a.v1", None, None), @r"
    stuck
    in a of cat nothing replaces or skips a.v1 or has it in its skipRange; the newest is a.v5
    ");
    insta::assert_snapshot!(shown("catalog cat\na/stable*: a.v5\ncsv a.v1", Some("fast"), None), @r#"
    blocked: constraints not satisfiable: no operators found in channel fast of package a in the catalog referenced by subscription a, subscription a exists
    package a of catalog cat has no channel "fast"
      its channels are stable
      as long as the Subscription that installed a.v1 names it, nothing is resolved
    "#);
}

/// Returns a catalog whose channel has this many entries, each replacing the one before.
pub(super) fn chain(entries: usize) -> String {
    let entry = |number: usize| match number {
        1 => "a.v1".to_owned(),
        _ => format!("a.v{number} r=a.v{}", number - 1),
    };
    format!("catalog cat\na/stable*: {}\n", (1..=entries).map(entry).collect::<Vec<_>>().join("; "))
}

#[test]
fn the_work_of_a_path_grows_with_its_steps() {
    let work = |entries: usize| {
        let (sources, state) = read(&format!("{}csv a.v1", chain(entries)));
        let pool = Pool::new(&sources, "here");
        let start =
            Start { source: 0, package: "a", channel: Some("stable"), from: state.installed[0].clone(), to: None };
        let before = pool.work_left();
        let path = path(&pool, &start);
        assert_eq!(path.steps.len(), entries - 1);
        before - pool.work_left()
    };
    let (one, four) = (work(300), work(1200));
    assert!(four <= 5 * one, "{one} steps of work became {four}");
}

#[test]
fn the_way_along_edges_ends_at_the_head() {
    let (sources, state) = read(&format!("{}csv a.v1", chain(500)));
    let pool = Pool::new(&sources, "here");
    let start = Start { source: 0, package: "a", channel: Some("stable"), from: state.installed[0].clone(), to: None };
    let way = crate::path::by_edges(&pool, &start);
    let names: Vec<&str> = way.iter().map(|node| pool.member(*node).bundle.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[498]), (499, "a.v2", "a.v500"));
}
