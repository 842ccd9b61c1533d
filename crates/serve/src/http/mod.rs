//! The catalog over HTTP: all of it, parts of it, and a page for people.

mod conditions;
mod page;
mod reply;

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;

use crate::content::{Content, Filter, stretches};
use crate::listen::{HttpListener, Listener};
use crate::live::Live;

/// What the HTTP side serves.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) live: Arc<Live>,
    /// The name of the catalog in paths; nothing where only the state of the server is told.
    pub(crate) catalog: Option<String>,
    /// What started the server, for those who debug it.
    pub(crate) command_line: Option<String>,
}

/// Answers on `listener` until `stop` is ready.
pub(crate) async fn serve(
    listener: Listener,
    limit: usize,
    site: Site,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = HttpListener::new(listener, limit, Arc::clone(&site.live));
    let router = Router::new().fallback(answer).with_state(site);
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}

async fn answer(State(site): State<Site>, request: Request) -> Response {
    let response = route(&site, &request);
    site.live.metrics.http(response.status().as_u16());
    tracing::debug!(method = %request.method(), path = request.uri().path(), status = response.status().as_u16(), "request");
    response
}

fn route(site: &Site, request: &Request) -> Response {
    let path = request.uri().path();
    if let Some(clean) = cleaned(path) {
        let mut response = text(StatusCode::TEMPORARY_REDIRECT, "");
        if let Ok(clean) = HeaderValue::try_from(clean) {
            response.headers_mut().insert(header::LOCATION, clean);
        }
        return response;
    }
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
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
        (["metrics"], _) => only_get(request, || {
            let mut response = text(StatusCode::OK, &site.live.metrics.text());
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"));
            response
        }),
        (["debug", "pprof", "cmdline"], _) => match &site.command_line {
            Some(line) => only_get(request, || text(StatusCode::OK, line)),
            None => not_found(),
        },
        ([""], Some(name)) => only_get(request, || page::list(site, name)),
        (["openapi.json"], Some(name)) => only_get(request, || page::openapi(name)),
        (["catalogs", name, "api", "v1", rest @ ..], Some(ours)) if !rest.is_empty() => {
            catalog(site, ours, name, rest, request)
        }
        _ => not_found(),
    }
}

fn catalog(site: &Site, ours: &str, name: &str, rest: &[&str], request: &Request) -> Response {
    if !is_subdomain(name) {
        return text(
            StatusCode::BAD_REQUEST,
            "invalid catalog name: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character\n",
        );
    }
    if !matches!(rest, ["all" | "metas"] | ["packages", _]) {
        return not_found();
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return wrong_method();
    }
    let filter = match rest {
        ["metas"] => match filter(request.uri().query().unwrap_or_default()) {
            Some(filter) => Some(filter),
            None => return text(StatusCode::BAD_REQUEST, "400 Bad Request\n"),
        },
        _ => None,
    };
    if name != ours {
        return text(StatusCode::NOT_FOUND, "404 Not Found\n");
    }
    let Some(content) = site.live.content() else {
        let mut response = text(StatusCode::SERVICE_UNAVAILABLE, "503 the catalog is still being loaded\n");
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return response;
    };
    match (rest, filter) {
        (["packages", package], _) => {
            let Some(package) = percent_decoded(package) else { return not_found() };
            let lines = content.of_package(&package);
            if lines.is_empty() {
                return text(StatusCode::NOT_FOUND, "404 Not Found\n");
            }
            let tag = tag_of(&content, &format!("package={package}"));
            reply::some(content, stretches(&lines), &tag, request)
        }
        (_, Some(filter)) if filter != Filter::default() => {
            let lines = content.find(&filter);
            let tag = tag_of(&content, &format!("{}\0{}\0{}", filter.schema, filter.package, filter.name));
            reply::some(content, stretches(&lines), &tag, request)
        }
        _ => reply::all(content, request),
    }
}

/// Makes the entity tag of a part of the content.
fn tag_of(content: &Content, part: &str) -> String {
    format!("{}-{:016x}", content.digest, crate::cache::Digest::of(part.as_bytes()).0 as u64)
}

/// Reads the query of `metas`; nothing when it has a parameter that does not exist.
fn filter(query: &str) -> Option<Filter> {
    let mut filter = Filter::default();
    let mut seen = [false; 3];
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (percent_decoded(&key.replace('+', " "))?, percent_decoded(&value.replace('+', " "))?);
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

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

/// Returns the path without empty and dotted parts, if it has any.
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

/// Tells whether a name can be the name of a catalog.
pub fn is_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

fn only_get(request: &Request, answer: impl FnOnce() -> Response) -> Response {
    match *request.method() {
        Method::GET => answer(),
        Method::HEAD => answer().map(|_| Body::empty()),
        _ => wrong_method(),
    }
}

fn wrong_method() -> Response {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

fn not_found() -> Response {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn text(status: StatusCode, body: &str) -> Response {
    let mut response = Response::new(Body::from(body.to_owned()));
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
    fn paths_are_cleaned_and_queries_are_read() {
        assert_eq!(cleaned("/catalogs/x/api/v1/all"), None);
        assert_eq!(cleaned("/"), None);
        assert_eq!(cleaned("//catalogs/../x/./y/"), Some("/x/y/".into()));
        let wanted = Filter { schema: "olm.bundle".into(), package: String::new(), name: "a b".into() };
        assert_eq!(filter("schema=olm.bundle&name=a%20b&name=c&package="), Some(wanted));
        assert_eq!(filter("other=1"), None);
        assert_eq!(filter("name=%zz"), None);
        assert!(is_subdomain("my-catalog.v1") && !is_subdomain("My") && !is_subdomain("a..b") && !is_subdomain("-a"));
    }
}
