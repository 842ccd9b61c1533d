//! Base64 as used in catalogs: the standard alphabet with padding; line breaks and unused bits in the last digit are
//! accepted.

use base64_simd::STANDARD;

/// Decodes `text`.
///
/// # Errors
/// Fails with the index of the first invalid byte.
pub fn decode(text: &str) -> Result<Vec<u8>, usize> {
    match STANDARD.decode_to_vec(text) {
        Ok(bytes) => Ok(bytes),
        Err(_) => STANDARD.decode_to_vec(strict(text)).map_err(|_| fault(text)),
    }
}

/// Checks that `text` is base64 without decoding it.
///
/// # Errors
/// Fails with the index of the first invalid byte.
pub fn check(text: &str) -> Result<(), usize> {
    match STANDARD.check(text.as_bytes()) {
        Ok(()) => Ok(()),
        Err(_) => STANDARD.check(&strict(text)).map_err(|_| fault(text)),
    }
}

/// Appends the base64 of `bytes`.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    STANDARD.encode_append(bytes, out);
}

/// Normalizes `text` for strict decoders: removes line breaks, and clears the unused bits of the last digit (`YR==`
/// becomes `YQ==`).
fn strict(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    let used = match text.as_slice() {
        [.., b'=', b'='] => 0b11_0000,
        [.., b'='] => 0b11_1100,
        _ => return text,
    };
    let digit = text.iter_mut().rev().find(|b| **b != b'=');
    if let Some(digit) = digit
        && let Some(value) = DIGITS.iter().position(|known| *known == *digit)
    {
        *digit = DIGITS[value & used];
    }
    text
}

/// Finds the first byte of `text` that is not valid base64.
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
        assert_eq!(decode("YR==").unwrap(), b"a");
        assert_eq!(decode("YW\nJ=").unwrap(), b"ab");
        assert_eq!(check("YR=="), Ok(()));
        assert_eq!(check("YR="), Err(2));
        assert_eq!(check("=="), Err(0));
        let mut out = Vec::new();
        encode(b"hello", &mut out);
        assert_eq!(out, b"aGVsbG8=");
    }
}
