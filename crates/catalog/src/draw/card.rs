//! The drawing of one channel.

use crate::graph::{GraphChannel, GraphNode};

use super::escape::{cells, shorten, summary, xml};
use super::layout::{Layout, Route, layout};
use super::words::{self, Mark};

/// Height of an entry.
const ROW: i32 = 20;
/// Space around the content of a card.
const PAD: i32 = 14;
/// Width of a lane.
const LANE: i32 = 9;
/// The distance from the dots on the spine to those beside it.
const SIDE: i32 = 16;
/// The width of a character, in tenths of a pixel: names, small print and marks, headings.
const CELL: i32 = 73;
const SMALL_CELL: i32 = 67;
const PILL_CELL: i32 = 61;
const HEADING_CELL: i32 = 87;
/// The vertical offset at which the lines of `skips` and of ranges reach an entry, below and above those of `replaces`.
const SKIPS_END: i32 = 4;
const RANGE_END: i32 = -4;
/// The maximum width of names, versions and notes, in cells.
const NAME_CELLS: usize = 60;
const VERSION_CELLS: usize = 28;
const NOTE_CELLS: usize = 64;
/// The maximum width of a name in a tooltip: thousands of entries may upgrade to one.
const TOOLTIP_CELLS: usize = 120;

/// A channel with all texts measured.
pub(super) struct Card<'g, 'a> {
    channel: &'g GraphChannel<'a>,
    layout: Layout,
    rows: Vec<RowText>,
    subtitle: String,
    message: Option<String>,
    footer: Option<&'static str>,
    version_width: i32,
    name_width: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

/// The computed texts of a row.
struct RowText {
    name: String,
    version: String,
    notes: Vec<(&'static str, String)>,
}

impl<'g, 'a> Card<'g, 'a> {
    pub(super) fn new(channel: &'g GraphChannel<'a>) -> Card<'g, 'a> {
        let layout = layout(channel);
        let mut rows: Vec<RowText> = channel.nodes.iter().map(RowText::of).collect();
        for range in &channel.ranges {
            let class = if range.error.is_some() { "bad" } else { "rng" };
            rows[range.to].notes.push((class, shorten(&words::range(range), NOTE_CELLS)));
        }
        for (row, text) in rows.iter_mut().enumerate() {
            if let Some(undrawn) = words::undrawn(channel, &layout, row) {
                text.notes.push(("sub", summary(&undrawn, NOTE_CELLS)));
            }
            if let Some(message) = channel.nodes[row].deprecation.filter(|message| !message.trim().is_empty()) {
                text.notes.push(("msg", summary(message, NOTE_CELLS)));
            }
        }
        let widest = |text: fn(&RowText) -> &str| rows.iter().map(|row| cells(text(row))).max().unwrap_or(0);
        let version_width = wide(widest(|row| &row.version), CELL) + 12;
        let name_width = wide(widest(|row| &row.name), CELL) + 14;
        let mut card = Card {
            channel,
            subtitle: words::channel(channel),
            message: channel.deprecation.map(|message| summary(message, NOTE_CELLS)),
            footer: layout
                .more_ranges
                .then_some("ranges of the newest entries are drawn, those of others in words only"),
            layout,
            rows,
            version_width,
            name_width,
            width: 0,
            height: 0,
        };
        card.measure();
        card
    }

    fn measure(&mut self) {
        let tails = self.rows.iter().zip(&self.channel.nodes).map(|(row, node)| tail_width(row, node));
        let rows = self.text_x() + self.version_width + self.name_width + tails.max().unwrap_or(0);
        let mut heading = PAD + wide(cells(&self.title()), HEADING_CELL);
        heading += if self.channel.default { 10 + pill_width("default") } else { 0 };
        heading += if self.channel.deprecation.is_some() { 10 + pill_width("deprecated") } else { 0 };
        let small = [Some(self.subtitle.as_str()), self.message.as_deref(), self.footer];
        let small = small.into_iter().flatten().map(|text| PAD + wide(cells(text), SMALL_CELL)).max().unwrap_or(0);
        self.width = rows.max(heading).max(small) + PAD;
        let rows = i32::try_from(self.rows.len()).unwrap_or(i32::MAX / ROW / 2).saturating_mul(ROW);
        self.height = self.top() + rows + PAD + if self.footer.is_some() { 16 } else { 0 };
    }

