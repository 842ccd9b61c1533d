//! What images move: bytes, how fast, how long it takes yet, and what is slow.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use image::{Digest, Event};

use crate::progress::Progress;

/// How often a line is written where there is no terminal.
const INTERVAL: Duration = Duration::from_secs(10);

/// How often a line is written for programs.
const TICK: Duration = Duration::from_secs(1);

/// How progress is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// A line on a terminal, or one now and then.
    #[default]
    Text,
    /// Lines of JSON.
    Json,
}

/// What has moved of each blob.
#[derive(Default)]
pub(crate) struct Moved(Mutex<State>);

#[derive(Default)]
struct State {
    form: Form,
    /// How many bytes there are to move, if that is known before all blobs are.
    total: Option<u64>,
    whole: u64,
    blobs: usize,
    /// What is under way: how much of it is there, how large it is, since when.
    under_way: BTreeMap<Digest, (u64, u64, Instant)>,
    waiting: Option<String>,
    start: Option<Instant>,
    /// How much was there when it began.
    before: u64,
}

impl Moved {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports in another form from now on.
    pub(crate) fn report_as(&self, form: Form) {
        self.state().form = form;
    }

    /// Forgets what has moved.
    fn restart(&self, total: Option<u64>) -> Form {
        let mut state = self.state();
        let form = state.form;
        *state = State { form, total, start: Some(Instant::now()), ..State::default() };
        form
    }

    /// Starts to count, and to show the count on a terminal until the value that it returns is dropped.
    pub(crate) fn line(self: &Arc<Moved>, doing: &'static str) -> Progress {
        self.restart(None);
        let moved = Arc::clone(self);
        Progress::of(doing, move || moved.text())
    }

    /// The same for `total` bytes; where there is no terminal, a line is written now and then.
    pub(crate) fn show(self: &Arc<Moved>, doing: &'static str, total: u64) -> Shown {
        if self.restart(Some(total)) == Form::Json {
            return Shown { _line: None, lines: Some(lines(doing, Arc::clone(self), TICK, Moved::json)) };
        }
        let moved = Arc::clone(self);
        let line = Progress::of(doing, move || moved.text());
        let text = |moved: &Moved, doing: &str, last: bool| (!last).then(|| format!("{doing}: {}", moved.text()));
        let lines = (!std::io::stderr().is_terminal()).then(|| lines(doing, Arc::clone(self), INTERVAL, text));
        Shown { _line: Some(line), lines }
    }

    /// Returns a line for programs.
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
        // The most important part first: what does not fit is left out from the end.
        let mut text = format!("{} of {}", bytes(done), bytes(total));
        if rate >= 1.0 && done < total {
            let left = (total - done) as f64 / rate;
            text += &format!(", {} left, {}/s", duration(left), bytes(rate as u64));
        }
        text += &match state.total {
            Some(_) => format!(", {} blobs", state.blobs),
            None => format!(", {} of {} layers", state.blobs, state.blobs + state.under_way.len()),
        };
        // What takes long is worth a word.
        if let Some((digest, there, size)) = state.slowest() {
            text += &format!(", slow: {} {} of {}", &digest.hex()[..12], bytes(there), bytes(size));
        }
        if let Some(waiting) = &state.waiting {
            text += &format!(", {waiting}");
        }
        text
    }
}

impl State {
    /// Returns how many bytes are done, how many there are, and how many come in a second.
    fn sums(&self) -> (u64, u64, f64) {
        let under_way: u64 = self.under_way.values().map(|(there, _, _)| there).sum();
        let done = self.whole + under_way;
        let seconds = self.start.map_or(0.0, |start| start.elapsed().as_secs_f64()).max(0.1);
        let rate = done.saturating_sub(self.before) as f64 / seconds;
        let known: u64 = self.under_way.values().map(|(_, size, _)| size).sum();
        (done, self.total.unwrap_or(self.whole + known), rate)
    }

    /// Returns the blob that takes longest, if that is long: how much of it is there, and how large it is.
    fn slowest(&self) -> Option<(Digest, u64, u64)> {
        let slow = self.under_way.iter().max_by_key(|(_, (_, _, since))| since.elapsed());
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

impl image::Progress for Moved {
    fn on(&self, event: &Event<'_>) {
        let mut state = self.state();
        match event {
            Event::Started { blob, received: there, .. } => {
                state.before += there;
                state.under_way.insert(blob.digest, (*there, blob.size, Instant::now()));
            }
            Event::Advanced { blob, received: there } => {
                state.waiting = None;
                let entry = state.under_way.entry(blob.digest).or_insert((0, blob.size, Instant::now()));
                entry.0 = *there;
            }
            Event::Finished { blob, .. } => {
                state.under_way.remove(&blob.digest);
                state.whole += blob.size;
                state.blobs += 1;
            }
            Event::Retrying { operation: what, reason: why, delay: pause } => {
                state.waiting = Some(format!("{what}: {why}; again in {} s", pause.as_secs().max(1)));
            }
            _ => {}
        }
    }
}

/// Shows a number of bytes.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.2} GB", count as f64 / 1e9),
    }
}

/// As long as this exists, progress is shown.
pub(crate) struct Shown {
    _line: Option<Progress>,
    lines: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.lines.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Writes a line now and then, and one at the end if there is one for it.
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
