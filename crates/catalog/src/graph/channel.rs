//! Builds the graph of a channel from its entries.

use std::collections::HashMap;
use std::collections::hash_map;

use fbc::blob::{BUNDLE, CHANNEL};

use super::upgrade::{self, Reach};
use super::{EdgeKind, GraphChannel, GraphEdge, GraphNode, PackageInfo, Presence, SkipRange, order};
use crate::channel::Versioned;
use crate::selection::SelectedChannel;

/// The bundles that a channel names, numbered by occurrence: first its entries, then the others.
#[derive(Default)]
struct Names<'a> {
    numbers: HashMap<&'a str, usize>,
    names: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn number(&mut self, name: &'a str) -> usize {
        match self.numbers.entry(name) {
            hash_map::Entry::Occupied(known) => *known.get(),
            hash_map::Entry::Vacant(new) => {
                self.names.push(name);
                *new.insert(self.names.len() - 1)
            }
        }
    }
}

/// Sorts the entries of `selected` and computes their upgrades.
pub(super) fn draw<'a>(
    selected: &SelectedChannel<'a>,
    known: &PackageInfo<'a>,
    v0_semantics: bool,
) -> GraphChannel<'a> {
    let mut names = Names::default();
    for entry in &selected.entries {
        names.number(entry.name);
    }
    let listed = names.names.len();
    let mut edges = Vec::new();
    let mut ranges = Vec::new();
    for entry in &selected.entries {
        let to = names.number(entry.name);
        if !entry.replaces.is_empty() {
            edges.push(GraphEdge { to, kind: EdgeKind::Replaces, from: names.number(entry.replaces), inert: false });
        }
        for skip in &entry.skips {
            edges.push(GraphEdge { to, kind: EdgeKind::Skips, from: names.number(skip), inert: false });
        }
        if !entry.skip_range.is_empty() {
            ranges.push((to, entry.skip_range));
        }
    }
    let versions: Vec<_> = names.names.iter().map(|name| known.version(name)).collect();
    let order = order::newest_first(&names.names, &versions, &edges);

    let mut rank = vec![0; order.len()];
    for (row, &number) in order.iter().enumerate() {
        rank[number] = row;
    }
    for edge in &mut edges {
        (edge.to, edge.from) = (rank[edge.to], rank[edge.from]);
    }
    edges.sort_unstable();
    edges.dedup();
    for (to, _) in &mut ranges {
        *to = rank[*to];
    }
    ranges.sort_by_key(|(to, _)| *to);

    let mut nodes: Vec<GraphNode<'a>> =
        order.iter().map(|&number| node(names.names[number], number < listed, known)).collect();
    for edge in &edges {
        nodes[edge.from].head = false;
        nodes[edge.from].skipped |= edge.kind == EdgeKind::Skips;
    }
    let versioned = Versioned::in_order(order.iter().map(|&number| versions[number].map(|(version, _)| version)));
    let reaches: Vec<Reach> = ranges.iter().map(|(to, text)| Reach::new(&versioned, *to, text)).collect();
    let mut ranges: Vec<SkipRange<'a>> = ranges
        .iter()
        .zip(&reaches)
        .map(|((to, text), reach)| SkipRange {
            to: *to,
            text,
            runs: reach.reach.runs.iter().map(|run| versioned.rows(run)).collect(),
            covered: reach.covered,
            error: reach.reach.error.clone(),
            inert: false,
        })
        .collect();
    upgrade::follow(&mut nodes, &edges, &versioned, &reaches, v0_semantics);
    if v0_semantics {
        edges.iter_mut().for_each(|edge| edge.inert = nodes[edge.to].skipped);
        ranges.iter_mut().for_each(|range| range.inert = nodes[range.to].skipped);
    }
    GraphChannel {
        name: selected.name,
        default: known.default_channel == Some(selected.name),
        deprecation: known.deprecation(CHANNEL, selected.name),
        nodes,
        edges,
        ranges,
    }
}

/// Creates a node; an entry counts as a head until another replaces or skips it.
fn node<'a>(name: &'a str, listed: bool, known: &PackageInfo<'a>) -> GraphNode<'a> {
    let bundle = known.bundles.get(name);
    GraphNode {
        name,
        version: bundle.and_then(|bundle| bundle.text.clone()),
        presence: match (listed, bundle.is_some()) {
            (true, true) => Presence::Entry,
            (true, false) => Presence::NoBundle,
            (false, true) => Presence::OtherChannel,
            (false, false) => Presence::Absent,
        },
        head: listed,
        skipped: false,
        spine: false,
        deprecation: known.deprecation(BUNDLE, name),
        next: None,
        stuck: false,
    }
}
