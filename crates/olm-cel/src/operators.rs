//! Operators on numbers, strings and lists. Overflow is an error.

use super::evaluate::EvaluationResult;
use super::expression::Binary;
use super::steps::{EvaluationFault, Steps};
use super::value::Value;

/// Compares two values that have an order.
pub(super) fn compare<'v>(
    operator: Binary,
    left: &Value<'v>,
    right: &Value<'v>,
    steps: &mut Steps,
) -> EvaluationResult<'v> {
    match (left, right) {
        (Value::String(a), Value::String(b)) => steps.read(a.len().min(b.len()))?,
        (Value::Bytes(a), Value::Bytes(b)) => steps.read(a.len().min(b.len()))?,
        _ => {}
    }
    let order = left.order(right).ok_or(EvaluationFault::Wrong)?;
    Ok(Value::Bool(match operator {
        Binary::Less => order.is_lt(),
        Binary::LessOrEqual => order.is_le(),
        Binary::Greater => order.is_gt(),
        _ => order.is_ge(),
    }))
}

/// Adds numbers, or concatenates strings and lists.
pub(super) fn add<'v>(left: &Value<'v>, right: &Value<'v>, steps: &mut Steps) -> EvaluationResult<'v> {
    match (left, right) {
        (Value::String(a), Value::String(b)) => {
            steps.read(a.len() + b.len())?;
            Ok(Value::String([&**a, &**b].concat().into()))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            steps.read(a.len() + b.len())?;
            Ok(Value::Bytes([&**a, &**b].concat().into()))
        }
        (Value::List(a), Value::List(b)) => {
            steps.spend((a.len() + b.len()) as u64)?;
            Ok(Value::List(a.iter().chain(b.iter()).cloned().collect()))
        }
        _ => arithmetic(Binary::Add, left, right),
    }
}

/// Calculates with two numbers of one type.
pub(super) fn arithmetic<'v>(operator: Binary, left: &Value<'v>, right: &Value<'v>) -> EvaluationResult<'v> {
    let result = match (left, right) {
        (Value::Int(a), Value::Int(b)) => match operator {
            Binary::Add => a.checked_add(*b),
            Binary::Subtract => a.checked_sub(*b),
            Binary::Multiply => a.checked_mul(*b),
            Binary::Divide => a.checked_div(*b),
            Binary::Remainder => a.checked_rem(*b),
            _ => None,
        }
        .map(Value::Int),
        (Value::Uint(a), Value::Uint(b)) => match operator {
            Binary::Add => a.checked_add(*b),
            Binary::Subtract => a.checked_sub(*b),
            Binary::Multiply => a.checked_mul(*b),
            Binary::Divide => a.checked_div(*b),
            Binary::Remainder => a.checked_rem(*b),
            _ => None,
        }
        .map(Value::Uint),
        (Value::Double(a), Value::Double(b)) => match operator {
            Binary::Add => Some(a + b),
            Binary::Subtract => Some(a - b),
            Binary::Multiply => Some(a * b),
            Binary::Divide => Some(a / b),
            _ => None,
        }
        .map(Value::Double),
        _ => None,
    };
    result.ok_or(EvaluationFault::Wrong)
}

/// Changes the sign of a number.
pub(super) fn negate<'v>(of: &Value<'v>) -> EvaluationResult<'v> {
    match of {
        Value::Int(of) => of.checked_neg().map(Value::Int).ok_or(EvaluationFault::Wrong),
        Value::Double(of) => Ok(Value::Double(-of)),
        _ => Err(EvaluationFault::Wrong),
    }
}
