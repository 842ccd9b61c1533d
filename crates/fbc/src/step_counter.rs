//! Counts the steps of loops whose cost must not grow quadratically with their input.
//!
//! Debug builds count, so that tests can compare inputs of one, two and four times the size. Other builds do not count
//! and pay nothing.

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

/// Returns the number of steps that this process has counted.
pub fn count() -> u64 {
    STEPS.load(Ordering::Relaxed)
}
