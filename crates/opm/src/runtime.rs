//! Work that waits: the threads it runs on, and the signals that end it.

use std::future::Future;
use std::io;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::STACK_SIZE;

/// How long a thread that may block stays without work. They take turns at whatever comes, so that a server that polls
/// would keep all that it ever needed, each with the stack that it used.
const IDLE: Duration = Duration::from_secs(1);

/// Starts threads for work that waits.
pub(crate) fn start() -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.enable_all().thread_stack_size(STACK_SIZE).thread_keep_alive(IDLE).build();
    runtime.map_err(|error| io::Error::new(error.kind(), format!("starting threads: {error}")))
}

/// Does work that waits. What it leaves running keeps nobody waiting.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = start()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}

/// Signals by which users and the system ask a process to end.
pub(crate) struct EndSignals([(i32, Signal); 3]);

impl EndSignals {
    /// Listens from now on: the signals do nothing else any more.
    pub(crate) fn listen() -> io::Result<EndSignals> {
        let listen = |number| io::Result::Ok((number, signal(SignalKind::from_raw(number))?));
        Ok(EndSignals([listen(SIGINT)?, listen(SIGTERM)?, listen(SIGHUP)?]))
    }

    /// Waits for the next one, and returns its number.
    pub(crate) async fn next(&mut self) -> i32 {
        let [(interrupt, first), (terminate, second), (hangup, third)] = &mut self.0;
        tokio::select! {
            _ = first.recv() => *interrupt,
            _ = second.recv() => *terminate,
            _ = third.recv() => *hangup,
        }
    }
}

/// Returns the exit code of a process that a signal ended, as shells report it.
pub(crate) fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
