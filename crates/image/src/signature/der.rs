//! The subset of DER that keys and certificates need.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const UTF8_STRING: u8 = 0x0c;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const BOOLEAN: u8 = 0x01;

/// The unread bytes. Missing or non-canonical values are `None`.
#[derive(Clone, Copy)]
pub(crate) struct DerReader<'a>(pub(crate) &'a [u8]);

impl<'a> DerReader<'a> {
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tag of the next value.
    pub(crate) fn peek(self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Reads a value with any tag: the tag, the content, and all its bytes.
    pub(crate) fn any(&mut self) -> Option<(u8, &'a [u8], &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        // Multi-byte tags do not occur here.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = match first {
            _ if first < 0x80 => (usize::from(first), rest),
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
                if digits.first() == Some(&0) || length < 0x80 {
                    return None;
                }
                (length, rest)
            }
            _ => return None,
        };
        let (content, after) = rest.split_at_checked(length)?;
        let whole = &self.0[..self.0.len() - after.len()];
        self.0 = after;
        Some((tag, content, whole))
    }

    /// Reads a value with a given tag.
    pub(crate) fn next(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let (found, content, _) = ahead.any()?;
        (found == tag).then(|| {
            *self = ahead;
            content
        })
    }

    /// Reads an optional value with a given tag.
    pub(crate) fn maybe(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.peek() == Some(tag) { self.next(tag) } else { None }
    }

    /// Reads a bit string of whole bytes.
    pub(crate) fn bits(&mut self) -> Option<&'a [u8]> {
        self.next(BIT_STRING)?.strip_prefix(&[0])
    }
}

/// Writes a value.
pub(crate) fn write(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut bytes = vec![tag];
    if length < 0x80 {
        bytes.push(length as u8);
    } else {
        let digits: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|digit| *digit == 0).collect();
        bytes.push(0x80 | digits.len() as u8);
        bytes.extend(digits);
    }
    bytes.extend(content);
    bytes
}

/// Writes a non-negative number.
pub(crate) fn write_unsigned(number: &[u8]) -> Vec<u8> {
    let start = number.iter().take_while(|byte| **byte == 0).count();
    let mut content = number[start..].to_vec();
    if content.first().is_none_or(|byte| byte & 0x80 != 0) {
        content.insert(0, 0);
    }
    write(INTEGER, &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_values_are_decoded() {
        let long = vec![7; 300];
        let bytes = [write(OCTET_STRING, &long), write_unsigned(&[0, 0x80]), write_unsigned(&[])].concat();
        let mut reader = DerReader(&bytes);
        assert_eq!(reader.next(OCTET_STRING), Some(&long[..]));
        assert_eq!(reader.next(INTEGER), Some(&[0, 0x80][..]));
        assert_eq!(reader.next(INTEGER), Some(&[0][..]));
        assert!(reader.is_empty());
    }

    #[test]
    fn other_forms_are_rejected() {
        for bytes in
            [&[][..], &[0x30], &[0x30, 1], &[0x30, 0x80], &[0x30, 0x81, 1, 0], &[0x30, 0x82, 0, 1, 0], &[0x1f, 1, 0]]
        {
            assert!(DerReader(bytes).any().is_none(), "{bytes:?}");
        }
    }
}
