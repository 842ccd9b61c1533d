//! Connection slots, and which connection is evicted when none is free.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

/// Connections accepted beyond the limit of a listener: they get the state of the server, and nothing else.
pub(crate) const RESERVE: usize = 16;
/// How long a peer may read nothing before it can be evicted.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for an evicted connection to close.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(1);
/// The timestamp of a connection that cannot be evicted.
const BUSY: u64 = u64::MAX;

/// The slots of one listener.
pub(crate) struct Slots {
    limit: usize,
    start: Instant,
    occupied: Mutex<Occupants>,
    released: Notify,
    /// The number of evicted connections.
    pub(crate) evicted: AtomicU64,
}

#[derive(Default)]
struct Occupants {
    next: u64,
    by_number: HashMap<u64, Occupant>,
}

struct Occupant {
    activity: Arc<Activity>,
    /// `None` once the connection was asked to close.
    evict: Option<oneshot::Sender<()>>,
}

/// Since when a connection has been idle or stalled, in milliseconds; [`BUSY`] while it is neither.
struct Activity {
    /// Whether it ever sent a request.
    called: AtomicBool,
    idle: AtomicU64,
    stalled: AtomicU64,
}

/// The slot of one connection; free again on drop.
pub(crate) struct Slot {
    number: u64,
    usage: Usage,
    evicted: oneshot::Receiver<()>,
}

/// The activity of a connection, updated by its owner.
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
            occupied: Mutex::default(),
            released: Notify::new(),
            evicted: AtomicU64::new(0),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(BUSY - 1)
    }

    fn occupied(&self) -> std::sync::MutexGuard<'_, Occupants> {
        self.occupied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires a slot; when none is free, evicts the connection that has been idle or stalled longest, first of all one
    /// that is not new and never sent a request.
    ///
    /// Returns `None` when all connections are busy.
    pub(crate) async fn acquire(self: &Arc<Slots>) -> Option<Slot> {
        if let Some(slot) = self.try_acquire() {
            return Some(slot);
        }
        let released = self.released.notified();
        let mut released = std::pin::pin!(released);
        released.as_mut().enable();
        if !self.evict() {
            return self.try_acquire();
        }
        let _ = tokio::time::timeout(EVICTION_TIMEOUT, released).await;
        self.try_acquire()
    }

    fn try_acquire(self: &Arc<Slots>) -> Option<Slot> {
        let mut occupied = self.occupied();
        if occupied.by_number.len() >= self.limit {
            return None;
        }
        let number = occupied.next;
        occupied.next += 1;
        let (evict, evicted) = oneshot::channel();
        let activity = Arc::new(Activity::since(self.now()));
        occupied.by_number.insert(number, Occupant { activity: Arc::clone(&activity), evict: Some(evict) });
        Some(Slot { number, usage: Usage { slots: Arc::clone(self), activity }, evicted })
    }

    /// Asks the least useful connection to close; returns whether there is one.
    fn evict(&self) -> bool {
        let now = self.now();
        let long = u64::try_from(STALL_TIMEOUT.as_millis()).unwrap_or(BUSY);
        let mut occupied = self.occupied();
        let since = |activity: &Activity| match activity.stalled.load(Relaxed) {
            BUSY => activity.idle.load(Relaxed),
            stalled if now.saturating_sub(stalled) >= long => stalled,
            _ => BUSY,
        };
        let evictable = occupied.by_number.values_mut().filter(|occupant| occupant.evict.is_some());
        let evictable = evictable.filter(|occupant| since(&occupant.activity) != BUSY);
        // A client that connects sends its first request at once, so one that has not is not going to.
        let unused =
            |activity: &Activity| !activity.called.load(Relaxed) && now.saturating_sub(since(activity)) >= long;
        let rank = |activity: &Activity| (!unused(activity), since(activity));
        let Some(occupant) = evictable.min_by_key(|occupant| rank(&occupant.activity)) else { return false };
        self.evicted.fetch_add(1, Relaxed);
        occupant.evict.take().is_some_and(|evict| evict.send(()).is_ok())
    }
}

impl Activity {
    fn since(now: u64) -> Activity {
        Activity { called: AtomicBool::new(false), idle: AtomicU64::new(now), stalled: AtomicU64::new(BUSY) }
    }
}

impl Slot {
    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Resolves when the connection is evicted.
    pub(crate) fn evicted(&mut self) -> &mut oneshot::Receiver<()> {
        &mut self.evicted
    }
}

impl Usage {
    /// Marks the connection idle: no request is pending.
    pub(crate) fn set_idle(&self) {
        self.activity.idle.store(self.slots.now(), Relaxed);
    }

    /// Marks the connection busy: it sent a request.
    pub(crate) fn set_busy(&self) {
        self.activity.called.store(true, Relaxed);
        self.activity.idle.store(BUSY, Relaxed);
    }

    /// Returns whether the connection ever sent a request.
    pub(crate) fn has_called(&self) -> bool {
        self.activity.called.load(Relaxed)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.activity.idle.load(Relaxed) != BUSY
    }

    /// Records whether the peer has stopped reading.
    pub(crate) fn set_stalled(&self, stalled: bool) {
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
        self.usage.slots.occupied().by_number.remove(&self.number);
        self.usage.slots.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_longest_idle_connection_is_evicted_and_a_busy_one_is_not() {
        let slots = Slots::new(2);
        let mut first = slots.acquire().await.unwrap();
        let second = slots.acquire().await.unwrap();
        first.usage().set_busy();
        second.usage().set_busy();
        assert!(slots.acquire().await.is_none(), "both connections are busy");
        tokio::time::sleep(Duration::from_millis(5)).await;
        second.usage().set_idle();
        tokio::time::sleep(Duration::from_millis(5)).await;
        first.usage().set_idle();
        let evicted_client = tokio::spawn(async move {
            let mut second = second;
            let _ = second.evicted().await;
        });
        let third = slots.acquire().await.unwrap();
        evicted_client.await.unwrap();
        assert!(first.evicted().try_recv().is_err(), "the connection with the shorter wait was evicted");
        third.usage().set_busy();
        first.usage().set_busy();
        first.usage().set_stalled(true);
        assert!(slots.acquire().await.is_none(), "a connection was evicted too early");
        tokio::time::sleep(STALL_TIMEOUT + Duration::from_millis(50)).await;
        let evicted_client = tokio::spawn(async move {
            let _ = first.evicted().await;
        });
        assert!(slots.acquire().await.is_some());
        evicted_client.await.unwrap();
    }
}
