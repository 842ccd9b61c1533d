//! Drawings of small and of hostile graphs.

use proptest::prelude::*;

use super::{dot::dot, html::html, layout::layout, svg::svg, text::text};
use crate::GraphOptions;
use crate::graph::Graph;
use crate::sample::fbc;

const ETCD: &str = "
    package etcd default stable
    channel etcd/stable
      etcd.v0.9.0
      etcd.v0.9.1 replaces etcd.v0.9.0
      etcd.v0.9.2 replaces etcd.v0.9.0 skips etcd.v0.9.1,etcd.v0.9.1-fix
      etcd.v0.9.4 replaces etcd.v0.9.2 range >=0.9.0 <0.9.4
    channel etcd/alpha
      ?etcd.v0.6.1
    deprecated etcd olm.bundle/etcd.v0.9.0 data loss, see the \"advisory\"
    deprecated etcd olm.channel/alpha use stable
";

const HOSTILE: &str = "
    channel p<&\">/c]]>'
      </text></svg><script>.v1.0.0 replaces \\\"&amp;\u{0}\u{1b}[31m\u{202e}\u{ffff}
      日本.v2.0.0
    deprecated p<&\"> olm.bundle/日本.v2.0.0 </title>\u{8}
";

fn graph_of<T>(catalog: &str, v0_semantics: bool, draw: impl FnOnce(&Graph<'_>) -> T) -> T {
    let options = GraphOptions { v0_semantics, ..GraphOptions::default() };
    draw(&Graph::new(&fbc(catalog), &options).expect("can be drawn"))
}

#[test]
fn a_terminal_shows_the_chain_and_its_side_entries() {
    insta::assert_snapshot!(graph_of(ETCD, true, |graph| text(graph, Some(80))), @r#"
    etcd
    ├─ stable (default) · 4 entries · head 0.9.4 · 2 skipped · 1 deprecated
    │  ◉   0.9.4  etcd.v0.9.4      head  skipRange >=0.9.0 <0.9.4 (3 entries)
    │  ●   0.9.2  etcd.v0.9.2      skips etcd.v0.9.1, etcd.v0.9.1-fix
    │  ├─○ 0.9.1  etcd.v0.9.1      skipped  replaces etcd.v0.9.0 (never followed)
    │  ├─◌ -      etcd.v0.9.1-fix  skipped  not in catalog
    │  ●   0.9.0  etcd.v0.9.0      deprecated: data loss, see the "advisory"
    └─ alpha · 1 entry · head etcd.v0.6.1 · deprecated: use stable
       ◌ -  etcd.v0.6.1  head  no bundle
    "#);
}

#[test]
fn text_for_terminals_is_escaped_and_fits_their_width() {
    insta::assert_snapshot!(graph_of(HOSTILE, false, |graph| text(graph, None)), @r#"
    p<&">
    └─ c]]>' · 2 entries · 2 heads · 1 deprecated
       ◉   2.0.0  日本.v2.0.0                   head  deprecated: </title>␈
         ◉ 1.0.0  </text></svg><script>.v1.0.0  head  no way up  replaces \"&amp;␀␛[31m��
         ◌ -      \"&amp;␀␛[31m��               not in catalog
    "#);
    let long = "channel p/c
 p.v2.0.0 skips p.v1.0.0-alpha,p.v1,p.v2,p.v3,p.v4,p.v5";
    let lines = graph_of(long, false, |graph| text(graph, Some(60)));
    assert!(lines.lines().all(|line| line.chars().count() <= 60), "{lines}");
}

#[test]
fn graphviz_gets_clusters_and_one_edge_for_each_range() {
    insta::assert_snapshot!(graph_of(ETCD, true, dot), @r##"
    digraph upgrades {
      rankdir=BT;
      graph [fontname="monospace", style="rounded", color="#7a8694", labelloc="b"];
      node [fontname="monospace", fontsize=11, shape=box, style="rounded", color="#0072b2"];
      edge [fontname="monospace", fontsize=9, color="#0072b2"];
      subgraph cluster_p0 {
        label="etcd";
        subgraph cluster_p0c0 {
          label="stable (default)\n4 entries · head 0.9.4 · 2 skipped · 1 deprecated";
          p0c0n0 [label="etcd.v0.9.4\n0.9.4\nhead", penwidth=2.5];
          p0c0n1 [label="etcd.v0.9.2\n0.9.2"];
          p0c0n2 [label="etcd.v0.9.1\n0.9.1\nskipped", color="#d55e00"];
          p0c0n3 [label="etcd.v0.9.1-fix\nskipped, not in catalog", style="rounded,dashed", color="#7a8694"];
          p0c0n4 [label="etcd.v0.9.0\n0.9.0\ndeprecated", style="rounded,filled", fillcolor="#e69f00", color="#a06a00", tooltip="data loss, see the \"advisory\""];
          p0c0n1 -> p0c0n0 [label="replaces", weight=10];
          p0c0n4 -> p0c0n1 [label="replaces", weight=10];
          p0c0n2 -> p0c0n1 [label="skips", style="dashed", color="#d55e00", weight=0];
          p0c0n3 -> p0c0n1 [label="skips", style="dashed", color="#d55e00", weight=0];
          p0c0n4 -> p0c0n2 [label="replaces", weight=10, arrowhead="empty"];
          p0c0n4 -> p0c0n0 [label="skipRange >=0.9.0 <0.9.4 (3 entries)", style="bold,dotted", color="#009e73", constraint=false];
        }
        subgraph cluster_p0c1 {
          label="alpha\n1 entry · head etcd.v0.6.1\ndeprecated: use stable";
          p0c1n0 [label="etcd.v0.6.1\nhead, no bundle", style="rounded,dashed", color="#7a8694"];
        }
      }
    }
    "##);
}

#[test]
fn graphviz_strings_are_escaped() {
    insta::assert_snapshot!(graph_of(HOSTILE, false, dot), @r##"
    digraph upgrades {
      rankdir=BT;
      graph [fontname="monospace", style="rounded", color="#7a8694", labelloc="b"];
      node [fontname="monospace", fontsize=11, shape=box, style="rounded", color="#0072b2"];
      edge [fontname="monospace", fontsize=9, color="#0072b2"];
      subgraph cluster_p0 {
        label="p<&amp;\">";
        subgraph cluster_p0c0 {
          label="c]]>'\n2 entries · 2 heads · 1 deprecated";
          p0c0n0 [label="日本.v2.0.0\n2.0.0\nhead, deprecated", style="rounded,filled", fillcolor="#e69f00", color="#a06a00", tooltip="</title>␈"];
          p0c0n1 [label="</text></svg><script>.v1.0.0\n1.0.0\nhead, no way up", penwidth=2.5];
          p0c0n2 [label="\\\"&amp;amp;␀␛[31m��\nnot in catalog", style="rounded,dashed", color="#7a8694"];
          p0c0n2 -> p0c0n1 [label="replaces", weight=10];
        }
      }
    }
    "##);
}

#[test]
fn pictures_show_rows_marks_and_edges() {
    let picture = graph_of(
        "
        channel p/c
          p.v1.0.0
          p.v1.1.0 replaces p.v1.0.0 skips p.v1.0.1 range <1.0.0 || 1.0.0
    ",
        false,
        svg,
    );
    let body = picture.split("</defs>").nth(1).expect("has a body");
    insta::assert_snapshot!(body, @r#"
    <rect class="page" width="786" height="250"/>
    <g transform="translate(16,16)"><text class="sub" x="0" y="15">newest on top, upgrades go up:</text><path class="r" d="M219 11H242" marker-end="url(#opm-r)"/><text class="sub" x="253" y="15">replaces</text><path class="s" d="M324 11H347" marker-end="url(#opm-s)"/><text class="sub" x="358" y="15">skips</text><path class="b" d="M412 11H421"/><path class="g" d="M409 11H432" marker-end="url(#opm-g)"/><text class="sub" x="443" y="15">skipRange, along the entries in it</text><circle class="ring" cx="697" cy="11" r="7"/><circle class="d" cx="697" cy="11" r="4"/><text class="sub" x="710" y="15">head</text><circle class="d skip" cx="9" cy="33" r="4"/><text class="sub" x="22" y="37">skipped</text><circle class="d miss" cx="95" cy="33" r="4"/><text class="sub" x="108" y="37">only mentioned, or without bundle</text></g>
    <g transform="translate(16,76)">
    <text class="pkg" x="0" y="18">p</text><g transform="translate(0,32)">
    <g class="c" transform="translate(0,0)"><rect class="card" x=".5" y=".5" width="503" height="125" rx="8"/><text class="chn" x="14" y="24">c</text><text class="sub" x="14" y="40">2 entries · head 1.1.0 · 1 skipped</text>
    <g class="e" data-i="0"><title>p.v1.1.0, version 1.1.0</title><rect class="row" x="1" y="52" width="502" height="20"/><text class="ver" x="78" y="66">1.1.0</text><text class="nam" x="126" y="66">p.v1.1.0</text><g class="pill head"><rect x="198.5" y="55.5" width="38" height="14" rx="7"/><text x="205" y="66">head</text></g><text class="rng" x="244" y="66">skipRange &lt;1.0.0 || 1.0.0 (1 entry)</text></g>
    <g class="e odd gone" data-i="1" data-n="0"><title>p.v1.0.1, upgrades to p.v1.1.0</title><rect class="row" x="1" y="72" width="502" height="20"/><text class="nam" x="126" y="86">p.v1.0.1</text><g class="pill skip"><rect x="198.5" y="75.5" width="56" height="14" rx="7"/><text x="205" y="86">skipped</text></g><g class="pill miss"><rect x="262.5" y="75.5" width="99" height="14" rx="7"/><text x="269" y="86">not in catalog</text></g></g>
    <g class="e" data-i="2" data-n="0"><title>p.v1.0.0, version 1.0.0, upgrades to p.v1.1.0</title><rect class="row" x="1" y="92" width="502" height="20"/><text class="ver" x="78" y="106">1.0.0</text><text class="nam" x="126" y="106">p.v1.0.0</text></g>
    <g data-k="0 2-2"><path class="g" d="M18 58V102M18 58H38" marker-end="url(#opm-g)"/><path class="b" d="M18 97V107"/></g>
    <g data-k="0 1"><path class="s" d="M27 82V72M56 82H27"/><path class="s" d="M27 72Q27 66 33 66H38" marker-end="url(#opm-s)"/></g>
    <path class="r" data-k="0 2" d="M46 102V70" marker-end="url(#opm-r)"/>
    <circle class="ring" cx="46" cy="62" r="7"/><circle class="d" cx="46" cy="62" r="4"/>
    <circle class="d skip miss" cx="62" cy="82" r="4"/>
    <circle class="d" cx="46" cy="102" r="4"/>
    </g>
    </g>
    </g>
    </svg>
    "#);
}

#[test]
fn pictures_and_pages_of_hostile_names_are_well_formed() {
    for catalog in [ETCD, HOSTILE, ""] {
        let picture = graph_of(catalog, true, svg);
        check_xml(&picture);
        assert!(!picture.contains("<script"), "{picture}");
        let page = graph_of(catalog, true, html);
        assert_eq!(page.matches("<script>").count(), 1);
        let (_, main) = page.split_once("<main>").expect("has a main part");
        let (main, _) = main.split_once("</main>").expect("has a main part");
        // Apart from `open`, the page is written like XML.
        check_xml(&format!("<main>{}</main>", main.replace("<details open", "<details")));
    }
}

#[test]
fn a_graph_without_packages_contains_a_note() {
    assert_eq!(graph_of("", false, |graph| text(graph, None)), "");
    assert!(graph_of("", false, svg).contains("nothing to draw"));
    assert!(graph_of("", false, html).contains("Nothing to draw"));
    assert!(graph_of("", false, dot).ends_with("}\n"));
}

#[test]
fn many_ranges_do_not_multiply() {
    let entries =
        |count: usize| -> String { (0..count).map(|i| format!("p.v1.{i}.0 range >=1.0.0 <1.{i}.0\n")).collect() };
    let sizes = [100, 200, 400].map(|count| {
        let catalog = format!("channel p/c\n{}", entries(count));
        graph_of(&catalog, false, |graph| {
            [svg(graph), html(graph), dot(graph), text(graph, None)].map(|text| text.len())
        })
    });
    for kind in 0..4 {
        let (first, second) = (sizes[1][kind] - sizes[0][kind], sizes[2][kind] - sizes[1][kind]);
        assert!(second < first * 5 / 2, "{sizes:?}");
    }
}

#[test]
fn edges_without_a_lane_are_described_in_words() {
    // Every entry replaces the first one, in addition to its own chain.
    let mut catalog = String::from("channel p/c\np.v1.0.0\n");
    for i in 1..20 {
        catalog.push_str(&format!("p.v1.{i}.0 replaces p.v1.0.0\n"));
    }
    let (lanes, undrawn) = graph_of(&catalog, false, |graph| {
        let layout = layout(&graph.packages[0].channels[0]);
        (layout.link_lanes, layout.undrawn.len())
    });
    assert_eq!((lanes, undrawn), (10, 7));
    assert!(graph_of(&catalog, false, svg).contains("replaces p.v1.0.0</text>"));
}

#[test]
fn entries_that_skip_the_same_share_a_lane() {
    let (skips, lanes) = graph_of(
        "
        channel p/c
          p.v1.0.0
          p.v2.0.0 skips p.v1.0.0
          p.v3.0.0 skips p.v1.0.0
          p.v4.0.0 skips p.v3.0.0
    ",
        false,
        |graph| {
            let layout = layout(&graph.packages[0].channels[0]);
            (layout.skips.len(), layout.skip_lanes)
        },
    );
    assert_eq!((skips, lanes), (2, 2));
}

/// Checks that `text` is XML as far as drawings use it: tags nest, and only known entities and
/// allowed characters occur.
#[track_caller]
fn check_xml(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        check_characters(&rest[..at]);
        let length = rest[at..].find('>').expect("tags end");
        let tag = &rest[at + 1..at + length];
        rest = &rest[at + length + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "in {text}");
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "tag {name:?}");
        let quotes: Vec<&str> = attributes.split('"').collect();
        assert!(quotes.len() % 2 == 1, "attributes {attributes:?}");
        for pair in quotes.chunks_exact(2) {
            let name = pair[0].trim().strip_suffix('=').expect("attributes have values");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == ':'), "attribute {name:?}");
            check_characters(pair[1]);
        }
        if !closed {
            open.push(name);
        }
    }
    check_characters(rest);
    assert_eq!(open, Vec::<&str>::new());
}

