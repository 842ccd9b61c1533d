//! Progress of image transfers: bytes, rate, remaining time and slow blobs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fbc::spelling::size::bytes;
use image::{Digest, TransferEvent};

use crate::progress::Progress;

/// The interval of progress lines without a terminal.
const INTERVAL: Duration = Duration::from_secs(10);

/// The interval of JSON progress lines.
const TICK: Duration = Duration::from_secs(1);

/// The progress format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ProgressForm {
    /// A line on a terminal, or periodic lines elsewhere.
    #[default]
    Text,
    /// Lines of JSON.
    Json,
}

/// The transferred bytes of each blob.
#[derive(Default)]
pub(crate) struct Moved(Mutex<TransferState>);

#[derive(Default)]
struct TransferState {
    form: ProgressForm,
    /// The total size in bytes, if known in advance.
    total: Option<u64>,
    whole: u64,
    blobs: usize,
    /// Blobs in flight: transferred bytes, size, start.
    in_flight: BTreeMap<Digest, (u64, u64, Instant)>,
    /// Blobs that count as transferred. A blob that is fetched and then sent counts once.
    arrived: BTreeSet<Digest>,
    /// Blobs in `arrived` that are being sent on: sent bytes and size.
    sending: BTreeMap<Digest, (u64, u64)>,
    waiting: Option<String>,
    start: Option<Instant>,
    /// The bytes that existed at the start.
    before: u64,
}

impl Moved {
    fn state(&self) -> MutexGuard<'_, TransferState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the progress format.
    pub(crate) fn report_as(&self, form: ProgressForm) {
        self.state().form = form;
    }

    /// Resets the counters.
    fn restart(&self, total: Option<u64>) -> ProgressForm {
        let mut state = self.state();
        let form = state.form;
        *state = TransferState { form, total, start: Some(Instant::now()), ..TransferState::default() };
        form
    }

    /// Starts counting, and shows the count on a terminal until the returned value is dropped.
    pub(crate) fn line(self: &Arc<Moved>, doing: &'static str) -> Progress {
        self.restart(None);
        let moved = Arc::clone(self);
        Progress::of(doing, move || moved.text())
    }

    /// The same for `total` bytes; without a terminal, writes periodic lines.
    pub(crate) fn show(self: &Arc<Moved>, doing: &'static str, total: u64) -> Shown {
        if self.restart(Some(total)) == ProgressForm::Json {
            return Shown { _line: None, lines: Some(lines(doing, Arc::clone(self), TICK, Moved::json)) };
        }
        let moved = Arc::clone(self);
        let line = Progress::of(doing, move || moved.text());
        let text = |moved: &Moved, doing: &str, last: bool| (!last).then(|| format!("{doing}: {}", moved.text()));
        let lines = (!std::io::stderr().is_terminal()).then(|| lines(doing, Arc::clone(self), INTERVAL, text));
        Shown { _line: Some(line), lines }
    }

    /// Formats a JSON line.
    fn json(&self, doing: &str, last: bool) -> Option<String> {
        let state = self.state();
        let (done, total, rate) = state.sums();
        let left = (rate >= 1.0 && done < total).then(|| ((total - done) as f64 / rate) as u64);
        let slow = state.slowest().map(
            |(digest, there, size)| serde_json::json!({"blob": digest.to_string(), "bytes": there, "total": size}),
        );
        let line = serde_json::json!({
            "doing": doing,
            "bytes": done,
            "total": total,
            "bytesPerSecond": rate as u64,
            "secondsLeft": left,
            "blobs": state.blobs,
            "slow": slow,
            "waiting": state.waiting,
            "finished": last,
        });
        Some(line.to_string())
    }

    fn text(&self) -> String {
        let state = self.state();
        let (done, total, rate) = state.sums();
        // The most important part first: the end is dropped if it does not fit.
        let mut text = format!("{} of {}", bytes(done), bytes(total));
        if rate >= 1.0 && done < total {
            let left = (total - done) as f64 / rate;
            text += &format!(", {} left, {}/s", duration(left), bytes(rate as u64));
        }
        text += &match state.total {
            Some(_) => format!(", {} blobs", state.blobs),
            None => format!(", {} of {} layers", state.blobs, state.blobs + state.in_flight.len()),
        };
        if !state.sending.is_empty() {
            let sum = |part: fn(&(u64, u64)) -> u64| bytes(state.sending.values().map(part).sum());
            text += &format!(", sending {} of {}", sum(|(sent, _)| *sent), sum(|(_, size)| *size));
        }
        // Name the slowest blob.
        if let Some((digest, there, size)) = state.slowest() {
            text += &format!(", slow: {} {} of {}", &digest.hex()[..12], bytes(there), bytes(size));
        }
        if let Some(waiting) = &state.waiting {
            text += &format!(", {waiting}");
        }
        text
    }
}

