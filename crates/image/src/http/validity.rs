//! Reads the validity period of certificates that webpki does not check.

use fbc::spelling::calendar::Date;
use rustls::pki_types::CertificateDer;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Returns whether a certificate is valid at `now`, in seconds since 1970, or `None` if it cannot be parsed.
pub(crate) fn is_valid_at(certificate: &CertificateDer<'_>, now: u64) -> Option<bool> {
    let (signed, _) = value(certificate, SEQUENCE)?;
    let (fields, _) = value(signed, SEQUENCE)?;
    let fields = value(fields, VERSION).map_or(fields, |(_, rest)| rest);
    let (_, fields) = value(fields, INTEGER)?;
    let (_algorithm, fields) = value(fields, SEQUENCE)?;
    let (_issuer, fields) = value(fields, SEQUENCE)?;
    let (validity, _) = value(fields, SEQUENCE)?;
    let (first, rest) = time(validity)?;
    let (last, _) = time(rest)?;
    let now = i64::try_from(now).ok()?;
    Some(first <= now && now <= last)
}

/// Splits off the DER value with `tag`.
fn value(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (&length, rest) = rest.split_first()?;
    if first != tag {
        return None;
    }
    let (length, rest) = if length < 0x80 {
        (usize::from(length), rest)
    } else {
        let count = usize::from(length & 0x7f);
        if count == 0 || count > 4 {
            return None;
        }
        let digits = rest.get(..count)?;
        (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), &rest[count..])
    };
    Some((rest.get(..length)?, &rest[length..]))
}

fn time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (text, rest, century) = match value(bytes, UTC_TIME) {
        Some((text, rest)) => (text, rest, None),
        None => {
            let (text, rest) = value(bytes, GENERALIZED_TIME)?;
            (text.get(2..)?, rest, Some(text.get(..2)?))
        }
    };
    // YYMMDDHHMMSSZ
    if text.len() != 13 || text[12] != b'Z' {
        return None;
    }
    let two = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<i64>().ok();
    let part = |at: usize| two(&text[at..at + 2]);
    let year = match century {
        Some(century) => two(century)? * 100 + part(0)?,
        None if part(0)? >= 50 => 1900 + part(0)?,
        None => 2000 + part(0)?,
    };
    let days = Date::new(year, part(2)?, part(4)?)?.days();
    Some((((days * 24 + part(6)?) * 60 + part(8)?) * 60 + part(10)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_certificates_are_rejected() {
        for bytes in [&b""[..], b"\x30", b"\x30\x84\xff\xff\xff\xff", b"\x30\x80", b"\x30\x02\x30\x00"] {
            assert_eq!(is_valid_at(&CertificateDer::from(bytes), 0), None);
        }
    }
}