#[track_caller]
fn check_characters(text: &str) {
    for (at, _) in text.match_indices('&') {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        assert!(known.iter().any(|entity| text[at..].starts_with(entity)), "entity in {text:?}");
    }
    let allowed = |c: char| matches!(c, '\n' | ' '..='\u{7e}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..);
    assert!(text.chars().all(allowed), "characters of {text:?}");
}

fn any_catalog() -> impl Strategy<Value = String> {
    let version = (0..3u8, 0..4u8, any::<bool>())
        .prop_map(|(major, minor, rc)| format!("p.v{major}.{minor}.0{}", if rc { "-rc1" } else { "" }));
    let odd =
        prop::sample::select(vec!["p.v1", "x", "\u{1}<&\">", "?", "p.v1.1.0+b", "ü.v2.0.0"]).prop_map(str::to_owned);
    let name = prop_oneof![8 => version, 1 => odd].boxed();
    let replaces = prop::option::of(name.clone());
    let skips = prop::collection::vec(name.clone(), 0..4);
    let range = prop::option::of(prop::sample::select(vec![
        "<2.0.0",
        ">=0.1.0 <1.2.0 !1.0.0",
        "1.x || 0.2.0",
        "bad",
        ">=0.0.0",
    ]));
    let entry = (any::<bool>(), name, replaces, skips, range).prop_map(|(known, name, replaces, skips, range)| {
        let mut line = format!("{}{name}", if known { "" } else { "?" });
        line += &replaces.map(|name| format!(" replaces {name}")).unwrap_or_default();
        if !skips.is_empty() {
            line += &format!(" skips {}", skips.join(","));
        }
        line + &range.map(|range| format!(" range {range}")).unwrap_or_default()
    });
    let channel =
        prop::collection::vec(entry, 0..14).prop_map(|entries| format!("channel p/c\n{}\n", entries.join("\n")));
    prop::collection::vec(channel, 0..3).prop_map(|channels| {
        format!("package p default c\n{}deprecated p olm.bundle/p.v1.1.0 <old>", channels.concat())
    })
}

proptest! {
    #[test]
    fn drawings_are_well_formed_and_reproducible(catalog in any_catalog(), v0_semantics: bool) {
        let draw = || graph_of(&catalog, v0_semantics, |graph| [svg(graph), html(graph), dot(graph), text(graph, Some(60))]);
        let drawings = draw();
        check_xml(&drawings[0]);
        prop_assert_eq!(&drawings, &draw());
    }

    #[test]
    fn every_edge_is_drawn_once_or_described(catalog in any_catalog()) {
        graph_of(&catalog, false, |graph| {
            for channel in graph.packages.iter().flat_map(|package| &package.channels) {
                let layout = layout(channel);
                let skips: usize = layout.skips.iter().map(|skips| skips.to.len() * skips.from.len()).sum();
                assert_eq!(layout.links.len() + skips + layout.undrawn.len(), channel.edges.len());
            }
        });
    }
}
