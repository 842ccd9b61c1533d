//! Validates that bytes are one JSON value.

use std::ops::Range;

use super::scan::{plain_end, skip_space};

/// A JSON syntax error and its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct JsonSyntaxError {
    /// The byte offset of the error.
    pub offset: usize,
    pub kind: JsonErrorKind,
}

/// The kinds of JSON syntax errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonErrorKind {
    /// The text ends inside a value; more text could make it valid.
    #[error("unexpected end of JSON input")]
    End,
    /// An unexpected character.
    #[error("invalid character {} {context}", quoted(*.found))]
    Character {
        /// The character found.
        found: char,
        /// The parser state.
        context: &'static str,
    },
    /// Lists and objects are nested too deeply.
    #[error("nested deeper than {limit} levels")]
    Depth { limit: usize },
}

fn quoted(found: char) -> String {
    match found {
        '\'' => r"'\''".into(),
        '"' => "'\"'".into(),
        c => format!("'{}'", c.escape_debug()),
    }
}

/// The start and end of a long value, recorded while checking, so that iteration can skip it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongValue {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Shorter values are not recorded, and scanned again when skipped.
pub(super) const LONG: usize = 128;

/// Checks that a JSON value starts at `at` (after whitespace) and returns its range.
///
/// The text must be valid UTF-8. Text after the value is ignored.
///
/// # Errors
/// Fails at the first byte that cannot be part of a value, and with [`JsonErrorKind::End`] if the text ends too early.
pub(crate) fn check(text: &str, at: usize, max_depth: usize) -> Result<Range<usize>, JsonSyntaxError> {
    check_indexed(text, at, max_depth, &mut Vec::new())
}

/// Like [`check`], but also appends the long values inside to `spans`, in order of their start.
///
/// # Errors
/// Fails as [`check`] does; `spans` is then invalid.
pub(crate) fn check_indexed(
    text: &str,
    at: usize,
    max_depth: usize,
    spans: &mut Vec<LongValue>,
) -> Result<Range<usize>, JsonSyntaxError> {
    let start = skip_space(text.as_bytes(), at);
    let end = Checker { text, bytes: text.as_bytes(), spans }.value(start, max_depth)?;
    Ok(start..end)
}

struct Checker<'a> {
    text: &'a str,
    bytes: &'a [u8],
    spans: &'a mut Vec<LongValue>,
}

/// The open containers: whether each is an object, and its index in the spans.
type Stack = Vec<(bool, usize)>;

