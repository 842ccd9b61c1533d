//! Checks in the background whether catalogs respond, so that a silent catalog does not block the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::Dial;

/// Maximum age of a result.
const FRESH_FOR: Duration = Duration::from_secs(5);
/// Maximum number of concurrent checks.
const CONCURRENCY: usize = 32;

/// The states that the status shows.
const STATES: [&str; 3] = ["READY", "CONNECTING", "TRANSIENT_FAILURE"];

/// The known connections to catalogs.
pub(crate) struct Connections {
    dial: Dial,
    known: Arc<Mutex<HashMap<String, CachedState>>>,
    permits: Arc<Semaphore>,
}

/// The last observed state of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) state: &'static str,
    /// Whether a check is in flight, so that a newer result comes soon.
    pub(crate) checking: bool,
}

#[derive(Debug, Clone)]
struct CachedState {
    address: String,
    /// The generation of the checked catalog: a change triggers a new check.
    generation: i64,
    state: &'static str,
    asked: Option<Instant>,
    checking: bool,
}

impl Connections {
    pub(crate) fn new(dial: Dial) -> Connections {
        Connections { dial, known: Arc::default(), permits: Arc::new(Semaphore::new(CONCURRENCY)) }
    }

    /// Returns the last observed state, and starts a new check if it is stale.
    ///
    /// `seen` is the state in the status: a new leader keeps it until the catalog responds.
    pub(crate) fn state_of(&self, uid: &str, generation: i64, address: &str, seen: Option<&str>) -> Connection {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let state = seen.and_then(|seen| STATES.into_iter().find(|state| *state == seen)).unwrap_or("CONNECTING");
        let fresh =
            |state| CachedState { address: address.to_owned(), generation, state, asked: None, checking: false };
        let entry = known.entry(uid.to_owned()).or_insert_with(|| fresh(state));
        if entry.address != address {
            *entry = fresh("CONNECTING");
        }
        if entry.generation != generation {
            entry.generation = generation;
            entry.asked = None;
        }
        if !entry.checking && entry.asked.is_none_or(|asked| asked.elapsed() >= FRESH_FOR) {
            entry.checking = true;
            self.start_check(uid.to_owned(), address.to_owned());
        }
        Connection { state: entry.state, checking: entry.checking }
    }

    fn start_check(&self, uid: String, address: String) {
        let (dial, known, permits) = (self.dial.clone(), self.known.clone(), self.permits.clone());
        tokio::spawn(async move {
            let _turn = permits.acquire().await;
            let state = match dial(address.clone()).await {
                Ok(()) => "READY",
                Err(error) => {
                    tracing::debug!(address, %error, "catalog does not answer");
                    "TRANSIENT_FAILURE"
                }
            };
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = known.get_mut(&uid).filter(|entry| entry.address == address) else { return };
            entry.state = state;
            entry.asked = Some(Instant::now());
            entry.checking = false;
        });
    }

    /// Drops all catalogs except some.
    pub(crate) fn retain(&self, is_there: &dyn Fn(&str) -> bool) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| is_there(uid));
    }
}
