//! Sending the catalog: whole or in parts, compressed or not, at the speed of the reader.

use std::io::{self, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

use super::conditions::{self, Verdict};
use crate::content::{Content, Reader};

/// Shorter bodies are not worth compressing.
const COMPRESS_FROM: u64 = 1024;
/// How many bytes are read at a time.
const CHUNK: usize = 64 << 10;
/// How many chunks wait for the reader.
const AHEAD: usize = 4;
const ZSTD_LEVEL: i32 = 3;

/// Sends the whole catalog, or a range of it.
pub(super) fn all(content: Arc<Content>, request: &Request) -> Response {
    let (tag, length) = (content.digest.clone(), content.length);
    let wants_range = request.headers().contains_key(header::RANGE);
    let coding = if wants_range { Coding::None } else { coding(request.headers(), length) };
    let tag = format!("{tag}{}", coding.suffix());
    if let Some(response) = answered(&content, &tag, request) {
        return response;
    }
    let fresh = request.headers().get(header::IF_RANGE).is_none_or(|condition| {
        condition
            .to_str()
            .is_ok_and(|one| conditions::matches(one, &tag, false) || one == conditions::format_time(content.since))
    });
    let range = if wants_range && fresh { range(request.headers(), length) } else { Range::Whole };
    match range {
        Range::Whole => {
            let mut response = send(&content, vec![(0, length)], coding, length, request);
            if coding == Coding::None {
                response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
            }
            with_headers(response, &content, &tag)
        }
        Range::Part(start, end) => {
            let mut response = send(&content, vec![(start, end - start)], Coding::None, end - start, request);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            insert(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes {start}-{}/{length}", end - 1));
            with_headers(response, &content, &tag)
        }
        Range::Outside => {
            let mut response = super::text(StatusCode::RANGE_NOT_SATISFIABLE, "416 Range Not Satisfiable\n");
            insert(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{length}"));
            response
        }
    }
}

/// Sends parts of the catalog.
pub(super) fn some(content: Arc<Content>, stretches: Vec<(u64, u64)>, tag: &str, request: &Request) -> Response {
    let length = stretches.iter().map(|(_, length)| length).sum();
    let coding = coding(request.headers(), length);
    let tag = format!("{tag}{}", coding.suffix());
    if let Some(response) = answered(&content, &tag, request) {
        return response;
    }
    let response = send(&content, stretches, coding, length, request);
    with_headers(response, &content, &tag)
}

/// Answers a request whose conditions make sending needless.
fn answered(content: &Content, tag: &str, request: &Request) -> Option<Response> {
    let status = match conditions::check(request.headers(), tag, content.since) {
        Verdict::Send => return None,
        Verdict::NotModified => StatusCode::NOT_MODIFIED,
        Verdict::Failed => StatusCode::PRECONDITION_FAILED,
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    Some(with_headers(response, content, tag))
}

fn with_headers(mut response: Response, content: &Content, tag: &str) -> Response {
    let headers = response.headers_mut();
    insert(headers, header::ETAG, &format!("\"{tag}\""));
    insert(headers, header::LAST_MODIFIED, &conditions::format_time(content.since));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/jsonl"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn insert(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn send(
    content: &Arc<Content>,
    stretches: Vec<(u64, u64)>,
    coding: Coding,
    length: u64,
    request: &Request,
) -> Response {
    let body = if *request.method() == Method::HEAD {
        Body::empty()
    } else {
        let reader = Reader::new(Arc::clone(content), stretches);
        let exact = (coding == Coding::None).then_some(length);
        Body::new(Streamed::start(reader, coding, exact))
    };
    let mut response = Response::new(body);
    match coding {
        Coding::None => insert(response.headers_mut(), header::CONTENT_LENGTH, &length.to_string()),
        Coding::Gzip => insert(response.headers_mut(), header::CONTENT_ENCODING, "gzip"),
        Coding::Zstd => insert(response.headers_mut(), header::CONTENT_ENCODING, "zstd"),
    }
    response
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    None,
    Gzip,
    Zstd,
}

impl Coding {
    /// Makes the tags of different bytes different.
    fn suffix(self) -> &'static str {
        match self {
            Coding::None => "",
            Coding::Gzip => "-gzip",
            Coding::Zstd => "-zstd",
        }
    }
}

/// Chooses among what the client accepts.
fn coding(headers: &HeaderMap, length: u64) -> Coding {
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

#[derive(Debug, PartialEq, Eq)]
enum Range {
    /// Everything: there is no range, or one that is not understood, or several.
    Whole,
    /// From, to but not including.
    Part(u64, u64),
    Outside,
}

fn range(headers: &HeaderMap, length: u64) -> Range {
    let value = headers.get(header::RANGE).and_then(|value| value.to_str().ok()).and_then(|v| v.strip_prefix("bytes="));
    let Some((first, last)) = value.filter(|value| !value.contains(',')).and_then(|value| value.trim().split_once('-'))
    else {
        return Range::Whole;
    };
    let number = |text: &str| text.parse::<u64>().ok();
    match (number(first), number(last)) {
        (Some(first), _) if first >= length => Range::Outside,
        (Some(first), None) if last.is_empty() => Range::Part(first, length),
        (Some(first), Some(last)) if first <= last => Range::Part(first, last.saturating_add(1).min(length)),
        (None, Some(0)) if first.is_empty() => Range::Outside,
        (None, Some(suffix)) if first.is_empty() && length > 0 => Range::Part(length.saturating_sub(suffix), length),
        _ => Range::Whole,
    }
}

/// A body that is read and compressed on another thread, a little ahead of whoever takes it.
struct Streamed {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    left: Option<u64>,
}

impl Streamed {
    fn start(reader: Reader, coding: Coding, exact: Option<u64>) -> Streamed {
        let (sender, chunks) = mpsc::channel(AHEAD);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = pump(reader, coding, &sender) {
                let _ = sender.blocking_send(Err(error));
            }
        });
        Streamed { chunks, left: exact }
    }
}

fn pump(reader: Reader, coding: Coding, sender: &mpsc::Sender<io::Result<Bytes>>) -> io::Result<()> {
    let mut reader: Box<dyn Read> = match coding {
        Coding::None => Box::new(reader),
        Coding::Gzip => Box::new(flate2::read::GzEncoder::new(reader, flate2::Compression::fast())),
        Coding::Zstd => Box::new(zstd::stream::read::Encoder::new(reader, ZSTD_LEVEL)?),
    };
    loop {
        let mut chunk = vec![0; CHUNK];
        let length = reader.read(&mut chunk)?;
        chunk.truncate(length);
        if length == 0 || sender.blocking_send(Ok(chunk.into())).is_err() {
            return Ok(());
        }
    }
}

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let polled = self.chunks.poll_recv(context);
        if let (Poll::Ready(Some(Ok(chunk))), Some(left)) = (&polled, &mut self.left) {
            *left = left.saturating_sub(chunk.len() as u64);
        }
        polled.map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map(SizeHint::with_exact).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parts_of_what_is_there() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, HeaderValue::from_static(text));
            range(&headers, 10)
        };
        assert_eq!(of("bytes=0-0"), Range::Part(0, 1));
        assert_eq!(of("bytes=5-"), Range::Part(5, 10));
        assert_eq!(of("bytes=-3"), Range::Part(7, 10));
        assert_eq!(of("bytes=-30"), Range::Part(0, 10));
        assert_eq!(of("bytes=3-99999999999999999999"), Range::Whole);
        assert_eq!(of("bytes=3-18446744073709551615"), Range::Part(3, 10));
        assert_eq!(of("bytes=10-"), Range::Outside);
        for whole in ["bytes=5-3", "bytes=-", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b"] {
            assert_eq!(of(whole), Range::Whole, "{whole}");
        }
    }

    #[test]
    fn codings_are_those_that_are_accepted() {
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
