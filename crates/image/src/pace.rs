//! No more bytes in a second than somebody wants, over all connections together.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How much may come at once after a pause.
const BURST: Duration = Duration::from_millis(100);

/// Hands out room for bytes at a fixed rate.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Bytes in a second.
    rate: u64,
    /// When the next bytes may move.
    next: Mutex<Instant>,
}

impl Pace {
    pub(crate) fn new(rate: u64) -> Pace {
        Pace { rate: rate.max(1), next: Mutex::new(Instant::now()) }
    }

    /// Takes room for some bytes, and returns how long to wait before any others move.
    pub(crate) fn take(&self, bytes: u64) -> Duration {
        let now = Instant::now();
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let start = (*next).max(now.checked_sub(BURST).unwrap_or(now));
        *next = start + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        next.saturating_duration_since(now)
    }

    /// Returns how long so many bytes take when `sharing` connections move at once.
    pub(crate) fn time_for(&self, bytes: u64, sharing: usize) -> Duration {
        Duration::from_secs(bytes.saturating_mul(sharing.max(1) as u64) / self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_the_time_that_the_rate_gives_them() {
        let pace = Pace::new(1000);
        let waits: Vec<Duration> = (0..4).map(|_| pace.take(500)).collect();
        assert!(waits[3] > Duration::from_millis(1700) && waits[3] <= Duration::from_secs(2), "{waits:?}");
        assert!(waits.windows(2).all(|two| two[0] < two[1]), "{waits:?}");
        assert_eq!(pace.time_for(10_000, 2), Duration::from_secs(20));
    }
}
