//! A server's life: bound, loading, ready, watching, drained.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::cache::Cache;
use crate::cache::store::{self, Glance, Integrity, PrepareError, Prepared};
use crate::content::Content;
use crate::http::{self, Site};
use crate::listen::{Address, Listener};
use crate::live::Live;
use crate::load::{Directory, LeftOut};
use crate::server::{self, ServerLimits};
use crate::tls::TlsFiles;

/// Everything that is decided before a server starts.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The catalog.
    pub directory: Directory,
    /// Where its cache is kept; nowhere means as long as the server runs.
    pub cache_dir: Option<PathBuf>,
    /// How much the cache must fit.
    pub integrity: Integrity,
    /// Where gRPC is answered.
    pub address: Address,
    /// The certificates for it; plain text without.
    pub tls: Option<TlsFiles>,
    /// How much clients may use.
    pub limits: ServerLimits,
    /// How often the directory is looked at for changes, if it is.
    pub watch: Option<Duration>,
    /// Where HTTP is answered, and the name of the catalog there.
    pub http: Option<(Address, String)>,
    /// Where the state of the server is told, and what started it.
    pub debug: Option<(Address, String)>,
    /// How long calls may go on after the server was told to end.
    pub drain: Duration,
}

/// Why a server did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It cannot listen.
    #[error("failed to listen: {0}")]
    Listen(io::Error),
    /// It has nothing to serve.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// It broke.
    #[error("{0}")]
    Server(io::Error),
}

/// Runs a server until `stop` is ready.
///
/// The port opens at once; health tells when the catalog can be asked.
///
/// # Errors
/// Fails when the server cannot listen, or the first catalog cannot be served.
pub async fn run(plan: Plan, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), RunError> {
    let start = Instant::now();
    let live = Arc::new(Live::default());
    let listener = plan.address.bind().await.map_err(RunError::Listen)?;
    let address = listener.to_string();
    tracing::info!(address, "listening");
    let (stopped, stopping) = watch::channel(false);
    let serving = tokio::spawn(serve(listener, Arc::clone(&live), plan.clone(), stopping.clone()));
    start_http(&plan, &live, &stopping).await?;
    let mut stop = std::pin::pin!(stop);
    let prepared = tokio::select! {
        prepared = load(&plan, plan.integrity) => prepared?,
        () = &mut stop => return Ok(()),
    };
    let (cache, built) = (prepared.cache.size(), prepared.built);
    announce(&live, &prepared);
    tracing::info!(
        configs = %plan.directory.root.display(),
        address,
        cache_bytes = cache,
        cache_built = built,
        ready_ms = start.elapsed().as_millis() as u64,
        "serving registry"
    );
    if plan.http.is_some() {
        load_content(&plan, &live, prepared.left_out).await;
    }
    let watching = plan.watch.map(|every| tokio::spawn(watch_directory(plan.clone(), every, Arc::clone(&live))));
    stop.await;
    tracing::info!("shutting down server");
    live.drain();
    let _ = stopped.send(true);
    if let Some(watching) = watching {
        watching.abort();
    }
    match tokio::time::timeout(plan.drain, serving).await {
        Ok(Ok(outcome)) => outcome.map_err(RunError::Server),
        Ok(Err(error)) => Err(RunError::Server(io::Error::other(error))),
        Err(_) => {
            tracing::warn!(seconds = plan.drain.as_secs_f64(), "calls were still running and are cut off");
            Ok(())
        }
    }
}

/// Brings the cache up to date without serving it.
///
/// # Errors
/// Fails when the catalog cannot be served, or the cache not be written.
pub fn prepare_only(plan: &Plan) -> Result<(), PrepareError> {
    let prepared = store::prepare(&plan.directory, plan.cache_dir.as_deref(), plan.integrity)?;
    tell_left_out(&prepared);
    tracing::info!(bytes = prepared.cache.size(), built = prepared.built, "cache is up to date");
    Ok(())
}

