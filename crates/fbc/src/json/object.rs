//! Objects in the making.

use super::raw::Raw;
use super::write::write_str;

/// A JSON object that is written member by member, on one line.
#[derive(Debug, Clone)]
pub struct Object(Vec<u8>);

/// An item of a list in the making.
#[derive(Debug, Clone)]
pub enum Part<'p> {
    /// A value as it is written.
    Written(Raw<'p>),
    /// An object.
    Made(Object),
}

impl Default for Object {
    fn default() -> Self {
        Object::new()
    }
}

impl Object {
    /// Starts an object without members.
    pub fn new() -> Object {
        Object(vec![b'{'])
    }

    fn key(&mut self, key: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        write_str(&mut self.0, key);
        self.0.push(b':');
    }

    /// Adds a string.
    #[must_use]
    pub fn string(mut self, key: &str, text: &str) -> Object {
        self.key(key);
        write_str(&mut self.0, text);
        self
    }

    /// Adds a string unless it is empty.
    #[must_use]
    pub fn string_if_any(self, key: &str, text: &str) -> Object {
        if text.is_empty() { self } else { self.string(key, text) }
    }

    /// Adds a value as it is written.
    #[must_use]
    pub fn value(mut self, key: &str, value: Raw<'_>) -> Object {
        self.key(key);
        self.0.extend_from_slice(value.text().as_bytes());
        self
    }

    /// Adds an object.
    #[must_use]
    pub fn object(mut self, key: &str, object: Object) -> Object {
        self.key(key);
        self.0.extend(object.close());
        self
    }

    /// Adds a list of objects.
    #[must_use]
    pub fn objects(mut self, key: &str, items: impl IntoIterator<Item = Object>) -> Object {
        self.key(key);
        self.list(items, |out, item| out.extend(item.close()));
        self
    }

    /// Adds a list of values that were written before and objects that are new.
    #[must_use]
    pub fn parts<'p>(mut self, key: &str, items: impl IntoIterator<Item = Part<'p>>) -> Object {
        self.key(key);
        self.list(items, |out, item| match item {
            Part::Written(value) => out.extend_from_slice(value.text().as_bytes()),
            Part::Made(object) => out.extend(object.close()),
        });
        self
    }

    /// Adds a list of strings.
    #[must_use]
    pub fn strings<'s>(mut self, key: &str, items: impl IntoIterator<Item = &'s str>) -> Object {
        self.key(key);
        self.list(items, write_str);
        self
    }

    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
        self.0.push(b'[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.0.push(b',');
            }
            write(&mut self.0, item);
        }
        self.0.push(b']');
    }

    fn close(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }

    /// Returns the text of the object.
    pub fn end(self) -> String {
        String::from_utf8(self.close()).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_the_order_they_are_added() {
        let inner = Object::new().string("\"", "é\n").string_if_any("none", "");
        let object = Object::new()
            .object("b", inner)
            .strings("a", ["x", "y"])
            .value("v", Raw::parse("[1, 2]", 9).unwrap())
            .objects("o", [Object::new(), Object::new().string("k", "")])
            .strings("e", []);
        let text = object.end();
        assert_eq!(text, r#"{"b":{"\"":"é\n"},"a":["x","y"],"v":[1, 2],"o":[{},{"k":""}],"e":[]}"#);
        assert!(Raw::parse(&text, 9).is_ok());
    }
}
