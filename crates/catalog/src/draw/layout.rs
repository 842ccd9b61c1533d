//! Lays out the upgrade edges of a channel beside its list of entries, each kind in lanes of its own.
//!
//! The `replaces` chain from the head is a straight line, the spine, and other entries have their dots in a second
//! column. An edge that follows neither column, the `skips` of an entry (all in one) and its `skipRange` take a lane
//! each, the shortest next to the dots. Lanes are limited; edges without a lane are described in words.

use std::collections::BTreeMap;

use crate::graph::{EdgeKind, GraphChannel, GraphEdge};

/// The maximum number of lanes of each kind: more cannot be distinguished.
const MAX_LANES: usize = 10;

/// The layout of one channel; rows are indexes into [`GraphChannel::nodes`].
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The drawn `replaces` edges.
    pub(super) links: Vec<Link>,
    /// The drawn `skips` of entries.
    pub(super) skips: Vec<Skips>,
    /// The drawn ranges, with their lanes.
    pub(super) ranges: Vec<Lane<usize>>,
    /// The number of lanes of `links`.
    pub(super) link_lanes: usize,
    /// The number of lanes of `skips`.
    pub(super) skip_lanes: usize,
    /// The number of lanes of `ranges`.
    pub(super) range_lanes: usize,
    /// Edges without a lane, by target; described in words.
    pub(super) undrawn: Vec<GraphEdge>,
    /// Whether some ranges are described in words only.
    pub(super) more_ranges: bool,
    /// Whether the second column of dots is used.
    pub(super) side: bool,
}

/// An upgrade edge by `replaces`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) edge: GraphEdge,
    pub(super) route: Route,
}

/// The route of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// Straight along the spine.
    Spine,
    /// Straight along the second column.
    Side,
    /// From the spine into the second column.
    Branch,
    /// Through a lane, counted from the dots.
    Lane(usize),
    /// From an entry to itself.
    Loop,
}

/// All `skips` of one entry, or of several entries that skip the same, in one lane.
#[derive(Debug)]
pub(super) struct Skips {
    pub(super) to: Vec<usize>,
    pub(super) from: Vec<usize>,
    pub(super) lane: usize,
    pub(super) inert: bool,
}

/// An item with its lane.
#[derive(Debug)]
pub(super) struct Lane<T> {
    pub(super) what: T,
    pub(super) lane: usize,
}

/// Lays out a channel.
pub(super) fn layout(channel: &GraphChannel<'_>) -> Layout {
    let mut layout = Layout { side: channel.nodes.iter().any(|node| !node.spine), ..Layout::default() };
    let mut far = Vec::new();
    let columns = Columns::new(channel);
    let mut skips: BTreeMap<(Vec<usize>, bool), Vec<usize>> = BTreeMap::new();
    for edges in channel.edges.chunk_by(|a, b| a.to == b.to && a.kind == b.kind) {
        let Some(&first) = edges.first() else { continue };
        if first.kind == EdgeKind::Skips {
            let from = edges.iter().map(|edge| edge.from).collect();
            skips.entry((from, first.inert)).or_default().push(first.to);
            continue;
        }
        for &edge in edges {
            match columns.route(channel, edge) {
                Some(route) => layout.links.push(Link { edge, route }),
                None => far.push(edge),
            }
        }
    }

    let mut lanes = Lanes::default();
    far.sort_by_key(|edge| (edge.from.abs_diff(edge.to), edge.to));
    for edge in far {
        match lanes.take(edge.from.min(edge.to), edge.from.max(edge.to)) {
            Some(lane) => layout.links.push(Link { edge, route: Route::Lane(lane) }),
            None => layout.undrawn.push(edge),
        }
    }
    layout.link_lanes = lanes.count();
    layout.links.sort_by_key(|link| link.edge);

    let mut lanes = Lanes::default();
    let mut skips: Vec<Skips> =
        skips.into_iter().map(|((from, inert), to)| Skips { to, from, lane: 0, inert }).collect();
    skips.sort_by_cached_key(|skips| (skips.span().1 - skips.span().0, skips.span().0));
    for mut skips in skips {
        let (top, bottom) = skips.span();
        if let Some(lane) = lanes.take(top, bottom) {
            skips.lane = lane;
            layout.skips.push(skips);
            continue;
        }
        for &to in &skips.to {
            let edge = |&from: &usize| GraphEdge { to, kind: EdgeKind::Skips, from, inert: skips.inert };
            layout.undrawn.extend(skips.from.iter().map(edge));
        }
    }
    layout.skip_lanes = lanes.count();
    layout.skips.sort_by(|a, b| a.to.cmp(&b.to));
    layout.undrawn.sort_unstable();

    // The newest entries get lanes for their ranges first: they matter to most users.
    let mut lanes = Lanes::default();
    for (place, range) in channel.ranges.iter().enumerate().filter(|(_, range)| range.covered > 0) {
        let Some((first, last)) = range.runs.first().zip(range.runs.last()) else { continue };
        let (top, bottom) = (first.start.min(range.to), (last.end - 1).max(range.to));
        match lanes.take(top, bottom) {
            Some(lane) => layout.ranges.push(Lane { what: place, lane }),
            None => layout.more_ranges = true,
        }
    }
    layout.range_lanes = lanes.count();
    layout
}

impl Skips {
    /// Returns the first and the last row it touches.
    pub(super) fn span(&self) -> (usize, usize) {
        let rows = || self.from.iter().chain(&self.to).copied();
        (rows().min().unwrap_or(0), rows().max().unwrap_or(0))
    }
}

/// For every row, the next lower row in each of the two columns.
struct Columns {
    below_spine: Vec<Option<usize>>,
    below_side: Vec<Option<usize>>,
}

impl Columns {
    fn new(channel: &GraphChannel<'_>) -> Columns {
        let mut columns = Columns { below_spine: Vec::new(), below_side: Vec::new() };
        let (mut spine, mut side) = (None, None);
        for (row, node) in channel.nodes.iter().enumerate().rev() {
            columns.below_spine.push(spine);
            columns.below_side.push(side);
            if node.spine { spine = Some(row) } else { side = Some(row) }
        }
        columns.below_spine.reverse();
        columns.below_side.reverse();
        columns
    }

    /// Returns the route of an edge that needs no lane.
    fn route(&self, channel: &GraphChannel<'_>, edge: GraphEdge) -> Option<Route> {
        let GraphEdge { from, to, .. } = edge;
        match (channel.nodes[to].spine, channel.nodes[from].spine) {
            _ if from == to => Some(Route::Loop),
            (true, true) => (self.below_spine[to] == Some(from)).then_some(Route::Spine),
            (false, false) => (self.below_side[to] == Some(from)).then_some(Route::Side),
            (false, true) if from > to && self.below_side[to].is_none_or(|side| side > from) => Some(Route::Branch),
            _ => None,
        }
    }
}

/// Lanes, each with its occupied spans, by first row.
#[derive(Default)]
struct Lanes(Vec<BTreeMap<usize, usize>>);

impl Lanes {
    /// Occupies rows `top` to `bottom` in the first lane where they are free.
    fn take(&mut self, top: usize, bottom: usize) -> Option<usize> {
        let free = |lane: &BTreeMap<usize, usize>| lane.range(..=bottom).next_back().is_none_or(|(_, &end)| end < top);
        let lane = match self.0.iter().position(free) {
            Some(lane) => lane,
            None if self.0.len() < MAX_LANES => {
                self.0.push(BTreeMap::new());
                self.0.len() - 1
            }
            None => return None,
        };
        self.0[lane].insert(top, bottom);
        Some(lane)
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}
