//! How registries bear up: those that are overburdened get fewer requests at a time, those that are away are not waited
//! for again and again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// So many requests in a row fail, each with all its retries, before a registry counts as away.
const AWAY: u32 = 8;
/// So many requests in a row succeed before an overburdened registry gets one more at a time.
const GROWTH: u32 = 16;

/// All registries, by host.
#[derive(Default)]
pub(super) struct Hosts(Mutex<HashMap<String, Arc<Host>>>);

/// One registry.
#[derive(Default)]
pub(super) struct Host {
    state: Mutex<State>,
    /// A request has ended, or one more may begin.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How many requests are under way.
    busy: usize,
    /// How many may be; nothing as long as the registry has not complained.
    most: Option<usize>,
    /// How many failed in a row, after all their retries.
    failures: u32,
    /// How many succeeded since the registry complained.
    successes: u32,
    /// How many were under way at once, before it complained.
    peak: usize,
}

/// A request that is under way, up to the end of its answer.
pub(crate) struct Turn(Arc<Host>);

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.busy = state.busy.saturating_sub(1);
        drop(state);
        self.0.changed.notify_waiters();
    }
}

impl Hosts {
    /// Returns the registry at a host.
    pub(super) fn of(&self, host: &str) -> Arc<Host> {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(hosts.entry(host.to_owned()).or_default())
    }
}

impl Host {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one more request may begin.
    pub(super) async fn turn(self: &Arc<Host>) -> Turn {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.state();
                if state.most.is_none_or(|most| state.busy < most) {
                    state.busy += 1;
                    state.peak = state.peak.max(state.busy);
                    return Turn(Arc::clone(self));
                }
            }
            changed.await;
        }
    }

    /// Notes that the registry asks for less: half as many requests at a time.
    pub(super) fn overburdened(&self) {
        let mut state = self.state();
        let most = state.most.unwrap_or(state.peak.max(1));
        state.most = Some((most / 2).max(1));
        state.successes = 0;
        state.failures = 0;
    }

    /// Notes an answer that is none of these.
    pub(super) fn answered(&self) {
        let mut state = self.state();
        state.failures = 0;
        if let Some(most) = state.most {
            state.successes += 1;
            if state.successes >= GROWTH {
                state.successes = 0;
                state.most = (most < state.peak).then_some(most + 1);
                drop(state);
                self.changed.notify_waiters();
            }
        }
    }

    /// Notes that nobody answered, or only that it cannot, after all retries.
    pub(super) fn silent(&self) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
    }

    /// Returns whether nobody has answered for so long that one try is enough.
    pub(super) fn is_away(&self) -> bool {
        self.state().failures >= AWAY
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn fewer_requests_begin_after_a_complaint_and_more_when_it_goes_well() {
        let hosts = Hosts::default();
        let host = hosts.of("r.test");
        let mut turns = Vec::new();
        for _ in 0..8 {
            turns.push(host.turn().await);
        }
        host.overburdened();
        turns.truncate(3);
        turns.push(host.turn().await);
        assert!(tokio::time::timeout(Duration::from_millis(50), host.turn()).await.is_err());
        for _ in 0..GROWTH {
            host.answered();
        }
        turns.push(host.turn().await);
        assert!(tokio::time::timeout(Duration::from_millis(50), host.turn()).await.is_err());
        turns.pop();
        assert!(tokio::time::timeout(Duration::from_secs(5), host.turn()).await.is_ok());
    }

    #[test]
    fn a_registry_is_away_until_it_answers() {
        let host = Host::default();
        (0..AWAY).for_each(|_| host.silent());
        assert!(host.is_away());
        host.answered();
        assert!(!host.is_away());
    }
}
