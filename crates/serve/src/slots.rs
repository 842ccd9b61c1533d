//! Room for connections, and which one gives way when there is none left.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

/// How long a peer may take nothing before others may have its place.
const STALLED: Duration = Duration::from_secs(1);
/// How long a connection that gives way may take to be gone.
const LEAVING: Duration = Duration::from_secs(1);
/// What a connection says while it is of use.
const BUSY: u64 = u64::MAX;

/// The places of one listener.
pub(crate) struct Slots {
    limit: usize,
    start: Instant,
    taken: Mutex<Taken>,
    released: Notify,
    /// How many connections gave way.
    pub(crate) evicted: AtomicU64,
}

#[derive(Default)]
struct Taken {
    next: u64,
    places: HashMap<u64, Place>,
}

struct Place {
    activity: Arc<Activity>,
    /// Gone once the connection was asked to leave.
    leave: Option<oneshot::Sender<()>>,
}

/// Since when a connection has been of no use, in milliseconds; [`BUSY`] while it is.
struct Activity {
    waiting: AtomicU64,
    stalled: AtomicU64,
}

/// The place of one connection; free again when this is dropped.
pub(crate) struct Slot {
    number: u64,
    usage: Usage,
    left: oneshot::Receiver<()>,
}

/// Of how much use a connection is.
#[derive(Clone)]
pub(crate) struct Usage {
    slots: Arc<Slots>,
    activity: Arc<Activity>,
}

impl Slots {
    pub(crate) fn new(limit: usize) -> Arc<Slots> {
        Arc::new(Slots {
            limit,
            start: Instant::now(),
            taken: Mutex::default(),
            released: Notify::new(),
            evicted: AtomicU64::new(0),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(BUSY - 1)
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place; when all are taken, that of the connection that has waited or stalled longest.
    ///
    /// Returns nothing when all of them are of use.
    pub(crate) async fn take(self: &Arc<Slots>) -> Option<Slot> {
        if let Some(slot) = self.free() {
            return Some(slot);
        }
        let released = self.released.notified();
        let mut released = std::pin::pin!(released);
        released.as_mut().enable();
        if !self.evict() {
            return self.free();
        }
        let _ = tokio::time::timeout(LEAVING, released).await;
        self.free()
    }

    fn free(self: &Arc<Slots>) -> Option<Slot> {
        let mut taken = self.taken();
        if taken.places.len() >= self.limit {
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        let (leave, left) = oneshot::channel();
        let activity = Arc::new(Activity { waiting: AtomicU64::new(self.now()), stalled: AtomicU64::new(BUSY) });
        taken.places.insert(number, Place { activity: Arc::clone(&activity), leave: Some(leave) });
        Some(Slot { number, usage: Usage { slots: Arc::clone(self), activity }, left })
    }

    /// Asks the connection of least use to leave; says whether there is one.
    fn evict(&self) -> bool {
        let now = self.now();
        let long = u64::try_from(STALLED.as_millis()).unwrap_or(BUSY);
        let mut taken = self.taken();
        let since = |activity: &Activity| match activity.stalled.load(Relaxed) {
            BUSY => activity.waiting.load(Relaxed),
            stalled if now.saturating_sub(stalled) >= long => stalled,
            _ => BUSY,
        };
        let leaving = taken.places.values_mut().filter(|place| place.leave.is_some());
        let Some(place) = leaving.min_by_key(|place| since(&place.activity)) else { return false };
        if since(&place.activity) == BUSY {
            return false;
        }
        self.evicted.fetch_add(1, Relaxed);
        place.leave.take().is_some_and(|leave| leave.send(()).is_ok())
    }
}

impl Slot {
    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Is ready when somebody else needs the place.
    pub(crate) fn left(&mut self) -> &mut oneshot::Receiver<()> {
        &mut self.left
    }
}

impl Usage {
    /// Says that nothing is asked of the server: there is no request yet, or no other.
    pub(crate) fn wait(&self) {
        self.activity.waiting.store(self.slots.now(), Relaxed);
    }

    /// Says that the server has something to do for this connection.
    pub(crate) fn work(&self) {
        self.activity.waiting.store(BUSY, Relaxed);
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.activity.waiting.load(Relaxed) != BUSY
    }

    /// Says whether the peer takes what it is sent.
    pub(crate) fn stall(&self, stalled: bool) {
        match stalled {
            false => self.activity.stalled.store(BUSY, Relaxed),
            true => {
                let _ = self.activity.stalled.compare_exchange(BUSY, self.slots.now(), Relaxed, Relaxed);
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.usage.slots.taken().places.remove(&self.number);
        self.usage.slots.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_longest_gives_way_and_who_works_does_not() {
        let slots = Slots::new(2);
        let mut first = slots.take().await.unwrap();
        let second = slots.take().await.unwrap();
        first.usage().work();
        second.usage().work();
        assert!(slots.take().await.is_none(), "both are of use");
        tokio::time::sleep(Duration::from_millis(5)).await;
        second.usage().wait();
        tokio::time::sleep(Duration::from_millis(5)).await;
        first.usage().wait();
        let gone = tokio::spawn(async move {
            let mut second = second;
            let _ = second.left().await;
        });
        let third = slots.take().await.unwrap();
        gone.await.unwrap();
        assert!(first.left().try_recv().is_err(), "it has waited less long");
        third.usage().work();
        first.usage().work();
        first.usage().stall(true);
        assert!(slots.take().await.is_none(), "it has not stalled for long");
        tokio::time::sleep(STALLED + Duration::from_millis(50)).await;
        let gone = tokio::spawn(async move {
            let _ = first.left().await;
        });
        assert!(slots.take().await.is_some());
        gone.await.unwrap();
    }
}
