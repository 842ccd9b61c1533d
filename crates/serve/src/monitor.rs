//! Serves the state of another process over HTTP: `/healthz`, `/readyz` and `/metrics`.

use std::sync::Arc;

use crate::budget::ConnectionBudget;
use crate::http::{self, Site};
use crate::listen::Address;
use crate::live::LiveCatalog;
use crate::run::RunError;

/// A process that reports its state.
pub trait Monitored: Send + Sync {
    /// Returns whether the process works.
    fn is_alive(&self) -> bool;

    /// Returns why the process is not ready, if so.
    fn problem(&self) -> Option<String>;

    /// Returns its metrics in the text format of Prometheus.
    fn metrics(&self) -> String;
}

/// Serves the state of a process; returns only if that fails.
///
/// # Errors
/// Fails when the address cannot be bound, or the socket can accept no further connections.
pub async fn run(address: &Address, monitored: Arc<dyn Monitored>) -> Result<(), RunError> {
    let listener = address.bind().await.map_err(RunError::Listen)?;
    tracing::info!(address = %listener, "health and metrics");
    let site = Site::monitor(&Arc::new(LiveCatalog::default()), monitored);
    http::serve(listener, None, ConnectionBudget::DEBUG, site, std::future::pending()).await.map_err(RunError::Server)
}
