//! A server's life: bound, loading, ready, watching, drained.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::Query;
use tokio::sync::watch;

use crate::cache::Cache;
use crate::cache::store::{self, Glance, Integrity, PrepareError, Prepared};
use crate::content::Content;
use crate::http::{self, Site};
use crate::listen::{Address, Listener};
use crate::live::Live;
use crate::load::{Directory, LeftOut};
use crate::server::{self, ServerLimits, Services};
use crate::tls::TlsFiles;

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
    /// The certificates for it; plain text without.
    pub tls: Option<TlsFiles>,
    /// How much clients may use.
    pub limits: ServerLimits,
    /// How often changes are looked for, if they are.
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
    /// What it is to serve cannot be had.
    #[error("{0}")]
    Origin(String),
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
pub async fn run(mut plan: Plan, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), RunError> {
    let start = Instant::now();
    let live = Arc::new(Live::default());
    let listener = plan.address.bind().await.map_err(RunError::Listen)?;
    let address = listener.to_string();
    tracing::info!(address, "listening");
    let (stopped, stopping) = watch::channel(false);
    let serving = tokio::spawn(serve(listener, Arc::clone(&live), plan.clone(), stopping.clone()));
    start_http(&plan, &live, &stopping).await?;
    let mut stop = std::pin::pin!(stop);
    let first = async {
        if let Some(origin) = &plan.origin {
            plan.directory.root = first_of(look(origin).await)?;
        }
        Ok::<_, RunError>(load(&plan, plan.integrity).await?)
    };
    let prepared = tokio::select! {
        prepared = first => prepared?,
        () = &mut stop => return Ok(()),
    };
    if let Some(origin) = &plan.origin {
        origin.served();
    }
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
    let updating = tokio::spawn(keep_up(plan.clone(), Arc::clone(&live)));
    stop.await;
    tracing::info!("shutting down server");
    live.drain();
    let _ = stopped.send(true);
    updating.abort();
    match tokio::time::timeout(plan.drain, serving).await {
        Ok(Ok(outcome)) => outcome.map_err(RunError::Server),
        Ok(Err(error)) => Err(RunError::Server(io::Error::other(error))),
        Err(_) => {
            tracing::warn!(seconds = plan.drain.as_secs_f64(), "calls were still running and are cut off");
            Ok(())
        }
    }
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
    live.publish(catalog, Vec::new());
    let listener = address.bind().await.map_err(RunError::Listen)?;
    tracing::info!(address = %listener, "serving registry");
    let (stopped, stopping) = watch::channel(false);
    let (limits, served) = (ServerLimits::default(), Arc::clone(&live));
    let serving =
        tokio::spawn(async move { server::serve(listener, served, None, &limits, services, until(stopping)).await });
    stop.await;
    tracing::info!("shutting down server");
    live.drain();
    let _ = stopped.send(true);
    match tokio::time::timeout(drain, serving).await {
        Ok(Ok(outcome)) => outcome.map_err(RunError::Server),
        Ok(Err(error)) => Err(RunError::Server(io::Error::other(error))),
        Err(_) => {
            tracing::warn!(seconds = drain.as_secs_f64(), "calls were still running and are cut off");
            Ok(())
        }
    }
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
    tell_left_out(&prepared);
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

async fn serve(listener: Listener, live: Arc<Live>, plan: Plan, stopping: watch::Receiver<bool>) -> io::Result<()> {
    server::serve(listener, live, plan.tls, &plan.limits, Services::All, until(stopping)).await
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

/// Serves what is newer or whole, as long as the server runs.
async fn keep_up(mut plan: Plan, live: Arc<Live>) {
    let mut seen = Seen::default();
    if plan.watch.is_some() && plan.origin.is_none() {
        seen.served = glance(&plan.directory).await;
        seen.last.clone_from(&seen.served);
    }
    loop {
        let changed = async {
            match plan.watch {
                None => std::future::pending().await,
                Some(every) => tokio::time::sleep(every).await,
            }
            match &plan.origin {
                None => seen.changed(&plan.directory).await.then(|| plan.directory.root.clone()),
                Some(origin) => ask(origin, &live).await,
            }
        };
        tokio::select! {
            root = changed => if let Some(root) = root {
                let before = std::mem::replace(&mut plan.directory.root, root);
                if update(&plan, &live).await {
                    plan.origin.iter().for_each(|origin| origin.served());
                } else {
                    plan.directory.root = before;
                }
            },
            () = live.damage() => mend(&plan, &live).await,
        }
    }
}

/// What a directory looked like.
#[derive(Default)]
struct Seen {
    served: Option<Glance>,
    last: Option<Glance>,
}

impl Seen {
    /// Tells whether there is something else to be served; a directory that is being written is left alone
    /// until it is quiet.
    async fn changed(&mut self, directory: &Directory) -> bool {
        let now = glance(directory).await;
        let quiet = now == self.last;
        self.last.clone_from(&now);
        if !quiet || now == self.served {
            return false;
        }
        self.served = now;
        true
    }
}

async fn glance(directory: &Directory) -> Option<Glance> {
    let root = directory.root.clone();
    tokio::task::spawn_blocking(move || Glance::at(&root).ok()).await.ok().flatten()
}

/// Asks for something newer.
async fn ask(origin: &Arc<dyn Origin>, live: &Live) -> Option<PathBuf> {
    match look(origin).await {
        Ok(news) => {
            live.reached();
            match news {
                News::None => None,
                News::Catalog(root) => Some(root),
                News::Unusable(reason) => {
                    tracing::error!(error = reason, "newer catalog cannot be served, keeping the last good one");
                    live.refuse(reason);
                    None
                }
            }
        }
        Err(error) => {
            tracing::warn!(error, "cannot find out whether there is a newer catalog, keeping the one there is");
            live.unreachable(error);
            None
        }
    }
}

async fn look(origin: &Arc<dyn Origin>) -> Result<News, String> {
    let origin = Arc::clone(origin);
    tokio::task::spawn_blocking(move || origin.look()).await.unwrap_or_else(|error| Err(error.to_string()))
}

/// Serves what is in the directory now, if it can be served; says whether it is.
async fn update(plan: &Plan, live: &Live) -> bool {
    tracing::info!("catalog changed, loading it");
    match load(plan, Integrity::Rebuild).await {
        Ok(prepared) => {
            announce(live, &prepared);
            if plan.http.is_some() {
                load_content(plan, live, prepared.left_out).await;
            }
            tracing::info!("serving the changed catalog");
            true
        }
        Err(error) => {
            tracing::error!(%error, "changed catalog cannot be served, keeping the last good one");
            live.refuse(error.to_string());
            false
        }
    }
}

/// Builds another cache in place of one that turned out to be damaged.
///
/// It is kept for this run only: the place of the damaged one may be what damages them.
async fn mend(plan: &Plan, live: &Live) {
    tracing::error!("cache is damaged, building another for this run");
    let plan = Plan { cache_dir: None, ..plan.clone() };
    match load(&plan, Integrity::Rebuild).await {
        Ok(prepared) => {
            announce(live, &prepared);
            tracing::info!("serving from a cache that is whole");
        }
        Err(error) => {
            tracing::error!(%error, "no other cache can be built, answers that are damaged stay away");
            live.refuse(format!("the cache is damaged, and no other can be built: {error}"));
        }
    }
}
