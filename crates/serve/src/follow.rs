//! Serving what is newer or whole, as long as the server runs.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use registry_api::Query;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cache::Cache;
use crate::cache::store::{self, Glance, Integrity, PrepareError, Prepared, Reading};
use crate::live::{Blobs, Live};
use crate::memory;
use crate::run::{News, Origin, Plan};
use crate::snapshot::{self, NoBlobs};
use crate::tls::Tls;

/// How long the first pause after a failure is; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Follows the source of a catalog, and mends what is served from it.
pub(crate) struct Follower {
    plan: Plan,
    live: Arc<Live>,
    tls: Option<Tls>,
    /// What is served, and what its files looked like before they were read.
    served: Option<(Arc<Cache>, Reading)>,
    /// What the directory looked like last.
    last: Option<Glance>,
    /// What it looked like when it could not be served.
    failed: Option<Failed>,
    /// A catalog that an origin brought and that is not served yet.
    brought: Option<PathBuf>,
    next_look: Option<Instant>,
    updates: Pauses,
    repairs: Pauses,
    blobs: Pauses,
    damaged: bool,
}

/// A directory that could not be served.
struct Failed {
    glance: Option<Glance>,
    /// Whether the same files may do another time.
    passing: bool,
}

/// What happens next.
enum Event {
    Look,
    Damage,
    Repair,
    Blobs,
    Reload,
}

impl Follower {
    pub(crate) fn new(plan: Plan, live: Arc<Live>, tls: Option<Tls>) -> Follower {
        Follower {
            plan,
            live,
            tls,
            served: None,
            last: None,
            failed: None,
            brought: None,
            next_look: None,
            updates: Pauses::default(),
            repairs: Pauses::default(),
            blobs: Pauses::default(),
            damaged: false,
        }
    }

    /// Follows the catalog that is served, which was made from `prepared`.
    pub(crate) async fn run(mut self, prepared: Prepared) -> Infallible {
        let mut certificates = JoinSet::new();
        if let Some(tls) = &self.tls {
            certificates.spawn(tls.clone().follow());
        }
        self.last = Some(prepared.reading.glance().clone());
        self.served = Some((prepared.cache, prepared.reading.outline()));
        if self.plan.http.is_some() {
            self.add_blobs(Some(prepared.reading)).await;
        }
        drop(tokio::task::spawn_blocking(memory::give_back));
        self.look_later(Duration::ZERO);
        loop {
            // Only waiting is ever cut short: what was begun is finished, and its outcome is not lost.
            let event = tokio::select! {
                () = until(self.next_look) => Event::Look,
                () = self.live.damage(), if !self.damaged => Event::Damage,
                () = until(self.repairs.due), if self.damaged => Event::Repair,
                () = until(self.blobs.due), if self.blobs.due.is_some() => Event::Blobs,
                () = self.plan.reload.notified() => Event::Reload,
            };
            match event {
                Event::Look => self.look().await,
                Event::Damage => {
                    self.damaged = true;
                    self.repairs.due.get_or_insert_with(Instant::now);
                }
                Event::Repair => self.repair().await,
                Event::Blobs => self.add_blobs(None).await,
                Event::Reload => self.reload().await,
            }
        }
    }

    fn look_later(&mut self, at_least: Duration) {
        self.next_look = self.plan.watch.map(|every| Instant::now() + every.max(at_least));
    }

    /// Looks whether there is something newer, and serves it.
    async fn look(&mut self) {
        let pause = match self.plan.origin.clone() {
            None => {
                self.look_at_directory().await;
                Duration::ZERO
            }
            Some(origin) => self.ask(&origin).await,
        };
        self.look_later(pause);
    }

    async fn look_at_directory(&mut self) {
        let directory = self.plan.directory.clone();
        let Some(now) = self.seen(blocking(move || store::glance(&directory)).await) else { return };
        // A directory that is being written is left alone until it is quiet.
        let quiet = self.last.replace(now.clone()).is_some_and(|last| last == now);
        if !quiet || self.holds(Some(now.clone())).await {
            return;
        }
        if let Some(failed) = &self.failed
            && failed.glance.as_ref() == Some(&now)
            && !(failed.passing && self.updates.is_due())
        {
            return;
        }
        tracing::info!("catalog changed, loading it");
        let root = self.plan.directory.root.clone();
        self.update(root, Some(now)).await;
    }

    /// Takes note of whether the directory can be looked at.
    fn seen(&self, looked: Result<Glance, PrepareError>) -> Option<Glance> {
        match looked {
            Ok(glance) => {
                self.live.reached();
                Some(glance)
            }
            Err(error) => {
                self.unreachable(error.to_string());
                None
            }
        }
    }

    fn unreachable(&self, reason: String) {
        if self.live.state().unreachable.as_ref() != Some(&reason) {
            tracing::warn!(
                error = reason,
                "cannot find out whether there is a newer catalog, keeping the one there is"
            );
        }
        self.live.unreachable(reason);
    }

    /// Returns whether the directory, which looks like `now`, holds what is served.
    async fn holds(&mut self, now: Option<Glance>) -> bool {
        let Some((_, reading)) = &self.served else { return false };
        let (reading, directory) = (reading.outline(), self.plan.directory.clone());
        let holds = tokio::task::spawn_blocking(move || reading.holds(&directory)).await.unwrap_or(false);
        if let (true, Some(now), Some((_, reading))) = (holds, now, &mut self.served) {
            reading.settle(now);
            if !self.damaged {
                self.live.settle();
            }
        }
        holds
    }

