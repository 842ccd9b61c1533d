//! How much memory calls may hold: on one connection, and in all.
//!
//! A reply is made when there is room for it, and holds that room until its last byte is handed to the system.
//! Each connection has a little room of its own, so that those who take nothing cannot keep others waiting; more
//! comes from a pool that all connections share.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room is counted in units of this many bytes.
const UNIT: usize = 1 << 10;
/// What all connections share.
const POOL: usize = (64 << 20) / UNIT;
/// What replies may hold on one connection; a larger one waits until it is alone there.
const CONNECTION: usize = (1 << 20) / UNIT;
/// What each connection has without asking the pool.
const OWN: usize = (64 << 10) / UNIT;
/// Calls that wait on one connection without asking the pool.
const OWN_CALLS: usize = 8;
/// Replies of one connection that wait for their peer, or for room; others are not even made once before it is
/// their turn.
const TURNS: usize = 4;
/// What a further call that waits takes from the pool.
const CALL: usize = (4 << 10) / UNIT;

/// The room that all connections share.
#[derive(Clone)]
pub(crate) struct Pool {
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool { free: Arc::new(Semaphore::new(POOL)), waiting: Arc::default() }
    }

    /// Returns whether a reply waits for others to give room back.
    pub(crate) fn is_short(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }
}

/// The room of one connection.
pub(crate) struct Room {
    pool: Pool,
    replies: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    /// Units that are left of its own.
    own: Rc<Cell<usize>>,
    /// Calls that wait.
    calls: Rc<Cell<usize>>,
    /// How much of the pool its replies hold.
    borrowed: Rc<Cell<usize>>,
}

/// Room that is given back when this is dropped.
pub(crate) struct Hold {
    _replies: OwnedSemaphorePermit,
    pool: Option<OwnedSemaphorePermit>,
    units: usize,
    /// Where units go that are not of the pool, or are counted that are.
    account: Rc<Cell<usize>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let units = self.account.get();
        self.account.set(if self.pool.is_some() { units.saturating_sub(self.units) } else { units + self.units });
    }
}

/// The turn of a reply that waits.
pub(crate) struct Turn {
    _turn: Option<OwnedSemaphorePermit>,
}

/// The place of a call that waits.
pub(crate) struct Waiting {
    calls: Rc<Cell<usize>>,
    _pool: Option<OwnedSemaphorePermit>,
}

impl Drop for Waiting {
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

impl Room {
    pub(crate) fn new(pool: Pool) -> Room {
        Room {
            pool,
            replies: Arc::new(Semaphore::new(CONNECTION)),
            turns: Arc::new(Semaphore::new(TURNS)),
            own: Rc::new(Cell::new(OWN)),
            calls: Rc::default(),
            borrowed: Rc::default(),
        }
    }

    /// Takes room for `bytes`, if there is some at once.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Hold> {
        let units = units(bytes);
        let replies = Arc::clone(&self.replies).try_acquire_many_owned(permits(units.min(CONNECTION))).ok()?;
        if self.own.get() >= units {
            return Some(self.of_own(replies, units));
        }
        let pool = Arc::clone(&self.pool.free).try_acquire_many_owned(permits(units)).ok()?;
        Some(self.of_pool(replies, pool, units))
    }

    /// Takes room for `bytes` as soon as there is some.
    pub(crate) async fn take(&self, bytes: usize) -> Hold {
        if let Some(hold) = self.try_take(bytes) {
            return hold;
        }
        let units = units(bytes);
        // Neither is ever closed.
        loop {
            let Ok(replies) = Arc::clone(&self.replies).acquire_many_owned(permits(units.min(CONNECTION))).await else {
                continue;
            };
            if self.own.get() >= units {
                return self.of_own(replies, units);
            }
            let _short = Short::new(&self.pool.waiting);
            let Ok(pool) = Arc::clone(&self.pool.free).acquire_many_owned(permits(units)).await else { continue };
            return self.of_pool(replies, pool, units);
        }
    }

