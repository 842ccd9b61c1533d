//! Writes the objects of a catalog field by field.

use std::borrow::Cow;
use std::collections::HashMap;

use super::PrintedProperty;
use crate::go_sort;
use crate::json::{JsonKind, JsonLayout, Raw, write_as_written, write_canonical_nested, write_str};

/// The fields of a property.
const PROPERTY: &[&str] = &["type", "value"];

/// Writes objects with fields in a given order.
pub(super) struct ObjectWriter<'a> {
    pub(super) layout: JsonLayout,
    pub(super) level: usize,
    /// Whether to write unknown fields.
    pub(super) whole: bool,
    /// Whether free-form values stay as written.
    pub(super) as_written: bool,
    pub(super) first: bool,
    pub(super) out: &'a mut Vec<u8>,
}

impl ObjectWriter<'_> {
    pub(super) fn open(&mut self) {
        self.out.push(b'{');
        self.level += 1;
        self.first = true;
    }

    pub(super) fn close(&mut self) {
        self.level -= 1;
        if !self.first {
            self.line();
        }
        self.out.push(b'}');
        self.first = false;
    }

    fn line(&mut self) {
        if let JsonLayout::Indented(width) = self.layout {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + self.level * width, b' ');
        }
    }

    /// Starts a field or an item.
    fn next(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.line();
    }

    pub(super) fn key(&mut self, key: &str) {
        self.next();
        write_str(self.out, key);
        self.out.push(b':');
        if let JsonLayout::Indented(_) = self.layout {
            self.out.push(b' ');
        }
    }

    pub(super) fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        write_str(self.out, value);
    }

    pub(super) fn string_if_any(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.string(key, value);
        }
    }

    pub(super) fn free_value(&mut self, value: Option<Raw<'_>>) {
        match value {
            None => self.out.extend_from_slice(b"null"),
            Some(value) if self.as_written => write_as_written(value, self.layout, self.level, self.out),
            Some(value) => write_canonical_nested(value, self.layout, self.level, self.out),
        }
    }

    /// Writes the members of `object` that are not in `known`, in source order, if requested.
    ///
    /// The last of equal keys counts.
    pub(super) fn rest(&mut self, object: Raw<'_>, known: &[&str]) {
        if !self.whole {
            return;
        }
        let mut members: Vec<(Cow<'_, str>, Raw<'_>)> = Vec::new();
        let mut places: HashMap<Cow<'_, str>, usize> = HashMap::new();
        for (key, value) in object.members() {
            if known.iter().any(|name| name.eq_ignore_ascii_case(&key)) {
                continue;
            }
            match places.get(&key) {
                Some(&at) => members[at].1 = value,
                None => {
                    places.insert(key.clone(), members.len());
                    members.push((key, value));
                }
            }
        }
        for (key, value) in members {
            self.key(&key);
            self.free_value(Some(value));
        }
    }

    /// Writes a list under `key`, with `item` for each item.
    fn list<T>(&mut self, key: &str, items: impl IntoIterator<Item = T>, mut item: impl FnMut(&mut Self, T)) {
        self.key(key);
        self.out.push(b'[');
        self.level += 1;
        self.first = true;
        for value in items {
            self.next();
            item(self, value);
        }
        self.level -= 1;
        if !self.first {
            self.line();
        }
        self.out.push(b']');
        self.first = false;
    }

    pub(super) fn icon(&mut self, icon: Raw<'_>) {
        self.key("icon");
        self.open();
        // Line breaks inside base64 are accepted but not written.
        let data = icon.get("base64data").and_then(Raw::as_str);
        match data {
            Some(data) => self.string("base64data", &data.replace(['\n', '\r'], "")),
            None => {
                self.key("base64data");
                self.out.extend_from_slice(b"null");
            }
        }
        self.string("mediatype", &icon.get_str("mediatype"));
        self.rest(icon, &["base64data", "mediatype"]);
        self.close();
    }

    pub(super) fn properties(&mut self, properties: Option<Raw<'_>>) {
        let items: Vec<_> = properties.into_iter().flat_map(Raw::items).collect();
        if items.is_empty() {
            return;
        }
        self.list("properties", items, |this, property| {
            this.open();
            this.string("type", &property.get_str("type"));
            this.key("value");
            this.free_value(property.get("value"));
            this.rest(property, PROPERTY);
            this.close();
        });
    }

    pub(super) fn bundle_properties(&mut self, properties: &[PrintedProperty<'_>]) {
        if properties.is_empty() {
            return;
        }
        self.list("properties", properties, |this, property| {
            this.open();
            this.string("type", &property.kind);
            this.key("value");
            match &property.inlined {
                Some(data) => {
                    this.open();
                    this.key("data");
                    this.out.push(b'"');
                    this.out.extend_from_slice(data);
                    this.out.push(b'"');
                    if let Some(value) = property.value {
                        this.rest(value, &["data", "ref"]);
                    }
                    this.close();
                }
                None => this.free_value(property.value),
            }
            this.rest(property.item, PROPERTY);
            this.close();
        });
    }

    pub(super) fn related_images(&mut self, images: Option<Raw<'_>>) {
        let items = images.into_iter().flat_map(Raw::items);
        let mut items: Vec<_> = items.map(|item| (item.get_str("image"), item.get_str("name"), item)).collect();
        if items.is_empty() {
            return;
        }
        go_sort::sort_by(&mut items, |a, b| a.0 < b.0);
        self.list("relatedImages", items, |this, (image, name, item)| {
            this.open();
            this.string("name", &name);
            this.string("image", &image);
            this.rest(item, &["name", "image"]);
            this.close();
        });
    }

    pub(super) fn entries(&mut self, entries: Option<Raw<'_>>) {
        let Some(entries) = self.list_or_null("entries", entries) else { return };
        self.list("entries", entries.items(), |this, entry| {
            this.open();
            this.string("name", &entry.get_str("name"));
            this.string_if_any("replaces", &entry.get_str("replaces"));
            let skips: Vec<_> = entry.get_items("skips").collect();
            if !skips.is_empty() {
                this.list("skips", skips, |this, skip| write_str(this.out, &skip.as_str().unwrap_or_default()));
            }
            this.string_if_any("skipRange", &entry.get_str("skipRange"));
            this.rest(entry, &["name", "replaces", "skips", "skipRange"]);
            this.close();
        });
    }

    pub(super) fn deprecations(&mut self, entries: Option<Raw<'_>>) {
        let Some(entries) = self.list_or_null("entries", entries) else { return };
        self.list("entries", entries.items(), |this, entry| {
            this.open();
            this.key("reference");
            this.open();
            let reference = entry.get("reference");
            let field = |name| reference.map(|reference| reference.get_str(name)).unwrap_or_default();
            this.string("schema", &field("schema"));
            this.string_if_any("name", &field("name"));
            if let Some(reference) = reference {
                this.rest(reference, &["schema", "name"]);
            }
            this.close();
            this.string("message", &entry.get_str("message"));
            this.rest(entry, &["reference", "message"]);
            this.close();
        });
    }

    /// Returns a list, or writes `null` if there is none.
    fn list_or_null<'a>(&mut self, key: &str, list: Option<Raw<'a>>) -> Option<Raw<'a>> {
        let list = list.filter(|list| list.kind() == JsonKind::Array);
        if list.is_none() {
            self.key(key);
            self.out.extend_from_slice(b"null");
        }
        list
    }
}
