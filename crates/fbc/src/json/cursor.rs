//! Descends into a value without scanning it first.

use std::borrow::Cow;

use super::raw::{JsonKind, Raw};
use super::scan::{skip_space, string_end, value_end};

/// A cursor that walks a value from front to back.
///
/// [`Raw::members`] finds the end of each member before it yields it, so a value four levels down is scanned four
/// times. A cursor scans each byte once, which matters for the schemas of large manifests.
#[derive(Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at `value`.
    pub fn new(value: Raw<'a>) -> Cursor<'a> {
        Cursor { text: value.text(), at: 0 }
    }

    /// Returns the kind of the next value.
    pub fn kind(&self) -> JsonKind {
        Raw::from_checked(self.text.get(self.at..).unwrap_or_default()).kind()
    }

    /// Skips the next value and returns it.
    pub fn value(&mut self) -> Raw<'a> {
        let end = value_end(self.text.as_bytes(), self.at);
        let value = self.text.get(self.at..end).unwrap_or_default();
        self.at = end;
        Raw::from_checked(value)
    }

    /// Calls `member` with each key of the next object, with the cursor at the key's value, which `member` may consume
    /// or leave. Values of other kinds are skipped.
    pub fn members(&mut self, mut member: impl FnMut(&str, &mut Cursor<'a>)) {
        self.parts(JsonKind::Object, b'}', |cursor| {
            let bytes = cursor.text.as_bytes();
            let end = string_end(bytes, cursor.at);
            let key = Raw::from_checked(cursor.text.get(cursor.at..end).unwrap_or("\"\""));
            cursor.at = skip_space(bytes, skip_space(bytes, end) + 1);
            let value = cursor.at;
            member(&key.as_str().unwrap_or(Cow::Borrowed("")), cursor);
            cursor.leave(value);
        });
    }

    /// Calls `item` at each item of the next list, which `item` may consume or leave. Values of other kinds are
    /// skipped.
    pub fn items(&mut self, mut item: impl FnMut(&mut Cursor<'a>)) {
        self.parts(JsonKind::Array, b']', |cursor| {
            let value = cursor.at;
            item(cursor);
            cursor.leave(value);
        });
    }

    fn parts(&mut self, kind: JsonKind, close: u8, mut part: impl FnMut(&mut Cursor<'a>)) {
        if self.kind() != kind {
            self.value();
            return;
        }
        let bytes = self.text.as_bytes();
        self.at = skip_space(bytes, self.at + 1);
        while let Some(&byte) = bytes.get(self.at) {
            if byte == close {
                self.at += 1;
                return;
            }
            part(self);
            self.at = skip_space(bytes, self.at);
            if bytes.get(self.at) == Some(&b',') {
                self.at = skip_space(bytes, self.at + 1);
            }
        }
    }

    /// Skips the value at `start` unless it was consumed.
    fn leave(&mut self, start: usize) {
        if self.at == start {
            self.value();
        }
        // Damaged text must not stop the progress of the cursor.
        self.at = self.at.max(start + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_entered_or_skipped() {
        let text = r#"{ "a" : [1, [2], {"b":"c\"]"}] , "left":{"x":[]},"d\n":{"e":null, "f" : true},"g":7 }"#;
        let mut seen = Vec::new();
        Cursor::new(Raw::parse(text, 9).unwrap()).members(|key, value| match key {
            "a" => value.items(|item| seen.push(format!("a: {}", item.value().text()))),
            "d\n" => value.members(|key, value| seen.push(format!("d.{key}: {}", value.kind()))),
            "g" => value.members(|_, _| seen.push("a number has no members".into())),
            _ => {}
        });
        assert_eq!(seen, ["a: 1", "a: [2]", r#"a: {"b":"c\"]"}"#, "d.e: null", "d.f: bool"]);
    }

    proptest::proptest! {
        #[test]
        fn the_cursor_passes_any_text(text in r#"[\[\]{}:,"\\a0 ]{0,24}"#) {
            Cursor::new(Raw::from_checked(&text)).members(|_, value| value.items(|item| item.members(|_, _| {})));
        }
    }
}
