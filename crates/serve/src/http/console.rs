//! Serves web pages: allowed hosts, security headers, entity tags and compression.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode};
use site::console::{ConsoleReply, ConsoleRequest, ConsoleStore, ReplyKind};
use tokio::sync::Semaphore;

use super::body::{Coding, ReplyBody};
use super::events::{self, Streams};
use super::{Reply, Site, conditions, reply};
use crate::cache::ContentDigest;
use crate::caught::blocking;
use crate::live::LiveCatalog;
use crate::memory;
use crate::pages::{PackageSummaries, Pages};

/// Shorter bodies are not worth compressing.
const COMPRESS_FROM: usize = 1024;
/// The number of compressed pages in the cache: mostly the list in its codings.
const CACHED: usize = 4;

const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// The web console of a site.
pub(super) struct Console {
    pub(super) pages: Arc<dyn Pages>,
    /// The allowed host names; any if there is no list.
    hosts: Option<Vec<String>>,
    streams: Arc<Streams>,
    cached: Mutex<Vec<(String, Bytes)>>,
    /// The number of rendered pages.
    rendered: AtomicU64,
    idle: Mutex<IdleDetector>,
}

/// Detects when readers are idle: the time to release memory.
#[derive(Default)]
struct IdleDetector {
    /// The number of pages at the last check.
    seen: u64,
    /// The number of pages when memory was last released.
    released: u64,
}

impl IdleDetector {
    /// Records the number of pages rendered so far, and returns whether to release memory: when something large was
    /// `dropped`, and once when no page was rendered since the last check.
    fn observe(&mut self, rendered: u64, dropped: bool) -> bool {
        let quiet = std::mem::replace(&mut self.seen, rendered) == rendered;
        let due = dropped || quiet && self.released != rendered;
        if due {
            self.released = rendered;
        }
        due
    }
}

impl Console {
    /// Serves pages; a server on a loopback address accepts loopback host names only, and `hosts`.
    pub(super) fn new(pages: Arc<dyn Pages>, local: bool, hosts: &[String]) -> Console {
        Console {
            pages,
            hosts: local.then(|| hosts.to_vec()),
            streams: Arc::default(),
            cached: Mutex::default(),
            rendered: AtomicU64::new(0),
            idle: Mutex::default(),
        }
    }

    /// Returns whether the `Host` header of a request is allowed.
    fn is_allowed_host(&self, headers: &HeaderMap) -> bool {
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

/// A request for a page, to be answered on a thread that may block.
pub(super) struct Job {
    console: Arc<Console>,
    live: Arc<LiveCatalog>,
    pool: Arc<Semaphore>,
    headers: HeaderMap,
    path: String,
    query: String,
    head: bool,
}

impl Site {
    /// Releases memory that pages have not used for a while.
    pub(super) fn tidy(&self) {
        let Some(console) = &self.console else { return };
        let dropped = console.pages.tidy();
        let rendered = console.rendered.load(Relaxed);
        if console.idle.lock().unwrap_or_else(PoisonError::into_inner).observe(rendered, dropped) {
            tokio::task::spawn_blocking(memory::trim);
        }
    }

    /// Notifies the renderer of replaced catalogs, and open pages of the served revision, while the server runs.
    pub(super) async fn follow(live: Arc<LiveCatalog>, console: Option<Arc<Console>>) {
        let Some(console) = console else { return std::future::pending().await };
        let mut states = live.states();
        let mut known: Option<PackageSummaries> = None;
        loop {
            if let Some(now) = live.summaries() {
                let before = known.replace(now.clone());
                if let Some(before) = before.filter(|before| before.revision() != now.revision()) {
                    let pages = Arc::clone(&console.pages);
                    let _ = tokio::task::spawn_blocking(move || pages.swapped(&before, &now)).await;
                }
            }
            let (pages, live) = (Arc::clone(&console.pages), Arc::clone(&live));
            let news = tokio::task::spawn_blocking(move || pages.event(live.summaries().as_ref(), &live.state())).await;
            if let Ok(Some(news)) = news {
                console.streams.publish(&news);
            }
            if states.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Accepts a request for the console rather than the API.
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
            pool: Arc::clone(&self.pools.pages),
            headers: request.headers().clone(),
            path: path.trim_start_matches('/').to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            head: *request.method() == Method::HEAD,
        })
    }
}

impl Job {
    /// Answers the request.
    pub(super) async fn run(self) -> Reply {
        let reply = self.answer().await;
        self.live.metrics.http(reply.status().as_u16());
        tracing::debug!(path = self.path, status = reply.status().as_u16(), "page");
        if self.head { reply.map(|_| ReplyBody::empty()) } else { reply }
    }

