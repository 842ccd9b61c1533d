//! Derives the next step for a ClusterCatalog from the object and the served content.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;

use crate::views::{ClusterCatalog, Stored};

/// The desired state of a ClusterCatalog.
#[derive(Debug, Clone, Default)]
pub(super) struct Desired {
    pub(super) name: String,
    pub(super) image: String,
    /// The image by digest in its status.
    pub(super) resolved: Option<String>,
    /// The poll interval.
    pub(super) poll: Option<Duration>,
    pub(super) is_available: bool,
    /// Whether it is being deleted.
    pub(super) is_going: bool,
    /// The time of the last unpack in its status.
    last_unpacked: Option<Timestamp>,
}

impl Desired {
    pub(super) fn of(catalog: ClusterCatalog) -> Desired {
        let ClusterCatalog { metadata, spec, status, .. } = catalog;
        let image = spec.source.image;
        let minutes = image.poll_interval_minutes.filter(|minutes| *minutes > 0);
        let resolved = status.resolved_source.map(|source| source.image.reference);
        Desired {
            name: metadata.name().to_owned(),
            image: image.reference,
            resolved: resolved.filter(|image| !image.is_empty()),
            poll: minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60))),
            is_available: spec.availability_mode != "Unavailable",
            is_going: metadata.deletion_timestamp.is_some(),
            last_unpacked: status.last_unpacked.parse().ok(),
        }
    }
}

/// The served content of a ClusterCatalog.
#[derive(Debug, Clone)]
pub(super) struct Served {
    /// The requested image.
    asked: String,
    /// The image by digest.
    pub(super) image: String,
    /// The time of the last unpack.
    pub(super) unpacked: Timestamp,
    /// The time of the last poll.
    polled: Instant,
}

impl Served {
    /// Returns the served content after a poll; unchanged content keeps its time.
    pub(super) fn now(asked: &str, image: String, before: Option<&Served>) -> Served {
        let same = before.filter(|before| before.image == image);
        let unpacked = same.map_or_else(Timestamp::now, |before| before.unpacked);
        Served { asked: asked.to_owned(), image, unpacked, polled: Instant::now() }
    }

    /// Returns the served content of a replica that is not the leader.
    pub(super) fn following(wanted: &Desired, image: String) -> Served {
        let unpacked = wanted.last_unpacked.unwrap_or_else(Timestamp::now);
        Served { asked: wanted.image.clone(), image, unpacked, polled: Instant::now() }
    }

    /// Returns the time until the next poll, slightly more than the interval, so that catalogs do not poll together.
    pub(super) fn next_poll(&self, wanted: &Desired) -> Option<Duration> {
        let interval = wanted.poll?;
        let spread =
            wanted.name.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 100;
        let due = interval + interval / 100 * spread / 100;
        Some(due.saturating_sub(self.polled.elapsed()))
    }
}

/// The next step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Wait, for this duration or until the object changes.
    Wait(Option<Duration>),
    /// Resolve the image, and serve it if it changed.
    Refresh,
}

pub(super) fn next_step(wanted: &Desired, served: Option<&Served>) -> NextStep {
    let Some(served) = served.filter(|served| served.asked == wanted.image) else { return NextStep::Refresh };
    match served.next_poll(wanted) {
        Some(Duration::ZERO) => NextStep::Refresh,
        wait => NextStep::Wait(wait),
    }
}
