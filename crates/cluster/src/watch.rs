//! Waiting for objects to change: by watches, and by reading again where watching is not allowed.

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
use crate::request::{Named, Pauses, Requests};
use crate::{Kind, Object};

/// How long nothing may happen before everything is read again all the same.
const QUIET: Duration = Duration::from_secs(10);
/// How long to wait between two looks where watching is not allowed, at most.
const BLIND: Duration = Duration::from_secs(2);
/// Changes that come together count once.
const TOGETHER: Duration = Duration::from_millis(20);

/// Objects that somebody waits for.
pub(crate) struct Watch<'a> {
    requests: &'a Requests<'a>,
    changed: Arc<Notify>,
    /// Whether some of them may not be watched.
    blind: Arc<AtomicBool>,
    pauses: Pauses,
    _tasks: JoinSet<()>,
}

impl<'a> Watch<'a> {
    /// Watches objects by their names.
    pub(crate) fn objects(requests: &'a Requests<'a>, objects: &[&Named]) -> Watch<'a> {
        let one = |object: &&Named| {
            let fields = format!("metadata.name={}", object.name);
            (object.kind, object.namespace.clone(), Config::default().fields(&fields))
        };
        Watch::new(requests, objects.iter().map(one))
    }

    /// Watches an object, and those of another kind that carry one of several labels.
    pub(crate) fn with_labels(requests: &'a Requests<'a>, object: &Named, kind: Kind, labels: &[String]) -> Watch<'a> {
        let fields = format!("metadata.name={}", object.name);
        let one = (object.kind, object.namespace.clone(), Config::default().fields(&fields));
        let labelled = labels.iter().map(|label| (kind, object.namespace.clone(), Config::default().labels(label)));
        Watch::new(requests, std::iter::once(one).chain(labelled))
    }

    fn new(requests: &'a Requests<'a>, watched: impl Iterator<Item = (Kind, String, Config)>) -> Watch<'a> {
        let (changed, blind) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for (kind, namespace, config) in watched {
            let api = requests.cluster.objects_in(kind, &namespace);
            tasks.spawn(follow(api, config, changed.clone(), blind.clone()));
        }
        Watch { requests, changed, blind, pauses: Pauses::default(), _tasks: tasks }
    }

    /// Waits until something may have changed, or the time is up.
    pub(crate) async fn changed(&mut self) {
        let pause = match self.blind.load(Ordering::Relaxed) {
            true => self.pauses.next().min(BLIND),
            false => QUIET,
        };
        let end = self.requests.end();
        tokio::select! {
            () = self.changed.notified() => sleep_until((Instant::now() + TOGETHER).min(end)).await,
            () = sleep_until((Instant::now() + pause).min(end)) => {}
        }
    }
}

async fn follow(api: Api<Object>, config: Config, changed: Arc<Notify>, blind: Arc<AtomicBool>) {
    let mut events = pin!(watcher(api, config).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => changed.notify_one(),
            Ok(Event::Init | Event::InitApply(_)) => {}
            Err(error) if is_denied(&error) => {
                blind.store(true, Ordering::Relaxed);
                return changed.notify_one();
            }
            // The watch begins again, after a pause; whoever waits asks meanwhile, and reports a server that is gone.
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
