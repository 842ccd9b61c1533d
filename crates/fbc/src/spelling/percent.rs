//! Percent-encoding of URLs.

/// Encodes text as a path segment or query value: all but unreserved characters become `%XX`.
pub fn encode(text: &str) -> String {
    encode_but(text, b"")
}

/// Encodes text as [`encode`] does, but leaves the characters `kept` as they are.
pub fn encode_but(text: &str, kept: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value & 15)]);
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.extend(['%', digit(byte >> 4), digit(byte)]);
        }
    }
    out
}

/// Decodes percent-encoded text; `None` if the result is not UTF-8 or an escape is malformed.
pub fn decode(text: &str) -> Option<String> {
    let digit = |byte: Option<u8>| u8::try_from(char::from(byte?).to_digit(16)?).ok();
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => digit(bytes.next())? << 4 | digit(bytes.next())?,
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

/// Decodes a part of a query, in which `+` is a space.
pub fn decode_query(text: &str) -> Option<String> {
    decode(&text.replace('+', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_text_is_decoded_to_the_same() {
        assert_eq!(encode("a b/\"é-._~"), "a%20b%2F%22%C3%A9-._~");
        assert_eq!(encode_but("a b/c:d", b"/:"), "a%20b/c:d");
        for text in ["", "a b&c", "100%", "é/🦀", "%2f"] {
            assert_eq!(decode(&encode(text)).as_deref(), Some(text));
        }
        assert_eq!(decode("a%2fb").as_deref(), Some("a/b"));
        assert_eq!(decode_query("a+b%2B").as_deref(), Some("a b+"));
    }

    #[test]
    fn invalid_encodings_are_rejected() {
        for text in ["%", "%4", "%zz", "%+4", "%ff"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
