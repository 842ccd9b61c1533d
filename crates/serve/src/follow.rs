//! Follows the catalog source while the server runs: reloads updates and repairs damaged caches.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use catalog::query::Query;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cache::Cache;
use crate::cache::store::{self, Fingerprint, Integrity, PrepareError, Prepared, Reading};
use crate::live::{Blobs, LiveCatalog};
use crate::memory;
use crate::run::{CatalogOrigin, OriginError, PollOutcome, ServePlan};
use crate::snapshot::{self, NoBlobs};
use crate::tls::Tls;

/// The first delay after a failure; each further failure doubles it, up to `LONGEST_DELAY`.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Follows the source of a catalog, and repairs the cache that answers calls.
pub(crate) struct Follower {
    plan: ServePlan,
    live: Arc<LiveCatalog>,
    tls: Option<Tls>,
    /// The served cache, and the state of its source files before they were read.
    served: Option<(Arc<Cache>, Reading)>,
    /// The fingerprint from the last poll of the directory.
    last: Option<Fingerprint>,
    /// The state of the directory when it last failed to load.
    failed: Option<Failed>,
    /// A catalog that the origin fetched and that failed to load with a transient error.
    pending: Option<PathBuf>,
    next_poll: Option<Instant>,
    updates: Backoff,
    repairs: Backoff,
    blobs: Backoff,
    damaged: bool,
}

/// A directory that failed to load.
struct Failed {
    fingerprint: Option<Fingerprint>,
    /// Whether the failure is transient, so that the same files can load later.
    transient: bool,
}

/// An event that wakes the follower.
enum Event {
    Poll,
    Corruption,
    Repair,
    Blobs,
    Reload,
}

impl Follower {
    pub(crate) fn new(plan: ServePlan, live: Arc<LiveCatalog>, tls: Option<Tls>) -> Follower {
        Follower {
            plan,
            live,
            tls,
            served: None,
            last: None,
            failed: None,
            pending: None,
            next_poll: None,
            updates: Backoff::default(),
            repairs: Backoff::default(),
            blobs: Backoff::default(),
            damaged: false,
        }
    }

    /// Follows the served catalog, which was built from `prepared`.
    pub(crate) async fn run(mut self, prepared: Prepared) -> Infallible {
        let mut certificates = JoinSet::new();
        if let Some(tls) = &self.tls {
            certificates.spawn(tls.clone().follow());
        }
        self.last = Some(prepared.reading.fingerprint().clone());
        self.served = Some((prepared.cache, prepared.reading.without_catalog()));
        if self.plan.http.is_some() {
            self.add_blobs(Some(prepared.reading)).await;
        }
        drop(tokio::task::spawn_blocking(memory::trim));
        self.schedule_poll(Duration::ZERO);
        loop {
            // Only the wait is ever cancelled: work that started runs to its end, so its outcome is never dropped.
            let event = tokio::select! {
                () = until(self.next_poll) => Event::Poll,
                () = self.live.damage(), if !self.damaged => Event::Corruption,
                () = until(self.repairs.due), if self.damaged => Event::Repair,
                () = until(self.blobs.due), if self.blobs.due.is_some() => Event::Blobs,
                () = self.plan.reload.notified() => Event::Reload,
            };
            match event {
                Event::Poll => self.poll().await,
                Event::Corruption => {
                    self.damaged = true;
                    self.repairs.due.get_or_insert_with(Instant::now);
                }
                Event::Repair => self.repair().await,
                Event::Blobs => self.add_blobs(None).await,
                Event::Reload => self.reload().await,
            }
        }
    }

    fn schedule_poll(&mut self, at_least: Duration) {
        self.next_poll = self.plan.watch.map(|every| Instant::now() + every.max(at_least));
    }

    /// Polls the source, and serves a newer catalog if there is one.
    async fn poll(&mut self) {
        let delay = match self.plan.origin.clone() {
            None => {
                self.poll_directory().await;
                Duration::ZERO
            }
            Some(origin) => self.poll_origin(&origin).await,
        };
        self.schedule_poll(delay);
    }

