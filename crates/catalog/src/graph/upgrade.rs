//! Where clusters go: ranges, the chain of a channel, and the next step from every bundle.

use std::ops::Range;

use fbc::range::{RangeError, VersionRange};
use fbc::version::Version;

use super::{Edge, EdgeKind, Node, Presence};

/// The nodes of a channel that have versions, newest first.
pub(super) struct Versioned<'v> {
    /// Each with its row, its place among all nodes.
    nodes: Vec<(usize, &'v Version)>,
}

/// What a `skipRange` covers.
pub(super) struct Reach {
    /// The row of the entry that has it.
    to: usize,
    /// Runs of places in [`Versioned`].
    pub(super) runs: Vec<Range<usize>>,
    /// How many nodes are covered beside the entry itself.
    pub(super) covered: usize,
    /// Why it is no range, if it is none.
    pub(super) error: Option<RangeError>,
}

impl<'v> Versioned<'v> {
    pub(super) fn new(versions: impl Iterator<Item = Option<&'v Version>>) -> Versioned<'v> {
        Versioned { nodes: versions.enumerate().filter_map(|(row, version)| Some((row, version?))).collect() }
    }

    /// Finds what the range `text` of the node at row `to` covers.
    ///
    /// Versions are sorted, so a few searches do and nothing needs to be tried one by one.
    pub(super) fn reach(&self, to: usize, text: &str) -> Reach {
        let range = match VersionRange::parse(text) {
            Ok(range) => range,
            Err(error) => return Reach { to, runs: Vec::new(), covered: 0, error: Some(error) },
        };
        let mut cuts = vec![0, self.nodes.len()];
        for boundary in range.boundaries() {
            cuts.push(self.nodes.partition_point(|(_, version)| version.cmp_precedence(boundary).is_gt()));
            cuts.push(self.nodes.partition_point(|(_, version)| version.cmp_precedence(boundary).is_ge()));
        }
        cuts.sort_unstable();
        cuts.dedup();
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (&start, &end) in cuts.iter().zip(cuts.iter().skip(1)) {
            if !range.contains(self.nodes[start].1) {
                continue;
            }
            match runs.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => runs.push(start..end),
            }
        }
        let own = self.nodes.binary_search_by_key(&to, |(row, _)| *row);
        let itself = own.is_ok_and(|own| runs.iter().any(|run| run.contains(&own)));
        let covered = runs.iter().map(ExactSizeIterator::len).sum::<usize>() - usize::from(itself);
        Reach { to, runs, covered, error: None }
    }

    /// Turns a run of places into a run of rows.
    pub(super) fn rows(&self, run: &Range<usize>) -> Range<usize> {
        let row = |place: usize| self.nodes.get(place).map_or(0, |(row, _)| *row);
        row(run.start)..row(run.end.saturating_sub(1)) + 1
    }
}

/// Works out the spine of a channel and where each of its nodes upgrades to.
///
/// `edges` and `reaches` are sorted by target.
pub(super) fn follow(
    nodes: &mut [Node<'_>],
    edges: &[Edge],
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
        // With several heads or none, clusters of the first generation cannot tell what is newer.
        let chain = if heads == 1 { chain } else { Vec::new() };
        chain.into_iter().filter(|&row| nodes[row].presence == Presence::Entry && !nodes[row].skipped).collect()
    } else {
        let mut rows: Vec<usize> = (0..nodes.len()).filter(|&row| nodes[row].presence == Presence::Entry).collect();
        rows.sort_by_key(|&row| nodes[row].deprecation.is_some());
        rows
    };
    let mut steps = Steps::new(nodes.len(), versioned);
    for &row in &candidates {
        for edge in slice_of(edges, row, |edge| edge.to) {
            steps.settle(edge.from, row);
        }
        for reach in slice_of(reaches, row, |reach| reach.to) {
            reach.runs.iter().for_each(|run| steps.settle_run(run.clone(), row));
        }
        if !v0_semantics {
            steps.settle(row, row);
        }
    }
    let newest = nodes.iter().position(|node| node.presence == Presence::Entry);
    let undecided = candidates.is_empty();
    for (row, node) in nodes.iter_mut().enumerate() {
        node.next = steps.next[row];
        let only_head = node.head && heads == 1;
        let behind = newest.is_some_and(|newest| row > newest);
        node.stuck = node.presence == Presence::Entry && node.next.is_none() && !only_head && behind && !undecided;
    }
}

/// Returns the rows that `replaces` leads through from the newest head, or from the top without one.
fn chain(nodes: &[Node<'_>], edges: &[Edge]) -> Vec<usize> {
    let mut chain = Vec::new();
    let mut seen = vec![false; nodes.len()];
    let mut at = nodes.iter().position(|node| node.head).or(if nodes.is_empty() { None } else { Some(0) });
    while let Some(row) = at.filter(|&row| !seen[row]) {
        seen[row] = true;
        chain.push(row);
        // Of the edges to one row those by `replaces` come first.
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

/// The steps found so far; the first one found for a node counts.
struct Steps<'v> {
    versioned: &'v Versioned<'v>,
    settled: Vec<bool>,
    next: Vec<Option<usize>>,
    /// For each place in `versioned` one at or behind it from where on nodes may be unsettled.
    free: Vec<usize>,
}

impl<'v> Steps<'v> {
    fn new(nodes: usize, versioned: &'v Versioned<'v>) -> Steps<'v> {
        let free = (0..=versioned.nodes.len()).collect();
        Steps { versioned, settled: vec![false; nodes], next: vec![None; nodes], free }
    }

    /// Says that `from` goes to `to`; to itself means that it stays.
    fn settle(&mut self, from: usize, to: usize) {
        if !self.settled[from] {
            self.settled[from] = true;
            self.next[from] = (from != to).then_some(to);
        }
    }

    /// Says so for a run of places, each of which is looked at once in all.
    fn settle_run(&mut self, run: Range<usize>, to: usize) {
        let mut place = self.first_free(run.start);
        while place < run.end {
            self.settle(self.versioned.nodes[place].0, to);
            self.free[place] = place + 1;
            place = self.first_free(place);
        }
    }

    fn first_free(&mut self, place: usize) -> usize {
        let mut root = place;
        while self.free[root] != root {
            root = self.free[root];
        }
        // Shorten the way for those who come after.
        let mut at = place;
        while self.free[at] != root {
            at = std::mem::replace(&mut self.free[at], root);
        }
        root
    }
}
