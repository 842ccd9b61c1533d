//! Resolves scalars: YAML 1.1 as the existing tools read it.
//!
//! A plain scalar is a boolean, null, a number or, in all other cases, a string. Dates stay strings as written, and
//! numbers in base 60 are strings; output quotes both, since other readers interpret them differently.

use std::borrow::Cow;

use super::events::Scalar;
use super::fault::YamlFault;
use crate::{json, number};

/// The value of a scalar.
#[derive(Debug, Clone, PartialEq)]
pub enum ScalarValue<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer that fits `i64`.
    Int(i64),
    /// A larger integer that fits `u64`.
    Uint(u64),
    /// Any other number, including infinities and NaN.
    Float(f64),
    /// A string that looks like a date or time.
    Timestamp(&'a str),
    /// A string.
    Str(Cow<'a, str>),
}

/// The explicit tag of a merge key.
const MERGE: &str = "tag:yaml.org,2002:merge";

/// Returns whether a key merges other mappings into its own.
pub(crate) fn is_merge_key(scalar: &Scalar<'_>) -> bool {
    scalar.text == "<<" && (scalar.plain || scalar.tag == Some(MERGE))
}

/// Resolves a scalar.
///
/// # Errors
/// Fails if the text does not match the tag, or is not base64 after `!!binary`.
pub fn value<'a>(scalar: &Scalar<'a>) -> Result<ScalarValue<'a>, YamlFault> {
    match scalar.tag {
        None if scalar.plain => Ok(resolve(scalar.text)),
        None => Ok(ScalarValue::Str(scalar.text.into())),
        Some(tag) => tagged(tag, scalar.text),
    }
}

/// Appends a value as JSON.
///
/// # Errors
/// Fails for infinities and NaN, which JSON lacks.
pub(crate) fn write_json(value: &ScalarValue<'_>, out: &mut Vec<u8>) -> Result<(), YamlFault> {
    match value {
        ScalarValue::Null => out.extend_from_slice(b"null"),
        ScalarValue::Bool(true) => out.extend_from_slice(b"true"),
        ScalarValue::Bool(false) => out.extend_from_slice(b"false"),
        ScalarValue::Int(number @ 0..=9) => out.push(b'0' + *number as u8),
        ScalarValue::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
        ScalarValue::Uint(number) => out.extend_from_slice(number.to_string().as_bytes()),
        ScalarValue::Float(number) if number.is_finite() => number::json_float(*number, out),
        ScalarValue::Float(number) => {
            let name = match (number.is_nan(), *number > 0.0) {
                (true, _) => "NaN",
                (_, true) => "+Inf",
                (_, false) => "-Inf",
            };
            return Err(YamlFault::NotFinite(name));
        }
        ScalarValue::Timestamp(text) => json::write_str(out, text),
        ScalarValue::Str(text) => json::write_str(out, text),
    }
    Ok(())
}

/// Returns a value as the text of a mapping key.
///
/// # Errors
/// Fails for null, which cannot be a key.
pub fn key<'a>(value: ScalarValue<'a>) -> Result<Cow<'a, str>, YamlFault> {
    Ok(match value {
        ScalarValue::Null => return Err(YamlFault::NullKey),
        ScalarValue::Bool(true) => "true".into(),
        ScalarValue::Bool(false) => "false".into(),
        ScalarValue::Int(number) => number.to_string().into(),
        ScalarValue::Uint(number) => number.to_string().into(),
        ScalarValue::Float(number) => number::float_key(number).into(),
        ScalarValue::Timestamp(text) => text.into(),
        ScalarValue::Str(text) => text,
    })
}

/// Returns whether plain text is read as the same string by every known reader.
pub(crate) fn reads_as_string(text: &str) -> bool {
    match text.as_bytes().first() {
        Some(b'+' | b'-' | b'.' | b'0'..=b'9' | b'~' | b'y' | b'Y' | b'n' | b'N' | b't' | b'T') => {}
        Some(b'f' | b'F' | b'o' | b'O') => {}
        Some(_) => return true,
        None => return false,
    }
    matches!(resolve(text), ScalarValue::Str(_)) && !is_base_60(text)
}

