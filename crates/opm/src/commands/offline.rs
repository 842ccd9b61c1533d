//! A cluster without a cluster: the catalogs it sees, what is installed there, and what somebody asks for.

use clap::builder::TypedValueParser;

use crate::choice::choice;

pub(super) mod namespace;
pub(super) mod sources;

/// Reads the value of `--output` where people or programs read.
pub(super) fn output() -> impl TypedValueParser<Value = Output> {
    choice([("text", Output::Text), ("json", Output::Json)])
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Text,
    Json,
}