impl Checker<'_> {
    fn value(&mut self, mut i: usize, max_depth: usize) -> Result<usize, JsonSyntaxError> {
        let bytes = self.bytes;
        let mut open = Stack::new();
        loop {
            match bytes.get(i) {
                Some(b'"') => {
                    let end = self.string(i)?;
                    if end - i >= LONG {
                        self.spans.push(LongValue { start: i as u32, end: end as u32 });
                    }
                    i = end;
                }
                Some(&b @ (b'{' | b'[')) => {
                    if open.len() == max_depth {
                        return Err(JsonSyntaxError { offset: i, kind: JsonErrorKind::Depth { limit: max_depth } });
                    }
                    let is_object = b == b'{';
                    open.push((is_object, self.spans.len()));
                    self.spans.push(LongValue { start: i as u32, end: 0 });
                    i = skip_space(bytes, i + 1);
                    match (bytes.get(i), is_object) {
                        (Some(b'}'), true) | (Some(b']'), false) => {}
                        (_, true) => {
                            i = self.key(i)?;
                            continue;
                        }
                        (_, false) => continue,
                    }
                }
                Some(b't') => i = self.word(i, "true")?,
                Some(b'f') => i = self.word(i, "false")?,
                Some(b'n') => i = self.word(i, "null")?,
                Some(b'-' | b'0'..=b'9') => i = self.number(i)?,
                _ => return Err(self.unexpected(i, "looking for beginning of value")),
            }
            // After a value, or before the end of an empty container: continue with the next value.
            loop {
                let Some(&(is_object, span)) = open.last() else { return Ok(i) };
                i = skip_space(bytes, i);
                match (bytes.get(i), is_object) {
                    (Some(b','), true) => {
                        i = self.key(skip_space(bytes, i + 1))?;
                        break;
                    }
                    (Some(b','), false) => {
                        i = skip_space(bytes, i + 1);
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        i += 1;
                        open.pop();
                        self.close(span, i);
                    }
                    (_, true) => return Err(self.unexpected(i, "after object key:value pair")),
                    (_, false) => return Err(self.unexpected(i, "after array element")),
                }
            }
        }
    }

    /// Records the end of a container; a short one is dropped, since it contains no long values.
    #[inline]
    fn close(&mut self, span: usize, end: usize) {
        if end - self.spans[span].start as usize >= LONG {
            self.spans[span].end = end as u32;
        } else {
            self.spans.truncate(span);
        }
    }

    /// Checks `"key" :` at `i` and returns the start of the value.
    #[inline]
    fn key(&self, i: usize) -> Result<usize, JsonSyntaxError> {
        if self.bytes.get(i) != Some(&b'"') {
            return Err(self.unexpected(i, "looking for beginning of object key string"));
        }
        let colon = skip_space(self.bytes, self.string(i)?);
        if self.bytes.get(colon) != Some(&b':') {
            return Err(self.unexpected(colon, "after object key"));
        }
        Ok(skip_space(self.bytes, colon + 1))
    }

    #[inline]
    fn string(&self, at: usize) -> Result<usize, JsonSyntaxError> {
        let mut i = at + 1;
        loop {
            i = plain_end(self.bytes, i);
            match self.bytes.get(i) {
                Some(b'"') => return Ok(i + 1),
                Some(b'\\') => match self.bytes.get(i + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => i += 2,
                    Some(b'u') => {
                        for k in i + 2..i + 6 {
                            if !self.bytes.get(k).is_some_and(u8::is_ascii_hexdigit) {
                                return Err(self.unexpected(k, "in \\u hexadecimal character escape"));
                            }
                        }
                        i += 6;
                    }
                    _ => return Err(self.unexpected(i + 1, "in string escape code")),
                },
                _ => return Err(self.unexpected(i, "in string literal")),
            }
        }
    }

    fn number(&self, at: usize) -> Result<usize, JsonSyntaxError> {
        let mut i = at;
        if self.bytes.get(i) == Some(&b'-') {
            i += 1;
        }
        match self.bytes.get(i) {
            Some(b'0') => i += 1,
            Some(b'1'..=b'9') => i = self.digits(i),
            _ => return Err(self.unexpected(i, "in numeric literal")),
        }
        if self.bytes.get(i) == Some(&b'.') {
            i = self.some_digits(i + 1, "after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(i) {
            i += 1;
            if let Some(b'+' | b'-') = self.bytes.get(i) {
                i += 1;
            }
            i = self.some_digits(i, "in exponent of numeric literal")?;
        }
        Ok(i)
    }

    fn digits(&self, mut i: usize) -> usize {
        while self.bytes.get(i).is_some_and(u8::is_ascii_digit) {
            i += 1;
        }
        i
    }

    fn some_digits(&self, at: usize, context: &'static str) -> Result<usize, JsonSyntaxError> {
        let end = self.digits(at);
        if end == at { Err(self.unexpected(at, context)) } else { Ok(end) }
    }

    fn word(&self, at: usize, word: &'static str) -> Result<usize, JsonSyntaxError> {
        for (k, expected) in word.bytes().enumerate() {
            if self.bytes.get(at + k) != Some(&expected) {
                return Err(self.unexpected(at + k, "in literal true, false or null"));
            }
        }
        Ok(at + word.len())
    }

    #[cold]
    fn unexpected(&self, offset: usize, context: &'static str) -> JsonSyntaxError {
        let kind = match self.text.get(offset..).and_then(|rest| rest.chars().next()) {
            Some(found) => JsonErrorKind::Character { found, context },
            None => JsonErrorKind::End,
        };
        JsonSyntaxError { offset: offset.min(self.bytes.len()), kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> String {
        match check(text, 0, 8) {
            Ok(range) => format!("{range:?}"),
            Err(error) => format!("{}: {error}", error.offset),
        }
    }

    #[test]
    fn values_of_every_kind_are_measured() {
        for value in [
            "{}",
            "[]",
            "{ }",
            "[ ]",
            r#"{"a":1}"#,
            r#"{"a":[1,{"b":null}],"c":"d\n\u00e9"}"#,
            "-0.5e+10",
            "true",
            "false",
            "null",
            r#""""#,
            "[[[[]]]]",
            "[1 , 2]",
            r#"[{},{"a":{}}]"#,
            "0",
        ] {
            assert_eq!(outcome(&format!(" {value} ,")), format!("1..{}", value.len() + 1), "{value}");
            assert!(serde_json::from_str::<serde_json::Value>(value).is_ok());
        }
    }

    #[test]
    fn faults_are_reported_at_their_offset() {
        insta::assert_snapshot!(outcome(r#"{"a":1,}"#), @"7: invalid character '}' looking for beginning of object key string");
        insta::assert_snapshot!(outcome(r#"{"a" 1}"#), @"5: invalid character '1' after object key");
        insta::assert_snapshot!(outcome(r#"{"a":1 "b"}"#), @"7: invalid character '\"' after object key:value pair");
        insta::assert_snapshot!(outcome("[1 2]"), @"3: invalid character '2' after array element");
        insta::assert_snapshot!(outcome("[1}"), @"2: invalid character '}' after array element");
        insta::assert_snapshot!(outcome("{a: b}"), @"1: invalid character 'a' looking for beginning of object key string");
        insta::assert_snapshot!(outcome("01x"), @"0..1");
        insta::assert_snapshot!(outcome("1.x"), @"2: invalid character 'x' after decimal point in numeric literal");
        insta::assert_snapshot!(outcome("\"a\nb\""), @r"2: invalid character '\n' in string literal");
        insta::assert_snapshot!(outcome(r#""\x""#), @"2: invalid character 'x' in string escape code");
        insta::assert_snapshot!(outcome(r#""\u12g4""#), @r"5: invalid character 'g' in \u hexadecimal character escape");
        insta::assert_snapshot!(outcome("[[1, 2"), @"6: unexpected end of JSON input");
        insta::assert_snapshot!(outcome("[[[[[[[[[]]]]]]]]]"), @"8: nested deeper than 8 levels");
        insta::assert_snapshot!(outcome("trux"), @"3: invalid character 'x' in literal true, false or null");
    }

    proptest::proptest! {
        #[test]
        fn the_check_agrees_with_serde_json(text in r#"[\[\]{}:,"\\a-cu0-9 \-.eE\n]{0,24}"#) {
            let ours = check(&text, 0, 100).is_ok_and(|range| text[range.end..].trim_matches([' ', '\n', '\t', '\r']).is_empty());
            let mut other = serde_json::Deserializer::from_str(&text);
            let theirs = <serde::de::IgnoredAny as serde::Deserialize>::deserialize(&mut other).is_ok() && other.end().is_ok();
            proptest::prop_assert_eq!(ours, theirs, "{}", text);
        }
    }
}