    fn title(&self) -> String {
        shorten(self.channel.name, NAME_CELLS)
    }

    /// Returns the top of the rows.
    pub(super) fn top(&self) -> i32 {
        if self.message.is_some() { 68 } else { 52 }
    }

    fn y(&self, row: usize) -> i32 {
        self.top() + i32::try_from(row).unwrap_or(i32::MAX / ROW / 2).saturating_mul(ROW) + ROW / 2
    }

    fn range_x(&self, lane: usize) -> i32 {
        PAD + 4 + (self.layout.range_lanes - 1 - lane) as i32 * LANE
    }

    fn skip_x(&self, lane: usize) -> i32 {
        let before = self.layout.range_lanes as i32 * LANE;
        PAD + 4 + before + (self.layout.skip_lanes - 1 - lane) as i32 * LANE
    }

    fn link_x(&self, lane: usize) -> i32 {
        let before = (self.layout.range_lanes + self.layout.skip_lanes) as i32 * LANE;
        PAD + 4 + before + (self.layout.link_lanes - 1 - lane) as i32 * LANE
    }

    fn spine_x(&self) -> i32 {
        let lanes = (self.layout.range_lanes + self.layout.skip_lanes + self.layout.link_lanes) as i32;
        PAD + 8 + lanes * LANE + if lanes > 0 { 6 } else { 0 }
    }

    fn dot_x(&self, row: usize) -> i32 {
        self.spine_x() + if self.channel.nodes[row].spine { 0 } else { SIDE }
    }

    fn text_x(&self) -> i32 {
        self.spine_x() + if self.layout.side { SIDE } else { 0 } + 16
    }

    /// Draws the card with its upper left corner at the origin.
    pub(super) fn write(&self, out: &mut String) {
        let (width, height) = (self.width, self.height);
        put!(
            out,
            "<rect class=\"card\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"8\"/>",
            width - 1,
            height - 1
        );
        let title = self.title();
        put!(out, "<text class=\"chn\" x=\"{PAD}\" y=\"24\">{}</text>", xml(&title));
        let mut x = PAD + wide(cells(&title), HEADING_CELL) + 10;
        if self.channel.default {
            x = write_pill(out, x, 19, "dflt", "default") + 10;
        }
        if let Some(message) = self.channel.deprecation {
            put!(out, "<g><title>{}</title>", xml(message));
            write_pill(out, x, 19, "depr", "deprecated");
            out.push_str("</g>");
        }
        put!(out, "<text class=\"sub\" x=\"{PAD}\" y=\"40\">{}</text>", xml(&self.subtitle));
        if let Some(message) = &self.message {
            put!(out, "<text class=\"msg\" x=\"{PAD}\" y=\"56\">{}</text>", xml(message));
        }
        out.push('\n');
        for row in 0..self.rows.len() {
            self.write_row(row, out);
        }
        self.write_ranges(out);
        self.write_skips(out);
        self.write_links(out);
        for row in 0..self.rows.len() {
            self.write_dot(row, out);
        }
        if let Some(footer) = self.footer {
            put!(out, "<text class=\"sub\" x=\"{PAD}\" y=\"{}\">{footer}</text>\n", height - 12);
        }
    }

    fn write_row(&self, row: usize, out: &mut String) {
        let node = &self.channel.nodes[row];
        let text = &self.rows[row];
        let y = self.y(row);
        let mut class = "e".to_owned();
        if row % 2 == 1 {
            class.push_str(" odd");
        }
        if !node.is_entry() {
            class.push_str(" gone");
        }
        put!(out, "<g class=\"{class}\" data-i=\"{row}\"");
        if let Some(next) = node.next {
            put!(out, " data-n=\"{next}\"");
        }
        put!(out, "><title>{}</title>", xml(&self.tooltip(row)));
        put!(out, "<rect class=\"row\" x=\"1\" y=\"{}\" width=\"{}\" height=\"{ROW}\"/>", y - ROW / 2, self.width - 2);
        let mut x = self.text_x();
        let baseline = y + 4;
        if !text.version.is_empty() {
            put!(out, "<text class=\"ver\" x=\"{x}\" y=\"{baseline}\">{}</text>", xml(&text.version));
        }
        x += self.version_width;
        put!(out, "<text class=\"nam\" x=\"{x}\" y=\"{baseline}\">{}</text>", xml(&text.name));
        x += self.name_width;
        for mark in Mark::of(node) {
            x = write_pill(out, x, y, mark.class(), mark.text()) + 8;
        }
        for (class, note) in &text.notes {
            put!(out, "<text class=\"{class}\" x=\"{x}\" y=\"{baseline}\">{}</text>", xml(note));
            x += wide(cells(note), SMALL_CELL) + 12;
        }
        out.push_str("</g>\n");
    }