async fn serve(listener: Listener, live: Arc<Live>, plan: Plan, stopping: watch::Receiver<bool>) -> io::Result<()> {
    server::serve(listener, live, plan.tls, &plan.limits, until(stopping)).await
}

async fn until(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn load(plan: &Plan, integrity: Integrity) -> Result<Prepared, PrepareError> {
    let (directory, cache_dir) = (plan.directory.clone(), plan.cache_dir.clone());
    let loading = tokio::task::spawn_blocking(move || {
        match store::prepare(&directory, cache_dir.as_deref(), integrity) {
            Err(PrepareError::Io(error)) if integrity == Integrity::Rebuild && cache_dir.is_some() => {
                // The cache is a convenience: a directory that cannot be written is no reason to be down.
                tracing::warn!(%error, "cache cannot be kept, building one for this run");
                store::prepare(&directory, None, integrity)
            }
            outcome => outcome,
        }
    });
    loading.await.unwrap_or_else(|error| Err(PrepareError::Io(io::Error::other(error))))
}

fn announce(live: &Live, prepared: &Prepared) {
    tell_left_out(prepared);
    let cache: Arc<Cache> = Arc::clone(&prepared.cache);
    live.publish(cache, prepared.left_out.clone());
}

/// Makes the blobs of the catalog ready for HTTP; those from before stay when that fails.
async fn load_content(plan: &Plan, live: &Live, left_out: Vec<LeftOut>) {
    let directory = plan.directory.clone();
    let loaded = tokio::task::spawn_blocking(move || Content::load(&directory, &left_out)).await;
    match loaded.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(content) => live.publish_content(content),
        Err(error) => tracing::error!(%error, "catalog cannot be served over HTTP"),
    }
}

/// Opens the ports for HTTP that are asked for.
async fn start_http(plan: &Plan, live: &Arc<Live>, stopping: &watch::Receiver<bool>) -> Result<(), RunError> {
    let site = |catalog, command_line| Site { live: Arc::clone(live), catalog, command_line };
    let http = plan.http.as_ref().map(|(address, name)| (address, site(Some(name.clone()), None)));
    let debug = plan.debug.as_ref().map(|(address, line)| (address, site(None, Some(line.clone()))));
    for (address, site) in http.into_iter().chain(debug) {
        let listener = address.bind().await.map_err(RunError::Listen)?;
        tracing::info!(address = %listener, catalog = site.catalog.is_some(), "serving HTTP");
        let (limit, stop) = (plan.limits.connections, until(stopping.clone()));
        tokio::spawn(async move {
            if let Err(error) = http::serve(listener, limit, site, stop).await {
                tracing::error!(%error, "HTTP is no longer served");
            }
        });
    }
    Ok(())
}

fn tell_left_out(prepared: &Prepared) {
    for left_out in &prepared.left_out {
        tracing::error!(package = left_out.package, reason = left_out.reason, "package is broken and left out");
    }
}

/// Follows the directory and serves what is in it, as long as that can be served.
async fn watch_directory(plan: Plan, every: Duration, live: Arc<Live>) {
    let root = plan.directory.root.clone();
    let glance = || {
        let root = root.clone();
        async move { tokio::task::spawn_blocking(move || Glance::at(&root).ok()).await.ok().flatten() }
    };
    let mut served = glance().await;
    let mut seen = served.clone();
    loop {
        tokio::time::sleep(every).await;
        let now = glance().await;
        // A directory that is being written is left alone until it is quiet.
        let quiet = now == seen;
        seen.clone_from(&now);
        if !quiet || now == served {
            continue;
        }
        tracing::info!("catalog changed, loading it");
        match load(&plan, Integrity::Rebuild).await {
            Ok(prepared) => {
                announce(&live, &prepared);
                if plan.http.is_some() {
                    load_content(&plan, &live, prepared.left_out).await;
                }
                tracing::info!("serving the changed catalog");
            }
            Err(error) => {
                tracing::error!(%error, "changed catalog cannot be served, keeping the last good one");
                live.refuse(error.to_string());
            }
        }
        served = now;
    }
}
