//! What has to happen to a ClusterCatalog: derived from the object and from what is served.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::Object;

/// What a ClusterCatalog asks for.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) image: String,
    /// The image by digest that its status names.
    pub(super) resolved: Option<String>,
    /// How often the image is polled.
    pub(super) poll: Option<Duration>,
    pub(super) is_available: bool,
    /// Whether it is being deleted.
    pub(super) is_going: bool,
    /// When its content was last unpacked, as its status has it.
    last_unpacked: Option<Timestamp>,
}

impl Wanted {
    pub(super) fn of(object: &Object) -> Wanted {
        let at = |pointer: &str| object.data.pointer(pointer);
        let text = |pointer: &str| at(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let minutes =
            at("/spec/source/image/pollIntervalMinutes").and_then(Value::as_u64).filter(|minutes| *minutes > 0);
        Wanted {
            name: object.metadata.name.clone().unwrap_or_default(),
            image: text("/spec/source/image/ref").unwrap_or_default().to_owned(),
            resolved: text("/status/resolvedSource/image/ref").map(str::to_owned),
            poll: minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60))),
            is_available: text("/spec/availabilityMode").is_none_or(|mode| mode != "Unavailable"),
            is_going: object.metadata.deletion_timestamp.is_some(),
            last_unpacked: text("/status/lastUnpacked").and_then(|text| text.parse().ok()),
        }
    }
}

/// What is served of a ClusterCatalog.
#[derive(Debug, Clone)]
pub(super) struct Served {
    /// The image that was asked for.
    asked: String,
    /// The image by digest.
    pub(super) image: String,
    /// When its content was unpacked.
    pub(super) unpacked: Timestamp,
    /// When the image was last polled.
    polled: Instant,
}

impl Served {
    /// Returns what is served after an image was polled; content that did not change keeps its time.
    pub(super) fn now(asked: &str, image: String, before: Option<&Served>) -> Served {
        let same = before.filter(|before| before.image == image);
        let unpacked = same.map_or_else(Timestamp::now, |before| before.unpacked);
        Served { asked: asked.to_owned(), image, unpacked, polled: Instant::now() }
    }

    /// Returns what a replica serves that does not lead.
    pub(super) fn following(wanted: &Wanted, image: String) -> Served {
        let unpacked = wanted.last_unpacked.unwrap_or_else(Timestamp::now);
        Served { asked: wanted.image.clone(), image, unpacked, polled: Instant::now() }
    }

    /// Returns how long it is until the next poll; a little more than asked for, so that catalogs do not poll together.
    pub(super) fn next_poll(&self, wanted: &Wanted) -> Option<Duration> {
        let interval = wanted.poll?;
        let spread =
            wanted.name.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 100;
        let due = interval + interval / 100 * spread / 100;
        Some(due.saturating_sub(self.polled.elapsed()))
    }
}

/// What has to happen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing, for so long or until the object changes.
    Nothing(Option<Duration>),
    /// The image is looked up, and served if it is another one.
    Look,
}

pub(super) fn need(wanted: &Wanted, served: Option<&Served>) -> Need {
    let Some(served) = served.filter(|served| served.asked == wanted.image) else { return Need::Look };
    match served.next_poll(wanted) {
        Some(Duration::ZERO) => Need::Look,
        wait => Need::Nothing(wait),
    }
}