/// Resolves untagged plain text.
pub fn resolve(text: &str) -> ScalarValue<'_> {
    let bytes = text.as_bytes();
    let word = match bytes.first() {
        None => return ScalarValue::Null,
        Some(b'0'..=b'9' | b'+' | b'-') => return signed_or_digit(text),
        Some(b'.') => dotted(text),
        Some(b'~' | b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O') if bytes.len() <= 5 => {
            match text {
                "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                    Some(ScalarValue::Bool(true))
                }
                "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
                    Some(ScalarValue::Bool(false))
                }
                "~" | "null" | "Null" | "NULL" => Some(ScalarValue::Null),
                _ => None,
            }
        }
        Some(_) => None,
    };
    word.unwrap_or(ScalarValue::Str(text.into()))
}

/// Resolves text with an explicit tag in its long form.
fn tagged<'a>(tag: &str, text: &'a str) -> Result<ScalarValue<'a>, YamlFault> {
    let Some(short) = tag.strip_prefix("tag:yaml.org,2002:") else { return Ok(ScalarValue::Str(text.into())) };
    let found = match short {
        "binary" => {
            let bytes = decode_base64(text).ok_or(YamlFault::NotBase64)?;
            return Ok(ScalarValue::Str(lossy(&bytes).into()));
        }
        "bool" | "int" | "float" | "null" => {
            // Under these tags a date is not recognized, so it matches none of them.
            resolve(text)
        }
        "timestamp" => resolve(text),
        // `!!str` accepts any text, and so do unknown tags.
        _ => return Ok(ScalarValue::Str(text.into())),
    };
    match (short, found) {
        ("bool", found @ ScalarValue::Bool(_))
        | ("int", found @ (ScalarValue::Int(_) | ScalarValue::Uint(_)))
        | ("float", found @ ScalarValue::Float(_))
        | ("null", found @ ScalarValue::Null)
        | ("timestamp", found @ ScalarValue::Timestamp(_)) => Ok(found),
        ("float", ScalarValue::Int(number)) => Ok(ScalarValue::Float(number as f64)),
        (_, found) => {
            let found = match found {
                ScalarValue::Null => "null",
                ScalarValue::Bool(_) => "bool",
                ScalarValue::Int(_) | ScalarValue::Uint(_) => "int",
                ScalarValue::Float(_) => "float",
                ScalarValue::Timestamp(_) | ScalarValue::Str(_) => "str",
            };
            Err(YamlFault::Tag { found, text: text.to_owned(), tag: short.to_owned() })
        }
    }
}

fn dotted(text: &str) -> Option<ScalarValue<'_>> {
    match text {
        ".nan" | ".NaN" | ".NAN" => return Some(ScalarValue::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" => return Some(ScalarValue::Float(f64::INFINITY)),
        _ => {}
    }
    // Here underscores must be between digits, unlike in numbers that start with a digit.
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let stray = (0..bytes.len()).any(|at| bytes[at] == b'_' && !(at > 0 && digit(at - 1) && digit(at + 1)));
    if stray { None } else { float(&without_underscores(text)).map(ScalarValue::Float) }
}

fn signed_or_digit(text: &str) -> ScalarValue<'_> {
    // The common case: a short decimal number.
    if text.len() <= 18 && !text.starts_with(['0', '+']) {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if !digits.is_empty() && !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()) {
            return text.parse().map_or(ScalarValue::Str(text.into()), ScalarValue::Int);
        }
    }
    match text {
        "+.inf" | "+.Inf" | "+.INF" => return ScalarValue::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return ScalarValue::Float(f64::NEG_INFINITY),
        _ => {}
    }
    if is_timestamp(text) {
        return ScalarValue::Timestamp(text);
    }
    let plain = without_underscores(text);
    integer(&plain)
        .or_else(|| float(&plain).map(ScalarValue::Float))
        .or_else(|| odd_binary(&plain).map(ScalarValue::Int))
        .unwrap_or(ScalarValue::Str(text.into()))
}

fn without_underscores(text: &str) -> Cow<'_, str> {
    if text.contains('_') { text.replace('_', "").into() } else { text.into() }
}

