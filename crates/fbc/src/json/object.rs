//! Writers for JSON objects.

use super::raw::Raw;
use super::text::Text;
use super::write::{JsonLayout, write_as_written, write_canonical, write_str};
use crate::base64;

/// Writes the members of an object into the buffer of its parent.
#[derive(Debug)]
pub struct MemberWriter<'o> {
    out: &'o mut Vec<u8>,
    any: bool,
}

impl<'o> MemberWriter<'o> {
    /// Appends an object whose members `members` writes.
    pub(crate) fn append(out: &'o mut Vec<u8>, members: impl FnOnce(&mut MemberWriter<'o>)) {
        out.push(b'{');
        let mut fields = MemberWriter { out, any: false };
        members(&mut fields);
        fields.out.push(b'}');
    }

    fn key(&mut self, key: &str) {
        if self.any {
            self.out.push(b',');
        }
        self.any = true;
        write_str(self.out, key);
        self.out.push(b':');
    }

    /// Adds a string.
    pub fn string(&mut self, key: &str, text: &str) -> &mut Self {
        self.key(key);
        write_str(self.out, text);
        self
    }

    /// Adds a string unless it is empty.
    pub fn string_if_any(&mut self, key: &str, text: &str) -> &mut Self {
        if text.is_empty() { self } else { self.string(key, text) }
    }

    /// Adds a boolean.
    pub fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.key(key);
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        self
    }

    /// Adds the base64 of `bytes` as a string.
    pub fn base64(&mut self, key: &str, bytes: &[u8]) -> &mut Self {
        self.key(key);
        self.out.push(b'"');
        base64::encode(bytes, self.out);
        self.out.push(b'"');
        self
    }

    /// Adds a value as written.
    pub fn value(&mut self, key: &str, value: Raw<'_>) -> &mut Self {
        self.key(key);
        self.out.extend_from_slice(value.text().as_bytes());
        self
    }

    /// Adds a value as written, without whitespace; `null` if there is none.
    pub fn compact(&mut self, key: &str, value: Option<Raw<'_>>) -> &mut Self {
        self.key(key);
        match value {
            Some(value) => write_as_written(value, JsonLayout::Compact, 0, self.out),
            None => self.out.extend_from_slice(b"null"),
        }
        self
    }

    /// Adds a value in canonical form; `null` if there is none.
    pub fn canonical(&mut self, key: &str, value: Option<Raw<'_>>) -> &mut Self {
        self.key(key);
        match value {
            Some(value) => write_canonical(value, JsonLayout::Compact, self.out),
            None => self.out.extend_from_slice(b"null"),
        }
        self
    }

    /// Adds a list of values as written.
    pub fn values<'v>(&mut self, key: &str, items: impl IntoIterator<Item = Raw<'v>>) -> &mut Self {
        self.key(key);
        list(self.out, items, |out, item| out.extend_from_slice(item.text().as_bytes()));
        self
    }

    /// Adds an object whose members `members` writes.
    pub fn object(&mut self, key: &str, members: impl FnOnce(&mut MemberWriter<'_>)) -> &mut Self {
        self.key(key);
        MemberWriter::append(self.out, members);
        self
    }

    /// Adds a list of objects; `members` writes the members of each.
    pub fn objects<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut members: impl FnMut(T, &mut MemberWriter<'_>),
    ) -> &mut Self {
        self.key(key);
        list(self.out, items, |out, item| MemberWriter::append(out, |fields| members(item, fields)));
        self
    }

    /// Adds a list of strings.
    pub fn strings(&mut self, key: &str, items: impl IntoIterator<Item = impl AsRef<str>>) -> &mut Self {
        self.key(key);
        list(self.out, items, |out, item| write_str(out, item.as_ref()));
        self
    }
}

/// Appends a list.
pub(super) fn list<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// A JSON object written member by member, on one line.
#[derive(Debug, Clone)]
pub struct JsonObject(Vec<u8>);

/// An item of a list to write.
#[derive(Debug, Clone)]
pub enum ListItem<'p> {
    /// A value, as written.
    Value(Raw<'p>),
    /// A new object.
    Object(JsonObject),
}

