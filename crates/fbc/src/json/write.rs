//! Prints JSON in canonical form, or re-indented.

use std::cmp::Ordering;

use super::members::{MemberSpan, compare, sort_members};
use super::raw::{Raw, escape};
use super::scan::{plain_end, skip_space, string_end, value_end};
use crate::number;

/// The layout of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonLayout {
    /// No whitespace.
    Compact,
    /// A line for each member and item, indented by this number of spaces per level.
    Indented(usize),
}

/// Appends `value` in canonical form: keys sorted by bytes (the last of equal keys counts), numbers and strings
/// normalized.
pub fn write_canonical(value: Raw<'_>, layout: JsonLayout, out: &mut Vec<u8>) {
    write_canonical_nested(value, layout, 0, out);
}

/// Appends `value` in canonical form, nested `level` levels deep.
pub(crate) fn write_canonical_nested(value: Raw<'_>, layout: JsonLayout, level: usize, out: &mut Vec<u8>) {
    Writer::new(value, layout, true).value(0, level, out);
}

/// Appends `value` with its keys, numbers and strings as written, nested `level` levels deep.
pub fn write_as_written(value: Raw<'_>, layout: JsonLayout, level: usize, out: &mut Vec<u8>) {
    Writer::new(value, layout, false).value(0, level, out);
}

struct Writer<'a> {
    text: &'a str,
    layout: JsonLayout,
    canonical: bool,
    /// Whether the text is free of U+2028 and U+2029, which must be escaped in strings.
    has_no_separators: bool,
    /// The members written so far of all open objects: the start of the member in `out`, the end of its key, its end.
    members: Vec<MemberSpan>,
}

