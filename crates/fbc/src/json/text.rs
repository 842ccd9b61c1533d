//! Owned JSON text.

use std::fmt;
use std::ops::Deref;

use super::check::JsonSyntaxError;
use super::object::{JsonObject, MemberWriter, list};
use super::raw::Raw;
use super::respell;
use super::write::{JsonLayout, write_as_written, write_canonical, write_str, write_str_body};

/// The text of one valid JSON value, without surrounding whitespace.
///
/// Parsing validates the text, and all writers produce valid JSON. So [`Text::raw`] never fails, and the text needs no
/// further validation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(String);

impl Text {
    /// Checks that `text` is one JSON value, surrounded only by whitespace.
    ///
    /// # Errors
    /// Fails at the first byte that is not valid JSON.
    pub fn parse(text: &str, max_depth: usize) -> Result<Text, JsonSyntaxError> {
        Raw::parse(text, max_depth).map(Text::from)
    }

    /// Wraps bytes that this crate has validated or written.
    ///
    /// Invalid UTF-8 can occur only inside strings, where it becomes U+FFFD.
    pub(crate) fn from_checked_bytes(text: Vec<u8>) -> Text {
        Text(String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// Returns `null`.
    pub fn null() -> Text {
        Text("null".to_owned())
    }

    /// Encodes a string.
    pub fn string(text: &str) -> Text {
        let mut out = Vec::with_capacity(text.len() + 2);
        write_str(&mut out, text);
        Text::from_checked_bytes(out)
    }

    /// Encodes bytes as a string; each invalid UTF-8 byte becomes an escaped U+FFFD.
    pub fn string_of_bytes(bytes: &[u8]) -> Text {
        let mut out = Vec::with_capacity(bytes.len() + 2);
        out.push(b'"');
        for chunk in bytes.utf8_chunks() {
            write_str_body(&mut out, chunk.valid());
            out.extend(b"\\ufffd".repeat(chunk.invalid().len()));
        }
        out.push(b'"');
        Text::from_checked_bytes(out)
    }

    /// Builds an object whose members `members` writes.
    pub fn object(members: impl FnOnce(&mut MemberWriter<'_>)) -> Text {
        Text::object_of_size(0, members)
    }

    /// Builds an object with an initial capacity of `bytes`.
    pub fn object_of_size(bytes: usize, members: impl FnOnce(&mut MemberWriter<'_>)) -> Text {
        let mut out = Vec::with_capacity(bytes);
        MemberWriter::append(&mut out, members);
        Text::from_checked_bytes(out)
    }

    /// Builds a list of values.
    pub fn list<'a>(items: impl IntoIterator<Item = Raw<'a>>) -> Text {
        let mut out = Vec::new();
        list(&mut out, items, |out, item| out.extend_from_slice(item.text().as_bytes()));
        Text::from_checked_bytes(out)
    }

    /// Builds a list of objects; `members` writes the members of each.
    pub fn objects<T>(items: impl IntoIterator<Item = T>, mut members: impl FnMut(T, &mut MemberWriter<'_>)) -> Text {
        let mut out = Vec::new();
        list(&mut out, items, |out, item| MemberWriter::append(out, |fields| members(item, fields)));
        Text::from_checked_bytes(out)
    }

    /// Escapes `<`, `>` and `&` for HTML, as the existing tools do.
    #[must_use]
    pub fn for_html(self) -> Text {
        if !respell::needs_html_escape(&self) {
            return self;
        }
        let mut out = self.0.into_bytes();
        respell::escape_html(0, &mut out);
        Text::from_checked_bytes(out)
    }

    /// Converts integers beyond signed 64 bits to floats, and optionally minus zero to zero.
    #[must_use]
    pub fn with_64_bit_numbers(self, minus_zero: bool) -> Text {
        match respell::numbers(self.0.as_bytes(), minus_zero) {
            Some(out) => Text::from_checked_bytes(out),
            None => self,
        }
    }

    /// Formats a value in canonical form.
    pub fn canonical(value: Raw<'_>, layout: JsonLayout) -> Text {
        let mut out = Vec::with_capacity(value.text().len());
        write_canonical(value, layout, &mut out);
        Text::from_checked_bytes(out)
    }

    /// Formats a value, keeping its key order and literals.
    pub fn as_written(value: Raw<'_>, layout: JsonLayout) -> Text {
        let mut out = Vec::with_capacity(value.text().len());
        write_as_written(value, layout, 0, &mut out);
        Text::from_checked_bytes(out)
    }

    /// Returns the value.
    pub fn raw(&self) -> Raw<'_> {
        Raw::from_checked(&self.0)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text as a string.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl From<JsonObject> for Text {
    fn from(object: JsonObject) -> Text {
        object.end()
    }
}

impl From<Raw<'_>> for Text {
    fn from(value: Raw<'_>) -> Text {
        Text(value.text().to_owned())
    }
}

impl From<&serde_json::Value> for Text {
    /// Formats a tree on one line.
    fn from(value: &serde_json::Value) -> Text {
        Text(value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_always_one_value() {
        let tree = serde_json::json!({"a": ["é\n", 1.5, null, true], "b": {}});
        let texts = [
            Text::null(),
            Text::string("a\"\n\u{0}é"),
            Text::from(&tree),
            Text::from(JsonObject::new().string("k", "v")),
            Text::parse(" [1, 2] ", 9).unwrap(),
            Text::list([Text::null().raw(), Text::string("x").raw()]),
            Text::list([]),
            Text::canonical(Text::from(&tree).raw(), JsonLayout::Indented(2)),
            Text::as_written(Text::from(&tree).raw(), JsonLayout::Compact),
        ];
        for text in &texts {
            assert_eq!(Raw::parse(text, 9).unwrap().text(), text.raw().text());
        }
        assert_eq!(texts[4], "[1, 2]");
        assert_eq!(texts[5], r#"[null,"x"]"#);
        assert!(Text::parse("{} {}", 9).is_err() && Text::parse("", 9).is_err());
    }

    #[test]
    fn invalid_utf_8_stays_inside_its_string() {
        let text = Text::from_checked_bytes(b"[\"a\xffb\"]".to_vec());
        assert_eq!(text, "[\"a\u{fffd}b\"]");
    }
}
