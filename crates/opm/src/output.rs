//! The flag that selects how a report is printed.

use clap::builder::TypedValueParser;

use crate::choice::choice;

/// The flag of commands that print a report as text or as JSON.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct OutputFlag {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = format())]
    pub(crate) output: ReportFormat,
}

/// The format of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    #[default]
    Text,
    Json,
}

fn format() -> impl TypedValueParser<Value = ReportFormat> {
    choice([("text", ReportFormat::Text), ("json", ReportFormat::Json)])
}

impl OutputFlag {
    pub(crate) fn is_json(self) -> bool {
        self.output == ReportFormat::Json
    }
}