impl<'a> Writer<'a> {
    fn new(value: Raw<'a>, layout: JsonLayout, canonical: bool) -> Writer<'a> {
        let text = value.text();
        let separators = canonical && memchr::memchr(0xe2, text.as_bytes()).is_some();
        Writer { text, layout, canonical, has_no_separators: !separators, members: Vec::new() }
    }

    /// Writes the value at `at` and returns its end in the source.
    fn value(&mut self, at: usize, level: usize, out: &mut Vec<u8>) -> usize {
        let bytes = self.text.as_bytes();
        match bytes.get(at) {
            Some(b'"') => self.string(at, out),
            Some(b'{') => self.object(at, level, out),
            Some(b'[') => self.array(at, level, out),
            _ => {
                let end = value_end(bytes, at);
                let text = self.text.get(at..end).unwrap_or_default();
                if self.canonical && matches!(bytes.get(at), Some(b'-' | b'0'..=b'9')) {
                    number::canonical(text, out);
                } else {
                    out.extend_from_slice(text.as_bytes());
                }
                end.max(at + 1)
            }
        }
    }

    fn array(&mut self, at: usize, level: usize, out: &mut Vec<u8>) -> usize {
        let bytes = self.text.as_bytes();
        out.push(b'[');
        let mut at = skip_space(bytes, at + 1);
        if bytes.get(at) == Some(&b']') {
            out.push(b']');
            return at + 1;
        }
        loop {
            self.line(level + 1, out);
            at = skip_space(bytes, self.value(at, level + 1, out));
            match bytes.get(at) {
                Some(b',') => {
                    out.push(b',');
                    at = skip_space(bytes, at + 1);
                }
                _ => break,
            }
        }
        self.line(level, out);
        out.push(b']');
        at + 1
    }

    fn object(&mut self, at: usize, level: usize, out: &mut Vec<u8>) -> usize {
        let bytes = self.text.as_bytes();
        out.push(b'{');
        let mut at = skip_space(bytes, at + 1);
        if bytes.get(at) == Some(&b'}') {
            out.push(b'}');
            return at + 1;
        }
        let first = self.members.len();
        let mut ascending = true;
        loop {
            self.line(level + 1, out);
            let start = out.len();
            at = self.string(at, out);
            let key_end = out.len();
            let mut member = MemberSpan { start, key_end, end: key_end, plain: !out[start..].contains(&b'\\') };
            if self.canonical
                && let Some(previous) = self.members.get(first..).and_then(<[MemberSpan]>::last)
            {
                ascending &= compare(previous, &member, out) == Ordering::Less;
            }
            out.push(b':');
            if let JsonLayout::Indented(_) = self.layout {
                out.push(b' ');
            }
            // `at` is after the key: skip the colon.
            at = skip_space(bytes, skip_space(bytes, at) + 1);
            at = skip_space(bytes, self.value(at, level + 1, out));
            member.end = out.len();
            self.members.push(member);
            match bytes.get(at) {
                Some(b',') => {
                    out.push(b',');
                    at = skip_space(bytes, at + 1);
                }
                _ => break,
            }
        }
        if !ascending {
            let separator = |out: &mut Vec<u8>| {
                out.push(b',');
                self.line(level + 1, out);
            };
            sort_members(&self.members[first..], separator, out);
        }
        self.members.truncate(first);
        self.line(level, out);
        out.push(b'}');
        at + 1
    }

    fn string(&self, at: usize, out: &mut Vec<u8>) -> usize {
        let bytes = self.text.as_bytes();
        // Most strings are already in canonical form up to their end.
        let plain = plain_end(bytes, at + 1);
        if self.has_no_separators && bytes.get(plain) == Some(&b'"') {
            out.extend_from_slice(&bytes[at..=plain]);
            return plain + 1;
        }
        let end = string_end(bytes, at);
        let text = self.text.get(at..end).unwrap_or("\"\"");
        if self.canonical {
            write_normalized(text, out)
        } else {
            out.extend_from_slice(text.as_bytes())
        }
        end.max(at + 1)
    }

    #[inline]
    fn line(&self, level: usize, out: &mut Vec<u8>) {
        if let JsonLayout::Indented(width) = self.layout {
            out.push(b'\n');
            out.resize(out.len() + level * width, b' ');
        }
    }
}

/// Appends a quoted string in canonical form.
fn write_normalized(quoted: &str, out: &mut Vec<u8>) {
    let mut rest = quoted;
    loop {
        let special = memchr::memchr2(b'\\', 0xe2, rest.as_bytes()).unwrap_or(rest.len());
        out.extend_from_slice(&rest.as_bytes()[..special]);
        rest = &rest[special..];
        let length = match rest.as_bytes().first() {
            None => return,
            Some(b'\\') if matches!(rest.as_bytes().get(1), Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't')) => {
                out.extend_from_slice(&rest.as_bytes()[..2]);
                2
            }
            Some(b'\\') => {
                let (c, length) = escape(rest);
                write_char(c, out);
                length
            }
            Some(_) => {
                let c = rest.chars().next().unwrap_or('\u{fffd}');
                write_char(c, out);
                c.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// Appends `text` as a JSON string with quotes.
pub fn write_str(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    write_str_body(out, text);
    out.push(b'"');
}

/// Appends `text` as the body of a JSON string, without quotes.
pub(crate) fn write_str_body(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        let end = plain_end(bytes, at);
        // U+2028 and U+2029 are the only other characters that need escapes.
        for part in (LineSeparators { rest: &text[at..end] }) {
            match part {
                Ok(plain) => out.extend_from_slice(plain.as_bytes()),
                Err(c) => write_char(c, out),
            }
        }
        match bytes.get(end) {
            None => return,
            Some(&b) => write_char(char::from(b), out),
        }
        at = end + 1;
    }
}

/// Splits text into runs without U+2028 and U+2029, and these single characters.
struct LineSeparators<'a> {
    rest: &'a str,
}

impl<'a> Iterator for LineSeparators<'a> {
    type Item = Result<&'a str, char>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.rest.chars().next()?;
        if matches!(first, '\u{2028}' | '\u{2029}') {
            self.rest = &self.rest[first.len_utf8()..];
            return Some(Err(first));
        }
        let end = memchr::memchr_iter(0xe2, self.rest.as_bytes())
            .find(|&i| matches!(self.rest.as_bytes().get(i + 1..i + 3), Some([0x80, 0xa8 | 0xa9])))
            .unwrap_or(self.rest.len());
        let (plain, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(Ok(plain))
    }
}

/// Appends one character to a JSON string, escaped if necessary.
fn write_char(c: char, out: &mut Vec<u8>) {
    let escaped: &[u8] = match c {
        '"' => b"\\\"",
        '\\' => b"\\\\",
        '\u{8}' => b"\\b",
        '\u{c}' => b"\\f",
        '\n' => b"\\n",
        '\r' => b"\\r",
        '\t' => b"\\t",
        '\u{2028}' => b"\\u2028",
        '\u{2029}' => b"\\u2029",
        c if c < ' ' => {
            let code = c as usize;
            const HEX: &[u8; 16] = b"0123456789abcdef";
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[code >> 4], HEX[code & 15]]);
            return;
        }
        c => {
            let mut buffer = [0; 4];
            out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            return;
        }
    };
    out.extend_from_slice(escaped);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str, layout: JsonLayout) -> String {
        let mut out = Vec::new();
        write_canonical(Raw::parse(text, 100).unwrap(), layout, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_are_sorted_by_bytes_and_the_last_duplicate_wins() {
        assert_eq!(canonical(r#"{"a ":1,"a":2}"#, JsonLayout::Compact), r#"{"a":2,"a ":1}"#);
        assert_eq!(canonical(r#"{"aB":1,"a\n":2}"#, JsonLayout::Compact), r#"{"a\n":2,"aB":1}"#);
        let text = r#"{ "b": 1, "a": {"z": [], "y": {}}, "B": 2, "b": [3, {"q":1,"p":2}], "aa":null, "a\u0000":true }"#;
        assert_eq!(
            canonical(text, JsonLayout::Compact),
            r#"{"B":2,"a":{"y":{},"z":[]},"a\u0000":true,"aa":null,"b":[3,{"p":2,"q":1}]}"#
        );
    }

    #[test]
    fn indented_output_has_one_line_per_value() {
        insta::assert_snapshot!(canonical(r#"{"b":[1,[]],"a":{"c":"d"},"e":{}}"#, JsonLayout::Indented(4)), @r#"
        {
            "a": {
                "c": "d"
            },
            "b": [
                1,
                []
            ],
            "e": {}
        }
        "#);
    }

    #[test]
    fn strings_are_normalized() {
        let text = "\"\\u003c\\/\\u000a\\u0001\\u0008\u{2028}€\\u2029\u{7f}\\ud800\\ud83d\\ude00\"";
        assert_eq!(canonical(text, JsonLayout::Compact), "\"</\\n\\u0001\\b\\u2028€\\u2029\u{7f}\u{fffd}😀\"");
        let mut out = Vec::new();
        write_str(&mut out, "a\"b\\c\nd\u{2029}€\u{1f}");
        assert_eq!(String::from_utf8(out).unwrap(), "\"a\\\"b\\\\c\\nd\\u2029€\\u001f\"");
    }

    #[test]
    fn text_can_be_reformatted_without_normalization() {
        let mut out = Vec::new();
        write_as_written(Raw::parse(r#"{"b":1.0,"a":"\u003c"}"#, 9).unwrap(), JsonLayout::Indented(2), 1, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "{\n    \"b\": 1.0,\n    \"a\": \"\\u003c\"\n  }");
    }

    proptest::proptest! {
        #[test]
        fn canonical_text_is_a_fixed_point(text in r#"([\[\]{}:,]|"[a-c\\n]{0,3}"|[0-9]{1,3}|true){0,30}"#) {
            if let Ok(raw) = Raw::parse(&text, 50) {
                let mut once = Vec::new();
                write_canonical(raw, JsonLayout::Compact, &mut once);
                let once = String::from_utf8(once).unwrap();
                proptest::prop_assert_eq!(&canonical(&once, JsonLayout::Compact), &once);
                let ours: serde_json::Value = serde_json::from_str(&once).unwrap();
                proptest::prop_assert_eq!(ours, serde_json::from_str::<serde_json::Value>(&text).unwrap());
            }
        }
    }
}
