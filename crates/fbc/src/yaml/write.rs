//! Prints JSON as YAML.
//!
//! The output is block style throughout, with two spaces per level, list dashes under their key, and keys in natural
//! order. The JSON text is walked once and members are written as they come; only a mapping with unsorted keys is
//! rearranged, by moving finished lines.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use serde_json::Value;

use super::text::{self, Style, TextContext};
use crate::json::{Raw, Text};
use crate::number;

/// Appends `value` as a YAML document without a separator, ending with a line break.
///
/// The last of equal keys counts. The recursion is bounded, since readers limit the nesting of values.
pub fn write_document(value: Raw<'_>, out: &mut Vec<u8>) {
    let line = out.len();
    let mut writer = Writer { text: value.text(), out, members: Vec::new() };
    writer.value(0, Context { line, indent: 0, parent: Parent::None });
}

/// Returns `value` as a YAML document without a separator, ending with a line break.
pub fn document(value: Raw<'_>) -> String {
    let mut out = Vec::new();
    write_document(value, &mut out);
    if out.last() != Some(&b'\n') {
        out.push(b'\n');
    }
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Returns an object as a YAML document without a separator.
pub fn object(object: &Value) -> String {
    document(Text::from(object).raw())
}

/// Returns objects as a stream of YAML documents, each after a separator; `stream::documents` reads it back.
pub fn objects<'a>(objects: impl IntoIterator<Item = &'a Value>) -> String {
    objects.into_iter().flat_map(|one| ["---\n".to_owned(), object(one)]).collect()
}

/// The parent of a value.
#[derive(Clone, Copy, PartialEq)]
enum Parent {
    None,
    /// An item of a list, or the value of a key on separate lines; a collection starts on the same line.
    Item,
    /// The value after a key and its colon; a collection starts on the next line.
    Key,
}

/// The context of a value.
#[derive(Clone, Copy)]
struct Context {
    /// The start of the current line in the output.
    line: usize,
    /// The indentation of the parent collection.
    indent: usize,
    parent: Parent,
}

/// A written member: its key, and its lines without the first indentation.
struct Member<'a> {
    key: Cow<'a, str>,
    lines: Range<usize>,
}

struct Writer<'a, 'o> {
    text: &'a str,
    out: &'o mut Vec<u8>,
    /// The members written so far of all open mappings.
    members: Vec<Member<'a>>,
}

impl<'a> Writer<'a, '_> {
    /// Writes the value at `at` with its line break and returns its end in the source.
    fn value(&mut self, at: usize, context: Context) -> usize {
        match self.byte(at) {
            Some(b'"') => {
                let (text, end) = self.string(at);
                self.space(context);
                let indent = if context.parent == Parent::None { 2 } else { context.indent + 2 };
                self.scalar(&text, TextContext { line: context.line, indent, fold: true });
                end
            }
            Some(b'{') => self.object(at, context),
            Some(b'[') => self.array(at, context),
            _ => {
                let rest = self.text.get(at..).unwrap_or_default();
                let end = rest.find([',', ']', '}', ' ', '\n', '\r', '\t']).unwrap_or(rest.len());
                self.space(context);
                match rest.as_bytes().first() {
                    Some(b'-' | b'0'..=b'9') => number::yaml(&rest[..end], self.out),
                    _ => self.out.extend_from_slice(&rest.as_bytes()[..end]),
                }
                self.out.push(b'\n');
                at + end.max(1)
            }
        }
    }

    fn object(&mut self, at: usize, context: Context) -> usize {
        let mut at = self.skip_space(at + 1);
        if self.byte(at) != Some(b'"') {
            self.space(context);
            self.out.extend_from_slice(b"{}\n");
            return at + 1;
        }
        let indent = if context.parent == Parent::None { 0 } else { context.indent + 2 };
        self.start_collection(context, indent);
        let first = self.members.len();
        let mut in_order = true;
        loop {
            let start = self.out.len();
            let line = start - indent;
            let (key, end) = self.string(at);
            if let Some(previous) = self.members[first..].last() {
                // Natural order is not transitive, so it does not prove that keys differ.
                in_order &= previous.key < key && natural_order(&previous.key, &key) == Ordering::Less;
            }
            let context = self.key(&key, line, indent);
            at = self.skip_space(self.skip_space(end) + 1);
            at = self.value(at, context);
            self.members.push(Member { key, lines: start..self.out.len() });
            at = self.skip_space(at);
            if self.byte(at) != Some(b',') {
                break;
            }
            at = self.skip_space(at + 1);
            self.out.resize(self.out.len() + indent, b' ');
        }
        if !in_order {
            sort_members(&self.members[first..], indent, self.out);
        }
        self.members.truncate(first);
        at + 1
    }

    /// Writes a key with its colon and returns the context of its value.
    fn key(&mut self, key: &str, line: usize, indent: usize) -> Context {
        if text::is_simple_key(key) {
            // As a plain key it would be read as a merge key.
            let style = if key == "<<" { Style::Double } else { text::style(key) };
            text::write(key, style, TextContext { line, indent, fold: false }, self.out);
            self.out.push(b':');
            return Context { line, indent, parent: Parent::Key };
        }
        self.out.extend_from_slice(b"? ");
        self.scalar(key, TextContext { line, indent: indent + 2, fold: true });
        let line = self.out.len();
        self.out.resize(line + indent, b' ');
        self.out.push(b':');
        Context { line, indent, parent: Parent::Item }
    }

    fn array(&mut self, at: usize, context: Context) -> usize {
        let mut at = self.skip_space(at + 1);
        if matches!(self.byte(at), None | Some(b']')) {
            self.space(context);
            self.out.extend_from_slice(b"[]\n");
            return at + 1;
        }
        let indent = if context.parent == Parent::Item { context.indent + 2 } else { context.indent };
        self.start_collection(context, indent);
        loop {
            let line = self.out.len() - indent;
            self.out.push(b'-');
            at = self.value(at, Context { line, indent, parent: Parent::Item });
            at = self.skip_space(at);
            if self.byte(at) != Some(b',') {
                break;
            }
            at = self.skip_space(at + 1);
            self.out.resize(self.out.len() + indent, b' ');
        }
        at + 1
    }

    fn scalar(&mut self, text: &str, place: TextContext) {
        let style = text::style(text);
        text::write(text, style, place, self.out);
        if style != Style::Literal {
            self.out.push(b'\n');
        }
    }

    /// Separates a value from the text before it on the same line.
    fn space(&mut self, context: Context) {
        if context.parent != Parent::None {
            self.out.push(b' ');
        }
    }

    fn start_collection(&mut self, context: Context, indent: usize) {
        match context.parent {
            Parent::None => {}
            Parent::Item => self.out.push(b' '),
            Parent::Key => text::new_line(indent, self.out),
        }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn skip_space(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            at += 1;
        }
        at
    }

    /// Returns the string that opens at `at`, and its end.
    fn string(&self, at: usize) -> (Cow<'a, str>, usize) {
        let bytes = self.text.as_bytes();
        let mut end = at + 1;
        let mut escapes = false;
        loop {
            let rest = bytes.get(end..).unwrap_or_default();
            match memchr::memchr2(b'"', b'\\', rest) {
                None => return (Cow::Borrowed(""), bytes.len()),
                Some(i) if rest[i] == b'"' => {
                    end += i;
                    break;
                }
                Some(i) => end += i + 2,
            }
            escapes = true;
        }
        if escapes {
            let quoted = self.text.get(at..=end).unwrap_or("\"\"");
            (Raw::from_checked(quoted).as_str().unwrap_or_default(), end + 1)
        } else {
            (self.text.get(at + 1..end).unwrap_or_default().into(), end + 1)
        }
    }
}