    async fn poll_directory(&mut self) {
        let directory = self.plan.directory.clone();
        let Some(now) = self.reachable(blocking(move || store::fingerprint(&directory)).await) else { return };
        // A directory that is still being written is left alone until two polls see the same state.
        let quiet = self.last.replace(now.clone()).is_some_and(|last| last == now);
        if !quiet || self.is_current(Some(now.clone())).await {
            return;
        }
        if let Some(failed) = &self.failed
            && failed.fingerprint.as_ref() == Some(&now)
            && !(failed.transient && self.updates.is_due())
        {
            return;
        }
        tracing::info!("catalog changed, loading it");
        let root = self.plan.directory.root.clone();
        self.update(root, Some(now)).await;
    }

    /// Returns the fingerprint, and records whether the directory could be read.
    fn reachable(&self, polled: Result<Fingerprint, PrepareError>) -> Option<Fingerprint> {
        match polled {
            Ok(fingerprint) => {
                self.live.reached();
                Some(fingerprint)
            }
            Err(error) => {
                self.unreachable(error.to_string());
                None
            }
        }
    }

    fn unreachable(&self, reason: String) {
        if self.live.state().unreachable.as_ref() != Some(&reason) {
            tracing::warn!(error = reason, "cannot check for a newer catalog, keeping the current one");
        }
        self.live.unreachable(reason);
    }

    /// Returns whether the directory, with the fingerprint `now`, still holds the served catalog.
    async fn is_current(&mut self, now: Option<Fingerprint>) -> bool {
        let Some((_, reading)) = &self.served else { return false };
        let (reading, directory) = (reading.without_catalog(), self.plan.directory.clone());
        let is_current = tokio::task::spawn_blocking(move || reading.is_current(&directory)).await.unwrap_or(false);
        if let (true, Some(now), Some((_, reading))) = (is_current, now, &mut self.served) {
            reading.confirm(now);
            if !self.damaged {
                self.live.mark_current();
            }
        }
        is_current
    }

    /// Polls the origin; returns the minimum delay before the next poll.
    async fn poll_origin(&mut self, origin: &Arc<dyn CatalogOrigin>) -> Duration {
        let polled = poll_blocking(origin).await;
        if polled.is_ok() {
            self.live.reached();
        }
        match polled {
            Ok(PollOutcome::Catalog(root)) => {
                tracing::info!("catalog changed, loading it");
                self.updates = Backoff::default();
                self.update(root, None).await;
            }
            Ok(PollOutcome::Unchanged) => match self.pending.clone() {
                Some(root) if self.updates.is_due() => self.update(root, None).await,
                Some(_) => {}
                None => self.updates = Backoff::default(),
            },
            Ok(PollOutcome::Unusable(reason)) => {
                self.pending = None;
                self.refuse(reason.to_string());
                return self.updates.next_delay();
            }
            Err(reason) => {
                self.unreachable(reason.to_string());
                return self.updates.next_delay();
            }
        }
        Duration::ZERO
    }

    fn refuse(&self, reason: String) {
        if self.live.state().refused.as_ref() != Some(&reason) {
            tracing::error!(error = reason, "newer catalog cannot be served, keeping the last good one");
            self.live.refuse(reason);
        }
    }

    /// Loads the catalog in the directory `root` and serves it, unless loading fails.
    async fn update(&mut self, root: PathBuf, fingerprint: Option<Fingerprint>) {
        let mut plan = self.plan.clone();
        plan.directory.root.clone_from(&root);
        match snapshot::load(&plan, Integrity::Rebuild).await {
            Ok(loaded) => {
                self.plan.directory.root = root;
                self.publish(loaded);
                self.plan.origin.iter().for_each(|origin| origin.served());
                self.failed = None;
                self.pending = None;
                self.updates = Backoff::default();
                tracing::info!("serving the changed catalog");
            }
            Err(error) => {
                // A file that was half written a moment ago may be complete by now with the same fingerprint.
                let transient = error.is_transient() || fingerprint.as_ref().is_some_and(Fingerprint::is_fresh);
                self.pending = (transient && self.plan.origin.is_some()).then_some(root);
                self.failed = Some(Failed { fingerprint, transient });
                self.updates.next_delay();
                self.refuse(error.to_string());
            }
        }
    }

