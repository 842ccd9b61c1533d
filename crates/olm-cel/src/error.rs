//! Why a rule is rejected.

use std::fmt;

use super::parse::{MAX_DEPTH, MAX_OPERATORS};
use super::{MAX_LENGTH, MAX_STEPS};

/// Why a rule is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The position in the rule, if one is at fault.
    at: Option<Position>,
    fault: RuleFault,
}

/// A rule exceeds the limit of steps for one bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rule takes too long: it was given up after {MAX_STEPS} steps")]
pub struct TooLong;

/// A line and a column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    line: usize,
    column: usize,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RuleFault {
    #[error("the rule is longer than {MAX_LENGTH} bytes")]
    Length,
    #[error("the rule is nested deeper than {MAX_DEPTH}")]
    Depth,
    #[error("the rule has more than {MAX_OPERATORS} operators")]
    Operators,
    #[error("unexpected end of the rule")]
    End,
    #[error("unexpected {0:?}")]
    Token(String),
    #[error("unexpected {0:?}")]
    Character(char),
    #[error("reserved identifier: {0}")]
    Reserved(String),
    #[error("invalid argument to has() macro")]
    Has,
    #[error("argument must be a simple name")]
    NotName,
    #[error("messages are not supported")]
    Message,
    #[error("undeclared reference to '{0}'")]
    Undeclared(String),
    #[error("invalid int literal {0}")]
    Int(String),
    #[error("invalid uint literal {0}")]
    Uint(String),
    #[error("invalid double literal {0}")]
    Double(String),
    #[error("unterminated string")]
    Unterminated,
    #[error("invalid escape in a string")]
    Escape,
    #[error(transparent)]
    Utf8(#[from] std::string::FromUtf8Error),
    #[error("cel expressions must have type Bool")]
    NotBool,
    #[error("expression of type '{0}' cannot be range of a comprehension (must be list, map, or dynamic)")]
    Range(String),
    #[error("type '{0}' does not support field selection")]
    Selection(String),
    #[error("found no matching overload for '{name}' applied to '({})'", types.join(", "))]
    Overload { name: String, types: Vec<String> },
}

impl RuleFault {
    /// Adds the position of the byte offset `at` in the rule.
    pub(crate) fn placed(self, text: &str, at: usize) -> RuleError {
        let before = &text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        RuleError { at: Some(Position { line, column }), fault: self }
    }
}

impl From<RuleFault> for RuleError {
    fn from(fault: RuleFault) -> RuleError {
        RuleError { at: None, fault }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.at {
            write!(f, "{line}:{column}: ")?;
        }
        self.fault.fmt(f)
    }
}

impl std::error::Error for RuleError {}
