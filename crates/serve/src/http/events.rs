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
use crate::pages::Pages;

/// The most streams at a time.
const MOST: usize = 256;
/// How often something is sent, so that nobody in between takes the stream for dead.
const PULSE: Duration = Duration::from_secs(20);

/// How many streams are open.
#[derive(Default)]
pub(super) struct Streams(AtomicUsize);

/// A place among them.
struct Place(Arc<Streams>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
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
    live: Arc<Live>,
    pages: Arc<dyn Pages>,
    /// What was sent last.
    last: String,
    _place: Place,
}

/// Opens a stream, if there is room for one more.
pub(super) fn open(streams: &Arc<Streams>, live: &Arc<Live>, pages: &Arc<dyn Pages>) -> Option<Events> {
    if streams.0.fetch_add(1, Ordering::Relaxed) >= MOST {
        streams.0.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let place = Place(Arc::clone(streams));
    let (live, pages) = (Arc::clone(live), Arc::clone(pages));
    let source = Source { states: live.states(), live, pages, last: String::new(), _place: place };
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
        loop {
            let state = self.states.borrow_and_update().clone();
            if state.draining {
                return None;
            }
            let (live, pages) = (Arc::clone(&self.live), Arc::clone(&self.pages));
            let made = tokio::task::spawn_blocking(move || pages.event(live.shelves().as_ref(), &state));
            let news = made.await.ok()?.replace(['\n', '\r'], " ");
            if news != self.last {
                let retry = if self.last.is_empty() { "retry: 5000\n" } else { "" };
                let bytes = Bytes::from(format!("{retry}data: {news}\n\n"));
                self.last = news;
                return Some((self, bytes));
            }
            let changed = tokio::time::timeout(PULSE, self.states.changed()).await;
            match changed {
                Err(_) => return Some((self, Bytes::from_static(b": \n\n"))),
                Ok(Err(_)) => return None,
                Ok(Ok(())) => {}
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
