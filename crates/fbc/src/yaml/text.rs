//! Writes strings in YAML: the choice of style, and each style.
//!
//! The rules are those of libyaml's emitter at a width of 80, as the existing tools apply them; the output must match
//! byte for byte, including line breaks.

use super::scalar::reads_as_string;

/// After this column a line breaks at the next space.
const WIDTH: usize = 80;

/// The maximum length of a key on one line with its colon.
const MAX_SIMPLE_KEY_LEN: usize = 128;

/// The four ways to write a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// Chooses the style for a string.
pub(super) fn style(text: &str) -> Style {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return Style::Double };
    let mut found = Scan::default();
    found.scan(bytes);
    let trailing_space = *last == b' ';
    if found.line_break {
        return if found.special || trailing_space { Style::Double } else { Style::Literal };
    }
    if found.special || !reads_as_string(text) {
        return Style::Double;
    }
    let indicator = match first {
        b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' => true,
        b'|' | b'>' | b'\'' | b'"' | b'%' | b'@' | b'`' | b' ' => true,
        b'-' | b'?' => bytes.len() == 1 || bytes[1] == b' ' || bytes.starts_with(b"---"),
        b'.' => bytes.starts_with(b"..."),
        _ => false,
    };
    if indicator || found.indicator || trailing_space { Style::Single } else { Style::Plain }
}

/// Returns whether a string can be a key on one line.
pub(super) fn is_simple_key(text: &str) -> bool {
    text.len() <= MAX_SIMPLE_KEY_LEN && !text.contains(['\n', '\u{85}', '\u{2028}', '\u{2029}'])
}

/// The properties of a string that determine its style.
#[derive(Default)]
struct Scan {
    line_break: bool,
    /// A character that needs an escape, or a space before a line break.
    special: bool,
    /// A colon that would end a key, or a hash that would start a comment.
    indicator: bool,
}

impl Scan {
    fn scan(&mut self, bytes: &[u8]) {
        let mut at = 0;
        // Most text contains nothing special; this form compiles to vector code.
        while let Some(chunk) = bytes.get(at..at + 16) {
            if chunk.iter().fold(false, |found, &b| found | of_interest(b)) {
                self.scan_closely(bytes, at, at + 16);
            }
            at += 16;
        }
        self.scan_closely(bytes, at, bytes.len());
    }

    fn scan_closely(&mut self, bytes: &[u8], from: usize, to: usize) {
        let previous_is_space = |at: usize| at > 0 && bytes[at - 1] == b' ';
        for at in from..to {
            match bytes[at] {
                b if !of_interest(b) => {}
                b':' => self.indicator |= matches!(bytes.get(at + 1), None | Some(b' ')),
                b'#' => self.indicator |= previous_is_space(at),
                b'\n' => {
                    self.line_break = true;
                    self.special |= previous_is_space(at);
                }
                b if b < 0x80 => self.special = true,
                _ => self.special |= is_special(&bytes[at..]),
            }
        }
    }
}

#[inline(always)]
fn of_interest(b: u8) -> bool {
    !(0x20..0x7f).contains(&b) | (b == b':') | (b == b'#')
}

/// Returns whether the non-ASCII character at the start of `bytes` needs an escape.
fn is_special(bytes: &[u8]) -> bool {
    match bytes {
        [0xc2, second, ..] => *second < 0xa0,
        // Line and paragraph separators.
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => true,
        // The byte order mark and two non-characters.
        [0xef, 0xbb, 0xbf, ..] | [0xef, 0xbf, 0xbe | 0xbf, ..] => true,
        [first, ..] => *first >= 0xf0,
        [] => false,
    }
}

/// The context of a string, which determines line breaks.
#[derive(Clone, Copy)]
pub(super) struct TextContext {
    /// The start of the current line in the output.
    pub(super) line: usize,
    /// The indentation of continuation lines.
    pub(super) indent: usize,
    /// Whether the string may span several lines.
    pub(super) fold: bool,
}

/// Appends a string; only [`Style::Literal`] ends with a line break.
pub(super) fn write(text: &str, style: Style, place: TextContext, out: &mut Vec<u8>) {
    match style {
        Style::Plain => plain(text, place, out),
        Style::Single => single(text, place, out),
        Style::Double => double(text, place, out),
        Style::Literal => literal(text, place, out),
    }
}

/// Starts a new line.
pub(super) fn new_line(indent: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + indent, b' ');
}

/// Returns the current column of the output.
fn column(place: TextContext, out: &[u8]) -> usize {
    out[place.line..].iter().filter(|&&b| b & 0xc0 != 0x80).count()
}

