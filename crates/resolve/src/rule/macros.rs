//! The macros that are written behind a value: `all`, `exists`, `exists_one`, `filter`, `map`.

use super::expression::{Each, Expression, Link, Macro};

/// Makes a loop of a call that is a macro, by its name and the number of its arguments; others are given back.
///
/// # Errors
/// Fails when the first argument names no variable.
pub(super) fn expand(name: &str, arguments: Vec<Expression>) -> Result<Result<Link, Vec<Expression>>, String> {
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
        return Err("argument must be a simple name".to_owned());
    };
    let (first, second) = (arguments.next(), arguments.next());
    let (condition, result) = match (what, second) {
        (Macro::Map, None) => (None, first),
        (_, second) => (first, second),
    };
    Ok(Ok(Link::Each(Each { what, variable, condition, result })))
}
