//! The functions of rules.

use fbc::version::Version;

use super::convert;
use super::evaluate::EvaluationResult;
use super::expression::Function;
use super::pattern::Pattern;
use super::steps::{EvaluationFault, Steps};
use super::value::Value;

/// The cost of compiling a pattern that is not a literal, in steps.
const COMPILING: u64 = 20_000;

/// Calls a function with one argument.
pub(super) fn unary<'v>(function: Function, of: Value<'v>, steps: &mut Steps) -> EvaluationResult<'v> {
    match function {
        Function::Size => size(&of, steps),
        Function::Type => Ok(Value::Type(of.kind())),
        Function::Dyn => Ok(of),
        Function::Int => convert::int(&of).map(Value::Int).ok_or(EvaluationFault::Wrong),
        Function::Uint => convert::uint(&of).map(Value::Uint).ok_or(EvaluationFault::Wrong),
        Function::Double => convert::double(&of).map(Value::Double).ok_or(EvaluationFault::Wrong),
        Function::Bool => convert::bool(&of).map(Value::Bool).ok_or(EvaluationFault::Wrong),
        Function::String => {
            if let Value::Bytes(bytes) = &of {
                steps.read(bytes.len())?;
            }
            convert::string(of).map(Value::String).ok_or(EvaluationFault::Wrong)
        }
        Function::Bytes => {
            if let Value::String(text) = &of {
                steps.read(text.len())?;
            }
            convert::bytes(of).map(Value::Bytes).ok_or(EvaluationFault::Wrong)
        }
        _ => Err(EvaluationFault::Wrong),
    }
}

/// Calls a function with two arguments.
pub(super) fn binary<'v>(
    function: Function,
    first: &Value<'v>,
    second: &Value<'v>,
    steps: &mut Steps,
) -> EvaluationResult<'v> {
    if function == Function::SemverCompare {
        let (first, second) = (version(first, steps)?, version(second, steps)?);
        return Ok(Value::Int(first.cmp_precedence(&second) as i64));
    }
    let (Value::String(text), Value::String(part)) = (first, second) else { return Err(EvaluationFault::Wrong) };
    steps.read(text.len() + part.len())?;
    match function {
        Function::Contains => Ok(Value::Bool(text.contains(&**part))),
        Function::StartsWith => Ok(Value::Bool(text.starts_with(&**part))),
        Function::EndsWith => Ok(Value::Bool(text.ends_with(&**part))),
        Function::Matches => {
            steps.spend(COMPILING)?;
            let pattern = Pattern::compile(part).ok_or(EvaluationFault::Wrong)?;
            steps.spend(pattern.steps(text))?;
            Ok(Value::Bool(pattern.is_in(text)))
        }
        _ => Err(EvaluationFault::Wrong),
    }
}

/// Counts characters, bytes, elements or entries.
fn size<'v>(of: &Value<'v>, steps: &mut Steps) -> EvaluationResult<'v> {
    let size = match of {
        Value::String(of) => {
            steps.read(of.len())?;
            of.chars().count()
        }
        Value::Bytes(of) => of.len(),
        Value::List(of) => of.len(),
        Value::Map(of) => of.len(),
        _ => return Err(EvaluationFault::Wrong),
    };
    i64::try_from(size).map(Value::Int).map_err(|_| EvaluationFault::Wrong)
}

/// Parses a version as tolerantly as clusters do: they convert any value to text.
fn version(of: &Value<'_>, steps: &mut Steps) -> Result<Version, EvaluationFault> {
    let text = match of {
        Value::String(text) => text.clone(),
        Value::Int(_) | Value::Uint(_) | Value::Double(_) => {
            convert::string(of.clone()).ok_or(EvaluationFault::Wrong)?
        }
        _ => return Err(EvaluationFault::Wrong),
    };
    steps.read(text.len())?;
    Version::parse_tolerant(&text).map_err(|_| EvaluationFault::Wrong)
}