    fn tooltip(&self, row: usize) -> String {
        let node = &self.channel.nodes[row];
        let name = |node: &GraphNode<'_>| shorten(words::name(node), TOOLTIP_CELLS);
        let mut text = name(node);
        if let Some(version) = &node.version {
            put!(text, ", version {}", shorten(version, TOOLTIP_CELLS));
        }
        if let Some(next) = node.next {
            put!(text, ", upgrades to {}", name(&self.channel.nodes[next]));
        }
        if let Some(message) = words::deprecation(node) {
            put!(text, ", deprecated: {message}");
        }
        text
    }

    fn write_ranges(&self, out: &mut String) {
        for lane in &self.layout.ranges {
            let range = &self.channel.ranges[lane.what];
            let Some((first, last)) = range.runs.first().zip(range.runs.last()) else { continue };
            let inert = if range.inert { " inert" } else { "" };
            let (x, to) = (self.range_x(lane.lane), self.y(range.to) + RANGE_END);
            let (top, bottom) = (self.y(first.start).min(to), self.y(last.end - 1).max(to));
            let from: Vec<String> = range.runs.iter().map(|run| format!("{}-{}", run.start, run.end - 1)).collect();
            put!(out, "<g data-k=\"{} {}\"><path class=\"g{inert}\" d=\"", range.to, from.join(","));
            put!(out, "M{x} {top}V{bottom}M{x} {to}H{}\" marker-end=\"url(#opm-g)\"/>", self.dot_x(range.to) - 8);
            put!(out, "<path class=\"b{inert}\" d=\"");
            for run in &range.runs {
                // The entry itself is not covered.
                let start = if run.start == range.to { run.start + 1 } else { run.start };
                if start < run.end {
                    put!(out, "M{x} {}V{}", self.y(start) - 5, self.y(run.end - 1) + 5);
                }
            }
            out.push_str("\"/></g>\n");
        }
    }

    fn write_skips(&self, out: &mut String) {
        for skips in &self.layout.skips {
            let x = self.skip_x(skips.lane);
            let inert = if skips.inert { " inert" } else { "" };
            let (top, bottom) = skips.span();
            // The line ends where it bends towards an entry.
            let at_target = |row: usize, by: i32| if skips.to.binary_search(&row).is_ok() { by } else { 0 };
            let (start, end) = (self.y(top) + at_target(top, 10), self.y(bottom) + at_target(bottom, -2));
            put!(out, "<g data-k=\"{} {}\"><path class=\"s{inert}\" d=\"", numbers(&skips.to), numbers(&skips.from));
            put!(out, "M{x} {end}V{start}");
            for &from in &skips.from {
                put!(out, "M{} {}H{x}", self.dot_x(from) - 6, self.y(from));
            }
            out.push_str("\"/>");
            for &to in &skips.to {
                let y = self.y(to) + SKIPS_END;
                let (turn, end) = (if to == bottom { y - 6 } else { y + 6 }, self.dot_x(to) - 8);
                put!(out, "<path class=\"s{inert}\" d=\"M{x} {turn}Q{x} {y} {} {y}H{end}\" ", x + 6);
                out.push_str("marker-end=\"url(#opm-s)\"/>");
            }
            out.push_str("</g>\n");
        }
    }

