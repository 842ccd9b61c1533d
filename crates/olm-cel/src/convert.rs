//! Conversions between types. Values without a counterpart result in `None`.

use std::rc::Rc;

use super::value::{Text, Value};

pub(super) fn int(of: &Value<'_>) -> Option<i64> {
    match of {
        Value::Int(of) => Some(*of),
        Value::Uint(of) => i64::try_from(*of).ok(),
        Value::Double(of) => i64::try_from(truncated(*of)?).ok(),
        Value::String(of) => of.parse().ok(),
        _ => None,
    }
}

pub(super) fn uint(of: &Value<'_>) -> Option<u64> {
    match of {
        Value::Int(of) => u64::try_from(*of).ok(),
        Value::Uint(of) => Some(*of),
        Value::Double(of) if *of >= 0.0 => u64::try_from(truncated(*of)?).ok(),
        Value::String(of) if !of.starts_with('+') => of.parse().ok(),
        _ => None,
    }
}

/// Truncates the fraction. The outermost integers are excluded: doubles cannot distinguish them from values out of
/// range.
#[expect(clippy::cast_possible_truncation, reason = "values out of range are rejected before")]
fn truncated(of: f64) -> Option<i128> {
    (of > -9_223_372_036_854_775_808.0 && of < 18_446_744_073_709_551_615.0).then_some(of as i128)
}

pub(super) fn double(of: &Value<'_>) -> Option<f64> {
    match of {
        Value::String(of) => {
            let number: f64 = of.parse().ok()?;
            // A number that overflows is rejected, unless infinity is spelled out.
            let finite = number.is_finite() || !of.contains(|c: char| c.is_ascii_digit());
            let signed_nan = number.is_nan() && of.starts_with(['+', '-']);
            (finite && !signed_nan).then_some(number)
        }
        other => other.as_double(),
    }
}

pub(super) fn bool(of: &Value<'_>) -> Option<bool> {
    match of {
        Value::Bool(of) => Some(*of),
        Value::String(of) => match &**of {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn bytes(of: Value<'_>) -> Option<Rc<[u8]>> {
    match of {
        Value::Bytes(of) => Some(of),
        Value::String(of) => Some(of.as_bytes().into()),
        _ => None,
    }
}

pub(super) fn string(of: Value<'_>) -> Option<Text<'_>> {
    Some(match of {
        Value::String(of) => of,
        Value::Bool(of) => of.to_string().into(),
        Value::Int(of) => of.to_string().into(),
        Value::Uint(of) => of.to_string().into(),
        Value::Double(of) => written(of).into(),
        Value::Bytes(of) => std::str::from_utf8(&of).ok()?.to_owned().into(),
        Value::Null | Value::List(_) | Value::Map(_) | Value::Type(_) => return None,
    })
}

/// Formats a double as Go's `%g` does: the fewest digits, with an exponent where it is small or large.
fn written(of: f64) -> String {
    if of.is_nan() {
        return "NaN".to_owned();
    }
    if of.is_infinite() {
        return if of > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{of:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{of}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
