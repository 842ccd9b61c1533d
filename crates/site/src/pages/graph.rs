//! The upgrade graph of a package: drawings, and the same as tables.

use catalog::draw::part;
use catalog::graph::{EdgeKind, GraphChannel, GraphNode, Presence};
use maud::{Markup, html};

use super::{crumbs, hero, tabs};
use crate::frame::{ConsoleSection, Page, PageContext, drawing};
use crate::summary::PackageSummary;
use crate::text::{count, t};

/// The width at which the legend wraps.
const LEGEND: i32 = 1180;
/// More channels than this are collapsed.
const OPEN: usize = 3;

/// Renders the page.
pub fn page(context: &PageContext<'_>, package: &PackageSummary, v0: bool, only: Option<&str>) -> Page {
    let graph = crate::outline::graph(package, v0);
    let channels = graph.packages.first().map(|package| package.channels.as_slice()).unwrap_or_default();
    let shown: Vec<&GraphChannel<'_>> =
        channels.iter().filter(|channel| only.is_none_or(|only| only == channel.name)).collect();
    let name = &package.row.name;
    // A single switch would hide everything.
    let switches: Vec<_> = switches(&shown).into_iter().filter(|(.., there)| *there).collect();
    let body = html! {
        (hero(context, package, &format!("Upgrades of {}", package.title())))
        (tabs(context, package, "graph"))
        @if switches.len() > 1 {
            fieldset.switches #switches hidden {
                legend.vh { "What the pictures show" }
                @for (key, label, _) in switches {
                    label { input type="checkbox" data-switch=(key) checked; (label) }
                }
            }
        }
        @if !context.links.are_files() {
            p.small.soft.live {
                @if v0 { "As OLM v0 clusters upgrade. " a href="?olm=v1" { "Read as OLM v1" } } @else { "As OLM v1 clusters upgrade: they install skipped versions, too. " a href="?olm=v0" { "Read as OLM v0" } }
            }
        }
        (drawing(part::arrow_heads()))
        div.legend tabindex="0" role="group" aria-label="Legend" { (drawing(part::legend(&graph, LEGEND))) }
        @for (place, channel) in shown.iter().enumerate() {
            details.fold open[place < OPEN || channel.default] data-channel=(t(channel.name)) {
                summary { h2 { (t(channel.name)) } @if channel.default { span.pill.head { "default" } } @if channel.deprecation.is_some() { span.pill.warn { "deprecated" } } small { (t(&part::summary(channel))) } }
                @if let Some(message) = channel.deprecation { div.note.warn dir="auto" { p { strong { "This channel is deprecated." } " " (t(message)) } } }
                div.pair {
                    div.graph tabindex="0" role="group" aria-label={ "Picture of channel " (t(channel.name)) } { (drawing(part::channel(channel))) }
                    (table(context, package, channel))
                }
            }
        }
        p #way role="status" data-path=(context.links.of_package(name, "path")) data-compare=[(!context.links.are_files()).then(|| context.links.of_package(name, "compare"))] {}
        @if context.links.are_files() {
            p.small.still { "Download: " a href=(context.links.part(&format!("d/{}.json", crate::links::package_path(name)))) download { "json" } " · " code { "opm graph" } " draws it as SVG, DOT and Mermaid." }
        } @else {
            p.small.live { "Download: " @for (i, format) in ["svg", "dot", "mmd", "txt", "json"].iter().enumerate() { @if i > 0 { " · " } a href={ (context.links.part(&format!("d/{}/graph.{format}", crate::links::package_path(name)))) } download { (format) } } }
        }
    };
    Page {
        title: format!("Upgrades of {}", package.title()),
        section: ConsoleSection::Packages,
        crumbs: crumbs(context, package, &[("Upgrade graph", None)]),
        body,
        name: "graph",
    }
}