/// Sorts the members at the end of `out` by key, keeping the last of equal keys.
#[cold]
fn sort_members(members: &[Member<'_>], indent: usize, out: &mut Vec<u8>) {
    let Some(start) = members.first().map(|member| member.lines.start) else { return };
    // Duplicates are removed first: natural order is not transitive (`10 < 1a < 2 < 10`), so sorting need not bring
    // them together.
    let mut kept: Vec<usize> = (0..members.len()).collect();
    kept.sort_by(|&a, &b| members[a].key.cmp(&members[b].key));
    let mut kept: Vec<usize> =
        kept.chunk_by(|&a, &b| members[a].key == members[b].key).filter_map(|same| same.last().copied()).collect();
    merge_sort(&mut kept, &|&a, &b| natural_order(&members[a].key, &members[b].key) == Ordering::Greater);
    let source = out.split_off(start);
    for (i, &member) in kept.iter().enumerate() {
        if i > 0 {
            out.resize(out.len() + indent, b' ');
        }
        let lines = &members[member].lines;
        out.extend_from_slice(&source[lines.start - start..lines.end - start]);
    }
}

/// Sorts stably; unlike the standard sort, it accepts any ordering.
fn merge_sort<T: Copy>(items: &mut [T], after: &impl Fn(&T, &T) -> bool) {
    if items.len() < 2 {
        return;
    }
    let (left, right) = items.split_at_mut(items.len() / 2);
    merge_sort(left, after);
    merge_sort(right, after);
    let (left, right) = (left.to_vec(), right.to_vec());
    let (mut l, mut r) = (left.iter().peekable(), right.iter().peekable());
    for item in items {
        let next = match (l.peek(), r.peek()) {
            (Some(a), Some(b)) if after(a, b) => r.next(),
            (Some(_), _) => l.next(),
            (None, _) => r.next(),
        };
        *item = next.copied().unwrap_or(*item);
    }
}

/// Compares keys in natural order: letters after everything else, numbers by value.
///
/// At the first difference two letters compare by code point, any other character comes before a letter, and runs of
/// digits compare as numbers.
fn natural_order(a: &str, b: &str) -> Ordering {
    let mut at = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    while !a.is_char_boundary(at) || !b.is_char_boundary(at) {
        at -= 1;
    }
    let (Some(x), Some(y)) = (a[at..].chars().next(), b[at..].chars().next()) else {
        return a.len().cmp(&b.len());
    };
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero counts if digits other than zero precede it.
    let inside_number = (x == '0' || y == '0')
        && a.as_bytes()[..at].iter().rev().take_while(|b| b.is_ascii_digit()).any(|&b| b != b'0');
    let number = |text: &str| {
        let digits = text.bytes().skip(at).take_while(u8::is_ascii_digit);
        // Numbers that overflow the integer wrap context, as in the existing tools.
        digits.fold((i64::from(inside_number), 0), |(number, count), digit| {
            (number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')), count + 1)
        })
    };
    number(a).cmp(&number(b)).then(x.cmp(&y))
}

#[cfg(test)]
mod tests;