    fn publish(&mut self, loaded: snapshot::ReadyCatalog) {
        snapshot::log_quarantined(&loaded.snapshot.quarantined);
        self.live.publish(loaded.snapshot);
        self.last = Some(loaded.reading.fingerprint().clone());
        self.served = Some((loaded.cache, loaded.reading));
        self.blobs = Backoff::default();
        // Corruption reports so far concern the previous catalog.
        self.live.forget_damage();
        self.damaged = false;
        // Returns the memory of the previous catalog and of loading to the system.
        drop(tokio::task::spawn_blocking(memory::trim));
    }

    /// Adds the blobs to a catalog that is served without them.
    async fn add_blobs(&mut self, reading: Option<Reading>) {
        let Some((cache, _)) = &self.served else { return };
        let (cache, catalog) = (Arc::clone(cache), Arc::clone(cache) as Arc<dyn Query>);
        let reason = match snapshot::blobs(&self.plan.directory, &cache, reading).await {
            Ok(content) => {
                self.live.complete(&catalog, Blobs::Ready(Arc::new(content)));
                self.blobs = Backoff::default();
                return;
            }
            Err(NoBlobs::Changed) if self.plan.watch.is_some() || self.plan.integrity == Integrity::Rebuild => {
                // gRPC and HTTP serve one catalog: the one that the directory holds now.
                self.update(self.plan.directory.root.clone(), None).await;
                if self.failed.is_none() {
                    return;
                }
                "the directory changed, and its new content cannot be served".to_owned()
            }
            Err(NoBlobs::Changed) => {
                "the directory no longer holds the catalog that the cache was built from".to_owned()
            }
            Err(NoBlobs::Failed(reason)) => reason,
        };
        tracing::error!(error = reason, "catalog cannot be served over HTTP");
        self.live.complete(&catalog, Blobs::Unavailable(reason));
        self.blobs.next_delay();
    }

    /// Builds a new cache to replace a damaged one.
    ///
    /// The new cache lives only as long as this process: the storage of the damaged one may itself be faulty.
    async fn repair(&mut self) {
        tracing::error!("cache is damaged, building a temporary one");
        let plan = ServePlan { cache_dir: None, ..self.plan.clone() };
        self.repairs.next_delay();
        match snapshot::load(&plan, Integrity::Rebuild).await {
            Ok(loaded) => {
                self.publish(loaded);
                tracing::info!("serving from the rebuilt cache");
            }
            Err(error) => {
                tracing::error!(%error, "cannot rebuild the cache, damaged entries stay unavailable");
                self.live.refuse(format!("the cache is damaged and cannot be rebuilt: {error}"));
            }
        }
    }

    /// Reloads certificates and catalog on request.
    async fn reload(&mut self) {
        tracing::info!("reloading certificates and catalog");
        if let Some(tls) = &self.tls {
            let _ = tls.reload(true).await;
        }
        match self.plan.origin.clone() {
            Some(origin) => {
                self.updates = Backoff::default();
                self.poll_origin(&origin).await;
            }
            None if self.is_current(None).await => tracing::info!("catalog is unchanged"),
            None => {
                self.update(self.plan.directory.root.clone(), None).await;
            }
        }
    }
}

/// Exponential backoff: when a failed operation is due for a retry.
#[derive(Default)]
struct Backoff {
    due: Option<Instant>,
    delay: Duration,
}

impl Backoff {
    /// Schedules the next retry and returns the delay.
    fn next_delay(&mut self) -> Duration {
        // Long after the last failure, the backoff starts again.
        if self.due.is_some_and(|due| due.elapsed() > LONGEST_DELAY * 10) {
            self.delay = Duration::ZERO;
        }
        self.delay = (self.delay * 2).clamp(FIRST_DELAY, LONGEST_DELAY);
        self.due = Some(Instant::now() + self.delay);
        self.delay
    }

    fn is_due(&self) -> bool {
        self.due.is_none_or(|due| due <= Instant::now())
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Polls an origin on a blocking thread.
pub(crate) async fn poll_blocking(origin: &Arc<dyn CatalogOrigin>) -> Result<PollOutcome, OriginError> {
    let origin = Arc::clone(origin);
    tokio::task::spawn_blocking(move || origin.poll()).await.unwrap_or_else(|error| Err(error.into()))
}

async fn blocking(
    work: impl FnOnce() -> Result<Fingerprint, PrepareError> + Send + 'static,
) -> Result<Fingerprint, PrepareError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(PrepareError::Io(std::io::Error::other(error))))
}
