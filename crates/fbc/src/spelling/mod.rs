//! Standard text formats: times and dates, durations, percent-encoding, HTML escaping, shell quoting, tables, SARIF logs,
//! annotations of GitHub.
//!
//! Every crate may use this one, so that each format is implemented once.

#[expect(clippy::disallowed_methods, reason = "the clock")]
pub mod calendar;
pub mod duration;
pub mod github;
pub mod html;
pub mod percent;
pub mod sarif;
pub mod shell;
pub mod size;
pub mod table;
