//! Quantities such as `100m` and `1Gi`, in the canonical form of Kubernetes.

/// Formats a quantity canonically: with the largest unit that loses no precision, and at most three decimals.
///
/// Returns `None` for an invalid quantity. The unit stays of the same kind: binary for `Ki`, decimal for `k`, and
/// exponents for `e3`.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let text = text.trim();
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || number.len() > 60 {
        return None;
    }
    let unit = Unit::parse(suffix)?;
    let digits: u128 = format!("{whole}{fraction}").trim_start_matches('0').parse().ok().or_else(|| {
        // All digits are zero.
        format!("{whole}{fraction}").chars().all(|c| c == '0').then_some(0)
    })?;
    let sign = if negative && digits != 0 { "-" } else { "" };
    if digits == 0 {
        return Some("0".into());
    }
    let decimals = fraction.len() as i32;
    match unit {
        Unit::Binary(power) => {
            // Only whole bytes have a binary unit.
            let scaled = digits.checked_mul(1u128 << (10 * power))?;
            let divisor = 10u128.checked_pow(decimals as u32)?;
            if !scaled.is_multiple_of(divisor) {
                // Fractions of a byte are written in decimal thousandths.
                return decimal(sign, digits.checked_mul(1u128 << (10 * power))?, -decimals, false);
            }
            let mut value = scaled / divisor;
            let mut power = 0;
            while value.is_multiple_of(1024) && power < 6 {
                value /= 1024;
                power += 1;
            }
            Some(format!("{sign}{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]))
        }
        Unit::Decimal(exponent) => decimal(sign, digits, exponent - decimals, false),
        Unit::Exponent(exponent) => decimal(sign, digits, exponent - decimals, true),
    }
}

enum Unit {
    Binary(u32),
    Decimal(i32),
    Exponent(i32),
}

impl Unit {
    fn parse(suffix: &str) -> Option<Unit> {
        Some(match suffix {
            "" => Unit::Decimal(0),
            "n" => Unit::Decimal(-9),
            "u" => Unit::Decimal(-6),
            "m" => Unit::Decimal(-3),
            "k" => Unit::Decimal(3),
            "M" => Unit::Decimal(6),
            "G" => Unit::Decimal(9),
            "T" => Unit::Decimal(12),
            "P" => Unit::Decimal(15),
            "E" => Unit::Decimal(18),
            "Ki" => Unit::Binary(1),
            "Mi" => Unit::Binary(2),
            "Gi" => Unit::Binary(3),
            "Ti" => Unit::Binary(4),
            "Pi" => Unit::Binary(5),
            "Ei" => Unit::Binary(6),
            other => {
                let exponent = other.strip_prefix(['e', 'E'])?;
                Unit::Exponent(exponent.parse().ok().filter(|power: &i32| power.abs() <= 18)?)
            }
        })
    }
}

/// Formats `digits` times ten to the power of `exponent`.
fn decimal(sign: &str, mut digits: u128, mut exponent: i32, scientific: bool) -> Option<String> {
    // Values below a billionth are rounded up.
    while exponent < -9 {
        digits = digits.div_ceil(10);
        exponent += 1;
    }
    while digits.is_multiple_of(10) {
        digits /= 10;
        exponent += 1;
    }
    let lower = exponent.rem_euclid(3);
    let digits = digits.checked_mul(10u128.pow(lower as u32))?;
    let exponent = exponent - lower;
    if scientific {
        return Some(if exponent == 0 { format!("{sign}{digits}") } else { format!("{sign}{digits}e{exponent}") });
    }
    let unit = match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        0 => "",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => return None,
    };
    Some(format!("{sign}{digits}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn quantities_use_the_largest_exact_unit() {
        for (given, expected) in [
            ("0.1", "100m"),
            ("1000m", "1"),
            ("1.5", "1500m"),
            ("1024Mi", "1Gi"),
            ("1500Mi", "1500Mi"),
            ("0.5Gi", "512Mi"),
            ("1000", "1k"),
            ("1500k", "1500k"),
            ("2000000k", "2G"),
            ("0", "0"),
            ("0.0", "0"),
            ("-1000m", "-1"),
            ("1e3", "1e3"),
            ("100M", "100M"),
            ("200", "200"),
            ("012", "12"),
            ("+5", "5"),
            (".5", "500m"),
            ("5.", "5"),
            ("0.1Ki", "102400m"),
            ("0.0000000001", "1n"),
        ] {
            assert_eq!(canonical(given).as_deref(), Some(expected), "{given}");
        }
        for none in ["", "x", "1x", "1.2.3", "Mi", "1e", "1ee3"] {
            assert_eq!(canonical(none), None, "{none}");
        }
    }
}