    async fn answer(&self) -> Reply {
        if !self.console.is_allowed_host(&self.headers) {
            return guarded(
                super::text(StatusCode::MISDIRECTED_REQUEST, "421 this server is not called by that name\n"),
                ReplyKind::Data,
            );
        }
        if self.path == "-/events" {
            return match events::open(&self.console.streams, &self.live) {
                Some(body) => guarded(events::reply(body), ReplyKind::Data),
                None => guarded(super::retry_later("503 too many streams\n"), ReplyKind::Data),
            };
        }
        let tag = self.tag();
        if conditions::check(&self.headers, &tag, std::time::SystemTime::UNIX_EPOCH) == conditions::Verdict::NotModified
        {
            let mut response = Reply::new(ReplyBody::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return tagged(guarded(response, ReplyKind::Page), &tag);
        }
        let coding = reply::coding(&self.headers, COMPRESS_FROM as u64);
        let key = format!("{tag} {coding:?}");
        if self.path.is_empty() && self.query.is_empty() {
            let cached = self.console.cached.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, bytes)) = cached.iter().find(|(cached, _)| *cached == key) {
                return self.whole(
                    StatusCode::OK,
                    "text/html; charset=utf-8",
                    ReplyKind::Page,
                    bytes.clone(),
                    coding,
                    &tag,
                );
            }
        }
        let Ok(_permit) = self.pool.acquire().await else { return super::not_found() };
        let rendered = self.make(coding).await;
        let Some((page, bytes, coding)) = rendered else { return guarded(super::not_found(), ReplyKind::Data) };
        if let Some(location) = &page.location {
            let mut response = guarded(super::text(StatusCode::FOUND, ""), ReplyKind::Page);
            if let Ok(location) = HeaderValue::try_from(location) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            return response;
        }
        let status = StatusCode::from_u16(page.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if self.path.is_empty() && self.query.is_empty() && status == StatusCode::OK {
            let mut cached = self.console.cached.lock().unwrap_or_else(PoisonError::into_inner);
            if cached.len() >= CACHED {
                cached.remove(0);
            }
            cached.push((key, bytes.clone()));
        }
        self.whole(status, page.media_type, page.kind, bytes, coding, &tag)
    }

    /// Renders the page and compresses it.
    async fn make(&self, coding: Coding) -> Option<(ConsoleReply, Bytes, Coding)> {
        let (console, live) = (Arc::clone(&self.console), Arc::clone(&self.live));
        console.rendered.fetch_add(1, Relaxed);
        let (path, query) = (self.path.clone(), self.query.clone());
        let html = prefers_html(&self.headers);
        let rendered = blocking(move || {
            let request = ConsoleRequest { path: &path, query: &query, html };
            let mut page = console.pages.answer(&request, live.summaries().as_ref(), &live.state())?;
            let body = std::mem::take(&mut page.body);
            let worth = body.len() >= COMPRESS_FROM
                && (!page.media_type.starts_with("image/") || page.media_type.contains("svg"));
            let coding = if worth { coding } else { Coding::None };
            let bytes = super::body::compressed(body, coding).ok()?;
            Some((page, bytes, coding))
        });
        rendered.await
    }

    /// Returns the entity tag of the reply to this request.
    fn tag(&self) -> String {
        let revision = self.live.summaries().map(|summaries| summaries.revision()).unwrap_or_default();
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
        format!("{revision}-{:016x}", ContentDigest::of(parts.as_bytes()).0 as u64)
    }

    fn whole(
        &self,
        status: StatusCode,
        media: &'static str,
        kind: ReplyKind,
        bytes: Bytes,
        coding: Coding,
        tag: &str,
    ) -> Reply {
        let mut response = Reply::new(ReplyBody::from(bytes.clone()));
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

/// Adds the headers that keep foreign content from running.
fn guarded(mut response: Reply, kind: ReplyKind) -> Reply {
    let policy = if kind == ReplyKind::Icon { PICTURE_POLICY } else { PAGE_POLICY };
    let fixed = kind == ReplyKind::Asset || kind == ReplyKind::Icon;
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

/// Returns whether the client prefers HTML.
fn prefers_html(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accept.flat_map(|value| value.split(',')).any(|one| one.split(';').next().unwrap_or_default().trim() == "text/html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_released_once_when_readers_are_idle_and_after_large_drops() {
        let mut idle = IdleDetector::default();
        assert!(!idle.observe(0, false), "there were no requests");
        assert!(!idle.observe(5, false) && !idle.observe(9, false), "readers are busy");
        assert!(idle.observe(12, true), "large data was dropped");
        assert!(!idle.observe(15, false));
        assert!(idle.observe(15, false), "they rest");
        assert!(!idle.observe(15, false) && !idle.observe(15, false), "the memory was released already");
        assert!(idle.observe(15, true));
    }
}
