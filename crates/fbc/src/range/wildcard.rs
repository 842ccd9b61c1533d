//! Rewrites wildcards in ranges, `1.2.x` and `1.x`, to comparisons with complete versions.

use std::borrow::Cow;

use super::{RangeError, Surprise, split_term};

/// Replaces a term that contains an `x` with terms without wildcards.
///
/// The rewriting works on text, whether or not the `x` is a wildcard. If it is not, there is no next version, and the
/// resulting term is an error later.
pub(super) fn rewrite(
    term: &str,
    terms: &mut Vec<Cow<'_, str>>,
    surprises: &mut Vec<Surprise>,
) -> Result<(), RangeError> {
    let (operator, version) = split_term(term)?;
    let first = first_covered(version);
    let next = next_uncovered(version, &first);

    if version.ends_with(".x.x") && matches!(operator, "" | "=" | "==" | ">" | "<=") {
        surprises.push(Surprise::DoubleWildcard(term.into()));
    }
    let mut add = |term: String| terms.push(Cow::Owned(term));
    match operator {
        "" | "=" | "==" => {
            add(format!(">={first}"));
            add(format!("<{next}"));
        }
        "!" | "!=" => {
            surprises.push(Surprise::ExcludedWildcard(term.into()));
            add(format!("<{first}"));
            add(format!(">={next}"));
        }
        ">" => add(format!(">={next}")),
        ">=" => add(format!(">={first}")),
        "<" => add(format!("<{first}")),
        "<=" => add(format!("<{next}")),
        _ => {
            surprises.push(Surprise::DroppedOperator(term.into()));
            add(first);
        }
    }
    Ok(())
}

/// Returns the first version that a wildcard covers: 1.2.0 for `1.2.x`.
fn first_covered(version: &str) -> String {
    let mut first = version.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if first.bytes().filter(|&byte| byte == b'.').count() == 1 {
        first.push_str(".0");
    }
    first
}

/// Returns the first version after all that a wildcard covers: 1.3.0 for `1.2.x`.
///
/// Empty if the last component of `version` is not a wildcard.
fn next_uncovered(version: &str, first: &str) -> String {
    let raised = match version.split('.').collect::<Vec<_>>()[..] {
        [_, _, "x"] => 1,
        [_, "x"] => 0,
        _ => return String::new(),
    };
    let mut parts: Vec<Cow<'_, str>> = first.split('.').map(Cow::Borrowed).collect();
    // Deliberately signed: larger numbers have always been an error here.
    let Some(Ok(number)) = parts.get(raised).map(|part| part.parse::<i64>()) else {
        return String::new();
    };
    parts[raised] = Cow::Owned(number.wrapping_add(1).to_string());
    parts.join(".")
}
