//! Progress events.

use std::time::Duration;

use crate::{Descriptor, Digest};

/// A progress event.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TransferEvent<'a> {
    /// A tag or a digest was resolved to this manifest.
    Resolved {
        /// The image, as named by the user.
        reference: &'a str,
        /// Its manifest.
        digest: &'a Digest,
    },
    /// A transfer started; `received` bytes are present already.
    Started {
        /// The image, as named by the user.
        reference: &'a str,
        blob: &'a Descriptor,
        /// Bytes left by an earlier attempt.
        received: u64,
    },
    /// A transfer advanced. After a restart `received` decreases.
    Advanced {
        blob: &'a Descriptor,
        /// Bytes present now.
        received: u64,
    },
    /// A transfer completed.
    Finished {
        blob: &'a Descriptor,
        /// Whether the blob was present before.
        cached: bool,
    },
    /// A request failed and is retried after a delay.
    Retrying {
        /// The request.
        operation: &'a str,
        /// The failure.
        reason: &'a str,
        delay: Duration,
    },
}

/// Receives progress events from several threads.
pub trait TransferProgress: Send + Sync {
    /// Handles an event. It must not block for long.
    fn on(&self, event: &TransferEvent<'_>);
}

/// Ignores all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoEvents;

impl TransferProgress for NoEvents {
    fn on(&self, _: &TransferEvent<'_>) {}
}
