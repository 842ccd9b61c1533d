//! Keeps a panic in the request that caused it: the request fails, the server lives and logs it.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::task::Poll;

use tokio::task::JoinError;
use tonic::Status;

/// A request panicked, which is logged.
#[derive(Debug)]
pub(crate) struct Panicked;

impl Panicked {
    fn new(payload: &(dyn Any + Send)) -> Panicked {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        tracing::error!(
            error = text.unwrap_or("a panic without a message"),
            "internal error; this is a bug in opm, please report it"
        );
        Panicked
    }
}

impl From<Panicked> for Status {
    fn from(_: Panicked) -> Status {
        Status::internal("internal error; the log of the server has the reason")
    }
}

/// Runs work for a request.
///
/// # Errors
/// Fails when the work panics.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked::new(&*payload))
}

/// Waits for work for a request.
///
/// # Errors
/// Fails when the work panics.
pub(crate) async fn caught_in<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut work = pin!(work);
    let polled = poll_fn(|context| match caught(|| work.as_mut().poll(context)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    });
    polled.await
}

/// Runs work for a request on a thread that may block. A panic there continues here.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(payload)) => resume_unwind(payload),
        // The runtime is shutting down, and this task with it.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// Logs the panic of a task that ended.
pub(crate) fn log_panic(ended: Result<(), JoinError>) {
    if let Err(Ok(payload)) = ended.map_err(JoinError::try_into_panic) {
        Panicked::new(&*payload);
    }
}
