//! The registry API, independent of the backend: [`Query`] has its queries, and [`message`] encodes the replies.
//!
//! A server answers from its cache, `sqlite-index` from a database; both return the same messages.

pub mod message;
pub mod query;

pub use query::{Answer, Api, Counts, Message, Query, QueryError, Rows};
