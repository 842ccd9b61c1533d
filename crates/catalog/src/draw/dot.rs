//! Upgrade graphs for Graphviz.

use crate::graph::{EdgeKind, Graph, GraphChannel};

use super::escape::{dot as escape, shorten};
use super::words::{self, Mark};

/// The maximum width of a version, in cells.
const VERSION_CELLS: usize = 60;

/// Draws the upgrade graphs in the DOT language: a cluster for each package and each channel.
///
/// Edges run from the older to the newer bundle. A `skipRange` is one edge, from the oldest covered bundle, with the
/// number of covered bundles.
pub fn dot(graph: &Graph<'_>) -> String {
    // With ranks from the bottom up, a label at the bottom is drawn on top.
    let mut out = String::from(
        "digraph upgrades {\n  rankdir=BT;\n  graph [fontname=\"monospace\", style=\"rounded\", color=\"#7a8694\", labelloc=\"b\"];\n  \
         node [fontname=\"monospace\", fontsize=11, shape=box, style=\"rounded\", color=\"#0072b2\"];\n  \
         edge [fontname=\"monospace\", fontsize=9, color=\"#0072b2\"];\n",
    );
    for (p, package) in graph.packages.iter().enumerate() {
        put!(out, "  subgraph cluster_p{p} {{\n    label=\"{}", escape(package.name));
        if let Some(message) = package.deprecation {
            put!(out, "\\ndeprecated: {}", escape(message));
        }
        out.push_str("\";\n");
        for (c, channel) in package.channels.iter().enumerate() {
            write_channel(channel, &format!("p{p}c{c}"), &mut out);
        }
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    out
}

fn write_channel(channel: &GraphChannel<'_>, id: &str, out: &mut String) {
    put!(out, "    subgraph cluster_{id} {{\n      label=\"{}", escape(channel.name));
    if channel.default {
        out.push_str(" (default)");
    }
    put!(out, "\\n{}", escape(&words::channel(channel)));
    if let Some(message) = channel.deprecation {
        put!(out, "\\ndeprecated: {}", escape(message));
    }
    out.push_str("\";\n");
    for (row, node) in channel.nodes.iter().enumerate() {
        put!(out, "      {id}n{row} [label=\"{}", escape(words::name(node)));
        if let Some(version) = &node.version {
            put!(out, "\\n{}", escape(&shorten(version, VERSION_CELLS)));
        }
        let marks: Vec<&str> = Mark::of(node).map(Mark::text).collect();
        if !marks.is_empty() {
            put!(out, "\\n{}", marks.join(", "));
        }
        out.push('"');
        match (node.is_entry() && !Mark::of(node).any(|mark| mark == Mark::NoBundle), node.deprecation) {
            (false, _) => out.push_str(", style=\"rounded,dashed\", color=\"#7a8694\""),
            (true, Some(_)) => out.push_str(", style=\"rounded,filled\", fillcolor=\"#e69f00\", color=\"#a06a00\""),
            (true, None) if node.skipped => out.push_str(", color=\"#d55e00\""),
            (true, None) if node.head => out.push_str(", penwidth=2.5"),
            (true, None) => {}
        }
        if let Some(message) = words::deprecation(node) {
            put!(out, ", tooltip=\"{}\"", escape(&message));
        }
        out.push_str("];\n");
    }
    for edge in &channel.edges {
        put!(out, "      {id}n{} -> {id}n{} [", edge.from, edge.to);
        match edge.kind {
            // A higher weight keeps the chain straight.
            EdgeKind::Replaces => out.push_str("label=\"replaces\", weight=10"),
            EdgeKind::Skips => out.push_str("label=\"skips\", style=\"dashed\", color=\"#d55e00\", weight=0"),
        }
        out.push_str(if edge.inert { ", arrowhead=\"empty\"];\n" } else { "];\n" });
    }
    for range in channel.ranges.iter().filter(|range| range.covered > 0) {
        let oldest = range.runs.last().map(|run| run.end - 1).filter(|&row| row != range.to);
        let Some(from) = oldest.or_else(|| range.runs.first().map(|run| run.start)) else { continue };
        put!(
            out,
            "      {id}n{from} -> {id}n{} [label=\"{}\", style=\"bold,dotted\", color=\"#009e73\", constraint=false];\n",
            range.to,
            escape(&words::range(range))
        );
    }
    out.push_str("    }\n");
}
