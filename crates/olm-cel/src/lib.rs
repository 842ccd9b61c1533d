//! Rules in the Common Expression Language, as in `olm.constraint`.
//!
//! A rule sees `properties`, the list of a bundle's properties as objects of `type` and `value`, and the function
//! `semver_compare`. It must return a boolean; any error while it runs counts as false. The language is the one that
//! clusters accept, without timestamps and durations, since no property of a bundle has them, and without messages.
//!
//! In reading order: `lex` and `literal` split a rule into tokens, `parse` and `macros` build an `expression`, `check`
//! resolves names and rejects type errors, `evaluate` runs it with `operators`, `functions` and `convert` on a `value`,
//! and `steps` counts the cost. `pattern` implements `matches`.
//!
//! Rules are untrusted. Their length, nesting and number of operators are limited before they are parsed, and their
//! steps are limited while they run.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod check;
mod convert;
mod error;
mod evaluate;
mod expression;
mod functions;
mod lex;
mod literal;
mod macros;
mod operators;
mod parse;
mod pattern;
mod steps;
#[cfg(test)]
mod tests;
mod value;

pub use error::{RuleError, TooLong};

use evaluate::Run;
use expression::Expression;
use fbc::json::Raw;
use steps::EvaluationFault;
use value::Value;

/// The maximum length of a rule.
const MAX_LENGTH: usize = 10_000;
/// The maximum number of steps of a rule for one bundle.
const MAX_STEPS: u64 = 2_000_000;

/// A compiled rule.
#[derive(Debug)]
pub struct CelRule {
    expression: Expression,
}

/// The result of running a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleResult {
    /// Whether the rule holds.
    pub holds: bool,
    /// The number of steps.
    pub steps: u64,
}

impl CelRule {
    /// Compiles a rule.
    ///
    /// # Errors
    /// Fails with the problem of the rule.
    pub fn compile(text: &str) -> Result<CelRule, RuleError> {
        if text.len() > MAX_LENGTH {
            return Err(error::RuleFault::Length.into());
        }
        let mut expression = parse::parse(text)?;
        check::check(&mut expression)?;
        Ok(CelRule { expression })
    }

    /// Runs the rule for a bundle with these properties, a JSON list of objects.
    ///
    /// # Errors
    /// Fails when the step limit is exceeded.
    pub fn run(&self, properties: &str) -> Result<RuleResult, TooLong> {
        let read = properties.len() as u64;
        let Ok(raw) = Raw::parse(properties, fbc::limits::MAX_DEPTH) else {
            return Ok(RuleResult { holds: false, steps: read });
        };
        let mut run = Run::new(Value::of_json(raw), MAX_STEPS);
        let outcome = run.evaluate(&self.expression);
        if outcome.as_ref().is_err_and(|fault| *fault == EvaluationFault::TooLong) {
            return Err(TooLong);
        }
        Ok(RuleResult { holds: matches!(outcome, Ok(Value::Bool(true))), steps: run.steps.used.max(read) })
    }

    /// Returns whether the rule holds for a bundle with these properties, a JSON list of objects.
    ///
    /// # Errors
    /// Fails when the step limit is exceeded.
    pub fn holds(&self, properties: &str) -> Result<bool, TooLong> {
        self.run(properties).map(|answer| answer.holds)
    }
}
