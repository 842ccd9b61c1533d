//! The life of a server: bound, loading, ready, watching, drained.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::query::Query;
use tokio::sync::Notify;

use crate::budget::ConnectionBudget;
use crate::cache::store::{self, Integrity, PrepareError};
use crate::follow::{self, Follower};
use crate::http::{self, Site};
use crate::listen::Address;
use crate::live::{Blobs, LiveCatalog, Snapshot};
use crate::load::ServedDirectory;
use crate::pages::Pages;
use crate::server::{self, ServerLimits, Services};
use crate::snapshot;
use crate::supervise::Listeners;
use crate::tls::{Tls, TlsFiles};

/// A source of catalogs other than a directory, such as an image.
pub trait CatalogOrigin: Send + Sync {
    /// Checks for a newer catalog than the last one it fetched, and fetches it. The first poll always returns a
    /// catalog, if there is one. May block for long.
    ///
    /// # Errors
    /// Fails when the source cannot be reached.
    fn poll(&self) -> Result<PollOutcome, OriginError>;

    /// Notifies the origin that its last catalog is served now, so that earlier ones can be removed.
    fn served(&self);
}

/// Why an origin has no catalog. Its own crate knows the details.
pub type OriginError = Box<dyn std::error::Error + Send + Sync>;

/// The outcome of polling an [`CatalogOrigin`].
#[derive(Debug)]
pub enum PollOutcome {
    /// Nothing newer.
    Unchanged,
    /// A newer catalog, in this directory.
    Catalog(PathBuf),
    /// A newer version that cannot be used as a catalog, for this reason.
    Unusable(OriginError),
}

/// The complete configuration of a server.
#[derive(Clone)]
pub struct ServePlan {
    /// The catalog. Its path is not used if there is an origin.
    pub directory: ServedDirectory,
    /// The origin that fetches the catalog, if the directory does not hold it.
    pub origin: Option<Arc<dyn CatalogOrigin>>,
    /// The directory of the cache; without one, the cache lives as long as the server.
    pub cache_dir: Option<PathBuf>,
    /// How strictly an existing cache must match the catalog.
    pub integrity: Integrity,
    /// The gRPC address.
    pub address: Address,
    /// The certificates for gRPC and HTTP; plain text without.
    pub tls: Option<TlsFiles>,
    /// Limits for clients.
    pub limits: ServerLimits,
    /// The interval of polling for changes, if enabled.
    pub watch: Option<Duration>,
    /// The HTTP address, and the name of the catalog there.
    pub http: Option<(Address, String)>,
    /// Maximum number of concurrent HTTP connections.
    pub http_connections: usize,
    /// The renderer of web pages, if they are served besides the API.
    pub pages: Option<Arc<dyn Pages>>,
    /// Additional host names that the HTTP server accepts while it listens on a loopback address.
    pub http_hosts: Vec<String>,
    /// The address of the debug endpoint, and the command line that it shows.
    pub debug: Option<(Address, String)>,
    /// Time limit for calls in flight during shutdown.
    pub drain: Duration,
    /// Notified to reload certificates and catalog.
    pub reload: Arc<Notify>,
}

/// The reason why a server did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The certificates cannot be used.
    #[error("failed to read certificates: {0}")]
    Tls(io::Error),
    /// An address cannot be bound.
    #[error("failed to listen: {0}")]
    Listen(io::Error),
    /// The catalog or its cache cannot be loaded.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The origin cannot provide a catalog.
    #[error("{0}")]
    Origin(OriginError),
    /// A listener failed.
    #[error("{0}")]
    Server(io::Error),
}

/// Runs a server until `stop` is ready.
///
/// Certificates are read before any port opens. Ports open at once; the health API reports when the catalog is ready.
///
/// # Errors
/// Fails when certificates cannot be used, an address cannot be bound, a listener fails, or the first catalog cannot be
/// served.
pub async fn run(plan: ServePlan, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), RunError> {
    let start = Instant::now();
    let tls = plan.tls.clone().map(Tls::read).transpose().map_err(RunError::Tls)?;
    let live = Arc::new(LiveCatalog::default());
    let (mut listeners, address) = listen(&plan, tls.as_ref(), &live).await?;
    let serving = follow(&plan, &live, tls, start, &address);
    let outcome = tokio::select! {
        outcome = serving => outcome,
        error = listeners.broken() => Err(RunError::Server(error)),
        () = stop => Ok(()),
    };
    end(&live, listeners, plan.drain, outcome).await
}

