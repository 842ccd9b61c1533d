//! Differences as text and Markdown, from the same lines.

use std::borrow::Cow;
use std::fmt::Write as _;

use fbc::quote::quote;

use super::{CatalogChanges, ChangeKind, LinePart, lines, summary};

/// Renders differences as text, optionally with colours.
pub fn text(changes: &CatalogChanges, colour: bool) -> String {
    if changes.is_empty() {
        return "no differences\n".to_owned();
    }
    let mut out = String::new();
    for line in lines(changes) {
        let (sign, code) = match line.what {
            Some(ChangeKind::Added) => ("+ ", "32"),
            Some(ChangeKind::Removed) => ("- ", "31"),
            Some(ChangeKind::Changed) => ("~ ", "33"),
            None => ("", ""),
        };
        let _ = write!(out, "{:1$}", "", line.depth * 2);
        let painted = colour && !code.is_empty();
        if painted {
            let _ = write!(out, "\x1b[{code}m");
        }
        out.push_str(sign);
        for part in &line.parts {
            match part {
                LinePart::Word(word) => out.push_str(word),
                LinePart::Name(name) => out.push_str(&plain(name)),
            }
        }
        if painted {
            out.push_str("\x1b[0m");
        }
        out.push('\n');
    }
    let _ = writeln!(out, "{}", summary(changes));
    out
}

/// Quotes a name that is empty or contains control characters.
fn plain(name: &str) -> Cow<'_, str> {
    if name.is_empty() || name.chars().any(char::is_control) {
        Cow::Owned(quote(name).to_string())
    } else {
        Cow::Borrowed(name)
    }
}

/// Renders differences as Markdown.
pub fn markdown(changes: &CatalogChanges) -> String {
    let mut out = "# Changes\n".to_owned();
    if changes.is_empty() {
        out.push_str("\nNo differences.\n");
        return out;
    }
    let _ = writeln!(out, "\n{}.", first_upper(&summary(changes)));
    let mut depth = 0;
    for line in lines(changes) {
        let what = match line.what {
            Some(ChangeKind::Added) => "added",
            Some(ChangeKind::Removed) => "removed",
            Some(ChangeKind::Changed) => "changed",
            None => "",
        };
        if line.depth == 0 {
            out.push_str("\n## ");
        } else {
            out.push_str(if depth == 0 { "\n" } else { "" });
            let _ = write!(out, "{:1$}- ", "", (line.depth - 1) * 2);
            if !what.is_empty() {
                let _ = write!(out, "**{what}** ");
            }
        }
        let start = out.len();
        for part in &line.parts {
            match part {
                LinePart::Word(word) => out.push_str(&word.replace(" -> ", " → ")),
                LinePart::Name(name) => code(name, &mut out),
            }
        }
        if line.depth == 0 {
            let heading = first_upper(&out.split_off(start));
            let _ = write!(out, "{heading}");
            if !what.is_empty() {
                let _ = write!(out, " ({what})");
            }
        }
        out.push('\n');
        depth = line.depth;
    }
    out
}

fn first_upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Writes a name as inline code, so that Markdown does not interpret it.
fn code(name: &str, out: &mut String) {
    let name = plain(name);
    let longest = name.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    let _ = write!(out, "{fence}{space}{name}{space}{fence}");
}
