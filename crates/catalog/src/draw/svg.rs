//! Upgrade graphs as SVG.

use crate::graph::{EdgeKind, Graph, GraphPackage, Presence};

use super::card::{Card, wide, write_dot, write_pill};
use super::escape::{cells, shorten, summary, xml};

/// The style, for light and dark color schemes.
pub(super) const STYLE: &str = include_str!("style.css");

/// The kinds of lines that end in arrows, by class.
const ARROWS: [char; 4] = ['r', 'b', 's', 'g'];

/// Space around pictures and between cards.
const GAP: i32 = 16;
/// The minimum height of a column.
const MIN_COLUMN: i32 = 700;
/// The maximum width of a package heading, in cells.
const HEADING_CELLS: usize = 80;
/// The maximum width of a deprecation message, in cells.
const MESSAGE_CELLS: usize = 120;
/// Height of a line of the legend.
const LEGEND_LINE: i32 = 22;

/// Draws the upgrade graphs as one SVG document.
///
/// It is self-contained and adapts to light and dark color schemes. Its size is linear in that of the graph.
pub fn svg(graph: &Graph<'_>) -> String {
    let pictures: Vec<Picture<'_, '_>> = graph.packages.iter().map(Picture::new).collect();
    let sizes: Vec<(i32, i32)> = pictures.iter().map(|picture| (picture.width, picture.height)).collect();
    let columns = flow(&sizes, 2 * GAP);
    let (legend, legend_width, legend_height) = legend(graph, columns.width.max(760));
    let width = columns.width.max(legend_width) + 2 * GAP;
    let top = 2 * GAP + legend_height;
    let height = top + columns.height.max(GAP) + GAP;

    let mut out = String::new();
    put!(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"opm\" role=\"img\" ");
    put!(out, "viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n");
    put!(out, "<title>{}</title>\n<style>\n{STYLE}</style>\n", xml(&title(graph)));
    arrow_heads(&mut out);
    put!(out, "<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n");
    put!(out, "<g transform=\"translate({GAP},{GAP})\">{legend}</g>\n");
    for (picture, (x, y)) in pictures.iter().zip(&columns.places) {
        put!(out, "<g transform=\"translate({},{})\">\n", x + GAP, y + top);
        picture.write(&mut out);
        out.push_str("</g>\n");
    }
    if pictures.is_empty() {
        put!(out, "<text class=\"sub\" x=\"{GAP}\" y=\"{}\">nothing to draw</text>\n", top + 8);
    }
    out.push_str("</svg>\n");
    out
}

/// Draws one package, for a page that has the style and the arrow heads already.
pub(super) fn inline(package: &GraphPackage<'_>) -> String {
    let picture = Picture::new(package);
    let (width, height) = (picture.width + 2, picture.height + 2);
    let mut out = String::new();
    put!(
        out,
        "<svg class=\"opm\" role=\"group\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n"
    );
    picture.write_channels(&mut out);
    out.push_str("</svg>\n");
    out
}

fn title(graph: &Graph<'_>) -> String {
    match graph.packages.as_slice() {
        [one] => format!("Upgrade graph of {}", one.name),
        packages => format!("Upgrade graphs of {} packages", packages.len()),
    }
}

/// A package with its channels laid out.
struct Picture<'g, 'a> {
    package: &'g GraphPackage<'a>,
    cards: Vec<Card<'g, 'a>>,
    columns: Flow,
    message: Option<String>,
    width: i32,
    height: i32,
}

