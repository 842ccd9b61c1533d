//! The texts of drawings about channels and entries.

use crate::graph::{EdgeKind, GraphChannel, GraphEdge, GraphNode, Presence, SkipRange};

use super::escape::{shorten, summary};
use super::layout::Layout;

/// The maximum width of a message: that of a bundle is repeated in each of its channels.
const MESSAGE_CELLS: usize = 1000;
/// The maximum width of the name of a head under the name of its channel.
const HEAD_CELLS: usize = 40;

/// A mark beside an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Head,
    Skipped,
    Deprecated,
    NoBundle,
    OtherChannel,
    Absent,
    Stuck,
}

impl Mark {
    /// Returns the marks of a node, in the order they are shown.
    pub(super) fn of(node: &GraphNode<'_>) -> impl Iterator<Item = Mark> + use<> {
        let presence = match node.presence {
            Presence::Entry => None,
            Presence::NoBundle => Some(Mark::NoBundle),
            Presence::OtherChannel => Some(Mark::OtherChannel),
            Presence::Absent => Some(Mark::Absent),
        };
        [
            node.head.then_some(Mark::Head),
            node.skipped.then_some(Mark::Skipped),
            presence,
            node.stuck.then_some(Mark::Stuck),
            node.deprecation.map(|_| Mark::Deprecated),
        ]
        .into_iter()
        .flatten()
    }

    /// Returns the label of the mark.
    pub(super) fn text(self) -> &'static str {
        match self {
            Mark::Head => "head",
            Mark::Skipped => "skipped",
            Mark::Deprecated => "deprecated",
            Mark::NoBundle => "no bundle",
            Mark::OtherChannel => "not in this channel",
            Mark::Absent => "not in catalog",
            Mark::Stuck => "no way up",
        }
    }

    /// Returns the CSS class of the mark.
    pub(super) fn class(self) -> &'static str {
        match self {
            Mark::Head => "head",
            Mark::Skipped => "skip",
            Mark::Deprecated => "depr",
            Mark::NoBundle | Mark::OtherChannel | Mark::Absent => "miss",
            Mark::Stuck => "stuck",
        }
    }
}

/// Returns the name of a bundle, or a placeholder for an empty name.
pub(super) fn name<'a>(node: &GraphNode<'a>) -> &'a str {
    if node.name.is_empty() { "\"\"" } else { node.name }
}

/// Returns the deprecation message of a bundle, in one line.
pub(super) fn deprecation(node: &GraphNode<'_>) -> Option<String> {
    node.deprecation.map(|message| summary(message, MESSAGE_CELLS))
}

/// Returns the subtitle of a channel.
pub(super) fn channel(channel: &GraphChannel<'_>) -> String {
    let entries = channel.nodes.iter().filter(|node| node.is_entry()).count();
    let mut text = count(entries, "entry", "entries");
    let heads: Vec<&GraphNode<'_>> = channel.nodes.iter().filter(|node| node.head).collect();
    match heads.as_slice() {
        [] if entries > 0 => text.push_str(" · no head"),
        [] => {}
        [head] => {
            let head = shorten(head.version.as_deref().unwrap_or(name(head)), HEAD_CELLS);
            text.push_str(&format!(" · head {head}"));
        }
        heads => text.push_str(&format!(" · {} heads", heads.len())),
    }
    let mut add = |count: usize, what: &str| {
        if count > 0 {
            text.push_str(&format!(" · {count} {what}"));
        }
    };
    add(channel.nodes.iter().filter(|node| node.skipped).count(), "skipped");
    add(channel.nodes.iter().filter(|node| node.deprecation.is_some()).count(), "deprecated");
    text
}

/// Describes a range and the number of covered entries.
pub(super) fn range(range: &SkipRange<'_>) -> String {
    match (&range.error, range.covered) {
        (Some(_), _) => format!("skipRange {} is not a range", range.text),
        (None, covered) => format!("skipRange {} ({})", range.text, count(covered, "entry", "entries")),
    }
}

/// Describes the edges to `row` that are not drawn.
pub(super) fn undrawn(channel: &GraphChannel<'_>, layout: &Layout, row: usize) -> Option<String> {
    let start = layout.undrawn.partition_point(|edge| edge.to < row);
    let edges = &layout.undrawn[start..];
    let edges = &edges[..edges.partition_point(|edge| edge.to == row)];
    (!edges.is_empty()).then(|| described(channel, edges))
}

/// Describes edges to one row in words.
pub(super) fn described(channel: &GraphChannel<'_>, edges: &[GraphEdge]) -> String {
    let mut text = String::new();
    for (kind, verb) in [(EdgeKind::Replaces, "replaces"), (EdgeKind::Skips, "skips")] {
        let mut separator = if text.is_empty() { verb.to_owned() } else { format!("; {verb}") };
        for edge in edges.iter().filter(|edge| edge.kind == kind) {
            text.push_str(&separator);
            text.push(' ');
            text.push_str(name(&channel.nodes[edge.from]));
            separator = ",".to_owned();
        }
    }
    text
}

/// Returns a number with its noun.
pub(super) fn count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
