//! Waits for changes of objects: by watches, or by polling where watching is not allowed.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_stream::StreamExt;

use crate::error::has_code;
use crate::request::{Backoff, ObjectName, Requests};
use crate::{ClusterObject, ResourceKind};

/// Maximum time without an event before everything is read again.
const RELIST_AFTER: Duration = Duration::from_secs(10);
/// Maximum poll interval where watching is not allowed.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Events within this time count as one change.
const DEBOUNCE: Duration = Duration::from_millis(20);

/// The objects to wait for.
pub(crate) struct Watch<'a> {
    requests: &'a Requests<'a>,
    changed: Arc<Notify>,
    /// Whether watching is denied for some of them.
    polling: Arc<AtomicBool>,
    backoff: Backoff,
    _tasks: JoinSet<()>,
}

impl<'a> Watch<'a> {
    /// Watches objects by name.
    pub(crate) fn objects(requests: &'a Requests<'a>, objects: &[&ObjectName]) -> Watch<'a> {
        let one = |object: &&ObjectName| {
            let fields = format!("metadata.name={}", object.name);
            (object.kind, object.namespace.clone(), Config::default().fields(&fields))
        };
        Watch::new(requests, objects.iter().map(one))
    }

    /// Watches an object, and the objects of another kind with one of several labels.
    pub(crate) fn with_labels(
        requests: &'a Requests<'a>,
        object: &ObjectName,
        kind: ResourceKind,
        labels: &[String],
    ) -> Watch<'a> {
        let fields = format!("metadata.name={}", object.name);
        let one = (object.kind, object.namespace.clone(), Config::default().fields(&fields));
        let labelled = labels.iter().map(|label| (kind, object.namespace.clone(), Config::default().labels(label)));
        Watch::new(requests, std::iter::once(one).chain(labelled))
    }

    fn new(requests: &'a Requests<'a>, watched: impl Iterator<Item = (ResourceKind, String, Config)>) -> Watch<'a> {
        let (changed, polling) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for (kind, namespace, config) in watched {
            let api = requests.cluster.objects_in(kind, &namespace);
            tasks.spawn(follow(api, config, changed.clone(), polling.clone()));
        }
        Watch { requests, changed, polling, backoff: Backoff::default(), _tasks: tasks }
    }

    /// Waits until something may have changed, or the time is up.
    pub(crate) async fn changed(&mut self) {
        let pause = match self.polling.load(Ordering::Relaxed) {
            true => self.backoff.next().min(POLL_INTERVAL),
            false => RELIST_AFTER,
        };
        let end = self.requests.end();
        tokio::select! {
            () = self.changed.notified() => sleep_until((Instant::now() + DEBOUNCE).min(end)).await,
            () = sleep_until((Instant::now() + pause).min(end)) => {}
        }
    }
}

async fn follow(api: Api<ClusterObject>, config: Config, changed: Arc<Notify>, polling: Arc<AtomicBool>) {
    let mut events = pin!(watcher(api, config).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => changed.notify_one(),
            Ok(Event::Init | Event::InitApply(_)) => {}
            Err(error) if is_denied(&error) => {
                polling.store(true, Ordering::Relaxed);
                return changed.notify_one();
            }
            // The watch restarts after a delay; meanwhile the caller reads, and reports an unreachable server.
            Err(_) => changed.notify_one(),
        }
    }
}

fn is_denied(error: &kube::runtime::watcher::Error) -> bool {
    use kube::runtime::watcher::Error;
    match error {
        Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
            has_code(error, 403)
        }
        Error::WatchError(status) => status.code == 403,
        _ => false,
    }
}
