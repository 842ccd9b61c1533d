//! GraphQL queries of a catalog, compatible with catalogd, plus variables and filters.
//!
//! The language is small when it is read-only and has one root: `lex` and `parse` read a query, `plan` checks it
//! against the types that `discover` infers from the blobs, and `execute` writes the answer straight from their text. A
//! library would hold every blob as a tree.

mod discover;
mod execute;
mod introspect;
mod lex;
mod measure;
mod names;
mod parse;
mod plan;
mod types;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use fbc::json::{JsonKind, Raw, write_str};

use crate::content::CatalogContent;
use discover::{DiscoverError, Discovery};
use execute::Execution;
use types::Types;

/// Maximum size of a query, in bytes.
const QUERY_SIZE: usize = 100_000;
/// Time limit of a query.
const TIME: Duration = Duration::from_secs(5);
/// Maximum nesting of the JSON of a request.
const REQUEST_DEPTH: usize = 64;

/// The types of a catalog, discovered on first use.
#[derive(Debug, Default)]
pub(crate) struct Discovered(OnceLock<Result<Types, DiscoverError>>);

/// An offset in a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span(usize);

/// The reason why a query fails, and its position.
#[derive(Debug)]
struct QueryFailure {
    message: String,
    at: Option<Span>,
}

impl QueryFailure {
    fn new(message: impl Into<String>) -> QueryFailure {
        QueryFailure { message: message.into(), at: None }
    }

    fn at(at: Span, message: impl Into<String>) -> QueryFailure {
        QueryFailure { message: message.into(), at: Some(at) }
    }
}

/// The deadline of a query.
struct Deadline(Instant);

impl Deadline {
    fn check(&self) -> Result<(), QueryFailure> {
        if Instant::now() < self.0 { Ok(()) } else { Err(QueryFailure::new("query took longer than 5 seconds")) }
    }
}

/// A well-formed request.
pub(crate) struct GraphqlRequest<'a> {
    query: std::borrow::Cow<'a, str>,
    operation: Option<std::borrow::Cow<'a, str>>,
    variables: Option<Raw<'a>>,
}

impl<'a> GraphqlRequest<'a> {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Fails with the reply for the client when the body is not a valid request.
    pub(crate) fn read(body: &'a [u8]) -> Result<GraphqlRequest<'a>, &'static str> {
        const INVALID: &str = "Invalid request body";
        let text = std::str::from_utf8(body).map_err(|_| INVALID)?;
        let json = Raw::parse(text, REQUEST_DEPTH).map_err(|_| INVALID)?;
        if json.kind() != JsonKind::Object {
            return Err(INVALID);
        }
        let member = |name| json.get(name).filter(|value| !value.is_null());
        let text = |name| match member(name) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or(INVALID),
        };
        let query = text("query")?.unwrap_or_default();
        let operation = text("operationName")?.filter(|name| !name.is_empty());
        let variables = member("variables");
        if variables.is_some_and(|variables| variables.kind() != JsonKind::Object) {
            return Err(INVALID);
        }
        match query.len() {
            0 => Err("Query cannot be empty"),
            1..=QUERY_SIZE => Ok(GraphqlRequest { query, operation, variables }),
            _ => Err("Query too large"),
        }
    }

    /// Answers with JSON, for valid and invalid queries.
    pub(crate) fn answer(&self, content: &CatalogContent) -> Vec<u8> {
        match self.data(content) {
            Ok(data) => data,
            Err(failure) => self.failed(&failure),
        }
    }

    fn data(&self, content: &CatalogContent) -> Result<Vec<u8>, QueryFailure> {
        let document = parse::document(&self.query)?;
        measure::measure(&document)?;
        let types = content.discovered.0.get_or_init(|| discover(content)).as_ref();
        let types = types.map_err(|error| QueryFailure::new(error.to_string()))?;
        let deadline = Deadline(Instant::now() + TIME);
        let operation = plan::operation(&document, self.operation.as_deref())?;
        let wanted = plan::plan(types, &document, operation, self.variables, &deadline)?;
        let mut execution = Execution { types, content, deadline: &deadline, out: b"{\"data\":".to_vec() };
        execution.run(&wanted)?;
        let mut out = execution.out;
        out.push(b'}');
        Ok(out)
    }

    fn failed(&self, failure: &QueryFailure) -> Vec<u8> {
        let mut out = b"{\"data\":null,\"errors\":[{\"message\":".to_vec();
        write_str(&mut out, &failure.message);
        if let Some(Span(at)) = failure.at {
            let before = self.query.get(..at).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            let place = format!(",\"locations\":[{{\"line\":{line},\"column\":{column}}}]");
            out.extend_from_slice(place.as_bytes());
        }
        out.extend_from_slice(b"}]}");
        out
    }
}

/// Reads all blobs to discover their fields.
fn discover(content: &CatalogContent) -> Result<Types, DiscoverError> {
    let mut discovery = Discovery::default();
    for (row, schema) in content.schemas().enumerate() {
        let line = content.line(row, u32::MAX)?;
        let blob = Raw::parse(&line, fbc::limits::MAX_DEPTH)?;
        discovery.add(schema, blob)?;
    }
    discovery.types()
}

/// Parses and checks a request, and answers it from a catalog of two blobs.
///
/// This is the entry point for fuzzing.
#[doc(hidden)]
pub fn try_out(body: &[u8]) -> Option<Vec<u8>> {
    static CONTENT: OnceLock<Option<CatalogContent>> = OnceLock::new();
    const BLOBS: [(&str, &str); 2] = [
        ("olm.package", "{\"defaultChannel\":\"stable\",\"name\":\"a\",\"schema\":\"olm.package\"}"),
        (
            "olm.channel",
            "{\"entries\":[{\"name\":\"a.v1\",\"skips\":[\"a.v0\"]}],\"name\":\"stable\",\"package\":\"a\",\"schema\":\
             \"olm.channel\",\"weight\":1.5}",
        ),
    ];
    let content = CONTENT.get_or_init(|| CatalogContent::of_lines(&BLOBS).ok()).as_ref()?;
    GraphqlRequest::read(body).ok().map(|request| request.answer(content))
}