impl<'g, 'a> Picture<'g, 'a> {
    fn new(package: &'g GraphPackage<'a>) -> Picture<'g, 'a> {
        let cards: Vec<Card<'_, '_>> = package.channels.iter().map(Card::new).collect();
        let sizes: Vec<(i32, i32)> = cards.iter().map(|card| (card.width, card.height)).collect();
        let columns = flow(&sizes, GAP);
        let message = package.deprecation.map(|message| summary(message, MESSAGE_CELLS));
        let heading = wide(cells(&heading(package)), 112) + if message.is_some() { 100 } else { 0 };
        let width = columns.width.max(heading).max(wide(message.as_deref().map_or(0, cells), 67));
        let mut picture = Picture { package, cards, columns, message, width, height: 0 };
        picture.height = picture.top() + picture.columns.height;
        picture
    }

    /// Returns the top of the channels.
    fn top(&self) -> i32 {
        if self.message.is_some() { 50 } else { 32 }
    }

    fn write(&self, out: &mut String) {
        let heading = heading(self.package);
        put!(out, "<text class=\"pkg\" x=\"0\" y=\"18\">{}</text>", xml(&heading));
        if let (Some(message), Some(whole)) = (&self.message, self.package.deprecation) {
            put!(out, "<g><title>{}</title>", xml(whole));
            write_pill(out, wide(cells(&heading), 112) + 10, 12, "depr", "deprecated");
            put!(out, "</g><text class=\"msg\" x=\"0\" y=\"36\">{}</text>", xml(message));
        }
        put!(out, "<g transform=\"translate(0,{})\">\n", self.top());
        self.write_channels(out);
        out.push_str("</g>\n");
    }

    fn write_channels(&self, out: &mut String) {
        for (card, (x, y)) in self.cards.iter().zip(&self.columns.places) {
            put!(out, "<g class=\"c\" transform=\"translate({x},{y})\">");
            card.write(out);
            out.push_str("</g>\n");
        }
    }
}

fn heading(package: &GraphPackage<'_>) -> String {
    shorten(package.name, HEADING_CELLS)
}

/// Boxes in columns, filled one after the other.
struct Flow {
    places: Vec<(i32, i32)>,
    width: i32,
    height: i32,
}