/// Opens the configured ports.
async fn listen(plan: &ServePlan, tls: Option<&Tls>, live: &Arc<LiveCatalog>) -> Result<(Listeners, String), RunError> {
    let http_wanted = if plan.http.is_some() { plan.http_connections } else { 0 };
    let budget = ConnectionBudget::of(plan.limits.connections, http_wanted);
    let grpc = plan.address.bind().await.map_err(RunError::Listen)?;
    let address = grpc.to_string();
    let mut sites = Vec::new();
    if let Some((at, name)) = &plan.http {
        let mut site = Site::catalog(live, name);
        if let Some(pages) = &plan.pages {
            site = site.with_pages(Arc::clone(pages), at.is_local(), &plan.http_hosts);
        }
        sites.push((at.bind().await.map_err(RunError::Listen)?, site, budget.http, tls.cloned()));
    }
    if let Some((at, line)) = &plan.debug {
        sites.push((
            at.bind().await.map_err(RunError::Listen)?,
            Site::debug(live, line),
            ConnectionBudget::DEBUG,
            None,
        ));
    }
    tracing::info!(address, "listening");
    let mut listeners = Listeners::default();
    let (served, limits, stop) = (Arc::clone(live), budget.limits(&plan.limits), listeners.stopping());
    let tls = tls.cloned();
    let serving = async move { server::serve(grpc, served, tls, &limits, Services::All, stop).await };
    listeners.add(format!("gRPC on {address}"), serving);
    for (listener, site, limit, tls) in sites {
        let address = listener.to_string();
        tracing::info!(address, catalog = site.has_catalog(), "serving HTTP");
        listeners.add(format!("HTTP on {address}"), http::serve(listener, tls, limit, site, listeners.stopping()));
    }
    Ok((listeners, address))
}

/// Serves the first catalog, then follows its source; returns only if the first catalog cannot be served.
async fn follow(
    plan: &ServePlan,
    live: &Arc<LiveCatalog>,
    tls: Option<Tls>,
    start: Instant,
    address: &str,
) -> Result<(), RunError> {
    let mut plan = plan.clone();
    if let Some(origin) = &plan.origin {
        plan.directory.root = first_of(follow::poll_blocking(origin).await)?;
    }
    let prepared = snapshot::prepare(&plan, plan.integrity).await?;
    plan.origin.iter().for_each(|origin| origin.served());
    let (cache_bytes, cache_built) = (prepared.cache.size(), prepared.built);
    snapshot::log_quarantined(&prepared.quarantined);
    live.publish(Snapshot {
        catalog: Arc::clone(&prepared.cache) as Arc<dyn Query>,
        summaries: Some(Arc::clone(&prepared.cache)),
        blobs: Blobs::Loading,
        quarantined: prepared.quarantined.clone(),
    });
    tracing::info!(
        configs = %plan.directory.root.display(),
        address,
        cache_bytes,
        cache_built,
        ready_ms = start.elapsed().as_millis() as u64,
        "serving registry"
    );
    match Follower::new(plan, Arc::clone(live), tls).run(prepared).await {}
}

/// Shuts a server down: calls in flight may finish, unless the server failed.
async fn end(
    live: &LiveCatalog,
    listeners: Listeners,
    drain: Duration,
    outcome: Result<(), RunError>,
) -> Result<(), RunError> {
    /// Time limit for closing sockets.
    const CLOSING: Duration = Duration::from_millis(500);
    live.drain();
    if outcome.is_err() {
        let _ = listeners.drain(CLOSING).await;
        return outcome;
    }
    tracing::info!("shutting down server");
    if !listeners.drain(drain).await.map_err(RunError::Server)? {
        tracing::warn!(seconds = drain.as_secs_f64(), "drain timeout expired, aborting calls in flight");
    }
    Ok(())
}

/// Serves a loaded catalog until `stop` is ready.
///
/// # Errors
/// Fails when the address cannot be bound, or the server fails.
pub async fn run_query(
    catalog: Arc<dyn Query>,
    address: &Address,
    services: Services,
    drain: Duration,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), RunError> {
    let live = Arc::new(LiveCatalog::default());
    live.publish(Snapshot { catalog, summaries: None, blobs: Blobs::Loading, quarantined: Vec::new() });
    let listener = address.bind().await.map_err(RunError::Listen)?;
    let address = listener.to_string();
    tracing::info!(address, "serving registry");
    let mut listeners = Listeners::default();
    let (served, stopping) = (Arc::clone(&live), listeners.stopping());
    let limits = ConnectionBudget::of(ServerLimits::default().connections, 0).limits(&ServerLimits::default());
    let serving = async move { server::serve(listener, served, None, &limits, services, stopping).await };
    listeners.add(format!("gRPC on {address}"), serving);
    let outcome = tokio::select! {
        error = listeners.broken() => Err(RunError::Server(error)),
        () = stop => Ok(()),
    };
    end(&live, listeners, drain, outcome).await
}

/// Brings the cache up to date without serving it.
///
/// # Errors
/// Fails when the catalog cannot be served, or the cache cannot be written.
pub fn prepare_only(plan: &ServePlan) -> Result<(), RunError> {
    let mut directory = plan.directory.clone();
    if let Some(origin) = &plan.origin {
        directory.root = first_of(origin.poll())?;
    }
    let prepared = store::prepare(&directory, plan.cache_dir.as_deref(), plan.integrity)?;
    snapshot::log_quarantined(&prepared.quarantined);
    tracing::info!(bytes = prepared.cache.size(), built = prepared.built, "cache is up to date");
    Ok(())
}

/// Returns the first catalog of an origin.
fn first_of(polled: Result<PollOutcome, OriginError>) -> Result<PathBuf, RunError> {
    match polled.map_err(RunError::Origin)? {
        PollOutcome::Catalog(root) => Ok(root),
        PollOutcome::Unusable(reason) => Err(RunError::Origin(reason)),
        PollOutcome::Unchanged => Err(RunError::Origin("the source has no catalog".into())),
    }
}
