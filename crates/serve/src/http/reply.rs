//! Sends the catalog: whole or in parts, compressed or not, at the speed of the client.

use std::collections::VecDeque;
use std::sync::Arc;

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};

use super::body::{Coding, ReplyBody, StreamSource};
use super::conditions::{self, Verdict};
use super::range::{self, ContentRange};
use super::{Reply, RequestHead, Site};
use crate::content::{CatalogContent, ContentPiece, ContentReader, ContentSelection, Pick};

/// Shorter bodies are not worth compressing.
const COMPRESS_FROM: u64 = 1024;
const JSON_LINES: &str = "application/jsonl";

/// Sends the whole catalog, or ranges of it.
pub(super) fn whole(site: &Site, content: &Arc<CatalogContent>, request: &RequestHead<'_>) -> Reply {
    let length = content.length;
    let wants_range = request.headers.contains_key(header::RANGE);
    let coding = if wants_range { Coding::None } else { coding(request.headers, length) };
    let tag = format!("{}{}", content.digest, suffix(coding));
    if let Some(response) = answered(content, &tag, request) {
        return response;
    }
    let fresh = request.headers.get(header::IF_RANGE).is_none_or(|condition| {
        condition
            .to_str()
            .is_ok_and(|one| conditions::matches(one, &tag, false) || one == conditions::format_time(content.since))
    });
    let range = if wants_range && fresh { range::of(request.headers, length) } else { ContentRange::Whole };
    match range {
        ContentRange::Whole => {
            let mut response = send(site, content, ContentSelection::range(0, length), coding, length, request);
            if coding == Coding::None {
                response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
            }
            with_content_headers(response, content, &tag, JSON_LINES)
        }
        ContentRange::Parts(parts) if parts.len() == 1 => {
            let (start, end) = parts[0];
            let selection = ContentSelection::range(start, end - start);
            let mut response = send(site, content, selection, Coding::None, end - start, request);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            insert(response.headers_mut(), header::CONTENT_RANGE, &content_range((start, end), length));
            with_content_headers(response, content, &tag, JSON_LINES)
        }
        ContentRange::Parts(parts) => {
            // Lines of JSON contain no carriage return, so that the boundary never occurs in them.
            let boundary = format!("opm-{}", content.digest);
            let (pieces, size) = multipart(&parts, length, &boundary);
            let mut response = send(site, content, ContentSelection::Pieces(pieces), Coding::None, size, request);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            with_content_headers(response, content, &tag, &format!("multipart/byteranges; boundary={boundary}"))
        }
        ContentRange::Outside => {
            let mut response = super::text(StatusCode::RANGE_NOT_SATISFIABLE, "416 Range Not Satisfiable\n");
            insert(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{length}"));
            response
        }
    }
}

fn content_range((start, end): (u64, u64), length: u64) -> String {
    format!("bytes {start}-{}/{length}", end - 1)
}

/// Combines several ranges into a multipart body; also returns its length.
fn multipart(parts: &[(u64, u64)], length: u64, boundary: &str) -> (VecDeque<ContentPiece>, u64) {
    let mut pieces = VecDeque::new();
    let mut size = 0;
    for (i, part) in parts.iter().enumerate() {
        let line = if i == 0 { "" } else { "\r\n" };
        let range = content_range(*part, length);
        let head = format!("{line}--{boundary}\r\nContent-Type: {JSON_LINES}\r\nContent-Range: {range}\r\n\r\n");
        let (start, end) = *part;
        size += head.len() as u64 + (end - start);
        pieces.extend([ContentPiece::Text(head.into()), ContentPiece::Range(start, end - start)]);
    }
    let last = format!("\r\n--{boundary}--\r\n");
    size += last.len() as u64;
    pieces.push_back(ContentPiece::Text(last.into()));
    (pieces, size)
}

/// Sends the selected blobs of the catalog.
pub(super) fn selected(
    site: &Site,
    content: &Arc<CatalogContent>,
    pick: Pick,
    tag: &str,
    request: &RequestHead<'_>,
) -> Reply {
    let length = content.length_of(pick);
    let coding = coding(request.headers, length);
    let tag = format!("{tag}{}", suffix(coding));
    if let Some(response) = answered(content, &tag, request) {
        return response;
    }
    let response = send(site, content, ContentSelection::Lines(pick, 0), coding, length, request);
    with_content_headers(response, content, &tag, JSON_LINES)
}

/// Answers a conditional request that needs no body.
fn answered(content: &CatalogContent, tag: &str, request: &RequestHead<'_>) -> Option<Reply> {
    let status = match conditions::check(request.headers, tag, content.since) {
        Verdict::Send => return None,
        Verdict::NotModified => StatusCode::NOT_MODIFIED,
        Verdict::Failed => StatusCode::PRECONDITION_FAILED,
    };
    let mut response = Reply::new(ReplyBody::empty());
    *response.status_mut() = status;
    Some(with_headers(response, content, tag))
}

/// Adds the headers of the content, whether it is sent or not.
fn with_headers(mut response: Reply, content: &CatalogContent, tag: &str) -> Reply {
    let headers = response.headers_mut();
    insert(headers, header::ETAG, &format!("\"{tag}\""));
    insert(headers, header::LAST_MODIFIED, &conditions::format_time(content.since));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

/// Adds the headers of content that is sent.
fn with_content_headers(response: Reply, content: &CatalogContent, tag: &str, kind: &str) -> Reply {
    let mut response = with_headers(response, content, tag);
    insert(response.headers_mut(), header::CONTENT_TYPE, kind);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn send(
    site: &Site,
    content: &Arc<CatalogContent>,
    selection: ContentSelection,
    coding: Coding,
    length: u64,
    request: &RequestHead<'_>,
) -> Reply {
    let body = if *request.method == Method::HEAD {
        ReplyBody::empty()
    } else {
        let reader = ContentReader::new(Arc::clone(content), selection);
        let exact = (coding == Coding::None).then_some(length);
        ReplyBody::streamed(StreamSource::Content(reader), coding, exact, &site.pools.downloads)
    };
    let mut response = Reply::new(body);
    match coding {
        Coding::None => insert(response.headers_mut(), header::CONTENT_LENGTH, &length.to_string()),
        Coding::Gzip => insert(response.headers_mut(), header::CONTENT_ENCODING, "gzip"),
        Coding::Zstd => insert(response.headers_mut(), header::CONTENT_ENCODING, "zstd"),
    }
    response
}

/// Returns the suffix that makes the entity tag of each coding unique.
fn suffix(coding: Coding) -> &'static str {
    match coding {
        Coding::None => "",
        Coding::Gzip => "-gzip",
        Coding::Zstd => "-zstd",
    }
}

/// Chooses a coding that the client accepts.
pub(super) fn coding(headers: &HeaderMap, length: u64) -> Coding {
    if length < COMPRESS_FROM {
        return Coding::None;
    }
    let accepts = |name: &str| {
        headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| {
            value.split(',').any(|one| {
                let mut parts = one.split(';').map(str::trim);
                let named = parts.next().is_some_and(|coding| coding.eq_ignore_ascii_case(name));
                named
                    && !parts
                        .any(|part| part.strip_prefix("q=").is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q == 0.0)))
            })
        })
    };
    match () {
        () if accepts("zstd") => Coding::Zstd,
        () if accepts("gzip") => Coding::Gzip,
        () => Coding::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings_must_be_accepted_by_the_client() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(text));
            coding(&headers, 5000)
        };
        assert_eq!(of("gzip, zstd"), Coding::Zstd);
        assert_eq!(of("gzip;q=0.5, zstd;q=0"), Coding::Gzip);
        assert_eq!(of("identity"), Coding::None);
    }
}
