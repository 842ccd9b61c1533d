//! The registry API, whoever answers: [`Query`] is what is asked, and [`message`] writes the answers.
//!
//! A server answers from its cache, `sqlite-index` from a database; both give the same messages.

pub mod message;
pub mod query;

pub use query::{Answer, Api, Counts, Message, Query, QueryError, Rows};