    fn write_links(&self, out: &mut String) {
        for link in &self.layout.links {
            let edge = link.edge;
            let (from, to) = (self.y(edge.from), self.y(edge.to));
            let (from_x, to_x) = (self.dot_x(edge.from), self.dot_x(edge.to));
            let back = if from < to { " back" } else { "" };
            let inert = if edge.inert { " inert" } else { "" };
            put!(out, "<path class=\"r{back}{inert}\" data-k=\"{} {}\" d=\"", edge.to, edge.from);
            // Lines end below their target dot; the arrow leaves room for its size.
            let end = to + 8;
            match link.route {
                Route::Spine | Route::Side => put!(out, "M{from_x} {from}V{end}"),
                Route::Branch => {
                    put!(out, "M{from_x} {from}Q{to_x} {from} {to_x} {}V{end}", (from - ROW / 2).max(end));
                }
                Route::Loop => {
                    put!(
                        out,
                        "M{} {}C{} {} {} {} {} {}",
                        to_x - 4,
                        to - 4,
                        to_x - 18,
                        to - 14,
                        to_x - 18,
                        to + 14,
                        to_x - 6,
                        to + 5
                    );
                }
                Route::Lane(lane) => {
                    let x = self.link_x(lane);
                    let (a, b) = if from > to { (from - 6, to + 6) } else { (from + 6, to - 6) };
                    put!(out, "M{from_x} {from}H{}Q{x} {from} {x} {a}V{b}Q{x} {to} {} {to}H{}", x + 6, x + 6, to_x - 8);
                }
            }
            put!(out, "\" marker-end=\"url(#opm-{})\"/>\n", if back.is_empty() { 'r' } else { 'b' });
        }
    }

    fn write_dot(&self, row: usize, out: &mut String) {
        let node = &self.channel.nodes[row];
        let (x, y) = (self.dot_x(row), self.y(row));
        write_dot(out, x, y, node.head, &dot_class(node));
        out.push('\n');
    }
}

/// Draws the dot of an entry.
pub(super) fn write_dot(out: &mut String, x: i32, y: i32, head: bool, class: &str) {
    if head {
        put!(out, "<circle class=\"ring\" cx=\"{x}\" cy=\"{y}\" r=\"7\"/>");
    }
    if class.contains("depr") {
        put!(out, "<path class=\"{class}\" d=\"M{x} {}l5 5l-5 5l-5 -5z\"/>", y - 5);
    } else {
        put!(out, "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"4\"/>");
    }
}

fn dot_class(node: &GraphNode<'_>) -> String {
    let mut class = "d".to_owned();
    for mark in Mark::of(node) {
        if matches!(mark, Mark::Skipped | Mark::Deprecated | Mark::NoBundle | Mark::OtherChannel | Mark::Absent) {
            class.push(' ');
            class.push_str(mark.class());
        }
    }
    class
}

impl RowText {
    fn of(node: &GraphNode<'_>) -> RowText {
        RowText {
            name: shorten(words::name(node), NAME_CELLS),
            version: shorten(node.version.as_deref().unwrap_or_default(), VERSION_CELLS),
            notes: Vec::new(),
        }
    }
}

fn tail_width(row: &RowText, node: &GraphNode<'_>) -> i32 {
    let pills: i32 = Mark::of(node).map(|mark| pill_width(mark.text()) + 8).sum();
    let notes: i32 = row.notes.iter().map(|(_, note)| wide(cells(note), SMALL_CELL) + 12).sum();
    pills + notes
}

/// Draws a label in a rounded box around `y`, and returns its right edge.
pub(super) fn write_pill(out: &mut String, x: i32, y: i32, class: &str, text: &str) -> i32 {
    let width = pill_width(text);
    put!(
        out,
        "<g class=\"pill {class}\"><rect x=\"{x}.5\" y=\"{}.5\" width=\"{width}\" height=\"14\" rx=\"7\"/>\
         <text x=\"{}\" y=\"{}\">{}</text></g>",
        y - 7,
        x + 7,
        y + 4,
        xml(text)
    );
    x + width
}

fn pill_width(text: &str) -> i32 {
    wide(cells(text), PILL_CELL) + 14
}

/// Joins row numbers with commas.
fn numbers(rows: &[usize]) -> String {
    rows.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the width of a number of cells.
pub(super) fn wide(cells: usize, tenths: i32) -> i32 {
    i32::try_from(cells).unwrap_or(i32::MAX / 1000).saturating_mul(tenths) / 10
}
