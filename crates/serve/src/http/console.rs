//! Pages over HTTP: who may see them, their headers, and what saves sending them again.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode};
use tokio::sync::Semaphore;

use super::body::{Body, Coding};
use super::events::{self, Streams};
use super::{Reply, Site, conditions, reply};
use crate::cache::Digest;
use crate::live::Live;
use crate::memory;
use crate::pages::{PageKind, PageReply, PageRequest, Pages, Shelves};

/// Shorter bodies are not worth compressing.
const COMPRESS_FROM: usize = 1024;
/// How many compressed pages are kept: the list in its codings, mostly.
const KEPT: usize = 4;

const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// The console of a site.
pub(super) struct Console {
    pub(super) pages: Arc<dyn Pages>,
    /// Names that the server may be called by; any if there is no list.
    hosts: Option<Vec<String>>,
    streams: Arc<Streams>,
    kept: Mutex<Vec<(String, Bytes)>>,
    /// How many pages were made.
    made: AtomicU64,
    rest: Mutex<Rest>,
}

/// When readers rest: that is the time to give memory back.
#[derive(Default)]
struct Rest {
    /// How many pages there were at the last look.
    seen: u64,
    /// How many there were when memory was given back.
    given_back: u64,
}

impl Rest {
    /// Takes notice of how many pages were made by now, and returns whether it is time to give back what they used: when
    /// something large was `dropped`, and once when no page was made since the last look.
    fn look(&mut self, made: u64, dropped: bool) -> bool {
        let quiet = std::mem::replace(&mut self.seen, made) == made;
        let due = dropped || quiet && self.given_back != made;
        if due {
            self.given_back = made;
        }
        due
    }
}

impl Console {
    /// Offers pages; a server that is reached from its own machine only is called by names of that machine.
    pub(super) fn new(pages: Arc<dyn Pages>, local: bool, hosts: &[String]) -> Console {
        Console {
            pages,
            hosts: local.then(|| hosts.to_vec()),
            streams: Arc::default(),
            kept: Mutex::default(),
            made: AtomicU64::new(0),
            rest: Mutex::default(),
        }
    }

    /// Returns whether a request is for this server, by the name it is called.
    fn is_meant(&self, headers: &HeaderMap) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return true };
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        let local = name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        local || hosts.iter().any(|one| one.eq_ignore_ascii_case(name))
    }
}

/// A request for a page, to be answered on a thread that may wait.
pub(super) struct Job {
    console: Arc<Console>,
    live: Arc<Live>,
    workers: Arc<Semaphore>,
    headers: HeaderMap,
    path: String,
    query: String,
    head: bool,
}

impl Site {
    /// Gives back memory that pages have not needed in a while.
    pub(super) fn tidy(&self) {
        let Some(console) = &self.console else { return };
        let dropped = console.pages.tidy();
        let made = console.made.load(Relaxed);
        if console.rest.lock().unwrap_or_else(PoisonError::into_inner).look(made, dropped) {
            tokio::task::spawn_blocking(memory::give_back);
        }
    }