impl Default for JsonObject {
    fn default() -> Self {
        JsonObject::new()
    }
}

impl JsonObject {
    /// Creates an object without members.
    pub fn new() -> JsonObject {
        JsonObject(vec![b'{'])
    }

    fn fields(&mut self) -> MemberWriter<'_> {
        MemberWriter { any: self.0.len() > 1, out: &mut self.0 }
    }

    /// Adds the members that `members` writes.
    #[must_use]
    pub fn with(mut self, members: impl FnOnce(&mut MemberWriter<'_>)) -> JsonObject {
        members(&mut self.fields());
        self
    }

    /// Adds a string.
    #[must_use]
    pub fn string(self, key: &str, text: &str) -> JsonObject {
        self.with(|fields| {
            fields.string(key, text);
        })
    }

    /// Adds a string unless it is empty.
    #[must_use]
    pub fn string_if_any(self, key: &str, text: &str) -> JsonObject {
        if text.is_empty() { self } else { self.string(key, text) }
    }

    /// Adds a value as written.
    #[must_use]
    pub fn value(self, key: &str, value: Raw<'_>) -> JsonObject {
        self.with(|fields| {
            fields.value(key, value);
        })
    }

    /// Adds an object.
    #[must_use]
    pub fn object(mut self, key: &str, object: JsonObject) -> JsonObject {
        self.fields().key(key);
        self.0.extend(object.close());
        self
    }

    /// Adds a list of objects.
    #[must_use]
    pub fn objects(self, key: &str, items: impl IntoIterator<Item = JsonObject>) -> JsonObject {
        self.parts(key, items.into_iter().map(ListItem::Object))
    }

    /// Adds a list of existing values and new objects.
    #[must_use]
    pub fn parts<'p>(mut self, key: &str, items: impl IntoIterator<Item = ListItem<'p>>) -> JsonObject {
        self.fields().key(key);
        list(&mut self.0, items, |out, item| match item {
            ListItem::Value(value) => out.extend_from_slice(value.text().as_bytes()),
            ListItem::Object(object) => out.extend(object.close()),
        });
        self
    }

    /// Adds a list of strings.
    #[must_use]
    pub fn strings<'s>(self, key: &str, items: impl IntoIterator<Item = &'s str>) -> JsonObject {
        self.with(|fields| {
            fields.strings(key, items);
        })
    }

    fn close(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }

    /// Returns the text of the object.
    pub fn end(self) -> Text {
        Text::from_checked_bytes(self.close())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_the_order_of_insertion() {
        let inner = JsonObject::new().string("\"", "é\n").string_if_any("none", "");
        let object = JsonObject::new()
            .object("b", inner)
            .strings("a", ["x", "y"])
            .value("v", Raw::parse("[1, 2]", 9).unwrap())
            .objects("o", [JsonObject::new(), JsonObject::new().string("k", "")])
            .strings("e", []);
        let text = object.end();
        assert_eq!(text, r#"{"b":{"\"":"é\n"},"a":["x","y"],"v":[1, 2],"o":[{},{"k":""}],"e":[]}"#);
        assert!(Raw::parse(&text, 9).is_ok());
    }

    #[test]
    fn members_are_written_to_the_buffer_of_their_parent() {
        let spaced = Raw::parse(r#"{"b": 1, "a": "\u00e9"}"#, 9).unwrap();
        let text = Text::object(|object| {
            object.bool("t", true).base64("d", b"ab").string_if_any("none", "");
            object.objects("o", [Some("x"), None], |name, object| {
                if let Some(name) = name {
                    object.string("name", name).object("empty", |_| {});
                }
            });
            object.compact("w", Some(spaced)).canonical("c", Some(spaced)).compact("n", None).bool("f", false);
        });
        assert_eq!(
            text,
            r#"{"t":true,"d":"YWI=","o":[{"name":"x","empty":{}},{}],"w":{"b":1,"a":"\u00e9"},"c":{"a":"é","b":1},"n":null,"f":false}"#
        );
        assert!(Raw::parse(&text, 9).is_ok());
    }
}