/// The switches that hide parts of the drawings, with labels, and whether they apply.
fn switches(channels: &[&GraphChannel<'_>]) -> [(&'static str, &'static str, bool); 4] {
    let edges = || channels.iter().flat_map(|channel| &channel.edges);
    let ranges = || channels.iter().flat_map(|channel| &channel.ranges);
    let of = |kind: EdgeKind| edges().any(|edge| edge.kind == kind);
    [
        ("replaces", "replaces", of(EdgeKind::Replaces)),
        ("skips", "skips", of(EdgeKind::Skips)),
        ("ranges", "skipRange", ranges().next().is_some()),
        ("inert", "never followed", edges().any(|edge| edge.inert) || ranges().any(|range| range.inert)),
    ]
}

/// The columns of a table: those that some entry uses.
#[derive(Clone, Copy)]
struct Columns {
    replaces: bool,
    skips: bool,
    ranges: bool,
}

fn table(context: &PageContext<'_>, package: &PackageSummary, channel: &GraphChannel<'_>) -> Markup {
    // Edges are sorted by target.
    let from = |row: usize, kind: EdgeKind| -> Vec<&str> {
        let start = channel.edges.partition_point(|edge| edge.to < row);
        let edges = channel.edges[start..].iter().take_while(|edge| edge.to == row);
        edges.filter(|edge| edge.kind == kind).map(|edge| channel.nodes[edge.from].name).collect()
    };
    let range =
        |row: usize| channel.ranges.iter().find(|range| range.to == row).map(|range| range.text).unwrap_or_default();
    let columns = Columns {
        replaces: channel.edges.iter().any(|edge| edge.kind == EdgeKind::Replaces),
        skips: channel.edges.iter().any(|edge| edge.kind == EdgeKind::Skips),
        ranges: !channel.ranges.is_empty(),
    };
    html! {
        div.scroll tabindex="0" role="group" aria-label={ "Entries of " (t(channel.name)) } {
            table.sortable {
                caption { "Entries of " (t(channel.name)) ", newest first" }
                thead { tr {
                    th scope="col" { "Version" } th scope="col" { "Entry" }
                    @if columns.replaces { th scope="col" { "Replaces" } }
                    @if columns.skips { th scope="col" { "Skips" } }
                    @if columns.ranges { th scope="col" { "skipRange" } }
                    th scope="col" { "Upgrades to" }
                } }
                tbody { @for (row, node) in channel.nodes.iter().enumerate() {
                    (line(context, package, channel, node, columns, [&from(row, EdgeKind::Replaces), &from(row, EdgeKind::Skips)], range(row)))
                } }
            }
        }
    }
}

fn line(
    context: &PageContext<'_>,
    package: &PackageSummary,
    channel: &GraphChannel<'_>,
    node: &GraphNode<'_>,
    columns: Columns,
    [replaces, skips]: [&[&str]; 2],
    range: &str,
) -> Markup {
    let there = matches!(node.presence, Presence::Entry | Presence::OtherChannel);
    html! {
        tr {
            td.ver { (t(node.version.as_deref().unwrap_or_default())) }
            th scope="row" {
                @if there { a href=[context.links.version(&package.row.name, node.name)] { (t(node.name)) } } @else { (t(node.name)) }
                @if node.head { " " span.pill.head { "head" } }
                @if node.skipped { " " span.pill { "skipped" } }
                @if node.deprecation.is_some() { " " span.pill.warn { "deprecated" } }
                @match node.presence { Presence::Entry => {}, Presence::NoBundle => { " " span.pill.bad { "no bundle" } }, Presence::OtherChannel => { " " span.pill { "not in this channel" } }, Presence::Absent => { " " span.pill { "not in the catalog" } } }
            }
            @if columns.replaces { td { (t(&replaces.join(", "))) } }
            @if columns.skips { td { @if skips.len() > 6 { details { summary { (count(skips.len(), "entry", "entries")) } (t(&skips.join(", "))) } } @else { (t(&skips.join(", "))) } } }
            @if columns.ranges { td { code { (t(range)) } } }
            td {
                @match node.next {
                    Some(next) => (t(channel.nodes[next].version.as_deref().unwrap_or(channel.nodes[next].name))),
                    None if node.stuck => { span.pill.bad { "no way up" } " " span.small.soft { "nothing replaces or skips it, and no skipRange contains it" } },
                    None => {},
                }
            }
        }
    }
}
