//! Upgrade graphs for a terminal.

use crate::graph::{EdgeKind, Graph, GraphChannel, GraphPackage, Presence};

use super::escape::{cells, plain, shorten};
use super::layout::{Layout, Route, layout};
use super::words::{self, Mark};

/// The width up to which versions are aligned.
const VERSION_CELLS: usize = 24;
/// The width up to which names are aligned.
const NAME_CELLS: usize = 60;

/// Draws the upgrade graphs as a tree of lines, newest entries first.
///
/// Lines wrap between words to stay within `width` cells where possible.
pub fn text(graph: &Graph<'_>, width: Option<usize>) -> String {
    let mut out = String::new();
    for package in &graph.packages {
        if !out.is_empty() {
            out.push('\n');
        }
        write_package(package, width.unwrap_or(usize::MAX), &mut out);
    }
    out
}

fn write_package(package: &GraphPackage<'_>, width: usize, out: &mut String) {
    put!(out, "{}", plain(package.name));
    if let Some(message) = package.deprecation {
        put!(out, "  deprecated: {}", one_line(message));
    }
    out.push('\n');
    let count = package.channels.len();
    for (i, channel) in package.channels.iter().enumerate() {
        let (branch, rest) = if i + 1 < count { ("├─ ", "│  ") } else { ("└─ ", "   ") };
        put!(out, "{branch}{}", plain(channel.name));
        if channel.default {
            out.push_str(" (default)");
        }
        put!(out, " · {}", plain(&words::channel(channel)));
        if let Some(message) = channel.deprecation {
            put!(out, " · deprecated: {}", one_line(message));
        }
        out.push('\n');
        write_channel(channel, rest, width, out);
    }
}

fn write_channel(channel: &GraphChannel<'_>, indent: &str, width: usize, out: &mut String) {
    let layout = layout(channel);
    let notes = notes(channel, &layout);
    let widest = |text: &dyn Fn(usize) -> usize| (0..channel.nodes.len()).map(text).max().unwrap_or(0);
    let version = |row: usize| shorten(channel.nodes[row].version.as_deref().unwrap_or("-"), NAME_CELLS);
    let versions = widest(&|row| cells(&version(row))).min(VERSION_CELLS);
    let names = widest(&|row| cells(words::name(&channel.nodes[row]))).min(NAME_CELLS);
    let lowest = channel.nodes.iter().rposition(|node| node.spine).unwrap_or(0);
    let highest = channel.nodes.iter().position(|node| node.spine).unwrap_or(0);
    for (row, node) in channel.nodes.iter().enumerate() {
        let dot = match node.presence {
            Presence::Entry if node.head => '◉',
            Presence::Entry if node.skipped => '○',
            Presence::Entry => '●',
            _ => '◌',
        };
        // Entries beside the spine branch off it where it passes.
        let passes = row > highest && row < lowest;
        let start = match (node.spine, passes) {
            (true, _) if layout.side => format!("{indent}{dot}   "),
            (true, _) => format!("{indent}{dot} "),
            (false, true) => format!("{indent}├─{dot} "),
            (false, false) => format!("{indent}  {dot} "),
        };
        let follow = if (node.spine || passes) && row < lowest { "│" } else { " " };
        let follow = format!("{indent}{follow}     ");
        let mut line = Line { out, width, used: 0, follow: &follow };
        line.start(&start);
        line.column(&version(row), versions);
        line.column(words::name(node), names);
        for note in &notes[row] {
            line.note(note);
        }
        line.end();
    }
}

/// Returns the notes beside each row.
fn notes(channel: &GraphChannel<'_>, layout: &Layout) -> Vec<Vec<String>> {
    let mut notes: Vec<Vec<String>> = channel
        .nodes
        .iter()
        .map(|node| {
            Mark::of(node)
                .map(|mark| match (mark, words::deprecation(node)) {
                    (Mark::Deprecated, Some(message)) => format!("deprecated: {message}"),
                    (mark, _) => mark.text().to_owned(),
                })
                .collect()
        })
        .collect();
    // Edges on the spine need no note.
    let spine: Vec<_> = layout.links.iter().filter(|link| link.route == Route::Spine).map(|link| link.edge).collect();
    for edges in channel.edges.chunk_by(|a, b| a.to == b.to && a.kind == b.kind) {
        let Some(&first) = edges.first() else { continue };
        if first.kind == EdgeKind::Replaces && edges.len() == 1 && spine.binary_search(&first).is_ok() {
            continue;
        }
        let never = if first.inert { " (never followed)" } else { "" };
        notes[first.to].push(format!("{}{never}", words::described(channel, edges)));
    }
    for range in &channel.ranges {
        let never = if range.inert { " (never followed)" } else { "" };
        notes[range.to].push(format!("{}{never}", words::range(range)));
    }
    notes
}

/// Returns `message` without line breaks.
fn one_line(message: &str) -> String {
    let words: Vec<String> = message.split_whitespace().map(|word| plain(word).to_string()).collect();
    words.join(" ")
}

/// A line that is being written.
struct Line<'o> {
    out: &'o mut String,
    width: usize,
    used: usize,
    /// The prefix of continuation lines.
    follow: &'o str,
}

impl Line<'_> {
    fn start(&mut self, text: &str) {
        self.out.push_str(text);
        self.used += cells(text);
    }

    /// Writes `text` and pads it to `width`.
    fn column(&mut self, text: &str, width: usize) {
        put!(self.out, "{}", plain(text));
        let fill = width.saturating_sub(cells(text)) + 2;
        self.out.extend(std::iter::repeat_n(' ', fill));
        self.used += cells(text) + fill;
    }

    fn note(&mut self, note: &str) {
        let mut gap = if self.out.ends_with("  ") { 0 } else { 2 };
        for word in note.split_whitespace() {
            let length = cells(word);
            if self.used.saturating_add(gap + length) > self.width && self.used > cells(self.follow) {
                self.end();
                self.out.push_str(self.follow);
                self.used = cells(self.follow);
                gap = 0;
            }
            self.out.extend(std::iter::repeat_n(' ', gap));
            put!(self.out, "{}", plain(word));
            self.used += gap + length;
            gap = 1;
        }
    }

    fn end(&mut self) {
        self.out.truncate(self.out.trim_end_matches(' ').len());
        self.out.push('\n');
    }
}