/// Lays out boxes in columns, no higher than needed for the aspect ratio of a screen.
fn flow(sizes: &[(i32, i32)], gap: i32) -> Flow {
    let tallest = sizes.iter().map(|&(_, height)| height).max().unwrap_or(0).max(MIN_COLUMN);
    let all: i64 = sizes.iter().map(|&(_, height)| i64::from(height) + i64::from(gap)).sum();
    let (mut low, mut high) = (tallest, i32::try_from(all).unwrap_or(i32::MAX / 2).max(tallest));
    while low < high {
        let middle = low + (high - low) / 2;
        let flow = fill(sizes, gap, middle);
        // An aspect ratio of 3 to 2.
        if 2 * i64::from(flow.width) > 3 * i64::from(flow.height.max(MIN_COLUMN)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    fill(sizes, gap, low)
}

/// Lays out boxes in columns of at most `limit` height.
fn fill(sizes: &[(i32, i32)], gap: i32, limit: i32) -> Flow {
    let mut flow = Flow { places: Vec::with_capacity(sizes.len()), width: 0, height: 0 };
    let (mut x, mut y) = (0, 0_i32);
    for &(width, height) in sizes {
        if y > 0 && y.saturating_add(height) > limit {
            (x, y) = (flow.width.saturating_add(gap), 0);
        }
        flow.places.push((x, y));
        flow.width = flow.width.max(x.saturating_add(width));
        flow.height = flow.height.max(y.saturating_add(height));
        y = y.saturating_add(height).saturating_add(gap);
    }
    flow
}

/// Writes the arrow heads, which pictures refer to.
pub(super) fn arrow_heads(out: &mut String) {
    out.push_str("<defs>");
    for arrow in ARROWS {
        put!(out, "<marker id=\"opm-{arrow}\" viewBox=\"0 0 6 6\" refX=\"3\" refY=\"3\" markerWidth=\"6\" ");
        put!(out, "markerHeight=\"6\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">");
        put!(out, "<path class=\"a{arrow}\" d=\"M0 0L6 3L0 6z\"/></marker>");
    }
    out.push_str("</defs>\n");
}

/// Draws the legend of the features in a graph, wrapped at `room`, and returns it with its width and height.
pub(super) fn legend(graph: &Graph<'_>, room: i32) -> (String, i32, i32) {
    let channels = || graph.packages.iter().flat_map(|package| &package.channels);
    let nodes = || channels().flat_map(|channel| &channel.nodes);
    let edges = || channels().flat_map(|channel| &channel.edges);
    let ranges = || channels().flat_map(|channel| &channel.ranges);
    let items = [
        (true, Sign::Nothing, "newest on top, upgrades go up:"),
        (edges().any(|edge| edge.kind == EdgeKind::Replaces), Sign::Replaces, "replaces"),
        (edges().any(|edge| edge.kind == EdgeKind::Skips), Sign::Skips, "skips"),
        (ranges().any(|range| range.covered > 0), Sign::Range, "skipRange, along the entries in it"),
        (edges().any(|edge| edge.kind == EdgeKind::Replaces && edge.from < edge.to), Sign::Back, "to an older version"),
        (edges().any(|edge| edge.inert) || ranges().any(|range| range.inert), Sign::Inert, "never followed"),
        (nodes().any(|node| node.head), Sign::Dot(true, "d"), "head"),
        (nodes().any(|node| node.skipped), Sign::Dot(false, "d skip"), "skipped"),
        (nodes().any(|node| node.deprecation.is_some()), Sign::Dot(false, "d depr"), "deprecated"),
        (
            nodes().any(|node| node.presence != Presence::Entry),
            Sign::Dot(false, "d miss"),
            "only mentioned, or without bundle",
        ),
    ];
    let mut out = String::new();
    let (mut x, mut y, mut width) = (0, 0, 0);
    for (_, sign, label) in items.into_iter().filter(|(used, ..)| *used) {
        let length = sign.width() + wide(cells(label), 67) + 18;
        if x > 0 && x + length > room {
            (x, y) = (0, y + LEGEND_LINE);
        }
        sign.write(x, y + LEGEND_LINE / 2, &mut out);
        put!(out, "<text class=\"sub\" x=\"{}\" y=\"{}\">{label}</text>", x + sign.width(), y + LEGEND_LINE / 2 + 4);
        x += length;
        width = width.max(x);
    }
    (out, width, y + LEGEND_LINE)
}

/// A symbol in the legend.
#[derive(Clone, Copy)]
enum Sign {
    Nothing,
    Replaces,
    Skips,
    Range,
    Back,
    Inert,
    Dot(bool, &'static str),
}

impl Sign {
    fn width(self) -> i32 {
        match self {
            Sign::Nothing => 0,
            Sign::Dot(..) => 22,
            _ => 34,
        }
    }

    fn write(self, x: i32, y: i32, out: &mut String) {
        let end = x + 23;
        match self {
            Sign::Nothing => {}
            Sign::Replaces => put!(out, "<path class=\"r\" d=\"M{x} {y}H{end}\" marker-end=\"url(#opm-r)\"/>"),
            Sign::Skips => put!(out, "<path class=\"s\" d=\"M{x} {y}H{end}\" marker-end=\"url(#opm-s)\"/>"),
            Sign::Range => {
                put!(out, "<path class=\"b\" d=\"M{} {y}H{}\"/>", x + 3, x + 12);
                put!(out, "<path class=\"g\" d=\"M{x} {y}H{end}\" marker-end=\"url(#opm-g)\"/>");
            }
            Sign::Back => put!(out, "<path class=\"r back\" d=\"M{x} {y}H{end}\" marker-end=\"url(#opm-b)\"/>"),
            Sign::Inert => put!(out, "<path class=\"r inert\" d=\"M{x} {y}H{end}\"/>"),
            Sign::Dot(head, class) => write_dot(out, x + 9, y, head, class),
        }
    }
}
