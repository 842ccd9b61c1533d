//! GraphQL over HTTP: requests are read within limits, and answered on threads that may block.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body as _;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::body::{Coding, ReplyBody, StreamSource};
use super::spool::{Spool, Spools};
use super::{Pools, Reply, Site, reply};
use crate::caught::blocking;
use crate::content::CatalogContent;
use crate::graphql;
use crate::live::{Blobs, LiveCatalog};

/// Maximum size of a request, in bytes.
const REQUEST: usize = 1 << 20;
/// Requests up to this size are read without limit on their number.
const SMALL: usize = 16 << 10;
/// Maximum number of larger requests that are read concurrently.
pub(super) const LARGE_REQUESTS: usize = 8;
/// Time limit for receiving a request.
const READING: Duration = Duration::from_secs(10);
/// Larger answers are spooled to a file for slow clients.
const HELD: usize = 64 << 10;

/// A received query.
pub(super) struct Query {
    content: Arc<CatalogContent>,
    live: Arc<LiveCatalog>,
    pools: Pools,
    spools: Arc<Spools>,
    large: Arc<Semaphore>,
    headers: HeaderMap,
    body: Incoming,
}

impl Query {
    /// Returns the catalog that a request queries, if it is a query of a served catalog.
    pub(super) fn target<B>(site: &Site, request: &Request<B>) -> Option<Arc<CatalogContent>> {
        let parts: Vec<&str> = request.uri().path().trim_start_matches('/').split('/').collect();
        let ["catalogs", name, "api", "v1", "graphql"] = parts.as_slice() else { return None };
        match site.blobs(name)? {
            Blobs::Ready(content) if *request.method() == Method::POST => Some(content),
            _ => None,
        }
    }

    pub(super) fn new(site: &Site, content: Arc<CatalogContent>, request: Request<Incoming>) -> Query {
        Query {
            content,
            live: Arc::clone(&site.live),
            pools: site.pools.clone(),
            spools: Arc::clone(&site.spools),
            large: Arc::clone(&site.large),
            headers: request.headers().clone(),
            body: request.into_body(),
        }
    }
}

/// The reason why the body of a request could not be read.
enum Unread {
    Refused,
    Busy,
    Slow,
}

/// The outcome of a query.
enum QueryOutcome {
    Held(Vec<u8>),
    /// The answer in a file, and its length.
    Spooled(Arc<Spool>, u64),
    Invalid(&'static str),
    NoRoom,
}

impl Query {
    /// Answers the query.
    pub(super) async fn run(mut self) -> Reply {
        let reply = match tokio::time::timeout(READING, read(&mut self.body, &self.large)).await {
            Ok(Ok((body, permit))) => {
                let reply = self.answer(body).await;
                drop(permit);
                reply
            }
            Ok(Err(Unread::Busy)) => super::retry_later("503 too many large queries\n"),
            Ok(Err(Unread::Refused)) => super::text(StatusCode::BAD_REQUEST, "Invalid request body\n"),
            Ok(Err(Unread::Slow)) | Err(_) => super::text(StatusCode::REQUEST_TIMEOUT, "408 Request Timeout\n"),
        };
        self.live.metrics.http(reply.status().as_u16());
        tracing::debug!(status = reply.status().as_u16(), "query");
        reply
    }

    async fn answer(&self, body: Vec<u8>) -> Reply {
        let Ok(_permit) = self.pools.queries.acquire().await else { return super::not_found() };
        let (content, spools) = (Arc::clone(&self.content), Arc::clone(&self.spools));
        let answered = blocking(move || {
            let answer = match graphql::GraphqlRequest::read(&body) {
                Ok(request) => request.answer(&content),
                Err(reason) => return QueryOutcome::Invalid(reason),
            };
            if answer.len() <= HELD {
                return QueryOutcome::Held(answer);
            }
            match spools.add(&answer) {
                Ok(Some(spool)) => QueryOutcome::Spooled(spool, answer.len() as u64),
                Ok(None) | Err(_) => QueryOutcome::NoRoom,
            }
        });
        match answered.await {
            QueryOutcome::Held(answer) => json(ReplyBody::from(bytes::Bytes::from(answer))),
            QueryOutcome::Spooled(spool, length) => self.spooled(spool, length),
            QueryOutcome::Invalid(reason) => super::text(StatusCode::BAD_REQUEST, &format!("{reason}\n")),
            QueryOutcome::NoRoom => super::retry_later("503 no room for the answer\n"),
        }
    }

    /// Sends an answer from a file, so that a client that does not read costs no memory.
    fn spooled(&self, spool: Arc<Spool>, length: u64) -> Reply {
        let coding = reply::coding(&self.headers, length);
        let exact = (coding == Coding::None).then_some(length);
        let mut response =
            json(ReplyBody::streamed(StreamSource::Spool(spool, 0), coding, exact, &self.pools.downloads));
        let (name, value) = match coding {
            Coding::None => (header::CONTENT_LENGTH, HeaderValue::from(length)),
            Coding::Gzip => (header::CONTENT_ENCODING, HeaderValue::from_static("gzip")),
            Coding::Zstd => (header::CONTENT_ENCODING, HeaderValue::from_static("zstd")),
        };
        response.headers_mut().insert(name, value);
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        response
    }
}

/// Answers a request for this path that is not a query, or comes before the catalog is loaded.
pub(super) fn refused(found: Option<Blobs>, method: &Method) -> Reply {
    if *method != Method::POST {
        let mut response = super::wrong_method();
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    match found {
        None => super::text(StatusCode::NOT_FOUND, "404 Not Found\n"),
        Some(Blobs::Unavailable(reason)) => {
            super::retry_later(&format!("503 the catalog cannot be served over HTTP: {reason}\n"))
        }
        Some(Blobs::Ready(_) | Blobs::Loading) => super::retry_later("503 the catalog is still being loaded\n"),
    }
}

fn json(body: ReplyBody) -> Reply {
    let mut response = Reply::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Reads the body of a request; a large one only within the limit of concurrent large requests.
async fn read(body: &mut Incoming, large: &Arc<Semaphore>) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Unread> {
    let (mut bytes, mut permit) = (Vec::new(), None);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
        let Ok(frame) = frame.map_err(|_| Unread::Slow)?.into_data() else { continue };
        if bytes.len() + frame.len() > REQUEST {
            return Err(Unread::Refused);
        }
        if bytes.len() + frame.len() > SMALL && permit.is_none() {
            permit = Some(Arc::clone(large).try_acquire_owned().map_err(|_| Unread::Busy)?);
        }
        bytes.extend_from_slice(&frame);
    }
    Ok((bytes, permit))
}
