//! Reformats JSON text for other programs: HTML-safe strings, 64-bit numbers.
//!
//! The text is changed in place, only inside strings and numbers, so the value stays the same.

use crate::number;

/// Escapes `<`, `>` and `&` in the JSON from `start` on; they occur only inside strings.
pub(crate) fn escape_html(start: usize, out: &mut Vec<u8>) {
    let Some(tail) = out.get(start..) else { return };
    let count = memchr::memchr3_iter(b'<', b'>', b'&', tail).count();
    if count == 0 {
        return;
    }
    // The text grows in place, moving its last part first.
    const GROWTH: usize = 5;
    let mut source_end = out.len();
    let mut target_end = source_end + count * GROWTH;
    out.resize(target_end, 0);
    while target_end > source_end {
        let Some(found) = memchr::memrchr3(b'<', b'>', b'&', &out[start..source_end]) else { break };
        let at = start + found;
        let escaped = match out[at] {
            b'<' => b"\\u003c",
            b'>' => b"\\u003e",
            _ => b"\\u0026",
        };
        let behind = target_end - (source_end - (at + 1));
        out.copy_within(at + 1..source_end, behind);
        out[behind - escaped.len()..behind].copy_from_slice(escaped);
        source_end = at;
        target_end = behind - escaped.len();
    }
}

/// Returns whether a text contains a character that [`escape_html`] escapes.
pub(super) fn needs_html_escape(text: &str) -> bool {
    memchr::memchr3(b'<', b'>', b'&', text.as_bytes()).is_some()
}

/// Converts integers beyond signed 64 bits to floats, and optionally minus zero to zero; returns `None` if there are
/// none.
pub(super) fn numbers(json: &[u8], minus_zero: bool) -> Option<Vec<u8>> {
    (has_long_digits(json) || minus_zero && has_minus_zero(json)).then(|| respelled(json, minus_zero))
}

/// The minimum number of digits of an integer that may exceed signed 64 bits.
const LONG: usize = 19;

/// Returns whether there is a run of [`LONG`] digits; such a run covers at least one of the sampled bytes.
fn has_long_digits(json: &[u8]) -> bool {
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    (LONG - 1..json.len()).step_by(LONG).filter(|&at| json[at].is_ascii_digit()).any(|at| {
        let before = json[..at].iter().rev().take_while(is_digit).count();
        before + json[at..].iter().take_while(is_digit).count() >= LONG
    })
}

fn has_minus_zero(json: &[u8]) -> bool {
    memchr::memmem::find_iter(json, b"-0").any(|at| {
        let before = at.checked_sub(1).and_then(|before| json.get(before));
        matches!(before, Some(b':' | b',' | b'[')) && matches!(json.get(at + 2), Some(b',' | b']' | b'}'))
    })
}

/// Writes numbers as signed 64-bit integers or as floats.
#[cold]
fn respelled(source: &[u8], minus_zero: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(source.len());
    let mut at = 0;
    while let Some(&byte) = source.get(at) {
        let end = match byte {
            b'"' => {
                let mut end = at + 1;
                while source.get(end).is_some_and(|&byte| byte != b'"') {
                    end += if source[end] == b'\\' { 2 } else { 1 };
                }
                end + 1
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &&u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                at + source[at..].iter().take_while(is_part).count()
            }
            _ => at + 1,
        };
        let token = &source[at..end.min(source.len())];
        at = end;
        match std::str::from_utf8(token) {
            Ok("-0") if minus_zero => out.push(b'0'),
            Ok(number) if byte.is_ascii_digit() && number.len() >= LONG && number.parse::<i64>().is_err() => {
                // The exponent prevents the integer from being parsed as one that fits.
                let exponent = if number.bytes().all(|b| b.is_ascii_digit()) { "e0" } else { "" };
                number::canonical(&format!("{number}{exponent}"), &mut out);
            }
            _ => out.extend_from_slice(token),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn escaping_changes_nothing_else(text in "[a<>&é]{0,40}") {
            let mut out = text.clone().into_bytes();
            escape_html(0, &mut out);
            let expected = text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
            proptest::prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
