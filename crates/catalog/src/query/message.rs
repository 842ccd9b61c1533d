//! Encodes replies of the registry API: protobuf messages, written field by field.
//!
//! Every field of these messages is a string or another message, so a handful of functions is the whole encoding.
//! Fields are written in the order of their numbers.

/// Appends a string field; an empty one is omitted, as proto3 requires.
pub fn string(out: &mut Vec<u8>, field: u32, text: &str) {
    if !text.is_empty() {
        item(out, field, text.as_bytes());
    }
}

/// Appends one item of a repeated string field, or an encoded message.
pub fn item(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    header(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the tag and length of a field of `length` bytes.
pub fn header(out: &mut Vec<u8>, field: u32, length: usize) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, length as u64);
}

/// Appends a number as a varint.
pub fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a message of two strings: `Dependency` and `Property`.
pub fn typed_value(out: &mut Vec<u8>, field: u32, kind: &str, value: &[u8]) {
    let mut message = Vec::with_capacity(kind.len() + value.len() + 12);
    string(&mut message, 1, kind);
    if !value.is_empty() {
        item(&mut message, 2, value);
    }
    item(out, field, &message);
}

/// Appends a `GroupVersionKind`.
pub fn api(out: &mut Vec<u8>, field: u32, group: &str, version: &str, kind: &str) {
    let mut message = Vec::with_capacity(group.len() + version.len() + kind.len() + 6);
    string(&mut message, 1, group);
    string(&mut message, 2, version);
    string(&mut message, 3, kind);
    item(out, field, &message);
}

/// Appends a `Deprecation`, if there is one.
pub fn deprecation(out: &mut Vec<u8>, field: u32, text: Option<&str>) {
    if let Some(text) = text {
        let mut message = Vec::with_capacity(text.len() + 5);
        string(&mut message, 1, text);
        item(out, field, &message);
    }
}

/// Returns a `PackageName`.
pub fn package_name(name: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 5);
    string(&mut out, 1, name);
    out
}

/// Returns a `ChannelEntry`.
pub fn channel_entry(package: &str, channel: &str, bundle: &str, replaces: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(package.len() + channel.len() + bundle.len() + replaces.len() + 20);
    string(&mut out, 1, package);
    string(&mut out, 2, channel);
    string(&mut out, 3, bundle);
    string(&mut out, 4, replaces);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_are_omitted_and_long_ones_have_long_lengths() {
        assert_eq!(channel_entry("p", "", "b", ""), b"\x0a\x01p\x1a\x01b");
        let mut out = Vec::new();
        string(&mut out, 16, &"x".repeat(300));
        assert_eq!(&out[..5], [0x82, 0x01, 0xac, 0x02, b'x']);
        assert_eq!(out.len(), 304);
    }
}
