//! The index of a server that could load nothing.

use std::sync::Arc;

use catalog::query::{ApiType, CatalogCounts, Query, QueryAnswer, QueryError, Rows};

/// Answers every call with an error, because nothing could be loaded.
#[derive(Debug)]
pub struct EmptyIndex;

fn cannot<T>(what: &str) -> Result<T, QueryError> {
    Err(QueryError::Absent(format!("empty querier: cannot {what}")))
}

impl Query for EmptyIndex {
    fn packages(self: Arc<Self>) -> Rows {
        Box::new(std::iter::once(cannot("list packages")))
    }

    fn package(&self, _: &str) -> QueryAnswer {
        cannot("get package")
    }

    fn bundle(&self, _: &str, _: &str, _: &str) -> QueryAnswer {
        cannot("get bundle")
    }

    fn head(&self, _: &str, _: &str) -> QueryAnswer {
        cannot("get bundle for channel")
    }

    fn replacements(self: Arc<Self>, _: &str) -> Result<Rows, QueryError> {
        cannot("get channel entries that replace")
    }

    fn replacement(&self, _: &str, _: &str, _: &str) -> QueryAnswer {
        cannot("get bundle that replaces")
    }

    fn providers(self: Arc<Self>, _: &ApiType) -> Result<Rows, QueryError> {
        cannot("get channel entries that provide")
    }

    fn latest_providers(self: Arc<Self>, _: &ApiType) -> Result<Rows, QueryError> {
        cannot("get latest channel entries that provide")
    }

    fn default_provider(&self, _: &ApiType) -> QueryAnswer {
        cannot("get bundle that provides")
    }

    fn bundles(self: Arc<Self>) -> Rows {
        Box::new(std::iter::once(cannot("list bundles")))
    }

    fn custom(self: Arc<Self>, _: &str, _: &str) -> Rows {
        Box::new(std::iter::once(cannot("list package custom schemas")))
    }

    fn counts(&self) -> CatalogCounts {
        CatalogCounts::default()
    }
}
