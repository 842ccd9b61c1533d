//! A JSON value as a slice of its source text.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::check::{JsonErrorKind, JsonSyntaxError, LONG, LongValue, check, check_indexed};
use super::scan::{plain_end, skip_space, string_end, value_end};

/// A valid JSON value as text, without surrounding whitespace.
///
/// Walking a `Raw` decodes only what is requested. A value is validated when it is created; everything else relies on
/// that.
#[derive(Clone, Copy)]
pub struct Raw<'a> {
    text: &'a str,
    /// The start of the text in the coordinates of `spans`.
    at: usize,
    /// The long values inside, and possibly around, so that iteration can skip them.
    spans: &'a [LongValue],
}

/// The number of levels in an outline: down to the parts of a property's value in a list in an object.
const OUTLINE_LEVELS: usize = 5;

/// The six kinds of JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    Number,
    String,
    /// A list.
    Array,
    Object,
}

impl fmt::Display for JsonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JsonKind::Null => "null",
            JsonKind::Bool => "bool",
            JsonKind::Number => "number",
            JsonKind::String => "string",
            JsonKind::Array => "array",
            JsonKind::Object => "object",
        })
    }
}

impl<'a> Raw<'a> {
    /// Checks that `text` is one JSON value, surrounded only by whitespace.
    ///
    /// # Errors
    /// Fails at the first byte that is not valid JSON.
    pub fn parse(text: &'a str, max_depth: usize) -> Result<Raw<'a>, JsonSyntaxError> {
        let range = check(text, 0, max_depth)?;
        let rest = skip_space(text.as_bytes(), range.end);
        match text[rest..].chars().next() {
            None => Ok(Raw::from_checked(&text[range])),
            Some(found) => Err(JsonSyntaxError {
                offset: rest,
                kind: JsonErrorKind::Character { found, context: "after top-level value" },
            }),
        }
    }

    /// Checks that a value starts at `at`, and records its long values in `spans` so that iteration can skip them.
    ///
    /// # Errors
    /// Fails at the first byte that is not valid JSON.
    pub fn parse_indexed(
        text: &'a str,
        at: usize,
        max_depth: usize,
        spans: &'a mut Vec<LongValue>,
    ) -> Result<Raw<'a>, JsonSyntaxError> {
        spans.clear();
        let range = check_indexed(text, at, max_depth, spans)?;
        Ok(Raw::from_indexed(text, range, spans))
    }

