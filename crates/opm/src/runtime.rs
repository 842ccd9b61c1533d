//! The async runtime, and the signals that end it.

use std::future::Future;
use std::io;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::STACK_SIZE;

/// How long an idle blocking thread lives. Tasks rotate over all idle threads, so a server that polls keeps as many
/// threads as it starts tasks within this time, each with its stack and half a megabyte of freed memory.
const KEEP_ALIVE: Duration = Duration::from_millis(100);

/// Starts a runtime.
pub(crate) fn start() -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.enable_all().thread_stack_size(STACK_SIZE).thread_keep_alive(KEEP_ALIVE).build();
    runtime.map_err(|error| io::Error::new(error.kind(), format!("starting threads: {error}")))
}

/// Runs a future to completion. Does not wait for tasks that it leaves running.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = start()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}

/// The signals that end a process.
pub(crate) struct EndSignals([(i32, Signal); 3]);

impl EndSignals {
    /// Starts to listen, which replaces the default handlers.
    pub(crate) fn listen() -> io::Result<EndSignals> {
        let listen = |number| io::Result::Ok((number, signal(SignalKind::from_raw(number))?));
        Ok(EndSignals([listen(SIGINT)?, listen(SIGTERM)?, listen(SIGHUP)?]))
    }

    /// Waits for the first signal.
    pub(crate) async fn first(mut self) {
        self.next().await;
    }

    /// Waits for the next signal, and returns its number.
    pub(crate) async fn next(&mut self) -> i32 {
        let [(interrupt, first), (terminate, second), (hangup, third)] = &mut self.0;
        tokio::select! {
            _ = first.recv() => *interrupt,
            _ = second.recv() => *terminate,
            _ = third.recv() => *hangup,
        }
    }
}

/// Returns the exit code with which shells report a signal.
pub(crate) fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
