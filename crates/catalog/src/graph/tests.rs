//! Graphs of small catalogs.

use std::fmt::Write as _;

use super::*;
use crate::sample::fbc;

/// Lists the nodes of all channels, one per line, with their marks.
fn nodes(catalog: &str, options: &GraphOptions) -> String {
    let fbc = fbc(catalog);
    let graph = Graph::new(&fbc, options).expect("can be drawn");
    let mut out = String::new();
    for channel in graph.packages.iter().flat_map(|package| &package.channels) {
        writeln!(out, "{}{}", channel.name, if channel.default { " (default)" } else { "" }).unwrap();
        for node in &channel.nodes {
            let next = node.next.map_or(String::new(), |next| format!(" -> {}", channel.nodes[next].name));
            let flags = [(node.head, "head"), (node.skipped, "skipped"), (node.spine, "spine"), (node.stuck, "stuck")];
            let flags: Vec<&str> = flags.into_iter().filter_map(|(on, flag)| on.then_some(flag)).collect();
            writeln!(out, "  {} {:?} [{}]{next}", node.name, node.presence, flags.join(" ")).unwrap();
        }
    }
    out
}

#[test]
fn entries_are_sorted_by_version_and_mentioned_bundles_by_their_names() {
    insta::assert_snapshot!(nodes("
        channel p/c
          p.v1.0.0 replaces p.v0.9.0
          p.v1.10.0 replaces p.v1.9.0 skips p.v1.9.5
          p.v1.9.0 replaces p.v1.0.0
    ", &GraphOptions::default()), @"
    c
      p.v1.10.0 Entry [head spine]
      p.v1.9.5 Absent [skipped] -> p.v1.10.0
      p.v1.9.0 Entry [spine] -> p.v1.10.0
      p.v1.0.0 Entry [spine] -> p.v1.9.0
      p.v0.9.0 Absent [spine] -> p.v1.0.0
    ");
}

#[test]
fn bundles_without_a_version_are_next_to_their_neighbours() {
    insta::assert_snapshot!(nodes("
        channel p/c
          p.v1.0.0
          ?new replaces p.v2.0.0
          p.v2.0.0 replaces middle
          ?middle replaces p.v1.0.0
          p.v3.0.0 skips unheard
    ", &GraphOptions::default()), @"
    c
      p.v3.0.0 Entry [head spine]
      unheard Absent [skipped] -> p.v3.0.0
      new NoBundle [head]
      p.v2.0.0 Entry [stuck]
      middle NoBundle [] -> p.v2.0.0
      p.v1.0.0 Entry [stuck]
    ");
}

#[test]
fn without_versions_the_chain_determines_the_order() {
    insta::assert_snapshot!(nodes("
        channel p/c
          ?a
          ?b replaces a
          ?c replaces b
    ", &GraphOptions::default()), @"
    c
      c NoBundle [head spine]
      b NoBundle [spine]
      a NoBundle [spine]
    ");
}

#[test]
fn the_default_channel_is_first_followed_by_channels_with_newer_heads() {
    insta::assert_snapshot!(nodes("
        package p default b
        channel p/a
          p.v1.0.0
        channel p/b
          p.v1.0.0
        channel p/c
          p.v2.0.0
    ", &GraphOptions::default()), @"
    b (default)
      p.v1.0.0 Entry [head spine]
    c
      p.v2.0.0 Entry [head spine]
    a
      p.v1.0.0 Entry [head spine]
    ");
}

#[test]
fn olm_v1_upgrades_to_a_skipped_entry_and_olm_v0_does_not() {
    let catalog = "
        channel p/c
          p.v1.0.0
          p.v1.1.0 replaces p.v1.0.0
          p.v1.2.0 replaces p.v1.1.0 skips p.v1.1.0
    ";
    insta::assert_snapshot!(nodes(catalog, &GraphOptions::default()), @"
    c
      p.v1.2.0 Entry [head spine]
      p.v1.1.0 Entry [skipped spine] -> p.v1.2.0
      p.v1.0.0 Entry [spine] -> p.v1.1.0
    ");
    let v0 = GraphOptions { v0_semantics: true, ..GraphOptions::default() };
    insta::assert_snapshot!(nodes(catalog, &v0), @"
    c
      p.v1.2.0 Entry [head spine]
      p.v1.1.0 Entry [skipped spine] -> p.v1.2.0
      p.v1.0.0 Entry [spine stuck]
    ");
}

#[test]
fn an_entry_without_upgrades_is_stuck() {
    insta::assert_snapshot!(nodes("
        channel p/c
          p.v1.0.0
          p.v1.0.1 replaces p.v1.0.0
          p.v2.0.0 replaces p.v1.0.0
    ", &GraphOptions::default()), @"
    c
      p.v2.0.0 Entry [head spine]
      p.v1.0.1 Entry [head stuck]
      p.v1.0.0 Entry [spine] -> p.v2.0.0
    ");
}

#[test]
fn cycles_and_self_references_are_drawn() {
    insta::assert_snapshot!(nodes("
        channel p/c
          p.v1.0.0 replaces p.v2.0.0
          p.v2.0.0 replaces p.v1.0.0
        channel p/self
          p.v3.0.0 replaces p.v3.0.0
    ", &GraphOptions::default()), @"
    c
      p.v2.0.0 Entry [spine]
      p.v1.0.0 Entry [spine] -> p.v2.0.0
    self
      p.v3.0.0 Entry [spine]
    ");
}

#[test]
fn ranges_are_runs_of_entries_without_the_entry_itself() {
    let fbc = fbc("
        channel p/c
          p.v1.0.0
          p.v1.1.0
          p.v1.2.0
          p.v1.3.0 range >=1.0.0 !1.1.0
          p.v1.4.0 range >=9.0.0
          p.v1.5.0 range nonsense
    ");
    let graph = Graph::new(&fbc, &GraphOptions::default()).unwrap();
    let ranges: Vec<_> =
        graph.packages[0].channels[0].ranges.iter().map(|range| (range.to, range.covered, &range.runs)).collect();
    assert_eq!(format!("{ranges:?}"), "[(0, 0, []), (1, 0, []), (2, 4, [0..4, 5..6])]");
    insta::assert_snapshot!(graph.warnings.join("\n"), @r#"ignoring invalid SkipRange for package/edge "p"/"p.v1.5.0": Could not get version from string: "nonsense""#);
}

#[test]
fn runs_match_an_exhaustive_check_of_versions() {
    for range in
        ["<1.5.0", ">1.2.0 <1.7.0 !1.4.0", "1.3.0 || >=1.8.0", "1.x", "!1.0.0", ">=1.4.0-rc1", "1.2.x || 1.6.x"]
    {
        let entries: String = (0..10).map(|i| format!("p.v1.{i}.0\np.v1.{i}.0-rc1\n")).collect();
        let fbc = fbc(&format!("channel p/c\n{entries}p.v2.0.0 range {range}"));
        let graph = Graph::new(&fbc, &GraphOptions::default()).unwrap();
        let channel = &graph.packages[0].channels[0];
        let parsed = fbc::range::VersionRange::parse(range).unwrap();
        for (row, node) in channel.nodes.iter().enumerate().filter(|(_, node)| node.name != "p.v2.0.0") {
            let version = Version::parse_strict(node.version.as_deref().unwrap()).unwrap();
            let covered = channel.ranges[0].runs.iter().any(|run| run.contains(&row));
            assert_eq!(covered, parsed.contains(&version), "{version} in {range}");
        }
    }
}

#[test]
fn bundles_without_a_valid_version_are_drawn_with_a_warning() {
    let catalog = "channel p/c\n p.v1.0";
    assert_eq!(nodes(catalog, &GraphOptions::default()), "c\n  p.v1.0 Entry [head spine]\n");
    let fbc = fbc(catalog);
    let graph = Graph::new(&fbc, &GraphOptions::default()).unwrap();
    insta::assert_snapshot!(graph.warnings.join("\n"), @r#"bundle "p.v1.0" has invalid version "1.0": No Major.Minor.Patch elements found"#);
}

#[test]
fn deprecations_belong_to_their_package() {
    let fbc = fbc("
        channel p/c
          x.v1.0.0
        channel q/c
          x.v1.0.0
        deprecated p olm.package no more
        deprecated p olm.channel/c closed
        deprecated p olm.bundle/x.v1.0.0 broken
    ");
    let graph = Graph::new(&fbc, &GraphOptions::default()).unwrap();
    let messages: Vec<_> = graph
        .packages
        .iter()
        .map(|package| {
            let channel = &package.channels[0];
            (package.deprecation, channel.deprecation, channel.nodes[0].deprecation)
        })
        .collect();
    assert_eq!(messages, [(Some("no more"), Some("closed"), Some("broken")), (None, None, None)]);
}
