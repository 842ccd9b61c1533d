//! Computes the covered ranges, the chain of a channel, and the next upgrade of every bundle.

use super::{EdgeKind, GraphEdge, GraphNode, Presence};
use crate::channel::{self, Upgrades, Versioned};

/// The nodes that the `skipRange` of a node covers.
pub(super) struct Reach {
    /// The row of the node with the range.
    to: usize,
    pub(super) reach: channel::Reach,
    /// The number of covered nodes without the node itself.
    pub(super) covered: usize,
}

impl Reach {
    /// Computes the coverage of the range `text` of the node at row `to`.
    pub(super) fn new(versioned: &Versioned<'_>, to: usize, text: &str) -> Reach {
        let reach = versioned.reach(text);
        let itself = versioned.place(to).is_some_and(|own| reach.runs.iter().any(|run| run.contains(&own)));
        let covered = reach.runs.iter().map(ExactSizeIterator::len).sum::<usize>() - usize::from(itself);
        Reach { to, reach, covered }
    }
}

/// Computes the spine of a channel and the upgrade of each node.
///
/// `edges` and `reaches` are sorted by target.
pub(super) fn follow(
    nodes: &mut [GraphNode<'_>],
    edges: &[GraphEdge],
    versioned: &Versioned<'_>,
    reaches: &[Reach],
    v0_semantics: bool,
) {
    let heads = nodes.iter().filter(|node| node.head).count();
    let chain = chain(nodes, edges);
    let mut lowest = None;
    for &row in &chain {
        if lowest.is_none_or(|lowest| row > lowest) {
            nodes[row].spine = true;
            lowest = Some(row);
        }
    }
    let candidates: Vec<usize> = if v0_semantics {
        // With several heads or none, clusters of the first generation cannot order the channel.
        let chain = if heads == 1 { chain } else { Vec::new() };
        chain.into_iter().filter(|&row| nodes[row].presence == Presence::Entry && !nodes[row].skipped).collect()
    } else {
        let mut rows: Vec<usize> = (0..nodes.len()).filter(|&row| nodes[row].presence == Presence::Entry).collect();
        rows.sort_by_key(|&row| nodes[row].deprecation.is_some());
        rows
    };
    let mut steps = Upgrades::new(nodes.len(), versioned);
    for &row in &candidates {
        for edge in slice_of(edges, row, |edge| edge.to) {
            steps.set(edge.from, row);
        }
        for reach in slice_of(reaches, row, |reach| reach.to) {
            reach.reach.runs.iter().for_each(|run| steps.set_range(run.clone(), row));
        }
        if !v0_semantics {
            steps.set_none(row);
        }
    }
    let nexts = steps.into_next();
    let newest = nodes.iter().position(|node| node.presence == Presence::Entry);
    let undecided = candidates.is_empty();
    for (row, node) in nodes.iter_mut().enumerate() {
        node.next = nexts[row].filter(|to| *to != row);
        let only_head = node.head && heads == 1;
        let behind = newest.is_some_and(|newest| row > newest);
        node.stuck = node.presence == Presence::Entry && node.next.is_none() && !only_head && behind && !undecided;
    }
}

/// Returns the rows on the `replaces` chain from the newest head, or from the top without one.
fn chain(nodes: &[GraphNode<'_>], edges: &[GraphEdge]) -> Vec<usize> {
    let mut chain = Vec::new();
    let mut seen = vec![false; nodes.len()];
    let mut at = nodes.iter().position(|node| node.head).or(if nodes.is_empty() { None } else { Some(0) });
    while let Some(row) = at.filter(|&row| !seen[row]) {
        seen[row] = true;
        chain.push(row);
        // Edges by `replaces` come first among the edges to one row.
        at =
            slice_of(edges, row, |edge| edge.to).first().filter(|edge| edge.kind == EdgeKind::Replaces).map(|e| e.from);
    }
    chain
}

/// Returns the part of a sorted list that belongs to `row`.
fn slice_of<T>(sorted: &[T], row: usize, key: impl Fn(&T) -> usize) -> &[T] {
    let start = sorted.partition_point(|item| key(item) < row);
    let length = sorted[start..].partition_point(|item| key(item) == row);
    &sorted[start..start + length]
}
