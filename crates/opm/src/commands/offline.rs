//! A cluster without a cluster: the catalogs it sees, what is installed there, and what somebody asks for.

pub(super) mod namespace;
pub(super) mod sources;
pub(super) mod wish;

/// Reads the value of `--output` where people or programs read.
pub(super) fn output(text: &str) -> Result<Output, String> {
    match text {
        "text" => Ok(Output::Text),
        "json" => Ok(Output::Json),
        _ => Err("expected text or json".into()),
    }
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Text,
    Json,
}
