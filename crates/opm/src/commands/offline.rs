//! A simulated cluster: its catalogs, the installed bundles and the requested ones.

use clap::builder::TypedValueParser;

use crate::choice::choice;

pub(super) mod namespace;
pub(super) mod sources;

/// Parses the value of `--output`: text or JSON.
pub(super) fn output() -> impl TypedValueParser<Value = AnswerOutput> {
    choice([("text", AnswerOutput::Text), ("json", AnswerOutput::Json)])
}

/// The output format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerOutput {
    Text,
    Json,
}
