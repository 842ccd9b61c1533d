//! News for open pages, as they come.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use tokio::sync::watch;

use super::Reply;
use super::body::Body;
use crate::live::{Live, State};

/// The most streams at a time.
const MOST: usize = 256;
/// How often something is sent, so that nobody in between takes the stream for dead.
const PULSE: Duration = Duration::from_secs(20);

/// Open streams, and what they are sent.
pub(super) struct Streams {
    open: AtomicUsize,
    /// What is served now, in one line: made once for all of them, however many there are.
    news: watch::Sender<Arc<str>>,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams { open: AtomicUsize::new(0), news: watch::Sender::new(Arc::from("")) }
    }
}

impl Streams {
    /// Sends what is served now to all of them, if it is something else than before.
    pub(super) fn publish(&self, news: &str) {
        let news = news.replace(['\n', '\r'], " ");
        self.news.send_if_modified(|known| {
            let other = **known != *news;
            if other {
                *known = Arc::from(news);
            }
            other
        });
    }
}

/// A place among them.
struct Place(Arc<Streams>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is sent, and where the next comes from.
type News = (Source, Bytes);

/// A stream of news.
pub(super) struct Events {
    next: Pin<Box<dyn Future<Output = Option<News>> + Send>>,
}

struct Source {
    states: watch::Receiver<State>,
    news: watch::Receiver<Arc<str>>,
    /// What was sent last.
    last: Arc<str>,
    _place: Place,
}

/// Opens a stream, if there is room for one more.
pub(super) fn open(streams: &Arc<Streams>, live: &Live) -> Option<Events> {
    if streams.open.fetch_add(1, Ordering::Relaxed) >= MOST {
        streams.open.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let place = Place(Arc::clone(streams));
    let source = Source { states: live.states(), news: streams.news.subscribe(), last: Arc::from(""), _place: place };
    Some(Events { next: Box::pin(source.next()) })
}

/// Makes a reply of a stream.
pub(super) fn reply(events: Events) -> Reply {
    let mut response = Reply::new(Body::events(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Source {
    /// Waits for the next news; the end of the server is the end of them.
    async fn next(mut self) -> Option<(Source, Bytes)> {
        let pulse = tokio::time::sleep(PULSE);
        tokio::pin!(pulse);
        loop {
            if self.states.borrow_and_update().draining {
                return None;
            }
            let news = Arc::clone(&self.news.borrow_and_update());
            if news != self.last {
                let retry = if self.last.is_empty() { "retry: 5000\n" } else { "" };
                let bytes = Bytes::from(format!("{retry}data: {news}\n\n"));
                self.last = news;
                return Some((self, bytes));
            }
            tokio::select! {
                changed = self.news.changed() => changed.ok()?,
                changed = self.states.changed() => changed.ok()?,
                () = &mut pulse => return Some((self, Bytes::from_static(b": \n\n"))),
            }
        }
    }
}

impl Events {
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Poll::Ready(news) = self.next.as_mut().poll(context) else { return Poll::Pending };
        match news {
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
