//! Serves several catalogs over HTTP, each under its name.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use fbc::{Fbc, Limits, LoadOptions};

use crate::budget::ConnectionBudget;
use crate::content::CatalogContent;
use crate::http::{self, Site};
use crate::listen::Address;
use crate::live::LiveCatalog;
use crate::run::RunError;
use crate::supervise::Listeners;
use crate::tls::{Tls, TlsFiles};

/// The served catalogs, by name.
#[derive(Default)]
pub struct Catalogs(RwLock<BTreeMap<String, Arc<CatalogContent>>>);

impl Catalogs {
    /// Serves the catalog of a directory under `name`; replies in flight continue with the previous one.
    ///
    /// # Errors
    /// Fails when the directory holds no valid catalog; the previous one stays.
    pub fn put(&self, name: &str, directory: &Path, limits: &Limits) -> io::Result<()> {
        let mut fbc = Fbc::default();
        let options = LoadOptions { keep_text: true, limits: limits.clone(), ..LoadOptions::default() };
        let loaded = fbc.load_dir(directory, &options)?;
        if let Some(problem) = loaded.problems.first() {
            return Err(io::Error::other(problem.message.clone()));
        }
        let content = Arc::new(CatalogContent::of(&fbc)?);
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), content);
        Ok(())
    }

    /// Stops serving a catalog.
    pub fn remove(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<CatalogContent>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// Serves catalogs until `stop` is ready.
///
/// # Errors
/// Fails when certificates cannot be used, the address cannot be bound, or a listener fails.
pub async fn run(
    catalogs: Arc<Catalogs>,
    address: &Address,
    tls: Option<TlsFiles>,
    connections: usize,
    drain: Duration,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let tls = tls.map(Tls::read).transpose().map_err(RunError::Tls)?;
    let live = Arc::new(LiveCatalog::default());
    let listener = address.bind().await.map_err(RunError::Listen)?;
    let bound = listener.to_string();
    tracing::info!(address = bound, tls = tls.is_some(), "serving catalogs");
    let mut listeners = Listeners::default();
    let limit = ConnectionBudget::of(0, connections).http;
    let site = Site::catalogs(&live, catalogs);
    listeners.add(format!("HTTP on {bound}"), http::serve(listener, tls, limit, site, listeners.stopping()));
    let outcome = tokio::select! {
        error = listeners.broken() => Err(RunError::Server(error)),
        () = stop => Ok(()),
    };
    live.drain();
    let _ = listeners.drain(drain).await;
    outcome
}
