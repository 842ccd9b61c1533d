//! The catalog over HTTP: all of it, parts of it, and a web page.

mod body;
pub mod conditions;
mod connection;
mod console;
mod events;
mod graphql;
mod page;
pub mod range;
mod reply;
mod spool;
mod wire;

use std::path::Path;
use std::sync::Arc;

use fbc::spelling::percent;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use tokio::sync::Semaphore;

use crate::catalogs::Catalogs;
use crate::content::{BlobFilter, CatalogContent, Pick};
use crate::live::{Blobs, LiveCatalog};
use crate::monitor::Monitored;
use crate::pages::Pages;
use body::ReplyBody;
pub(crate) use connection::serve;
use console::Console;
use spool::Spools;

type Reply = Response<ReplyBody>;

/// The content of an HTTP server.
pub(crate) struct Site {
    live: Arc<LiveCatalog>,
    /// The name of the catalog in paths; `None` on the debug port.
    catalog: Option<String>,
    /// Several catalogs by name, instead of the live one.
    catalogs: Option<Arc<Catalogs>>,
    /// Another process, whose state is served instead of ours.
    monitored: Option<Arc<dyn Monitored>>,
    /// The command line of the server, for debugging.
    command_line: Option<String>,
    /// The web console of the catalog.
    console: Option<Arc<Console>>,
    pools: Pools,
    /// Large answers to queries.
    spools: Arc<Spools>,
    /// Limits the number of large requests that are read concurrently.
    large: Arc<Semaphore>,
}

/// The threads that each kind of work may use, so that none waits for another. A connection has one request at a time,
/// and a pool serves its requests in the order of their arrival: connections share it evenly.
#[derive(Clone)]
struct Pools {
    downloads: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    queries: Arc<Semaphore>,
}

impl Pools {
    fn new() -> Pools {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let pool = |threads: usize| Arc::new(Semaphore::new(threads));
        // A chunk of a download or a page takes milliseconds, a query up to seconds.
        Pools { downloads: pool(2 * cores), pages: pool(2 * cores), queries: pool(cores) }
    }
}

impl Site {
    /// Serves the catalog under this name.
    pub(crate) fn catalog(live: &Arc<LiveCatalog>, name: &str) -> Site {
        Site::new(live, Some(name.to_owned()), None)
    }

    /// Serves the state of the server only.
    pub(crate) fn debug(live: &Arc<LiveCatalog>, command_line: &str) -> Site {
        Site::new(live, None, Some(command_line.to_owned()))
    }

    /// Serves several catalogs.
    pub(crate) fn catalogs(live: &Arc<LiveCatalog>, catalogs: Arc<Catalogs>) -> Site {
        Site { catalogs: Some(catalogs), ..Site::new(live, None, None) }
    }

    /// Serves the state of another process only.
    pub(crate) fn monitor(live: &Arc<LiveCatalog>, monitored: Arc<dyn Monitored>) -> Site {
        Site { monitored: Some(monitored), ..Site::new(live, None, None) }
    }

    /// Returns the blobs of a catalog, if it is served here.
    fn blobs(&self, name: &str) -> Option<Blobs> {
        match &self.catalogs {
            Some(catalogs) => catalogs.get(name).map(Blobs::Ready),
            None => (self.catalog.as_deref() == Some(name)).then(|| self.live.blobs()),
        }
    }

    fn new(live: &Arc<LiveCatalog>, catalog: Option<String>, command_line: Option<String>) -> Site {
        Site {
            live: Arc::clone(live),
            catalog,
            catalogs: None,
            monitored: None,
            command_line,
            console: None,
            pools: Pools::new(),
            spools: Arc::default(),
            large: Arc::new(Semaphore::new(graphql::LARGE_REQUESTS)),
        }
    }

    /// Adds the web console. A server on a loopback address accepts loopback host names and `hosts` only.
    pub(crate) fn with_pages(mut self, pages: Arc<dyn Pages>, local: bool, hosts: &[String]) -> Site {
        self.console = Some(Arc::new(Console::new(pages, local, hosts)));
        self
    }

    /// Returns whether a catalog is served here.
    pub(crate) fn has_catalog(&self) -> bool {
        self.catalog.is_some() || self.catalogs.is_some()
    }

