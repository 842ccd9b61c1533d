//! Formats numbers.
//!
//! A number in a catalog is the text of a JSON number. There are two canonical forms, one for JSON and one for YAML
//! output. Both keep every integer that fits 64 bits digit for digit and convert everything else through a 64-bit
//! float.

use std::fmt::Write as _;

/// Appends the JSON number `text` in its canonical JSON form.
///
/// Integers within the range of `i64` or `u64` keep their digits. All other numbers are printed with the fewest digits
/// that round-trip, in plain notation from 1e-6 up to 1e21 and with an exponent (`1e+21`, `1e-7`) outside. A number
/// beyond the range of a float stays unchanged.
pub fn canonical(text: &str, out: &mut Vec<u8>) {
    if is_short_integer(text) || fits_64_bits(text) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => json_float(value, out),
        _ => out.extend_from_slice(text.as_bytes()),
    }
}

/// Appends the JSON number `text` in its YAML form.
///
/// Integers that fit 64 bits are plain. All others are floats with the fewest digits, and with an exponent of at least
/// two digits if the decimal exponent is below −4 or at least 6 (`1e-05`, `123456.5`, `1.23456725e+06`).
pub fn yaml(text: &str, out: &mut Vec<u8>) {
    if is_short_integer(text) || fits_64_bits(text) {
        // In YAML, integer zero has no sign.
        out.extend_from_slice(if text == "-0" { b"0" } else { text.as_bytes() });
        return;
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => out.extend_from_slice(general(&Digits::of(value)).as_bytes()),
        _ => out.extend_from_slice(text.as_bytes()),
    }
}

/// Appends a finite float in its canonical JSON form.
pub(crate) fn json_float(value: f64, out: &mut Vec<u8>) {
    let digits = Digits::of(value);
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        digits.write_exponent(1, out);
    } else {
        digits.write_plain(out);
    }
}

/// Returns a float as the text of a mapping key: general notation in 32-bit precision.
pub(crate) fn float_key(value: f64) -> String {
    let narrow = value as f32;
    if narrow.is_nan() {
        return ".nan".to_owned();
    }
    if narrow.is_infinite() {
        return if narrow > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    general(&Digits::of(narrow))
}

/// Returns whether `text` is an integer that fits 64 bits regardless of its digits.
fn is_short_integer(text: &str) -> bool {
    // JSON integers have no leading zeros, so 18 digits stay below 2^63.
    text.len() <= 18 && text.bytes().enumerate().all(|(i, b)| b.is_ascii_digit() || (i == 0 && b == b'-'))
}

fn fits_64_bits(text: &str) -> bool {
    text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok()
}

/// General notation: plain for decimal exponents from −4 to 5, otherwise with an exponent.
fn general(digits: &Digits) -> String {
    let mut out = Vec::new();
    if (-4..6).contains(&digits.exponent) {
        digits.write_plain(&mut out);
    } else {
        digits.write_exponent(2, &mut out);
    }
    String::from_utf8(out).unwrap_or_default()
}

/// The fewest decimal digits that round-trip to the same float.
struct Digits {
    negative: bool,
    /// The digits; the decimal point follows the first one.
    digits: String,
    exponent: i32,
}

impl Digits {
    fn of(value: impl std::fmt::LowerExp) -> Digits {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(text, "{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        Digits {
            negative: mantissa.starts_with('-'),
            digits: mantissa.chars().filter(char::is_ascii_digit).collect(),
            exponent: exponent.parse().unwrap_or_default(),
        }
    }

    fn write_sign(&self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
    }

    fn write_plain(&self, out: &mut Vec<u8>) {
        self.write_sign(out);
        let digits = self.digits.as_bytes();
        if self.exponent < 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + self.exponent.unsigned_abs() as usize - 1, b'0');
            out.extend_from_slice(digits);
            return;
        }
        let whole = self.exponent as usize + 1;
        if digits.len() <= whole {
            out.extend_from_slice(digits);
            out.resize(out.len() + whole - digits.len(), b'0');
        } else {
            let (before, after) = digits.split_at(whole);
            out.extend_from_slice(before);
            out.push(b'.');
            out.extend_from_slice(after);
        }
    }

    fn write_exponent(&self, width: usize, out: &mut Vec<u8>) {
        self.write_sign(out);
        let (first, rest) = self.digits.as_bytes().split_at(1);
        out.extend_from_slice(first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
        let sign = if self.exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:0width$}", self.exponent.unsigned_abs()).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        let mut out = Vec::new();
        canonical(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn yaml_of(text: &str) -> String {
        let mut out = Vec::new();
        yaml(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_of_64_bits_keep_their_digits() {
        for text in ["0", "-0", "7", "-12", "9223372036854775807", "-9223372036854775808", "18446744073709551615"] {
            assert_eq!(json(text), text);
        }
        assert_eq!(json("18446744073709551616"), "18446744073709552000");
        assert_eq!(json("-9223372036854775809"), "-9223372036854775808".replace("5808", "6000"));
    }

    #[test]
    fn other_numbers_get_the_fewest_digits() {
        for (text, expected) in [
            ("1.0", "1"),
            ("2.50", "2.5"),
            ("1E5", "100000"),
            ("-0.0", "-0"),
            ("1e21", "1e+21"),
            ("123456789012345678901234", "1.2345678901234569e+23"),
            ("1.0e20", "100000000000000000000"),
            ("0.000001", "0.000001"),
            ("1e-7", "1e-7"),
            ("-1.5e-10", "-1.5e-10"),
            ("123456789.123456789", "123456789.12345679"),
            ("0.1", "0.1"),
            ("5e-324", "5e-324"),
            ("1e400", "1e400"),
        ] {
            assert_eq!(json(text), expected, "{text}");
        }
    }

    #[test]
    fn yaml_uses_an_exponent_for_large_and_small_floats() {
        for (text, expected) in [
            ("12", "12"),
            ("-0", "0"),
            ("1000000", "1000000"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("0.000001", "1e-06"),
            ("1e-7", "1e-07"),
            ("123456.5", "123456.5"),
            ("1234567.25", "1.23456725e+06"),
            ("1e+21", "1e+21"),
            ("100000000000000000000", "1e+20"),
            ("18446744073709551615", "18446744073709551615"),
            ("6.02e+23", "6.02e+23"),
            ("1.5e-300", "1.5e-300"),
        ] {
            assert_eq!(yaml_of(text), expected, "{text}");
        }
    }

    #[test]
    fn float_keys_have_32_bit_precision() {
        for (value, expected) in
            [(2.5, "2.5"), (1.0, "1"), (1e6, "1e+06"), (0.1, "0.1"), (123456.789, "123456.79"), (1e300, ".inf")]
        {
            assert_eq!(float_key(value), expected);
        }
        assert_eq!((float_key(f64::NEG_INFINITY), float_key(f64::NAN)), ("-.inf".into(), ".nan".into()));
    }

    proptest::proptest! {
        #[test]
        fn both_spellings_parse_as_the_same_float(value: f64) {
            if value.is_finite() {
                let text = format!("{value:e}");
                proptest::prop_assert_eq!(json(&text).parse::<f64>().unwrap(), value);
                proptest::prop_assert_eq!(yaml_of(&text).parse::<f64>().unwrap(), value);
            }
        }
    }
}