    /// Iterates over consecutive values in a text; stops at the first invalid one.
    pub fn sequence(text: &'a str, max_depth: usize) -> impl Iterator<Item = Raw<'a>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let range = check(text, at, max_depth).ok()?;
            at = range.end;
            Some(Raw::from_checked(&text[range]))
        })
    }

    /// Wraps text validated by [`check`].
    pub(crate) fn from_checked(text: &'a str) -> Raw<'a> {
        Raw { text, at: 0, spans: &[] }
    }

    /// Wraps a part of a text validated by [`check_indexed`].
    pub(crate) fn from_indexed(text: &'a str, range: Range<usize>, spans: &'a [LongValue]) -> Raw<'a> {
        Raw { text: &text[range.clone()], at: range.start, spans }
    }

    /// Returns the long values of the outer levels, relative to the text of this value.
    ///
    /// With them the same text can be walked again later. Deeper values are scanned again when visited.
    pub(crate) fn outline(self) -> Box<[LongValue]> {
        let (start, end) = (self.at, self.at + self.text.len());
        let first = self.spans.partition_point(|span| (span.start as usize) < start);
        let inside = self.spans[first..].iter().take_while(|span| (span.start as usize) < end);
        let (mut open, mut kept): (Vec<u32>, Vec<LongValue>) = Default::default();
        for span in inside {
            while open.last().is_some_and(|end| *end <= span.start) {
                open.pop();
            }
            if open.len() < OUTLINE_LEVELS {
                kept.push(LongValue { start: span.start - start as u32, end: span.end - start as u32 });
            }
            open.push(span.end);
        }
        kept.into()
    }

    /// Returns the value that starts at `start` within this one.
    #[inline]
    fn inner_value(self, start: usize) -> Option<Raw<'a>> {
        let end = self.value_end(start);
        Some(Raw { text: self.text.get(start..end)?, at: self.at + start, spans: self.spans })
    }

    /// Returns the end of the value that starts at `start`.
    #[inline]
    fn value_end(self, start: usize) -> usize {
        let bytes = self.text.as_bytes();
        if !self.spans.is_empty() {
            match bytes.get(start) {
                Some(b'{' | b'[') => {
                    if let Some(end) = self.span_end(start) {
                        return end;
                    }
                }
                Some(b'"') => {
                    // Short strings are scanned faster than looked up.
                    let reach = (start + LONG).min(bytes.len());
                    let end = string_end(&bytes[..reach], start);
                    if end < reach || bytes.len() == reach {
                        return end;
                    }
                    if let Some(end) = self.span_end(start) {
                        return end;
                    }
                }
                _ => {}
            }
        }
        value_end(bytes, start)
    }

    fn span_end(self, start: usize) -> Option<usize> {
        let absolute = u32::try_from(self.at + start).ok()?;
        let index = self.spans.binary_search_by_key(&absolute, |span| span.start).ok()?;
        Some(self.spans[index].end as usize - self.at)
    }

    /// Returns the text of the value.
    pub fn text(self) -> &'a str {
        self.text
    }

    /// Returns the kind of this value.
    pub fn kind(self) -> JsonKind {
        match self.text.as_bytes().first() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::String,
            Some(b't' | b'f') => JsonKind::Bool,
            Some(b'n') | None => JsonKind::Null,
            Some(_) => JsonKind::Number,
        }
    }

    /// Returns whether this is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// Returns the unescaped text of a string value.
    ///
    /// Unpaired surrogates become U+FFFD.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        (self.kind() == JsonKind::String).then(|| unescape(self.inner()))
    }

    /// Returns a boolean value.
    pub fn as_bool(self) -> Option<bool> {
        match self.text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// Returns the text between the quotes of a string.
    fn inner(self) -> &'a str {
        self.text.get(1..self.text.len().saturating_sub(1)).unwrap_or_default()
    }

    /// Iterates over the members of an object in source order; empty for other kinds.
    pub fn members(self) -> JsonMembers<'a> {
        JsonMembers { of: self, at: if self.kind() == JsonKind::Object { 1 } else { self.text.len() } }
    }

    /// Iterates over the items of a list; empty for other kinds.
    pub fn items(self) -> Items<'a> {
        Items { of: self, at: if self.kind() == JsonKind::Array { 1 } else { self.text.len() } }
    }

    /// Returns the member called `name`.
    ///
    /// Names match regardless of ASCII case, as in the existing tools. An exact match is preferred, and the last of
    /// several counts.
    pub fn get(self, name: &str) -> Option<Raw<'a>> {
        let mut found: Option<(bool, Raw<'a>)> = None;
        for (key, value) in self.members() {
            let exact = key == name;
            if exact || key.eq_ignore_ascii_case(name) && !found.is_some_and(|(exact, _)| exact) {
                found = Some((exact, value));
            }
        }
        found.map(|(_, value)| value)
    }

    /// Returns the string member called `name`; empty if it is missing or not a string.
    pub fn get_str(self, name: &str) -> Cow<'a, str> {
        self.get(name).and_then(Raw::as_str).unwrap_or_default()
    }

    /// Iterates over the items of the list member called `name`; empty if it is missing or not a list.
    pub fn get_items(self, name: &str) -> impl Iterator<Item = Raw<'a>> + use<'a> {
        self.get(name).into_iter().flat_map(Raw::items)
    }

    /// Returns the members with these names in one pass, with the same matching as [`Raw::get`].
    pub fn get_all<const N: usize>(self, names: [&str; N]) -> [Option<Raw<'a>>; N] {
        self.get_each::<N>(|i| names[i])
    }

    /// Returns the members with N names in one pass, with the same matching as [`Raw::get`].
    ///
    /// An empty name matches nothing.
    pub fn get_each<'n, const N: usize>(self, name: impl Fn(usize) -> &'n str) -> [Option<Raw<'a>>; N] {
        let mut found = [None; N];
        let mut exact = [false; N];
        for (key, value) in self.members() {
            for i in 0..N {
                let name = name(i);
                if name.len() != key.len() || name.is_empty() {
                    continue;
                }
                let same = key == name;
                if same || key.eq_ignore_ascii_case(name) && !exact[i] {
                    (found[i], exact[i]) = (Some(value), same);
                }
            }
        }
        found
    }

    /// Returns whether this is an empty list or object.
    pub fn is_empty_collection(self) -> bool {
        let bytes = self.text.as_bytes();
        matches!(bytes, [b'[' | b'{', ..]) && matches!(bytes.get(skip_space(bytes, 1)), Some(b']' | b'}'))
    }

    /// Returns the offset of `inner`, a value nested in this one.
    pub fn offset_of(self, inner: Raw<'_>) -> usize {
        (inner.text.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize)
    }
}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