/// Parses an integer: decimal, `0x`, `0o` or leading `0` for octal, `0b`, with an optional sign.
fn integer(text: &str) -> Option<ScalarValue<'static>> {
    let (sign, digits) = match text.as_bytes().first()? {
        sign @ (b'+' | b'-') => (Some(*sign), &text[1..]),
        _ => (None, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.as_bytes().first()?.is_ascii_alphanumeric() {
        return None; // the standard parser would take another sign
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match sign {
        Some(b'-') => 0i64.checked_sub_unsigned(magnitude).map(ScalarValue::Int),
        Some(_) => i64::try_from(magnitude).ok().map(ScalarValue::Int),
        None => Some(i64::try_from(magnitude).map_or(ScalarValue::Uint(magnitude), ScalarValue::Int)),
    }
}

/// Parses `0b-11` and `0b+11`, which the existing tools accept as numbers.
fn odd_binary(text: &str) -> Option<i64> {
    let digits = text.strip_prefix("0b")?;
    matches!(digits.as_bytes().first(), Some(b'+' | b'-')).then(|| i64::from_str_radix(digits, 2).ok())?
}

/// Parses a decimal float; values beyond the range of floats yield `None`.
fn float(text: &str) -> Option<f64> {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|text| digits(text.strip_prefix(['+', '-']).unwrap_or(text)));
    if !mantissa_fits || !exponent_fits {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Returns whether text is a date, or a date and time, as recognized by the existing tools.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 8 || !bytes[..4].iter().all(u8::is_ascii_digit) || bytes[4] != b'-' {
        return false;
    }
    let year = bytes[..4].iter().fold(0u32, |year, b| year * 10 + u32::from(b - b'0'));
    let mut rest = &bytes[5..];
    let Some(month) = one_or_two_digits(&mut rest) else { return false };
    if rest.split_off_first() != Some(&b'-') {
        return false;
    }
    let Some(day) = one_or_two_digits(&mut rest) else { return false };
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    if !(1..=days).contains(&day) {
        return false;
    }
    match rest.split_off_first() {
        None => true,
        Some(b'T' | b't') => time(&mut rest) && is_zone(rest),
        Some(b' ') => {
            while rest.first() == Some(&b' ') {
                rest = &rest[1..];
            }
            time(&mut rest) && rest.is_empty()
        }
        Some(_) => false,
    }
}

fn one_or_two_digits(rest: &mut &[u8]) -> Option<u32> {
    let count = rest.iter().take(2).take_while(|b| b.is_ascii_digit()).count();
    let digits = rest.split_off(..count)?;
    (count > 0).then(|| digits.iter().fold(0, |number, b| number * 10 + u32::from(b - b'0')))
}

/// Skips hours, minutes, seconds and a fraction of any length.
fn time(rest: &mut &[u8]) -> bool {
    for (limit, separator) in [(24, Some(b':')), (60, Some(b':')), (60, None)] {
        if one_or_two_digits(rest).is_none_or(|number| number >= limit) {
            return false;
        }
        if separator.is_some() && rest.split_off_first().copied() != separator {
            return false;
        }
    }
    if let [b'.' | b',', b'0'..=b'9', ..] = rest {
        let digits = rest[1..].iter().take_while(|b| b.is_ascii_digit()).count();
        *rest = &rest[1 + digits..];
    }
    true
}

/// Returns whether text is `Z` or an offset like `+05:30`.
fn is_zone(text: &[u8]) -> bool {
    let two = |a: u8, b: u8| (a.is_ascii_digit() && b.is_ascii_digit()).then(|| (a - b'0') * 10 + (b - b'0'));
    match *text {
        [b'Z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            two(h1, h2).is_some_and(|hours| hours <= 24) && two(m1, m2).is_some_and(|minutes| minutes <= 60)
        }
        _ => false,
    }
}

/// Returns whether text is a number in base 60, like `1:30` or `12:30:45.5`.
fn is_base_60(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let Some((first, rest)) = rest.split_once(':') else { return false };
    let (rest, fraction) = rest.split_once('.').unwrap_or((rest, ""));
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        && rest.split(':').all(|part| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']))
        && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

/// Decodes base64 with line breaks; the unused bits of the last byte may be set.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
    if !digits.len().is_multiple_of(4) {
        return None;
    }
    let body = digits.strip_suffix(b"==").or_else(|| digits.strip_suffix(b"=")).unwrap_or(&digits);
    let mut out = Vec::with_capacity(body.len() / 4 * 3 + 2);
    for chunk in body.chunks(4) {
        let mut bits = 0u32;
        for &digit in chunk {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        bits <<= 6 * (4 - chunk.len());
        let bytes = bits.to_be_bytes();
        out.extend_from_slice(&bytes[1..chunk.len().max(1)]);
    }
    Some(out)
}

/// Converts bytes to text; each invalid UTF-8 byte becomes U+FFFD.
fn lossy(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(std::iter::repeat_n('\u{fffd}', chunk.invalid().len()));
    }
    out
}

#[cfg(test)]
mod tests;
