//! Whether catalogs answer, asked beside the work on them: one that keeps silent holds nobody up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::Dial;

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(5);
/// How many catalogs are asked at a time.
const AT_A_TIME: usize = 32;

/// The states that the status shows.
const STATES: [&str; 3] = ["READY", "CONNECTING", "TRANSIENT_FAILURE"];

/// What is known of the connections to catalogs.
pub(crate) struct Connections {
    dial: Dial,
    known: Arc<Mutex<HashMap<String, Known>>>,
    turns: Arc<Semaphore>,
}

/// Whether a catalog answers, as it was last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) state: &'static str,
    /// Whether it is being asked at the moment, so that more will be known soon.
    pub(crate) asking: bool,
}

#[derive(Debug, Clone)]
struct Known {
    address: String,
    /// The generation of the catalog that it was asked for: after a change it is asked again at once.
    generation: i64,
    state: &'static str,
    asked: Option<Instant>,
    asking: bool,
}

impl Connections {
    pub(crate) fn new(dial: Dial) -> Connections {
        Connections { dial, known: Arc::default(), turns: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// Returns the state as it was last seen, and has the catalog asked again if that was a while ago.
    ///
    /// `seen` is what the status says: whoever takes over believes it until the catalog has answered.
    pub(crate) fn look(&self, uid: &str, generation: i64, address: &str, seen: Option<&str>) -> Connection {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let state = seen.and_then(|seen| STATES.into_iter().find(|state| *state == seen)).unwrap_or("CONNECTING");
        let fresh = |state| Known { address: address.to_owned(), generation, state, asked: None, asking: false };
        let entry = known.entry(uid.to_owned()).or_insert_with(|| fresh(state));
        if entry.address != address {
            *entry = fresh("CONNECTING");
        }
        if entry.generation != generation {
            entry.generation = generation;
            entry.asked = None;
        }
        if !entry.asking && entry.asked.is_none_or(|asked| asked.elapsed() >= FRESH) {
            entry.asking = true;
            self.ask(uid.to_owned(), address.to_owned());
        }
        Connection { state: entry.state, asking: entry.asking }
    }

    fn ask(&self, uid: String, address: String) {
        let (dial, known, turns) = (self.dial.clone(), self.known.clone(), self.turns.clone());
        tokio::spawn(async move {
            let _turn = turns.acquire().await;
            let state = match dial(address.clone()).await {
                Ok(()) => "READY",
                Err(error) => {
                    tracing::debug!(address, error, "catalog does not answer");
                    "TRANSIENT_FAILURE"
                }
            };
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = known.get_mut(&uid).filter(|entry| entry.address == address) else { return };
            entry.state = state;
            entry.asked = Some(Instant::now());
            entry.asking = false;
        });
    }

    /// Forgets all catalogs but some.
    pub(crate) fn keep(&self, is_there: &dyn Fn(&str) -> bool) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| is_there(uid));
    }
}
