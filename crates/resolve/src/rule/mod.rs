//! Rules in the Common Expression Language, as `olm.constraint` holds them.
//!
//! A rule sees `properties`, the list of a bundle's properties as objects of `type` and `value`, and the function
//! `semver_compare`. It must give a boolean; whatever goes wrong while it runs counts as false. The language is the one
//! that clusters read, without timestamps and durations, as no property of a bundle has them, and without messages.
//!
//! In reading order: `lex` and `literal` split a rule into words, `parse` and `macros` make an `expression`
//! of them, `check` looks up names and refuses types that do not fit, `evaluate` runs it with `operators`,
//! `functions` and `convert` on a `value`, and `steps` counts what that costs. `pattern` is for `matches`.
//!
//! Rules come from strangers. They are bounded in length, in depth and in operators before they are parsed, and count
//! their steps while they run.

mod check;
mod convert;
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

use evaluate::Run;
use expression::Expression;
use fbc::json::Raw;
use steps::Fault;
use value::Value;

/// Longer rules are refused.
const LONGEST: usize = 10_000;
/// Rules that take more steps than this for one bundle are given up.
const MOST_STEPS: u64 = 2_000_000;

/// A rule that can run.
#[derive(Debug)]
pub struct Rule {
    expression: Expression,
}

/// What came of a run of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the rule holds.
    pub holds: bool,
    /// How many steps that took.
    pub steps: u64,
}

impl Rule {
    /// Compiles a rule.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn compile(text: &str) -> Result<Rule, String> {
        if text.len() > LONGEST {
            return Err(format!("the rule is longer than {LONGEST} bytes"));
        }
        let mut expression = parse::parse(text)?;
        check::check(&mut expression)?;
        Ok(Rule { expression })
    }

    /// Runs the rule for a bundle with these properties, a JSON list of objects.
    ///
    /// # Errors
    /// Fails when it takes too long.
    pub fn run(&self, properties: &str) -> Result<Answer, String> {
        let read = properties.len() as u64;
        let Ok(raw) = Raw::parse(properties, fbc::limits::MAX_DEPTH) else {
            return Ok(Answer { holds: false, steps: read });
        };
        let mut run = Run::new(Value::of_json(raw), MOST_STEPS);
        let outcome = run.evaluate(&self.expression);
        if outcome.as_ref().is_err_and(|fault| *fault == Fault::TooLong) {
            return Err(format!("the rule takes too long: it was given up after {MOST_STEPS} steps"));
        }
        Ok(Answer { holds: matches!(outcome, Ok(Value::Bool(true))), steps: run.steps.done.max(read) })
    }

    /// Returns whether the rule holds for a bundle with these properties, a JSON list of objects.
    ///
    /// # Errors
    /// Fails when it takes too long.
    pub fn holds(&self, properties: &str) -> Result<bool, String> {
        self.run(properties).map(|answer| answer.holds)
    }
}
