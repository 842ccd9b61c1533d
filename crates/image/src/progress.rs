//! What is going on, for those who wait.

use std::time::Duration;

use crate::{Descriptor, Digest};

/// Something that happened while images move.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A tag or a digest is known to mean this manifest.
    Resolved {
        /// The image, as it was named.
        reference: &'a str,
        /// Its manifest.
        digest: &'a Digest,
    },
    /// A blob is on its way; `there` bytes of it are already here.
    Started {
        /// The image, as it was named.
        reference: &'a str,
        /// The blob.
        blob: &'a Descriptor,
        /// How much of it an earlier try has left.
        there: u64,
    },
    /// More of a blob has come. After a new start `there` is less than before.
    Advanced {
        /// The blob.
        blob: &'a Descriptor,
        /// How much of it is here now.
        there: u64,
    },
    /// A blob is here, whole.
    Finished {
        /// The blob.
        blob: &'a Descriptor,
        /// Whether it was here before.
        cached: bool,
    },
    /// Something failed and is tried again after a pause.
    Waiting {
        /// What is tried.
        what: &'a str,
        /// What happened.
        why: &'a str,
        /// How long the pause is.
        pause: Duration,
    },
}

/// Receives what is going on, from several threads.
pub trait Progress: Send + Sync {
    /// Takes note of an event. It must not wait for long.
    fn on(&self, event: &Event<'_>);
}

/// Drops what it receives.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn on(&self, _: &Event<'_>) {}
}
