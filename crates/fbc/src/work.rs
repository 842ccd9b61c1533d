//! How much work was done: steps of loops whose cost must not grow with the square of their input.
//!
//! Debug builds count, so that tests can feed an input once, twice and four times as large and compare. Other builds do
//! not, and pay nothing.

use std::sync::atomic::{AtomicU64, Ordering};

static STEPS: AtomicU64 = AtomicU64::new(0);

/// Counts one step.
#[inline]
pub fn step() {
    steps(1);
}

/// Counts several steps at once.
#[inline]
pub fn steps(count: usize) {
    if cfg!(debug_assertions) {
        STEPS.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// Returns how many steps this process has counted.
pub fn count() -> u64 {
    STEPS.load(Ordering::Relaxed)
}
