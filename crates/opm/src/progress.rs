//! A progress line on the terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use source::{RunningStage, SourceStage};

use crate::printer::{Printer, sanitized};
use crate::transfer::Moved;

/// The delay before progress is shown.
const DELAY: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(200);

/// Whether a progress line is on the terminal.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Erases the progress line, if there is one, so that other text does not continue it.
pub(crate) fn erase() {
    if SHOWN.swap(false, Ordering::Relaxed) {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}

/// Counts completed work, and shows the count on stderr if that is a terminal and the work takes long.
pub(crate) struct Progress {
    count: Arc<AtomicU64>,
    shown_by: Option<(Sender<()>, JoinHandle<()>)>,
}

/// The unit of the count.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Bytes,
    Bundles,
}

impl Progress {
    /// Starts counting; `doing` names the activity, such as "reading".
    pub(crate) fn start(doing: &'static str, unit: Unit) -> Progress {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let shown_by = show(doing, move || describe(counted.load(Ordering::Relaxed), unit));
        Progress { count, shown_by }
    }

    /// Starts a line whose text is refreshed by calling `text`.
    pub(crate) fn of(doing: &'static str, text: impl Fn() -> String + Send + 'static) -> Progress {
        Progress { count: Arc::default(), shown_by: show(doing, text) }
    }

    /// Adds completed work.
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

impl RunningStage for Progress {
    fn advance(&self, by: u64) {
        self.add(by);
    }
}

/// Shows on the terminal how sources are opened.
#[derive(Default)]
pub(crate) struct Terminal {
    moved: Arc<Moved>,
}

impl Terminal {
    /// Returns the counts of transfers.
    pub(crate) fn moved(&self) -> Arc<Moved> {
        Arc::clone(&self.moved)
    }

    /// Returns the receiver of the events of transfers.
    pub(crate) fn transfers(&self) -> Arc<dyn image::TransferProgress> {
        Arc::clone(&self.moved) as Arc<dyn image::TransferProgress>
    }
}

impl source::SourceProgress for Terminal {
    fn start(&self, stage: SourceStage) -> Box<dyn RunningStage> {
        Box::new(match stage {
            SourceStage::Transfer(doing) => self.moved.line(doing),
            SourceStage::Unpacking => Progress::start("unpacking", Unit::Bytes),
            SourceStage::Reading => Progress::start("reading", Unit::Bytes),
            SourceStage::Rendering => Progress::start("rendering", Unit::Bundles),
        })
    }

    fn warn(&self, warning: &str) {
        Printer::new().warning(warning);
    }
}

/// Shows a text on stderr, if that is a terminal, until the sender is dropped.
fn show(doing: &'static str, text: impl Fn() -> String + Send + 'static) -> Option<(Sender<()>, JoinHandle<()>)> {
    io::stderr().is_terminal().then(|| {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let start = Instant::now();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if start.elapsed() >= DELAY {
                    let line = format!("{doing}: {}, {} s", text(), start.elapsed().as_secs());
                    // A line that fills the terminal wraps and cannot be overwritten.
                    let width =
                        terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
                    let line = fit(&line, width.saturating_sub(1));
                    SHOWN.store(true, Ordering::Relaxed);
                    let _ = write!(io::stderr(), "\r\x1b[K{}", sanitized(&line, false));
                }
            }
            erase();
        });
        (stop, thread)
    })
}

/// Fits a line into `width` characters: drops its last parts, or truncates the first.
fn fit(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let ends = line.match_indices(", ").map(|(at, _)| at);
    match ends.filter(|end| line[..*end].chars().count() <= width).last() {
        Some(end) => line[..end].to_owned(),
        None => line.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

fn describe(count: u64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => format!("{} MB", count / 1_000_000),
        Unit::Bundles => format!("{count} bundles"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_into_the_terminal() {
        let line = "pulling: 12.3 MB of 45.6 MB, 12 s left, 3.2 MB/s, 2 of 5 layers, 4 s";
        assert_eq!(fit(line, 80), line);
        assert_eq!(fit(line, 39), "pulling: 12.3 MB of 45.6 MB, 12 s left");
        assert_eq!(fit(line, 30), "pulling: 12.3 MB of 45.6 MB");
        assert_eq!(fit(line, 10), "pulling: …");
        for width in 2..90 {
            assert!(fit(line, width).chars().count() <= width);
        }
    }
}