fn plain(text: &str, place: TextContext, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let mut copied = 0;
    if place.fold && out.len() - place.line + bytes.len() > WIDTH {
        let ascii = text.is_ascii();
        let mut column = column(place, out);
        loop {
            let mut at = copied;
            if ascii {
                at += (WIDTH + 1).saturating_sub(column);
            } else {
                for b in &bytes[copied..] {
                    if b & 0xc0 != 0x80 {
                        if column > WIDTH {
                            break;
                        }
                        column += 1;
                    }
                    at += 1;
                }
            }
            let Some(space) = lone_space(bytes, at) else { break };
            out.extend_from_slice(&bytes[copied..space]);
            new_line(place.indent, out);
            copied = space + 1;
            column = place.indent;
        }
    }
    out.extend_from_slice(&bytes[copied..]);
}

/// Finds the first space at or after `at` that has no adjacent space and is not at an end.
fn lone_space(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    memchr::memchr_iter(b' ', rest)
        .map(|i| at + i)
        .find(|&i| i > 0 && bytes[i - 1] != b' ' && bytes.get(i + 1).is_some_and(|&next| next != b' '))
}

fn single(text: &str, place: TextContext, out: &mut Vec<u8>) {
    out.push(b'\'');
    let bytes = text.as_bytes();
    let mut column = column(place, out);
    let mut copied = 0;
    for (at, &b) in bytes.iter().enumerate() {
        match b {
            b' ' if place.fold && column > WIDTH && lone_space(&bytes[..bytes.len().min(at + 2)], at) == Some(at) => {
                out.extend_from_slice(&bytes[copied..at]);
                new_line(place.indent, out);
                copied = at + 1;
                column = place.indent;
            }
            b'\'' => {
                out.extend_from_slice(&bytes[copied..=at]);
                copied = at;
                column += 2;
            }
            _ => column += usize::from(b & 0xc0 != 0x80),
        }
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'\'');
}

fn double(text: &str, place: TextContext, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut column = column(place, out);
    // After a byte order mark, the existing tools escape everything.
    let escape_all = text.starts_with('\u{feff}');
    let mut at = 0;
    while at < bytes.len() {
        let run = if escape_all { 0 } else { ordinary_run(&bytes[at..], (WIDTH + 1).saturating_sub(column)) };
        if run > 0 {
            out.extend_from_slice(&bytes[at..at + run]);
            column += run;
            at += run;
            continue;
        }
        let Some(c) = text[at..].chars().next() else { break };
        let start = out.len();
        if escape_all || matches!(c, '"' | '\\' | '\0'..'\x20' | '\x7f') || (!c.is_ascii() && is_special(&bytes[at..]))
        {
            escape(c, out);
        } else if c == ' ' && place.fold && column > WIDTH && at > 0 && bytes[at - 1] != b' ' && at + 1 < bytes.len() {
            new_line(place.indent, out);
            column = place.indent;
            if bytes[at + 1] == b' ' {
                out.push(b'\\');
                column += 1;
            }
            at += 1;
            continue;
        } else {
            out.extend_from_slice(&bytes[at..at + c.len_utf8()]);
            column += 1;
            at += c.len_utf8();
            continue;
        }
        column += out.len() - start;
        at += c.len_utf8();
    }
    out.push(b'"');
}

/// Returns the number of leading ASCII characters that need no escape; after `spaces` characters, a space counts as
/// special.
fn ordinary_run(bytes: &[u8], spaces: usize) -> usize {
    let special = |b: u8| !(0x20..0x7f).contains(&b) || b == b'"' || b == b'\\';
    let before = &bytes[..bytes.len().min(spaces)];
    match before.iter().position(|&b| special(b)) {
        Some(end) => end,
        None => before.len() + bytes[before.len()..].iter().take_while(|&&b| !special(b) && b != b' ').count(),
    }
}

fn escape(c: char, out: &mut Vec<u8>) {
    let short = match c {
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0b' => 'v',
        '\x0c' => 'f',
        '\r' => 'r',
        '\x1b' => 'e',
        '"' | '\\' => c,
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let code = u32::from(c);
            let escape = match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            };
            out.extend_from_slice(escape.as_bytes());
            return;
        }
    };
    out.push(b'\\');
    out.push(short as u8);
}

fn literal(text: &str, place: TextContext, out: &mut Vec<u8>) {
    out.push(b'|');
    if text.starts_with([' ', '\n']) {
        out.push(b'2');
    }
    match text.strip_suffix('\n') {
        None => out.push(b'-'),
        Some(rest) if rest.is_empty() || rest.ends_with('\n') => out.push(b'+'),
        Some(_) => {}
    }
    out.push(b'\n');
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        if end > 0 {
            out.resize(out.len() + place.indent, b' ');
            out.extend_from_slice(&rest[..end]);
        }
        out.push(b'\n');
        rest = rest.get(end + 1..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests;
