//! Counts and logs calls.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Request};
use tonic::Status;

use super::connection::Shared;
use crate::metrics;

/// The trailer with the status of a call.
pub(super) const STATUS: &str = "grpc-status";
const CANCELLED: usize = 1;
const UNKNOWN: usize = 2;
/// Maximum length of a logged path, in bytes.
const LOGGED_PATH: usize = 200;

/// The number of failed calls that each thread logs in a second: a flood of calls must not become a flood of lines.
const LOGGED_FAILURES: u32 = 20;
const FIRST_UNLOGGED: u32 = LOGGED_FAILURES + 1;

/// Counts the failed calls of the current second.
pub(crate) struct Failures(Cell<(Instant, u32)>);

impl Failures {
    pub(crate) fn new() -> Failures {
        Failures(Cell::new((Instant::now(), 0)))
    }

    /// Adds a failure, and returns their number in this second.
    fn count(&self, now: Instant) -> u32 {
        let (start, count) = self.0.get();
        let next = match now.saturating_duration_since(start) < Duration::from_secs(1) {
            true => (start, count.saturating_add(1)),
            false => (now, 1),
        };
        self.0.set(next);
        next.1
    }
}

/// A call from its start to its end.
pub(super) struct Call {
    shared: Rc<Shared>,
    path: String,
    method: usize,
    start: Instant,
    finished: bool,
}

impl Call {
    pub(super) fn start<B>(shared: &Rc<Shared>, request: &Request<B>) -> Call {
        let path = request.uri().path().trim_start_matches('/');
        let method = metrics::method(path);
        shared.live().metrics.started(method);
        shared.call_started();
        let path = if tracing::enabled!(tracing::Level::INFO) {
            path.chars().take(LOGGED_PATH).collect()
        } else {
            String::new()
        };
        if tracing::enabled!(tracing::Level::DEBUG) {
            tracing::debug!(grpc.call = path, headers = ?request.headers(), "started call");
        }
        Call { shared: Rc::clone(shared), path, method, start: Instant::now(), finished: false }
    }

    /// Ends the call with the status among `trailers`.
    pub(super) fn finish(&mut self, trailers: &HeaderMap) {
        let status = Status::from_header_map(trailers);
        let code = status.as_ref().map_or(UNKNOWN, |status| status.code() as usize);
        self.finish_with(code, status.as_ref().map_or("", |status| status.message()));
    }

    pub(super) fn finish_with(&mut self, code: usize, message: &str) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let took = self.start.elapsed();
        self.shared.live().metrics.finished(self.method, code, took);
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        let peer = self.shared.peer();
        let (time_ms, name) = (took.as_secs_f64() * 1e3, metrics::code_name(code));
        match code {
            0 | CANCELLED => {
                tracing::debug!(grpc.call = self.path, grpc.code = name, grpc.time_ms = time_ms, peer, "finished call");
            }
            _ => {
                match self.shared.failures().count(Instant::now()) {
                    ..=LOGGED_FAILURES => {}
                    FIRST_UNLOGGED => {
                        return tracing::warn!("too many failed calls, more of them in this second are not logged");
                    }
                    _ => return,
                }
                tracing::info!(
                    grpc.call = self.path,
                    grpc.code = name,
                    grpc.error = message,
                    grpc.time_ms = time_ms,
                    peer,
                    "finished call"
                );
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // The client disconnected before the end.
        self.finish_with(CANCELLED, "");
        self.shared.call_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_the_second() {
        let (failures, start) = (Failures::new(), Instant::now());
        let counts: Vec<u32> = (0..30).map(|_| failures.count(start)).collect();
        assert_eq!(counts, (1..=30).collect::<Vec<u32>>());
        assert_eq!(failures.count(start + Duration::from_secs(2)), 1);
    }
}
