//! Bounds the memory that calls hold: per connection, and in total.
//!
//! A reply is produced when there is memory for it, and holds its reservation until its last byte is written to the
//! socket. Each connection has a small budget of its own, so that peers that do not read cannot block others; more
//! comes from a pool that all connections share.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory is reserved in units of this many bytes.
const UNIT: usize = 1 << 10;
/// The pool that all connections share.
const POOL: usize = (64 << 20) / UNIT;
/// The limit of replies on one connection; a larger reply waits until it is the only one.
const CONNECTION: usize = (1 << 20) / UNIT;
/// The budget of each connection without the pool.
const OWN: usize = (64 << 10) / UNIT;
/// Pending calls of one connection without the pool.
const OWN_CALLS: usize = 8;
/// Replies of one connection that may wait for their peer, or for memory; further queries are not even computed before
/// it is their turn.
const TURNS: usize = 4;
/// The reservation of a further pending call in the pool.
const CALL: usize = (4 << 10) / UNIT;

/// The memory that all connections share.
#[derive(Clone)]
pub(crate) struct MemoryPool {
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

impl MemoryPool {
    pub(crate) fn new() -> MemoryPool {
        MemoryPool { free: Arc::new(Semaphore::new(POOL)), waiting: Arc::default() }
    }

    /// Returns whether a reply waits for memory of the pool.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }
}

/// The memory budget of one connection.
pub(crate) struct MemoryBudget {
    pool: MemoryPool,
    replies: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    /// Free units of its own budget.
    own: Rc<Cell<usize>>,
    /// Pending calls.
    calls: Rc<Cell<usize>>,
    /// Units of the pool that its replies hold.
    borrowed: Rc<Cell<usize>>,
}

/// A reservation; released on drop.
pub(crate) struct Reservation {
    _replies: OwnedSemaphorePermit,
    pool: Option<OwnedSemaphorePermit>,
    units: usize,
    /// The counter to adjust on drop: free units of the connection, or units borrowed from the pool.
    account: Rc<Cell<usize>>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let units = self.account.get();
        self.account.set(if self.pool.is_some() { units.saturating_sub(self.units) } else { units + self.units });
    }
}

/// The turn of a waiting reply.
pub(crate) struct Turn {
    _turn: Option<OwnedSemaphorePermit>,
}

/// The reservation of a pending call.
pub(crate) struct PendingCall {
    calls: Rc<Cell<usize>>,
    _pool: Option<OwnedSemaphorePermit>,
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.calls.set(self.calls.get().saturating_sub(1));
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT).clamp(1, POOL)
}

fn permits(units: usize) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

impl MemoryBudget {
    pub(crate) fn new(pool: MemoryPool) -> MemoryBudget {
        MemoryBudget {
            pool,
            replies: Arc::new(Semaphore::new(CONNECTION)),
            turns: Arc::new(Semaphore::new(TURNS)),
            own: Rc::new(Cell::new(OWN)),
            calls: Rc::default(),
            borrowed: Rc::default(),
        }
    }

