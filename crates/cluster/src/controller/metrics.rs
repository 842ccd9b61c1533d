//! Metrics and health of a controller.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Watcher;

/// How long after a watch failure the controller counts as not ready; failed watches are retried sooner.
pub(crate) const UNREADY_FOR: Duration = Duration::from_secs(8);

/// The metrics of a controller.
#[derive(Debug)]
pub struct ControllerMetrics {
    pub(crate) reconciles: AtomicU64,
    pub(crate) errors: AtomicU64,
    requests: AtomicU64,
    pub(crate) polls: AtomicU64,
    pub(crate) promotions: AtomicU64,
    pub(crate) failed_updates: AtomicU64,
    pub(crate) watch_errors: AtomicU64,
    pub(crate) leading: AtomicBool,
    /// Whether the API server has responded.
    pub(crate) reached: AtomicBool,
    start: Instant,
    /// Milliseconds from the start to the last leader election check.
    beat: AtomicU64,
    /// Maximum time between checks.
    patience: Duration,
    /// When a watch last failed, and why.
    watch_failed: Mutex<Option<(Instant, String)>>,
}

impl ControllerMetrics {
    /// Starts counting for a controller that elects its leader with leases of this duration.
    pub fn new(lease_duration: Duration) -> ControllerMetrics {
        ControllerMetrics {
            reconciles: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            promotions: AtomicU64::new(0),
            failed_updates: AtomicU64::new(0),
            watch_errors: AtomicU64::new(0),
            leading: AtomicBool::new(false),
            reached: AtomicBool::new(false),
            start: Instant::now(),
            beat: AtomicU64::new(0),
            patience: lease_duration * 4,
            watch_failed: Mutex::default(),
        }
    }

    /// Records a watch failure; returns whether it is new.
    pub(crate) fn watch_failed(&self, why: &str) -> bool {
        self.watch_errors.fetch_add(1, Ordering::Relaxed);
        let mut failed = self.watch_failed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = failed.as_ref().is_some_and(|(at, before)| before == why && at.elapsed() < UNREADY_FOR);
        *failed = Some((Instant::now(), why.to_owned()));
        !known
    }

    /// Returns why the controller is not ready, if so.
    pub fn problem(&self) -> Option<String> {
        if !self.reached.load(Ordering::Relaxed) {
            return Some("the API server has not answered yet".to_owned());
        }
        let failed = self.watch_failed.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, why) = failed.as_ref()?;
        (at.elapsed() < UNREADY_FOR).then(|| format!("watching fails: {why}"))
    }

    /// Records a heartbeat.
    pub(crate) fn beat(&self) {
        self.beat.store(self.start.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns whether the controller still checks who leads.
    pub fn is_alive(&self) -> bool {
        let beat = Duration::from_millis(self.beat.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(beat) < self.patience
    }

    /// Returns the metrics in the text format of Prometheus.
    pub fn text(&self) -> String {
        let counter = |name: &str, help: &str, value: &AtomicU64| {
            let value = value.load(Ordering::Relaxed);
            format!("# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n")
        };
        let leading = u8::from(self.leading.load(Ordering::Relaxed));
        [
            counter("opm_controller_reconciles_total", "Catalogs reconciled.", &self.reconciles),
            counter("opm_controller_errors_total", "Reconciliations that failed.", &self.errors),
            counter("opm_controller_requests_total", "Requests sent for catalogs.", &self.requests),
            counter("opm_controller_watch_errors_total", "Watches that failed.", &self.watch_errors),
            counter("opm_controller_polls_total", "Times that an image was polled.", &self.polls),
            counter("opm_controller_promotions_total", "Pods promoted in place of others.", &self.promotions),
            counter("opm_controller_failed_updates_total", "Update pods that failed.", &self.failed_updates),
            format!("# HELP opm_controller_leading Whether this replica is the leader.\n# TYPE opm_controller_leading gauge\nopm_controller_leading {leading}\n"),
        ]
        .concat()
    }
}

impl Watcher for ControllerMetrics {
    fn done(&self, text: &str) {
        tracing::info!("{text}");
    }

    fn warn(&self, text: &str) {
        tracing::warn!("{text}");
    }

    fn state(&self, object: &str, state: &str) {
        if !state.is_empty() {
            tracing::debug!(object, state, "waiting");
        }
    }

    fn request(&self, _: &str) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}
