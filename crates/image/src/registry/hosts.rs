//! Per-registry load control: overloaded registries get fewer concurrent requests, and requests to registries that
//! are down are not retried.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Consecutive failed requests, each with all its retries, before a registry counts as down.
const DOWN_AFTER: u32 = 8;
/// Consecutive successful requests before a throttled registry gets one more concurrent request.
const GROW_AFTER: u32 = 16;

/// The state of all registries, by host.
#[derive(Default)]
pub(super) struct Hosts(Mutex<HashMap<String, Arc<Host>>>);

/// The state of one registry.
#[derive(Default)]
pub(super) struct Host {
    state: Mutex<HostState>,
    /// Notifies that a request has ended or the limit has grown.
    changed: Notify,
}

#[derive(Debug, Default)]
struct HostState {
    /// Requests in flight.
    in_flight: usize,
    /// Maximum number of requests in flight; `None` until the registry reports overload.
    limit: Option<usize>,
    /// Consecutive failures, after all retries.
    failures: u32,
    /// Successes since the last overload.
    successes: u32,
    /// Maximum number of requests in flight before the overload.
    peak: usize,
}

/// A permit for one request, held until the end of its response.
pub(crate) struct Permit(Arc<Host>);

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        drop(state);
        self.0.changed.notify_waiters();
    }
}

impl Hosts {
    /// Returns the state of a host.
    pub(super) fn of(&self, host: &str) -> Arc<Host> {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(hosts.entry(host.to_owned()).or_default())
    }
}

impl Host {
    fn state(&self) -> MutexGuard<'_, HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one more request may start.
    pub(super) async fn permit(self: &Arc<Host>) -> Permit {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.state();
                if state.limit.is_none_or(|limit| state.in_flight < limit) {
                    state.in_flight += 1;
                    state.peak = state.peak.max(state.in_flight);
                    return Permit(Arc::clone(self));
                }
            }
            changed.await;
        }
    }

    /// Records an overload: halves the number of concurrent requests.
    pub(super) fn record_overload(&self) {
        let mut state = self.state();
        let limit = state.limit.unwrap_or(state.peak.max(1));
        state.limit = Some((limit / 2).max(1));
        state.successes = 0;
        state.failures = 0;
    }

    /// Records a successful response.
    pub(super) fn record_success(&self) {
        let mut state = self.state();
        state.failures = 0;
        if let Some(limit) = state.limit {
            state.successes += 1;
            if state.successes >= GROW_AFTER {
                state.successes = 0;
                state.limit = (limit < state.peak).then_some(limit + 1);
                drop(state);
                self.changed.notify_waiters();
            }
        }
    }

    /// Returns whether the latest request failed after all retries.
    pub(super) fn has_failed(&self) -> bool {
        self.state().failures > 0
    }

    /// Records a request that failed after all retries.
    pub(super) fn record_failure(&self) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
    }

    /// Returns whether the registry is down, so that one attempt is enough.
    pub(super) fn is_down(&self) -> bool {
        self.state().failures >= DOWN_AFTER
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_limit_drops_after_an_overload_and_grows_with_successes() {
        let hosts = Hosts::default();
        let host = hosts.of("r.test");
        let mut permits = Vec::new();
        for _ in 0..8 {
            permits.push(host.permit().await);
        }
        host.record_overload();
        permits.truncate(3);
        permits.push(host.permit().await);
        assert!(tokio::time::timeout(Duration::from_millis(50), host.permit()).await.is_err());
        for _ in 0..GROW_AFTER {
            host.record_success();
        }
        permits.push(host.permit().await);
        assert!(tokio::time::timeout(Duration::from_millis(50), host.permit()).await.is_err());
        permits.pop();
        assert!(tokio::time::timeout(Duration::from_secs(5), host.permit()).await.is_ok());
    }

    #[test]
    fn a_registry_is_down_until_it_responds() {
        let host = Host::default();
        (0..DOWN_AFTER).for_each(|_| host.record_failure());
        assert!(host.is_down());
        host.record_success();
        assert!(!host.is_down());
    }
}
