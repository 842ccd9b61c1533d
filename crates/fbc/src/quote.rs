//! Quotes text with the escapes of the reference tool's messages.

use std::fmt::{self, Write as _};

/// Wraps `text` so that it is displayed in double quotes on one line.
///
/// Quotes, backslashes, control characters and unprintable characters are escaped; other
/// non-ASCII text stays readable. Scripts match these messages, so the escapes are those of
/// the reference tool (`\x00`, `\u00a0`) and not Rust's.
pub fn quote(text: &str) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        f.write_char('"')?;
        for c in text.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\x07' => f.write_str("\\a")?,
                '\x08' => f.write_str("\\b")?,
                '\x0c' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\x0b' => f.write_str("\\v")?,
                c if is_printable(c) => f.write_char(c)?,
                c if c.is_ascii() => write!(f, "\\x{:02x}", u32::from(c))?,
                c if u32::from(c) <= 0xffff => write!(f, "\\u{:04x}", u32::from(c))?,
                c => write!(f, "\\U{:08x}", u32::from(c))?,
            }
        }
        f.write_char('"')
    })
}

/// Distinguishes letters, marks, numbers, punctuation, symbols and the space from everything else.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    // The standard library's table is accessible only through its escaping, which treats a combining mark as
    // unprintable unless a character precedes it.
    let mut buffer = [b'a', 0, 0, 0, 0];
    let length = 1 + c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..length]).is_ok_and(|text| text.escape_debug().eq(text.chars()))
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn readable_text_stays_readable() {
        assert_eq!(quote("1.2.3-é 日本 e\u{301}").to_string(), "\"1.2.3-é 日本 e\u{301}\"");
    }

    #[test]
    fn other_text_is_escaped() {
        assert_eq!(
            quote("\"\\\n\t\0\x7f\u{a0}\u{200b}\u{e0001}").to_string(),
            r#""\"\\\n\t\x00\x7f\u00a0\u200b\U000e0001""#
        );
    }
}
