//! A server's life: bound, loading, ready, watching, drained.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use registry_api::Query;
use tokio::sync::Notify;

use crate::budget::Budget;
use crate::cache::store::{self, Integrity, PrepareError};
use crate::follow::{self, Follower};
use crate::http::{self, Site};
use crate::listen::Address;
use crate::live::{Blobs, Live, Snapshot};
use crate::load::Directory;
use crate::pages::Pages;
use crate::server::{self, ServerLimits, Services};
use crate::snapshot;
use crate::supervise::Listeners;
use crate::tls::{Tls, TlsFiles};

/// Where a catalog comes from that is in no directory yet: an image, for one.
pub trait Origin: Send + Sync {
    /// Looks whether there is something newer than what it brought last; the first time there always is,
    /// if there is anything. It may take its time.
    ///
    /// # Errors
    /// Fails when it cannot be found out.
    fn look(&self) -> Result<News, String>;

    /// Says that what it brought last is served now, so that what it brought before is not needed.
    fn served(&self);
}

/// What an [`Origin`] has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Nothing newer.
    None,
    /// A newer catalog, in this directory.
    Catalog(PathBuf),
    /// Something newer that is no catalog, for this reason.
    Unusable(String),
}

/// Everything that is decided before a server starts.
#[derive(Clone)]
pub struct Plan {
    /// The catalog. Where it is does not matter if it has an origin.
    pub directory: Directory,
    /// What brings the catalog, if it is not in the directory anyway.
    pub origin: Option<Arc<dyn Origin>>,
    /// Where its cache is kept; nowhere means as long as the server runs.
    pub cache_dir: Option<PathBuf>,
    /// How much the cache must fit.
    pub integrity: Integrity,
    /// Where gRPC is answered.
    pub address: Address,
    /// The certificates for gRPC and HTTP; plain text without.
    pub tls: Option<TlsFiles>,
    /// How much clients may use.
    pub limits: ServerLimits,
    /// How often it polls for changes, if at all.
    pub watch: Option<Duration>,
    /// Where HTTP is answered, and the name of the catalog there.
    pub http: Option<(Address, String)>,
    /// How many HTTP connections may be open at a time.
    pub http_connections: usize,
    /// What makes pages for people, besides the API.
    pub pages: Option<Arc<dyn Pages>>,
    /// Names that the HTTP side may be called by where it listens on its own machine only.
    pub http_hosts: Vec<String>,
    /// Where the state of the server is shown, and what started it.
    pub debug: Option<(Address, String)>,
    /// How long calls may go on after the server begins to end.
    pub drain: Duration,
    /// Notified when certificates and catalog are to be read again.
    pub reload: Arc<Notify>,
    /// Called when the first catalog is served.
    pub on_ready: fn(),
}

/// Why a server did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its certificates cannot be used.
    #[error("failed to read certificates: {0}")]
    Tls(io::Error),
    /// It cannot listen.
    #[error("failed to listen: {0}")]
    Listen(io::Error),
    /// It has nothing to serve.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// What it is to serve cannot be had.
    #[error("{0}")]
    Origin(String),
    /// It broke.
    #[error("{0}")]
    Server(io::Error),
}

/// Runs a server until `stop` is ready.
///
/// Certificates are read before any port opens. Ports open at once; health says when the catalog can be asked.
///
/// # Errors
/// Fails when certificates cannot be used, the server cannot listen, a listener breaks, or the first catalog cannot be
/// served.
pub async fn run(plan: Plan, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), RunError> {
    let start = Instant::now();
    let tls = plan.tls.clone().map(Tls::read).transpose().map_err(RunError::Tls)?;
    let live = Arc::new(Live::default());
    let (mut listeners, address) = listen(&plan, tls.as_ref(), &live).await?;
    let serving = follow(&plan, &live, tls, start, &address);
    let outcome = tokio::select! {
        outcome = serving => outcome,
        error = listeners.broken() => Err(RunError::Server(error)),
        () = stop => Ok(()),
    };
    end(&live, listeners, plan.drain, outcome).await
}