    /// Shows pages which catalog took the place of which, and open ones what is served, for as long as the server runs.
    pub(super) async fn follow(live: Arc<Live>, console: Option<Arc<Console>>) {
        let Some(console) = console else { return std::future::pending().await };
        let mut states = live.states();
        let mut known: Option<Shelves> = None;
        loop {
            if let Some(now) = live.shelves() {
                let before = known.replace(now.clone());
                if let Some(before) = before.filter(|before| before.revision() != now.revision()) {
                    let pages = Arc::clone(&console.pages);
                    let _ = tokio::task::spawn_blocking(move || pages.swapped(&before, &now)).await;
                }
            }
            let (pages, live) = (Arc::clone(&console.pages), Arc::clone(&live));
            let news = tokio::task::spawn_blocking(move || pages.event(live.shelves().as_ref(), &live.state())).await;
            if let Ok(Some(news)) = news {
                console.streams.publish(&news);
            }
            if states.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Takes a request that is for the console, and not for the API.
    pub(super) fn job<B>(&self, request: &Request<B>) -> Option<Job> {
        let console = self.console.as_ref()?;
        let path = request.uri().path();
        let get = matches!(*request.method(), Method::GET | Method::HEAD);
        let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        let api = matches!(first, "healthz" | "readyz" | "metrics" | "debug" | "openapi.json" | "catalogs");
        if !get || api || super::cleaned(path).is_some() {
            return None;
        }
        Some(Job {
            console: Arc::clone(console),
            live: Arc::clone(&self.live),
            workers: Arc::clone(&self.workers),
            headers: request.headers().clone(),
            path: path.trim_start_matches('/').to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            head: *request.method() == Method::HEAD,
        })
    }
}

impl Job {
    /// Answers.
    pub(super) async fn run(self) -> Reply {
        let reply = self.answer().await;
        self.live.metrics.http(reply.status().as_u16());
        tracing::debug!(path = self.path, status = reply.status().as_u16(), "page");
        if self.head { reply.map(|_| Body::empty()) } else { reply }
    }

    async fn answer(&self) -> Reply {
        if !self.console.is_meant(&self.headers) {
            return guarded(
                super::text(StatusCode::MISDIRECTED_REQUEST, "421 this server is not called by that name\n"),
                PageKind::Data,
            );
        }
        if self.path == "-/events" {
            return match events::open(&self.console.streams, &self.live) {
                Some(body) => guarded(events::reply(body), PageKind::Data),
                None => guarded(super::later("503 too many streams\n"), PageKind::Data),
            };
        }
        let tag = self.tag();
        if conditions::check(&self.headers, &tag, std::time::SystemTime::UNIX_EPOCH) == conditions::Verdict::NotModified
        {
            let mut response = Reply::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return tagged(guarded(response, PageKind::Page), &tag);
        }
        let coding = reply::coding(&self.headers, COMPRESS_FROM as u64);
        let key = format!("{tag} {coding:?}");
        if self.path.is_empty() && self.query.is_empty() {
            let kept = self.console.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, bytes)) = kept.iter().find(|(kept, _)| *kept == key) {
                return self.whole(
                    StatusCode::OK,
                    "text/html; charset=utf-8",
                    PageKind::Page,
                    bytes.clone(),
                    coding,
                    &tag,
                );
            }
        }
        let Ok(_permit) = self.workers.acquire().await else { return super::not_found() };
        let made = self.make(coding).await;
        let Some((page, bytes, coding)) = made else { return guarded(super::not_found(), PageKind::Data) };
        if let Some(location) = &page.location {
            let mut response = guarded(super::text(StatusCode::FOUND, ""), PageKind::Page);
            if let Ok(location) = HeaderValue::try_from(location) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            return response;
        }
        let status = StatusCode::from_u16(page.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if self.path.is_empty() && self.query.is_empty() && status == StatusCode::OK {
            let mut kept = self.console.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= KEPT {
                kept.remove(0);
            }
            kept.push((key, bytes.clone()));
        }
        self.whole(status, page.media_type, page.kind, bytes, coding, &tag)
    }

    /// Makes the page and compresses it.
    async fn make(&self, coding: Coding) -> Option<(PageReply, Bytes, Coding)> {
        let (console, live) = (Arc::clone(&self.console), Arc::clone(&self.live));
        console.made.fetch_add(1, Relaxed);
        let (path, query) = (self.path.clone(), self.query.clone());
        let html = prefers_html(&self.headers);
        let made = tokio::task::spawn_blocking(move || {
            let request = PageRequest { path: &path, query: &query, html };
            let mut page = console.pages.answer(&request, live.shelves().as_ref(), &live.state())?;
            let body = std::mem::take(&mut page.body);
            let worth = body.len() >= COMPRESS_FROM
                && (!page.media_type.starts_with("image/") || page.media_type.contains("svg"));
            let coding = if worth { coding } else { Coding::None };
            let bytes = super::body::packed(body, coding).ok()?;
            Some((page, bytes, coding))
        });
        made.await.ok().flatten()
    }

    /// Names the bytes that this request is answered with.
    fn tag(&self) -> String {
        let revision = self.live.shelves().map(|shelves| shelves.revision()).unwrap_or_default();
        let state = self.live.state();
        let (blobs, changes) = (self.live.has_blobs(), self.console.pages.changes());
        let parts = format!(
            "{}\0{}\0{}\0{}\0{blobs}\0{changes}\0{}",
            self.path,
            self.query,
            state.detail,
            prefers_html(&self.headers),
            env!("CARGO_PKG_VERSION")
        );
        format!("{revision}-{:016x}", Digest::of(parts.as_bytes()).0 as u64)
    }

    fn whole(
        &self,
        status: StatusCode,
        media: &'static str,
        kind: PageKind,
        bytes: Bytes,
        coding: Coding,
        tag: &str,
    ) -> Reply {
        let mut response = Reply::new(Body::from(bytes.clone()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        if let Ok(length) = HeaderValue::from_str(&bytes.len().to_string()) {
            headers.insert(header::CONTENT_LENGTH, length);
        }
        match coding {
            Coding::None => {}
            Coding::Gzip => drop(headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))),
            Coding::Zstd => drop(headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("zstd"))),
        }
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        let response = guarded(response, kind);
        if status == StatusCode::OK { tagged(response, tag) } else { response }
    }
}

fn tagged(mut response: Reply, tag: &str) -> Reply {
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{tag}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Adds the headers that keep foreign content from doing anything.
fn guarded(mut response: Reply, kind: PageKind) -> Reply {
    let policy = if kind == PageKind::Picture { PICTURE_POLICY } else { PAGE_POLICY };
    let fixed = kind == PageKind::Asset || kind == PageKind::Picture;
    let caching = if fixed { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), ""),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static(caching));
    response
}

/// Returns whether somebody wants to read a page rather than anything else.
fn prefers_html(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accept.flat_map(|value| value.split(',')).any(|one| one.split(';').next().unwrap_or_default().trim() == "text/html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_when_readers_rest_and_whenever_something_large_was_dropped() {
        let mut rest = Rest::default();
        assert!(!rest.look(0, false), "nobody asked for anything");
        assert!(!rest.look(5, false) && !rest.look(9, false), "readers are busy");
        assert!(rest.look(12, true), "they are, but something was dropped");
        assert!(!rest.look(15, false));
        assert!(rest.look(15, false), "they rest");
        assert!(!rest.look(15, false) && !rest.look(15, false), "it was given back already");
        assert!(rest.look(15, true));
    }
}
