//! Base64 as catalogs use it: the standard alphabet with padding, line breaks allowed.

use base64_simd::STANDARD;

/// Decodes `text`.
///
/// # Errors
/// Fails with the index of the first byte that is no base64.
pub fn decode(text: &str) -> Result<Vec<u8>, usize> {
    match STANDARD.decode_to_vec(text) {
        Ok(bytes) => Ok(bytes),
        Err(_) => STANDARD.decode_to_vec(without_breaks(text)).map_err(|_| fault(text)),
    }
}

/// Checks that `text` is base64 without decoding it.
///
/// # Errors
/// Fails with the index of the first byte that is no base64.
pub fn check(text: &str) -> Result<(), usize> {
    match STANDARD.check(text.as_bytes()) {
        Ok(()) => Ok(()),
        Err(_) => STANDARD.check(without_breaks(text).as_bytes()).map_err(|_| fault(text)),
    }
}

/// Appends the base64 of `bytes`.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    STANDARD.encode_append(bytes, out);
}

fn without_breaks(text: &str) -> String {
    text.replace(['\n', '\r'], "")
}

/// Finds the byte at which `text` stops being base64.
fn fault(text: &str) -> usize {
    let is_digit = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    let first_other = text.bytes().position(|b| !is_digit(b) && b != b'\n' && b != b'\r' && b != b'=');
    let padding = text.bytes().position(|b| b == b'=');
    match (first_other, padding) {
        (Some(other), Some(padding)) => other.min(padding),
        (Some(other), None) => other,
        (None, Some(padding)) => padding,
        (None, None) => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_are_accepted_and_other_bytes_are_not() {
        assert_eq!(decode("aGVs\nbG8=\r\n").unwrap(), b"hello");
        assert_eq!(decode("aGVsbG8"), Err(7));
        assert_eq!(check("aGV*bG8="), Err(3));
        assert_eq!(check(""), Ok(()));
        let mut out = Vec::new();
        encode(b"hello", &mut out);
        assert_eq!(out, b"aGVsbG8=");
    }
}