    /// Answers a request; the catalog itself only on connections within the limit.
    fn answer<B>(&self, request: &Request<B>, within_limit: bool) -> Reply {
        let request = RequestHead { method: request.method(), uri: request.uri(), headers: request.headers() };
        let response = route(self, &request, within_limit);
        self.live.metrics.http(response.status().as_u16());
        tracing::debug!(method = %request.method, path = request.uri.path(), status = response.status().as_u16(), "request");
        response
    }
}

impl Site {
    /// Answers a request that panicked.
    fn internal_error(&self) -> Reply {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        self.live.metrics.http(status.as_u16());
        text(status, "500 internal error; the log of the server has the reason\n")
    }
}

/// The parts of a request that decide the reply.
struct RequestHead<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
}

fn route(site: &Site, request: &RequestHead<'_>, within_limit: bool) -> Reply {
    let path = request.uri.path();
    if let Some(mut clean) = cleaned(path) {
        if let Some(query) = request.uri.query() {
            clean = format!("{clean}?{query}");
        }
        let mut response = text(StatusCode::TEMPORARY_REDIRECT, "");
        if let Ok(clean) = HeaderValue::try_from(clean) {
            response.headers_mut().insert(header::LOCATION, clean);
        }
        return response;
    }
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    if let Some(monitored) = &site.monitored {
        return only_get(request, || state_of(&**monitored, path));
    }
    let state = || site.live.state();
    match (parts.as_slice(), &site.catalog) {
        (["healthz"], _) => only_get(request, || text(StatusCode::OK, "ok\n")),
        (["readyz"], _) => only_get(request, || {
            let state = state();
            let status = if state.serving { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            let word = if state.serving { "ok" } else { "not ready" };
            let detail = if state.detail.is_empty() { String::new() } else { format!(": {}", state.detail) };
            text(status, &format!("{word}{detail}\n"))
        }),
        (["metrics"], _) => {
            only_get(request, || metrics(&site.live.metrics.text(), "text/plain; version=0.0.4; charset=utf-8"))
        }
        (["debug", "pprof", "cmdline"], _) => match &site.command_line {
            Some(line) => only_get(request, || text(StatusCode::OK, line)),
            None => not_found(),
        },
        ([""], Some(name)) => only_get(request, || page::list(site, name)),
        (["openapi.json"], Some(name)) => only_get(request, || page::openapi(name)),
        (["catalogs", name, "api", "v1", rest @ ..], _) if !rest.is_empty() && site.has_catalog() => {
            if within_limit {
                catalog(site, name, rest, request)
            } else {
                retry_later("503 too many connections\n")
            }
        }
        _ => not_found(),
    }
}

/// Answers a request for the state of another process.
fn state_of(monitored: &dyn Monitored, path: &str) -> Reply {
    let unavailable = |reason: &str| text(StatusCode::SERVICE_UNAVAILABLE, reason);
    match path {
        "/healthz" if monitored.is_alive() => text(StatusCode::OK, "ok\n"),
        "/healthz" => unavailable("not ok\n"),
        "/readyz" => match monitored.problem() {
            None => text(StatusCode::OK, "ok\n"),
            Some(problem) => unavailable(&format!("not ok: {problem}\n")),
        },
        "/metrics" => metrics(&monitored.metrics(), "text/plain; version=0.0.4"),
        _ => not_found(),
    }
}

fn metrics(page: &str, media_type: &'static str) -> Reply {
    let mut response = text(StatusCode::OK, page);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

fn catalog(site: &Site, name: &str, rest: &[&str], request: &RequestHead<'_>) -> Reply {
    if !is_subdomain(name) {
        return text(
            StatusCode::BAD_REQUEST,
            "invalid catalog name: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
             validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n",
        );
    }
    if rest == ["graphql"] {
        return graphql::refused(site.blobs(name), request.method);
    }
    if !matches!(rest, ["all" | "metas"] | ["packages", _]) {
        return not_found();
    }
    if !matches!(*request.method, Method::GET | Method::HEAD) {
        return wrong_method();
    }
    let filter = match rest {
        ["metas"] => match filter(request.uri.query().unwrap_or_default()) {
            Some(filter) => Some(filter),
            None => return text(StatusCode::BAD_REQUEST, "400 Bad Request\n"),
        },
        _ => None,
    };
    let Some(blobs) = site.blobs(name) else { return text(StatusCode::NOT_FOUND, "404 Not Found\n") };
    let content = match blobs {
        Blobs::Ready(content) => content,
        Blobs::Loading => return retry_later("503 the catalog is still being loaded\n"),
        Blobs::Unavailable(reason) => {
            return retry_later(&format!("503 the catalog cannot be served over HTTP: {reason}\n"));
        }
    };
    match (rest, filter) {
        (["packages", package], _) => {
            let Some(package) = percent::decode(package) else { return not_found() };
            let pick = content.of_package(&package);
            if matches!(pick, Pick::Nothing) || content.length_of(pick) == 0 {
                return text(StatusCode::NOT_FOUND, "404 Not Found\n");
            }
            let tag = tag_of(&content, &format!("package={package}"));
            reply::selected(site, &content, pick, &tag, request)
        }
        (_, Some(filter)) if filter != BlobFilter::default() => {
            let pick = content.find(&filter);
            let tag = tag_of(&content, &format!("{}\0{}\0{}", filter.schema, filter.package, filter.name));
            reply::selected(site, &content, pick, &tag, request)
        }
        _ => reply::whole(site, &content, request),
    }
}

/// Asks the client to retry later.
fn retry_later(reason: &str) -> Reply {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, reason);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Returns the entity tag of a part of the content.
fn tag_of(content: &CatalogContent, part: &str) -> String {
    format!("{}-{:016x}", content.digest, crate::cache::ContentDigest::of(part.as_bytes()).0 as u64)
}

/// Parses the query of `metas`; `None` if it has an unknown parameter.
fn filter(query: &str) -> Option<BlobFilter> {
    let mut filter = BlobFilter::default();
    let mut seen = [false; 3];
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (percent::decode_query(key)?, percent::decode_query(value)?);
        let (place, target) = match key.as_str() {
            "schema" => (0, &mut filter.schema),
            "package" => (1, &mut filter.package),
            "name" => (2, &mut filter.name),
            _ => return None,
        };
        if !std::mem::replace(&mut seen[place], true) {
            *target = value;
        }
    }
    Some(filter)
}

/// Returns the path without empty and dotted segments, if it has any.
fn cleaned(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let last = parts.len().saturating_sub(1);
    let dirty = |(i, part): (usize, &&str)| matches!(*part, "." | "..") || (part.is_empty() && i < last);
    if !parts.iter().enumerate().any(dirty) {
        return None;
    }
    let mut clean: Vec<&str> = Vec::new();
    for part in &parts {
        match *part {
            "" | "." => {}
            ".." => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    let slash = if parts.last().is_some_and(|part| part.is_empty()) && !clean.is_empty() { "/" } else { "" };
    Some(format!("/{}{slash}", clean.join("/")))
}

/// Returns the name of a directory, or "catalog" if the name is not valid for a catalog.
pub fn directory_name(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if is_subdomain(&name) { name } else { "catalog".to_owned() }
}

/// Returns the last element of an image's repository, or "catalog" if it is not valid for a catalog.
pub fn image_name(reference: &str) -> String {
    let last = reference.split('@').next().and_then(|named| named.rsplit('/').next()).unwrap_or_default();
    let name = last.split(':').next().unwrap_or_default();
    if is_subdomain(name) { name.to_owned() } else { "catalog".to_owned() }
}

/// Returns whether a text is a valid catalog name.
pub fn is_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

fn only_get(request: &RequestHead<'_>, answer: impl FnOnce() -> Reply) -> Reply {
    match *request.method {
        Method::GET => answer(),
        Method::HEAD => answer().map(|_| ReplyBody::empty()),
        _ => wrong_method(),
    }
}

fn wrong_method() -> Reply {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

fn not_found() -> Reply {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn text(status: StatusCode, body: &str) -> Reply {
    let mut response = Response::new(ReplyBody::from(bytes::Bytes::from(body.to_owned())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalized_and_queries_are_parsed() {
        assert_eq!(cleaned("/catalogs/x/api/v1/all"), None);
        assert_eq!(cleaned("/"), None);
        assert_eq!(cleaned("//catalogs/../x/./y/"), Some("/x/y/".into()));
        let wanted = BlobFilter { schema: "olm.bundle".into(), package: String::new(), name: "a b".into() };
        assert_eq!(filter("schema=olm.bundle&name=a%20b&name=c&package="), Some(wanted));
        assert_eq!(filter("other=1"), None);
        assert_eq!(filter("name=%zz"), None);
        assert!(is_subdomain("my-catalog.v1") && !is_subdomain("My") && !is_subdomain("a..b") && !is_subdomain("-a"));
    }
}
