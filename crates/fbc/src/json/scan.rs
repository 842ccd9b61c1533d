//! Scans for delimiters, eight bytes at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Marks each byte of `word` that equals `byte`; the lowest mark is exact.
#[inline(always)]
fn equal(word: u64, byte: u8) -> u64 {
    let x = word ^ (ONES * byte as u64);
    x.wrapping_sub(ONES) & !x & HIGHS
}

/// Marks each byte of `word` below `limit` (at most 0x80); the lowest mark is exact.
#[inline(always)]
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * limit as u64) & !word & HIGHS
}

#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let chunk: &[u8; 8] = bytes.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_le_bytes(*chunk))
}

/// Returns the end of the plain part of a JSON string: a quote, a backslash, a control character, or the end of
/// `bytes`.
#[inline]
pub(super) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    // Most strings are short: two words cover them.
    for _ in 0..2 {
        match word_at(bytes, at).map(stops) {
            Some(0) => at += 8,
            Some(marks) => return at + (marks.trailing_zeros() / 8) as usize,
            None => return plain_end_of_rest(bytes, at),
        }
    }
    // Others are long: 32 bytes per step, in a form that compilers vectorize.
    while let Some(chunk) = bytes.get(at..at + 32) {
        let stop = chunk
            .iter()
            .fold(0u8, |found, &b| found | (u8::from(b == b'"') | u8::from(b == b'\\') | u8::from(b < 0x20)));
        if stop != 0 {
            break;
        }
        at += 32;
    }
    while let Some(marks) = word_at(bytes, at).map(stops) {
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    plain_end_of_rest(bytes, at)
}

/// Marks the bytes of `word` that end the plain part of a JSON string.
#[inline(always)]
fn stops(word: u64) -> u64 {
    equal(word, b'"') | equal(word, b'\\') | below(word, 0x20)
}

/// Scans the remaining bytes that do not fill a word.
#[inline]
fn plain_end_of_rest(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' && bytes[at] != b'\\' && bytes[at] >= 0x20 {
        at += 1;
    }
    at
}

/// Returns the index of the first byte at or after `at` that is not JSON whitespace.
#[inline]
pub(super) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at) {
            Some(b' ') => {
                at += 1;
                while let Some(word) = word_at(bytes, at) {
                    let other = word ^ (ONES * b' ' as u64);
                    if other == 0 {
                        at += 8;
                    } else {
                        at += (other.trailing_zeros() / 8) as usize;
                        break;
                    }
                }
            }
            Some(b'\n' | b'\r' | b'\t') => at += 1,
            _ => return at,
        }
    }
}

/// Returns the index after the closing quote of the string that opens at `at`.
///
/// The text must be valid JSON; damaged text yields some index within bounds.
#[inline]
pub(super) fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    loop {
        i = plain_end(bytes, i);
        match bytes.get(i) {
            Some(b'"') => return i + 1,
            Some(b'\\') => i += 2,
            Some(_) => i += 1,
            None => return bytes.len(),
        }
    }
}

/// Returns the index after the value that starts at `at`, in valid JSON.
pub(super) fn value_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => string_end(bytes, at),
        Some(b'{' | b'[') => {
            let mut depth = 0usize;
            let mut i = at;
            while let Some(&b) = bytes.get(i) {
                match b {
                    b'"' => {
                        i = string_end(bytes, i);
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth = depth.saturating_sub(1);
                        if depth == 0 {
                            return i + 1;
                        }
                    }
                    b' ' => {
                        i = skip_space(bytes, i);
                        continue;
                    }
                    _ => {}
                }
                i += 1;
            }
            bytes.len()
        }
        _ => {
            let mut i = at;
            while let Some(&b) = bytes.get(i) {
                if matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' | b':') {
                    break;
                }
                i += 1;
            }
            i
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_ends_at_the_first_special_byte_at_any_offset() {
        for length in 0..80 {
            for special in [b'"', b'\\', 0x1f, b'\n'] {
                let mut bytes = vec![b'a'; length];
                bytes.push(special);
                bytes.extend_from_slice(&[b'"'; 9]);
                assert_eq!(plain_end(&bytes, 0), length);
            }
            assert_eq!(plain_end(&vec![0xc3; length], 0), length);
        }
    }

    #[test]
    fn white_space_ends_at_the_first_other_byte() {
        for length in 0..40 {
            let text = format!("{}x        ", " \n\t\r        ".repeat(3)[..length.min(36)].to_owned());
            assert_eq!(skip_space(text.as_bytes(), 0), length.min(36));
        }
    }
}
