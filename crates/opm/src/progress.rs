//! A line on the terminal while something takes long.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nothing is shown before so much time has passed.
const PATIENCE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(200);

/// Counts work done, and shows the count on stderr if that is a terminal and it takes a while.
pub(crate) struct Progress {
    count: Arc<AtomicU64>,
    shown_by: Option<(Sender<()>, JoinHandle<()>)>,
}

/// What is counted.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Bytes,
    Bundles,
}

impl Progress {
    /// Starts counting; `doing` says what is going on, like "reading".
    pub(crate) fn start(doing: &'static str, unit: Unit) -> Progress {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let shown_by = show(doing, move || describe(counted.load(Ordering::Relaxed), unit));
        Progress { count, shown_by }
    }

    /// Starts a line whose text is asked for again and again.
    pub(crate) fn of(doing: &'static str, text: impl Fn() -> String + Send + 'static) -> Progress {
        Progress { count: Arc::default(), shown_by: show(doing, text) }
    }

    /// Counts more work done.
    pub(crate) fn add(&self, count: u64) {
        self.count.fetch_add(count, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.shown_by.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Shows a text on stderr, if that is a terminal, until the sender is dropped.
fn show(doing: &'static str, text: impl Fn() -> String + Send + 'static) -> Option<(Sender<()>, JoinHandle<()>)> {
    io::stderr().is_terminal().then(|| {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let start = Instant::now();
            let mut shown = false;
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if start.elapsed() >= PATIENCE {
                    shown = true;
                    let _ = write!(io::stderr(), "\r\x1b[K{doing}: {}, {} s", text(), start.elapsed().as_secs());
                }
            }
            if shown {
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
        });
        (stop, thread)
    })
}

fn describe(count: u64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => format!("{} MB", count / 1_000_000),
        Unit::Bundles => format!("{count} bundles"),
    }
}