impl TransferState {
    /// Returns the transferred bytes, the total, and the rate in bytes per second.
    fn sums(&self) -> (u64, u64, f64) {
        let under_way: u64 = self.in_flight.values().map(|(there, _, _)| there).sum();
        let done = self.whole + under_way;
        let seconds = self.start.map_or(0.0, |start| start.elapsed().as_secs_f64()).max(0.1);
        let rate = done.saturating_sub(self.before) as f64 / seconds;
        let known: u64 = self.in_flight.values().map(|(_, size, _)| size).sum();
        (done, self.total.unwrap_or(self.whole + known), rate)
    }

    /// Returns the slowest blob, if it takes long: digest, transferred bytes and size.
    fn slowest(&self) -> Option<(Digest, u64, u64)> {
        let slow = self.in_flight.iter().max_by_key(|(_, (_, _, since))| since.elapsed());
        let (digest, (there, size, since)) = slow?;
        (since.elapsed() > INTERVAL).then_some((*digest, *there, *size))
    }
}

fn duration(seconds: f64) -> String {
    match seconds as u64 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

impl image::TransferProgress for Moved {
    fn on(&self, event: &TransferEvent<'_>) {
        let mut state = self.state();
        match event {
            TransferEvent::Started { blob, .. } if state.arrived.contains(&blob.digest) => {}
            TransferEvent::Started { blob, received: there, .. } => {
                state.before += there;
                state.in_flight.insert(blob.digest, (*there, blob.size, Instant::now()));
            }
            TransferEvent::Advanced { blob, received: there } => {
                state.waiting = None;
                if state.arrived.contains(&blob.digest) {
                    state.sending.insert(blob.digest, (*there, blob.size));
                    return;
                }
                let entry = state.in_flight.entry(blob.digest).or_insert((0, blob.size, Instant::now()));
                entry.0 = *there;
            }
            TransferEvent::Finished { blob, .. } => {
                state.in_flight.remove(&blob.digest);
                state.sending.remove(&blob.digest);
                if state.arrived.insert(blob.digest) {
                    state.whole += blob.size;
                    state.blobs += 1;
                }
            }
            TransferEvent::Retrying { operation: what, reason: why, delay: pause } => {
                state.waiting = Some(format!("{what}: {why}; retrying in {} s", pause.as_secs().max(1)));
            }
            _ => {}
        }
    }
}

/// Shows progress until it is dropped.
pub(crate) struct Shown {
    _line: Option<Progress>,
    lines: Option<(Sender<()>, JoinHandle<()>)>,
}

impl source::RunningStage for Shown {
    /// The client reports the bytes.
    fn advance(&self, _: u64) {}
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.lines.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Writes periodic lines, and a final one.
fn lines(
    doing: &'static str,
    moved: Arc<Moved>,
    interval: Duration,
    line: impl Fn(&Moved, &str, bool) -> Option<String> + Send + 'static,
) -> (Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let write =
            |last| line(&moved, doing, last).iter().for_each(|line| crate::printer::Printer::new().report(line));
        while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            write(false);
        }
        write(true);
    });
    (stop, thread)
}

#[cfg(test)]
mod tests {
    use image::{Descriptor, TransferProgress as _};

    use super::*;

    #[test]
    fn a_blob_that_is_fetched_and_sent_counts_once() {
        let moved = Moved::default();
        let blob = Descriptor::of("application/octet-stream", &[0; 1000]);
        moved.restart(None);
        let on = |event: TransferEvent<'_>| moved.on(&event);
        // The copy starts, and then its download.
        for _ in 0..2 {
            on(TransferEvent::Started { reference: "a.test/b:v1", blob: &blob, received: 0 });
        }
        on(TransferEvent::Advanced { blob: &blob, received: 400 });
        assert!(moved.text().starts_with("400 B of 1.0 kB, 0 s left"), "{}", moved.text());
        on(TransferEvent::Finished { blob: &blob, cached: false });
        on(TransferEvent::Advanced { blob: &blob, received: 250 });
        assert_eq!(moved.text(), "1.0 kB of 1.0 kB, 1 of 1 layers, sending 250 B of 1.0 kB");
        on(TransferEvent::Finished { blob: &blob, cached: false });
        assert_eq!(moved.text(), "1.0 kB of 1.0 kB, 1 of 1 layers");
    }
}