    /// Reserves memory for `bytes`, if it is available at once.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        let units = units(bytes);
        let replies = Arc::clone(&self.replies).try_acquire_many_owned(permits(units.min(CONNECTION))).ok()?;
        if self.own.get() >= units {
            return Some(self.reserve_own(replies, units));
        }
        let pool = Arc::clone(&self.pool.free).try_acquire_many_owned(permits(units)).ok()?;
        Some(self.reserve_from_pool(replies, pool, units))
    }

    /// Reserves memory for `bytes` as soon as it is available.
    pub(crate) async fn reserve(&self, bytes: usize) -> Reservation {
        if let Some(hold) = self.try_reserve(bytes) {
            return hold;
        }
        let units = units(bytes);
        // Neither semaphore is ever closed.
        loop {
            let Ok(replies) = Arc::clone(&self.replies).acquire_many_owned(permits(units.min(CONNECTION))).await else {
                continue;
            };
            if self.own.get() >= units {
                return self.reserve_own(replies, units);
            }
            let _short = PoolWaiter::new(&self.pool.waiting);
            let Ok(pool) = Arc::clone(&self.pool.free).acquire_many_owned(permits(units)).await else { continue };
            return self.reserve_from_pool(replies, pool, units);
        }
    }

    /// Returns whether no reply waits.
    pub(crate) fn is_free(&self) -> bool {
        self.turns.available_permits() == TURNS
    }

    /// Waits for the turn to compute a reply that may have to wait.
    pub(crate) async fn turn(&self) -> Turn {
        // The semaphore is never closed.
        Turn { _turn: Arc::clone(&self.turns).acquire_owned().await.ok() }
    }

    /// Takes a turn for a waiting reply, if one is free.
    pub(crate) fn try_turn(&self) -> Turn {
        Turn { _turn: Arc::clone(&self.turns).try_acquire_owned().ok() }
    }

    /// Reserves a place for a call that waits for its request, the peer or memory.
    pub(crate) fn add_pending(&self) -> Option<PendingCall> {
        let pool = if self.calls.get() < OWN_CALLS {
            None
        } else {
            Some(Arc::clone(&self.pool.free).try_acquire_many_owned(permits(CALL)).ok()?)
        };
        self.calls.set(self.calls.get() + 1);
        Some(PendingCall { calls: Rc::clone(&self.calls), _pool: pool })
    }

    /// Returns whether others wait for memory that the replies of this connection hold.
    pub(crate) fn blocks_others(&self) -> bool {
        self.borrowed.get() > 0 && self.pool.is_exhausted()
    }

    fn reserve_own(&self, replies: OwnedSemaphorePermit, units: usize) -> Reservation {
        self.own.set(self.own.get() - units);
        Reservation { _replies: replies, pool: None, units, account: Rc::clone(&self.own) }
    }

    fn reserve_from_pool(
        &self,
        replies: OwnedSemaphorePermit,
        pool: OwnedSemaphorePermit,
        units: usize,
    ) -> Reservation {
        self.borrowed.set(self.borrowed.get() + units);
        Reservation { _replies: replies, pool: Some(pool), units, account: Rc::clone(&self.borrowed) }
    }
}

/// Counts a reply that waits for the pool, while it exists.
struct PoolWaiter<'a>(&'a AtomicUsize);

impl PoolWaiter<'_> {
    fn new(waiting: &AtomicUsize) -> PoolWaiter<'_> {
        waiting.fetch_add(1, Relaxed);
        PoolWaiter(waiting)
    }
}

impl Drop for PoolWaiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_reserves_at_most_its_share_and_releases_it() {
        let pool = MemoryPool::new();
        let (greedy, other) = (MemoryBudget::new(pool.clone()), MemoryBudget::new(pool.clone()));
        let held: Vec<Reservation> = std::iter::from_fn(|| greedy.try_reserve(32 << 10)).collect();
        assert_eq!(held.len(), CONNECTION * UNIT / (32 << 10));
        assert!(other.try_reserve(3 << 20).is_some(), "a large reply must be possible when it is alone");
        drop(held);
        assert_eq!((greedy.own.get(), greedy.borrowed.get()), (OWN, 0));
        assert_eq!(pool.free.available_permits(), POOL);
    }

    #[test]
    fn every_connection_can_reply_while_the_pool_is_exhausted() {
        let pool = MemoryPool::new();
        let greedy: Vec<MemoryBudget> = (0..100).map(|_| MemoryBudget::new(pool.clone())).collect();
        let _held: Vec<Reservation> =
            greedy.iter().flat_map(|memory| std::iter::from_fn(|| memory.try_reserve(60 << 10))).collect();
        let honest = MemoryBudget::new(pool.clone());
        assert!(honest.try_reserve(60 << 10).is_some());
        assert!(honest.try_reserve(200 << 10).is_none());
    }

    #[test]
    fn waiting_calls_are_bounded_by_the_pool() {
        let pool = MemoryPool::new();
        let memory = MemoryBudget::new(pool.clone());
        let waiting: Vec<PendingCall> = std::iter::from_fn(|| memory.add_pending()).collect();
        assert_eq!(waiting.len(), OWN_CALLS + POOL / CALL);
        assert!(MemoryBudget::new(pool.clone()).add_pending().is_some());
        drop(waiting);
        assert_eq!((memory.calls.get(), pool.free.available_permits()), (0, POOL));
    }
}
