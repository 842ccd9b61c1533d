//! Spelling of numbers.

/// Appends a JSON number in its canonical spelling.
pub fn canonical(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
}