/// The members of an object, in source order.
pub struct JsonMembers<'a> {
    of: Raw<'a>,
    at: usize,
}

impl<'a> Iterator for JsonMembers<'a> {
    type Item = (Cow<'a, str>, Raw<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.of.text.as_bytes();
        let mut at = skip_space(bytes, self.at);
        if bytes.get(at) == Some(&b',') {
            at = skip_space(bytes, at + 1);
        }
        if bytes.get(at) != Some(&b'"') {
            self.at = bytes.len();
            return None;
        }
        // Nearly every key is plain, so one scan finds its end and its text.
        let plain = plain_end(bytes, at + 1);
        let (key, key_end) = match bytes.get(plain) {
            Some(b'"') => (Cow::Borrowed(self.of.text.get(at + 1..plain)?), plain + 1),
            _ => {
                let end = string_end(bytes, at);
                (unescape(self.of.text.get(at + 1..end.saturating_sub(1))?), end)
            }
        };
        let colon = skip_space(bytes, key_end);
        let start = skip_space(bytes, colon + 1);
        let value = self.of.inner_value(start)?;
        self.at = start + value.text.len();
        Some((key, value))
    }
}

/// The items of a list.
pub struct Items<'a> {
    of: Raw<'a>,
    at: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = Raw<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.of.text.as_bytes();
        let mut at = skip_space(bytes, self.at);
        if bytes.get(at) == Some(&b',') {
            at = skip_space(bytes, at + 1);
        }
        match bytes.get(at) {
            None | Some(b']') => {
                self.at = bytes.len();
                None
            }
            Some(_) => {
                let value = self.of.inner_value(at)?;
                // An invalid item does not end the loop on its own.
                self.at = at + value.text.len().max(1);
                Some(value)
            }
        }
    }
}

/// Resolves the escapes of a JSON string body.
fn unescape(inner: &str) -> Cow<'_, str> {
    if plain_end(inner.as_bytes(), 0) == inner.len() {
        return Cow::Borrowed(inner);
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (c, length) = escape(&rest[at..]);
        out.push(c);
        rest = rest.get(at + length..).unwrap_or_default();
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Decodes the escape at the start of `text`: the character and the length of the escape.
pub(super) fn escape(text: &str) -> (char, usize) {
    let simple = |c| (c, 2);
    match text.as_bytes().get(1) {
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'u') => {
            let unit = |at: usize| text.get(at..at + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
            match unit(2) {
                Some(high @ 0xd800..=0xdbff) if text.get(6..8) == Some("\\u") => match unit(8) {
                    Some(low @ 0xdc00..=0xdfff) => {
                        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        (char::from_u32(code).unwrap_or('\u{fffd}'), 12)
                    }
                    _ => ('\u{fffd}', 6),
                },
                Some(code) => (char::from_u32(code).unwrap_or('\u{fffd}'), 6),
                None => ('\u{fffd}', 6),
            }
        }
        Some(&b) if b.is_ascii() => simple(char::from(b)),
        _ => ('\u{fffd}', 1),
    }
}

#[cfg(test)]
mod tests;