    /// Returns whether no reply waits.
    pub(crate) fn is_free(&self) -> bool {
        self.turns.available_permits() == TURNS
    }

    /// Waits until a reply may be made, and maybe wait.
    pub(crate) async fn turn(&self) -> Turn {
        // It is never closed.
        Turn { _turn: Arc::clone(&self.turns).acquire_owned().await.ok() }
    }

    /// Takes the turn of a reply that has to wait, if there is one left.
    pub(crate) fn try_turn(&self) -> Turn {
        Turn { _turn: Arc::clone(&self.turns).try_acquire_owned().ok() }
    }

    /// Takes a place for a call that waits for its request, the peer or room.
    pub(crate) fn wait(&self) -> Option<Waiting> {
        let pool = if self.calls.get() < OWN_CALLS {
            None
        } else {
            Some(Arc::clone(&self.pool.free).try_acquire_many_owned(permits(CALL)).ok()?)
        };
        self.calls.set(self.calls.get() + 1);
        Some(Waiting { calls: Rc::clone(&self.calls), _pool: pool })
    }

    /// Returns whether others wait for what the replies of this connection hold.
    pub(crate) fn is_in_the_way(&self) -> bool {
        self.borrowed.get() > 0 && self.pool.is_short()
    }

    fn of_own(&self, replies: OwnedSemaphorePermit, units: usize) -> Hold {
        self.own.set(self.own.get() - units);
        Hold { _replies: replies, pool: None, units, account: Rc::clone(&self.own) }
    }

    fn of_pool(&self, replies: OwnedSemaphorePermit, pool: OwnedSemaphorePermit, units: usize) -> Hold {
        self.borrowed.set(self.borrowed.get() + units);
        Hold { _replies: replies, pool: Some(pool), units, account: Rc::clone(&self.borrowed) }
    }
}

/// A reply that waits for the pool.
struct Short<'a>(&'a AtomicUsize);

impl Short<'_> {
    fn new(waiting: &AtomicUsize) -> Short<'_> {
        waiting.fetch_add(1, Relaxed);
        Short(waiting)
    }
}

impl Drop for Short<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_takes_no_more_than_its_share_and_gives_it_back() {
        let pool = Pool::new();
        let (greedy, other) = (Room::new(pool.clone()), Room::new(pool.clone()));
        let held: Vec<Hold> = std::iter::from_fn(|| greedy.try_take(32 << 10)).collect();
        assert_eq!(held.len(), CONNECTION * UNIT / (32 << 10));
        assert!(other.try_take(3 << 20).is_some(), "a reply beyond the share goes when it is alone");
        drop(held);
        assert_eq!((greedy.own.get(), greedy.borrowed.get()), (OWN, 0));
        assert_eq!(pool.free.available_permits(), POOL);
    }

    #[test]
    fn every_connection_has_room_when_the_pool_has_none() {
        let pool = Pool::new();
        let greedy: Vec<Room> = (0..100).map(|_| Room::new(pool.clone())).collect();
        let _held: Vec<Hold> = greedy.iter().flat_map(|room| std::iter::from_fn(|| room.try_take(60 << 10))).collect();
        let honest = Room::new(pool.clone());
        assert!(honest.try_take(60 << 10).is_some());
        assert!(honest.try_take(200 << 10).is_none());
    }

    #[test]
    fn calls_that_wait_are_bounded_by_the_pool() {
        let pool = Pool::new();
        let room = Room::new(pool.clone());
        let waiting: Vec<Waiting> = std::iter::from_fn(|| room.wait()).collect();
        assert_eq!(waiting.len(), OWN_CALLS + POOL / CALL);
        assert!(Room::new(pool.clone()).wait().is_some());
        drop(waiting);
        assert_eq!((room.calls.get(), pool.free.available_permits()), (0, POOL));
    }
}
