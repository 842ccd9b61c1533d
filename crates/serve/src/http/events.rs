//! Server-sent events for open pages.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use tokio::sync::watch;

use super::Reply;
use super::body::ReplyBody;
use crate::live::{LiveCatalog, ServerState};

/// Maximum number of concurrent streams.
const MAX_STREAMS: usize = 256;
/// The heartbeat interval, so that no proxy considers the stream dead.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// Open streams, and the event they are sent.
pub(super) struct Streams {
    open: AtomicUsize,
    /// The served revision, in one line: rendered once for all streams.
    event: watch::Sender<Arc<str>>,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams { open: AtomicUsize::new(0), event: watch::Sender::new(Arc::from("")) }
    }
}

impl Streams {
    /// Sends an event to all streams, if it differs from the last one.
    pub(super) fn publish(&self, event: &str) {
        let event = event.replace(['\n', '\r'], " ");
        self.event.send_if_modified(|known| {
            let other = **known != *event;
            if other {
                *known = Arc::from(event);
            }
            other
        });
    }
}

/// The place of an open stream, freed on drop.
struct OpenStream(Arc<Streams>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bytes to send, and the source of the next event.
type Next = (EventSource, Bytes);

/// A stream of events.
pub(super) struct Events {
    next: Pin<Box<dyn Future<Output = Option<Next>> + Send>>,
}

struct EventSource {
    states: watch::Receiver<ServerState>,
    event: watch::Receiver<Arc<str>>,
    /// The event that was sent last.
    last: Arc<str>,
    _stream: OpenStream,
}

/// Opens a stream, unless [`MAX_STREAMS`] are open.
pub(super) fn open(streams: &Arc<Streams>, live: &LiveCatalog) -> Option<Events> {
    if streams.open.fetch_add(1, Ordering::Relaxed) >= MAX_STREAMS {
        streams.open.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let place = OpenStream(Arc::clone(streams));
    let source =
        EventSource { states: live.states(), event: streams.event.subscribe(), last: Arc::from(""), _stream: place };
    Some(Events { next: Box::pin(source.next()) })
}

/// Responds with a stream.
pub(super) fn reply(events: Events) -> Reply {
    let mut response = Reply::new(ReplyBody::events(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl EventSource {
    /// Waits for the next event; the stream ends when the server shuts down.
    async fn next(mut self) -> Option<(EventSource, Bytes)> {
        let pulse = tokio::time::sleep(HEARTBEAT);
        tokio::pin!(pulse);
        loop {
            if self.states.borrow_and_update().draining {
                return None;
            }
            let event = Arc::clone(&self.event.borrow_and_update());
            if event != self.last {
                let retry = if self.last.is_empty() { "retry: 5000\n" } else { "" };
                let bytes = Bytes::from(format!("{retry}data: {event}\n\n"));
                self.last = event;
                return Some((self, bytes));
            }
            tokio::select! {
                changed = self.event.changed() => changed.ok()?,
                changed = self.states.changed() => changed.ok()?,
                () = &mut pulse => return Some((self, Bytes::from_static(b": \n\n"))),
            }
        }
    }
}

impl Events {
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Poll::Ready(event) = self.next.as_mut().poll(context) else { return Poll::Pending };
        match event {
            None => {
                self.next = Box::pin(std::future::ready(None));
                Poll::Ready(None)
            }
            Some((source, bytes)) => {
                self.next = Box::pin(source.next());
                Poll::Ready(Some(bytes))
            }
        }
    }
}
