//! A rate limiter shared by all connections.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum burst after an idle period.
const BURST: Duration = Duration::from_millis(100);

/// Limits transfers to a fixed rate.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    /// Bytes per second.
    rate: u64,
    /// When the next bytes may be sent.
    next: Mutex<Instant>,
}

impl RateLimiter {
    pub(crate) fn new(rate: u64) -> RateLimiter {
        RateLimiter { rate: rate.max(1), next: Mutex::new(Instant::now()) }
    }

    /// Reserves `bytes` and returns how long to wait before sending more.
    pub(crate) fn reserve(&self, bytes: u64) -> Duration {
        let now = Instant::now();
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let start = (*next).max(now.checked_sub(BURST).unwrap_or(now));
        *next = start + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        next.saturating_duration_since(now)
    }

    /// Returns how long `bytes` take when `sharing` connections share the rate.
    pub(crate) fn time_for(&self, bytes: u64, sharing: usize) -> Duration {
        Duration::from_secs(bytes.saturating_mul(sharing.max(1) as u64) / self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_take_the_time_of_the_rate_limit() {
        let rate_limiter = RateLimiter::new(1000);
        let waits: Vec<Duration> = (0..4).map(|_| rate_limiter.reserve(500)).collect();
        assert!(waits[3] > Duration::from_millis(1700) && waits[3] <= Duration::from_secs(2), "{waits:?}");
        assert!(waits.windows(2).all(|two| two[0] < two[1]), "{waits:?}");
        assert_eq!(rate_limiter.time_for(10_000, 2), Duration::from_secs(20));
    }
}