    /// Asks the origin for something newer; returns how long to wait at least before the next time.
    async fn ask(&mut self, origin: &Arc<dyn Origin>) -> Duration {
        let news = look(origin).await;
        if news.is_ok() {
            self.live.reached();
        }
        match news {
            Ok(News::Catalog(root)) => {
                tracing::info!("catalog changed, loading it");
                self.updates = Pauses::default();
                self.update(root, None).await;
            }
            Ok(News::None) => match self.brought.clone() {
                Some(root) if self.updates.is_due() => self.update(root, None).await,
                Some(_) => {}
                None => self.updates = Pauses::default(),
            },
            Ok(News::Unusable(reason)) => {
                self.brought = None;
                self.refuse(reason);
                return self.updates.wait();
            }
            Err(reason) => {
                self.unreachable(reason);
                return self.updates.wait();
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

    /// Serves what is in the directory `root` now, if it can be served.
    async fn update(&mut self, root: PathBuf, glance: Option<Glance>) {
        let mut plan = self.plan.clone();
        plan.directory.root.clone_from(&root);
        match snapshot::load(&plan, Integrity::Rebuild).await {
            Ok(loaded) => {
                self.plan.directory.root = root;
                self.publish(loaded);
                self.plan.origin.iter().for_each(|origin| origin.served());
                self.failed = None;
                self.brought = None;
                self.updates = Pauses::default();
                tracing::info!("serving the changed catalog");
            }
            Err(error) => {
                // A file that was half written a moment ago may be whole by now and look the same.
                let passing = error.is_passing() || glance.as_ref().is_some_and(Glance::is_fresh);
                self.brought = (passing && self.plan.origin.is_some()).then_some(root);
                self.failed = Some(Failed { glance, passing });
                self.updates.wait();
                self.refuse(error.to_string());
            }
        }
    }

    fn publish(&mut self, loaded: snapshot::Loaded) {
        snapshot::tell_left_out(&loaded.snapshot.left_out);
        self.live.publish(loaded.snapshot);
        self.last = Some(loaded.reading.glance().clone());
        self.served = Some((loaded.cache, loaded.reading));
        self.blobs = Pauses::default();
        // About what was served before.
        self.live.forget_damage();
        self.damaged = false;
        // Of what served before, and of what loading took.
        drop(tokio::task::spawn_blocking(memory::give_back));
    }

    /// Adds the blobs to a catalog that is served without them.
    async fn add_blobs(&mut self, reading: Option<Reading>) {
        let Some((cache, _)) = &self.served else { return };
        let (cache, catalog) = (Arc::clone(cache), Arc::clone(cache) as Arc<dyn Query>);
        let reason = match snapshot::blobs(&self.plan.directory, &cache, reading).await {
            Ok(content) => {
                self.live.complete(&catalog, Blobs::Ready(Arc::new(content)));
                self.blobs = Pauses::default();
                return;
            }
            Err(NoBlobs::Changed) if self.plan.watch.is_some() || self.plan.integrity == Integrity::Rebuild => {
                // One catalog for gRPC and HTTP: the one that is there now.
                self.update(self.plan.directory.root.clone(), None).await;
                if self.failed.is_none() {
                    return;
                }
                "the directory changed, and what it holds now cannot be served".to_owned()
            }
            Err(NoBlobs::Changed) => {
                "the directory no longer holds the catalog that the cache was made from".to_owned()
            }
            Err(NoBlobs::Failed(reason)) => reason,
        };
        tracing::error!(error = reason, "catalog cannot be served over HTTP");
        self.live.complete(&catalog, Blobs::Unavailable(reason));
        self.blobs.wait();
    }

    /// Builds another cache in place of one that turned out to be damaged.
    ///
    /// It is kept for this run only: the place of the damaged one may be what damages them.
    async fn repair(&mut self) {
        tracing::error!("cache is damaged, building another for this run");
        let plan = Plan { cache_dir: None, ..self.plan.clone() };
        self.repairs.wait();
        match snapshot::load(&plan, Integrity::Rebuild).await {
            Ok(loaded) => {
                self.publish(loaded);
                tracing::info!("serving from a cache that is whole");
            }
            Err(error) => {
                tracing::error!(%error, "no other cache can be built, answers that are damaged stay away");
                self.live.refuse(format!("the cache is damaged, and no other can be built: {error}"));
            }
        }
    }

    /// Reads certificates and catalog again because somebody asks for it.
    async fn reload(&mut self) {
        tracing::info!("reading certificates and catalog again");
        if let Some(tls) = &self.tls {
            let _ = tls.reload(true).await;
        }
        match self.plan.origin.clone() {
            Some(origin) => {
                self.updates = Pauses::default();
                self.ask(&origin).await;
            }
            None if self.holds(None).await => tracing::info!("catalog is unchanged"),
            None => {
                self.update(self.plan.directory.root.clone(), None).await;
            }
        }
    }
}

/// When something that fails is tried again.
#[derive(Default)]
struct Pauses {
    due: Option<Instant>,
    pause: Duration,
}

impl Pauses {
    /// Returns how long to wait before another try.
    fn wait(&mut self) -> Duration {
        // Long after the last failure, this is the first one.
        if self.due.is_some_and(|due| due.elapsed() > LONGEST_PAUSE * 10) {
            self.pause = Duration::ZERO;
        }
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.due = Some(Instant::now() + self.pause);
        self.pause
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

/// Asks an origin whether there is something newer.
pub(crate) async fn look(origin: &Arc<dyn Origin>) -> Result<News, String> {
    let origin = Arc::clone(origin);
    tokio::task::spawn_blocking(move || origin.look()).await.unwrap_or_else(|error| Err(error.to_string()))
}

async fn blocking(
    work: impl FnOnce() -> Result<Glance, PrepareError> + Send + 'static,
) -> Result<Glance, PrepareError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(PrepareError::Io(std::io::Error::other(error))))
}
