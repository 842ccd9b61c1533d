//! Printing JSON as YAML.
//!
//! Block style throughout, two spaces a level, list dashes under their key,
//! keys in natural order. The JSON text is walked once and members are written
//! as they come; only a mapping whose keys are out of order is rearranged, by
//! moving finished lines.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use super::text::{self, Place, Style};
use crate::json::Raw;
use crate::number;

/// Appends `value` as a YAML document without separator, ending with a line break.
///
/// Of members with equal keys the last counts. Nesting costs stack; values
/// come from readers that limit it.
pub fn write_document(value: Raw<'_>, out: &mut Vec<u8>) {
    let line = out.len();
    let mut writer = Writer { text: value.text(), out, members: Vec::new() };
    writer.value(0, Around { line, indent: 0, parent: Parent::None });
}

/// Returns `value` as a YAML document without separator, ending with a line break.
pub fn document(value: Raw<'_>) -> String {
    let mut out = Vec::new();
    write_document(value, &mut out);
    if out.last() != Some(&b'\n') {
        out.push(b'\n');
    }
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// What a value is part of.
#[derive(Clone, Copy, PartialEq)]
enum Parent {
    None,
    /// An item of a list, or the value of a key on lines of its own; a
    /// collection starts on the same line.
    Item,
    /// The value behind a key and its colon; a collection starts on the next line.
    Key,
}

/// Where a value is written.
#[derive(Clone, Copy)]
struct Around {
    /// Where the current line starts in the output.
    line: usize,
    /// The indent of the collection that the value is part of.
    indent: usize,
    parent: Parent,
}

/// A member that is written: its key and its lines without the first indent.
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
    /// Writes the value at `at` with its line break and returns where it ends in the source.
    fn value(&mut self, at: usize, around: Around) -> usize {
        match self.byte(at) {
            Some(b'"') => {
                let (text, end) = self.string(at);
                self.space(around);
                let indent = if around.parent == Parent::None { 2 } else { around.indent + 2 };
                self.scalar(&text, Place { line: around.line, indent, fold: true });
                end
            }
            Some(b'{') => self.object(at, around),
            Some(b'[') => self.array(at, around),
            _ => {
                let rest = self.text.get(at..).unwrap_or_default();
                let end = rest.find([',', ']', '}', ' ', '\n', '\r', '\t']).unwrap_or(rest.len());
                self.space(around);
                match rest.as_bytes().first() {
                    Some(b'-' | b'0'..=b'9') => number::yaml(&rest[..end], self.out),
                    _ => self.out.extend_from_slice(&rest.as_bytes()[..end]),
                }
                self.out.push(b'\n');
                at + end.max(1)
            }
        }
    }

    fn object(&mut self, at: usize, around: Around) -> usize {
        let mut at = self.skip_space(at + 1);
        if self.byte(at) != Some(b'"') {
            self.space(around);
            self.out.extend_from_slice(b"{}\n");
            return at + 1;
        }
        let indent = if around.parent == Parent::None { 0 } else { around.indent + 2 };
        self.start_collection(around, indent);
        let first = self.members.len();
        let mut in_order = true;
        loop {
            let start = self.out.len();
            let line = start - indent;
            let (key, end) = self.string(at);
            if let Some(previous) = self.members[first..].last() {
                // Natural order alone may go in circles and so does not prove that keys differ.
                in_order &= previous.key < key && natural_order(&previous.key, &key) == Ordering::Less;
            }
            let around = self.key(&key, line, indent);
            at = self.skip_space(self.skip_space(end) + 1);
            at = self.value(at, around);
            self.members.push(Member { key, lines: start..self.out.len() });
            at = self.skip_space(at);
            if self.byte(at) != Some(b',') {
                break;
            }
            at = self.skip_space(at + 1);
            self.out.resize(self.out.len() + indent, b' ');
        }
        if !in_order {
            put_in_order(&self.members[first..], indent, self.out);
        }
        self.members.truncate(first);
        at + 1
    }

    /// Writes a key with its colon and returns where its value goes.
    fn key(&mut self, key: &str, line: usize, indent: usize) -> Around {
        if text::is_simple_key(key) {
            // As a plain key it would merge its value into the mapping when read again.
            let style = if key == "<<" { Style::Double } else { text::style(key) };
            text::write(key, style, Place { line, indent, fold: false }, self.out);
            self.out.push(b':');
            return Around { line, indent, parent: Parent::Key };
        }
        self.out.extend_from_slice(b"? ");
        self.scalar(key, Place { line, indent: indent + 2, fold: true });
        let line = self.out.len();
        self.out.resize(line + indent, b' ');
        self.out.push(b':');
        Around { line, indent, parent: Parent::Item }
    }

    fn array(&mut self, at: usize, around: Around) -> usize {
        let mut at = self.skip_space(at + 1);
        if matches!(self.byte(at), None | Some(b']')) {
            self.space(around);
            self.out.extend_from_slice(b"[]\n");
            return at + 1;
        }
        let indent = if around.parent == Parent::Item { around.indent + 2 } else { around.indent };
        self.start_collection(around, indent);
        loop {
            let line = self.out.len() - indent;
            self.out.push(b'-');
            at = self.value(at, Around { line, indent, parent: Parent::Item });
            at = self.skip_space(at);
            if self.byte(at) != Some(b',') {
                break;
            }
            at = self.skip_space(at + 1);
            self.out.resize(self.out.len() + indent, b' ');
        }
        at + 1
    }

    fn scalar(&mut self, text: &str, place: Place) {
        let style = text::style(text);
        text::write(text, style, place, self.out);
        if style != Style::Literal {
            self.out.push(b'\n');
        }
    }

    /// Separates a value on the same line from what stands before it.
    fn space(&mut self, around: Around) {
        if around.parent != Parent::None {
            self.out.push(b' ');
        }
    }

    fn start_collection(&mut self, around: Around, indent: usize) {
        match around.parent {
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

    /// Returns the string that opens at `at`, and where it ends.
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

/// Orders the members at the end of `out` by key, keeping the last of equal keys.
#[cold]
fn put_in_order(members: &[Member<'_>], indent: usize, out: &mut Vec<u8>) {
    let Some(start) = members.first().map(|member| member.lines.start) else { return };
    // Equal keys are dropped first: natural order is not transitive (`10 < 1a < 2 < 10`),
    // so it need not bring them together.
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

/// Sorts stably; unlike the standard sort it accepts any notion of order.
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

/// Compares keys as people sort them: letters after everything else, numbers by value.
///
/// At the first difference two letters compare by code point, any other
/// character comes before a letter, and runs of digits compare as numbers.
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
    // A zero counts when digits other than zero stand before it.
    let inside_number = (x == '0' || y == '0')
        && a.as_bytes()[..at].iter().rev().take_while(|b| b.is_ascii_digit()).any(|&b| b != b'0');
    let number = |text: &str| {
        let digits = text.bytes().skip(at).take_while(u8::is_ascii_digit);
        // Numbers too long for the integer wrap around, as they do in the existing tools.
        digits.fold((i64::from(inside_number), 0), |(number, count), digit| {
            (number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')), count + 1)
        })
    };
    number(a).cmp(&number(b)).then(x.cmp(&y))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::{Limits, to_json};
    use proptest::prelude::*;

    fn written(json: &str) -> String {
        let mut out = Vec::new();
        write_document(Raw::parse(json, 100).unwrap(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn collections_are_blocks() {
        insta::assert_snapshot!(written(r#"{"a":[1,[2,[3]],{"b":[{"c":1,"d":2},{"e":3}]}],"el":[],"eo":{},"o":{"x":{"w":null}},"z":[[],{}]}"#), @"
        a:
        - 1
        - - 2
          - - 3
        - b:
          - c: 1
            d: 2
          - e: 3
        el: []
        eo: {}
        o:
          x:
            w: null
        z:
        - []
        - {}
        ");
    }

    #[test]
    fn a_document_may_be_anything() {
        assert_eq!(written("[1,[true]]"), "- 1\n- - true\n");
        assert_eq!(written(r#" "a\nb" "#), "|-\n  a\n  b\n");
        assert_eq!((written("[]"), written("{}"), written("null")), ("[]\n".into(), "{}\n".into(), "null\n".into()));
    }

    #[test]
    fn keys_are_sorted_in_natural_order() {
        let keys = [
            "a10", "a9", "a1", "A1", "b", "B", "10", "9", "1.5", "_x", "-x", "é", "z", "aa", "a-b", "a.b", "a_b",
            "a b", "", "ä", "~", "null", "true", "a01",
        ];
        let json = format!("{{{}}}", keys.map(|key| format!("{key:?}:1")).join(","));
        let order = written(&json)
            .lines()
            .map(|line| line.trim_end_matches(": 1").trim_matches('"').to_owned())
            .collect::<Vec<_>>();
        assert_eq!(
            order,
            [
                "", "-x", "_x", "~", "1.5", "9", "10", "A1", "B", "a b", "a-b", "a.b", "a_b", "a1", "a01", "a9", "a10",
                "aa", "b", "null", "true", "z", "ä", "é"
            ]
        );
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_lines_move_whole() {
        insta::assert_snapshot!(written(r#"[{"b":{"d":[1],"c":"x\ny"},"a":1,"b":{"f":"x\ny\n\n","e":[]}}]"#), @"
        - a: 1
          b:
            e: []
            f: |+
              x
              y

        ");
        // No order satisfies these, yet each appears once.
        assert_eq!(written(r#"{"2":1,"10":1,"1a":1,"2":2}"#).lines().count(), 3);
    }

    #[test]
    fn long_or_broken_keys_stand_on_lines_of_their_own() {
        let long = "k".repeat(129);
        let json = format!(r#"{{"a\nb":{{"c":1,"d":2}},"m\nn":[1],"n\u2028":"v","{long}":"{} y"}}"#, "x".repeat(80));
        insta::assert_snapshot!(written(&json), @r#"
        ? |-
          a
          b
        : c: 1
          d: 2
        ? kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk
        : xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
          y
        ? |-
          m
          n
        : - 1
        ? "n\L"
        : v
        "#);
    }

    #[test]
    fn a_key_that_would_merge_is_quoted() {
        assert_eq!(written(r#"{"<<":{"a":"<<"}}"#), "\"<<\":\n  a: <<\n");
    }

    #[test]
    fn white_space_and_escapes_in_the_source_do_not_matter() {
        assert_eq!(written("{ \"b\" : [ 1 , \"\\u0079\" ] ,\n\t\"a\" : -0 }"), "a: 0\nb:\n- 1\n- \"y\"\n");
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let text = prop_oneof![
            "[a-z:# \n'\"-]{0,12}",
            "(a |b: |'|\"|\\\\|é |\t|  |\n|- |#|1|\u{85}|\u{2028}|🚀 |yes|~|\u{feff}|\u{7f}|\r){0,60}",
            ".{0,6}",
        ];
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<u64>().prop_map(Into::into),
            // A negative zero loses its sign.
            any::<f64>().prop_map(|number| (number + 0.0).into()),
            text.clone().prop_map(Into::into),
        ];
        leaf.prop_recursive(6, 40, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                proptest::collection::vec((text.clone(), inner), 0..5)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(value in json()) {
            let text = value.to_string();
            let yaml = written(&text);
            let mut read = Vec::new();
            to_json(yaml.as_bytes(), &Limits { depth: 50, nodes: 10_000, bytes: 1 << 20 }, &mut read)
                .map_err(|error| TestCaseError::fail(format!("{error} in\n{yaml}")))?;
            let mut canonical = Vec::new();
            crate::json::write_canonical(Raw::parse(&text, 50).unwrap(), crate::json::Layout::Compact, &mut canonical);
            let canonical = String::from_utf8(canonical).unwrap();
            prop_assert_eq!(String::from_utf8(read).unwrap(), canonical, "{}", yaml);
        }
    }
}
