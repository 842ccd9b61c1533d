//! The macros on values: `all`, `exists`, `exists_one`, `filter`, `map`.

use super::error::RuleFault;
use super::expression::{Each, Expression, Link, Macro};

/// Expands a call into a loop if its name and number of arguments are those of a macro; returns other calls unchanged.
///
/// # Errors
/// Fails when the first argument is not a variable name.
pub(super) fn expand(name: &str, arguments: Vec<Expression>) -> Result<Result<Link, Vec<Expression>>, RuleFault> {
    let what = match (name, arguments.len()) {
        ("all", 2) => Macro::All,
        ("exists", 2) => Macro::Exists,
        ("exists_one" | "existsOne", 2) => Macro::ExistsOne,
        ("filter", 2) => Macro::Filter,
        ("map", 2 | 3) => Macro::Map,
        _ => return Ok(Err(arguments)),
    };
    let mut arguments = arguments.into_iter();
    let Some(Expression::Name(variable)) = arguments.next() else {
        return Err(RuleFault::NotName);
    };
    let (first, second) = (arguments.next(), arguments.next());
    let (condition, result) = match (what, second) {
        (Macro::Map, None) => (None, first),
        (_, second) => (first, second),
    };
    Ok(Ok(Link::Each(Each { what, variable, condition, result })))
}
