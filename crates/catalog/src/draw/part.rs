//! Parts of drawings, for pages with their own style: [`channel`], [`arrow_heads`] and [`legend`].

use crate::graph::{Graph, GraphChannel};

use super::card::Card;
use super::{svg, words};

/// Space above the entries.
const GAP: i32 = 10;

/// Summarizes a channel in one line.
pub fn summary(channel: &GraphChannel<'_>) -> String {
    words::channel(channel)
}

/// Draws the entries of one channel, without its name. Its lines refer to [`arrow_heads`].
pub fn channel(channel: &GraphChannel<'_>) -> String {
    let card = Card::new(channel);
    let top = card.top() - GAP;
    let (width, height) = (card.width, card.height - top);
    let mut out = String::new();
    put!(
        out,
        "<svg class=\"opm\" role=\"group\" viewBox=\"0 {top} {width} {height}\" width=\"{width}\" height=\"{height}\"><g class=\"c\">"
    );
    card.write(&mut out);
    out.push_str("</g></svg>");
    out
}

/// Writes the arrow heads that channels refer to, in an SVG element of zero size.
pub fn arrow_heads() -> String {
    let mut out = String::from("<svg class=\"opm defs\" width=\"0\" height=\"0\" aria-hidden=\"true\">");
    svg::arrow_heads(&mut out);
    out.push_str("</svg>");
    out
}

/// Draws the legend of a graph, wrapped at `room`.
pub fn legend(graph: &Graph<'_>, room: i32) -> String {
    let (signs, width, height) = svg::legend(graph, room);
    format!(
        "<svg class=\"opm\" role=\"img\" aria-label=\"Legend\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">{signs}</svg>"
    )
}