/// Opens the ports that are asked for.
async fn listen(plan: &Plan, tls: Option<&Tls>, live: &Arc<Live>) -> Result<(Listeners, String), RunError> {
    let http_wanted = if plan.http.is_some() { plan.http_connections } else { 0 };
    let budget = Budget::of(plan.limits.connections, http_wanted);
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
        sites.push((at.bind().await.map_err(RunError::Listen)?, Site::debug(live, line), Budget::DEBUG, None));
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

/// Serves the first catalog, then those that follow it; returns only if there is no first one.
async fn follow(
    plan: &Plan,
    live: &Arc<Live>,
    tls: Option<Tls>,
    start: Instant,
    address: &str,
) -> Result<(), RunError> {
    let mut plan = plan.clone();
    if let Some(origin) = &plan.origin {
        plan.directory.root = first_of(follow::look(origin).await)?;
    }
    let prepared = snapshot::prepare(&plan, plan.integrity).await?;
    plan.origin.iter().for_each(|origin| origin.served());
    let (cache_bytes, cache_built) = (prepared.cache.size(), prepared.built);
    snapshot::tell_left_out(&prepared.left_out);
    live.publish(Snapshot {
        catalog: Arc::clone(&prepared.cache) as Arc<dyn Query>,
        shelves: Some(Arc::clone(&prepared.cache)),
        blobs: Blobs::Loading,
        left_out: prepared.left_out.clone(),
    });
    tracing::info!(
        configs = %plan.directory.root.display(),
        address,
        cache_bytes,
        cache_built,
        ready_ms = start.elapsed().as_millis() as u64,
        "serving registry"
    );
    (plan.on_ready)();
    match Follower::new(plan, Arc::clone(live), tls).run(prepared).await {}
}

/// Ends a server: what runs may finish, unless the server broke.
async fn end(
    live: &Live,
    listeners: Listeners,
    drain: Duration,
    outcome: Result<(), RunError>,
) -> Result<(), RunError> {
    /// How long sockets may take to be gone.
    const CLOSING: Duration = Duration::from_millis(500);
    live.drain();
    if outcome.is_err() {
        let _ = listeners.drain(CLOSING).await;
        return outcome;
    }
    tracing::info!("shutting down server");
    if !listeners.drain(drain).await.map_err(RunError::Server)? {
        tracing::warn!(seconds = drain.as_secs_f64(), "calls were still running and are cut off");
    }
    Ok(())
}

/// Runs a server for a catalog that is at hand, until `stop` is ready.
///
/// # Errors
/// Fails when the server cannot listen, or breaks.
pub async fn run_query(
    catalog: Arc<dyn Query>,
    address: &Address,
    services: Services,
    drain: Duration,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), RunError> {
    let live = Arc::new(Live::default());
    live.publish(Snapshot { catalog, shelves: None, blobs: Blobs::Loading, left_out: Vec::new() });
    let listener = address.bind().await.map_err(RunError::Listen)?;
    let address = listener.to_string();
    tracing::info!(address, "serving registry");
    let mut listeners = Listeners::default();
    let (served, stopping) = (Arc::clone(&live), listeners.stopping());
    let limits = Budget::of(ServerLimits::default().connections, 0).limits(&ServerLimits::default());
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
/// Fails when the catalog cannot be served, or the cache not be written.
pub fn prepare_only(plan: &Plan) -> Result<(), RunError> {
    let mut directory = plan.directory.clone();
    if let Some(origin) = &plan.origin {
        directory.root = first_of(origin.look())?;
    }
    let prepared = store::prepare(&directory, plan.cache_dir.as_deref(), plan.integrity)?;
    snapshot::tell_left_out(&prepared.left_out);
    tracing::info!(bytes = prepared.cache.size(), built = prepared.built, "cache is up to date");
    Ok(())
}

/// Returns the first directory that an origin brings.
fn first_of(looked: Result<News, String>) -> Result<PathBuf, RunError> {
    match looked.map_err(RunError::Origin)? {
        News::Catalog(root) => Ok(root),
        News::Unusable(reason) => Err(RunError::Origin(reason)),
        News::None => Err(RunError::Origin("there is no catalog".into())),
    }
}
