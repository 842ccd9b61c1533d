//! A scriptable registry that can misbehave in ways no real one does.

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::requests::{RecordedRequest, listen};

/// A fault of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseFault {
    /// Nothing.
    None,
    /// The connection is closed before the response.
    Reset,
    /// Too many requests; the client may retry after this many seconds.
    TooMany(u64),
    /// An error status.
    Status(u16),
    /// The body is truncated.
    Truncated,
    /// The body has other content of the same length.
    Wrong,
    /// The client is redirected endlessly.
    Redirect,
    /// The response is delayed.
    Silence(Duration),
    /// The body is sent byte by byte, with this delay after each.
    Drip(Duration),
}

/// A request, as recorded for tests.
#[derive(Debug, Clone)]
pub struct FakeRequest {
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers, with lowercase names.
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

/// A response.
#[derive(Debug, Clone, Default)]
pub struct FakeResponse {
    pub status: u16,
    /// The headers, without `Content-Length`.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl FakeResponse {
    /// Creates a response without a body.
    pub fn status(status: u16) -> FakeResponse {
        FakeResponse { status, ..FakeResponse::default() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> FakeResponse {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> FakeResponse {
        self.body = body.into();
        self
    }
}

type Rule = dyn Fn(&FakeRequest) -> (ResponseFault, Option<FakeResponse>) + Send + Sync;

/// Serves content over HTTP, with faults injected by a rule.
pub struct FakeRegistry {
    host: String,
    content: Arc<Mutex<HashMap<String, FakeResponse>>>,
    log: Arc<Mutex<Vec<FakeRequest>>>,
}

impl FakeRegistry {
    /// Starts a server on a free port; `rule` decides about each request. Its responses take precedence over the
    /// content.
    pub fn start(
        rule: impl Fn(&FakeRequest) -> (ResponseFault, Option<FakeResponse>) + Send + Sync + 'static,
    ) -> FakeRegistry {
        let content: Arc<Mutex<HashMap<String, FakeResponse>>> = Arc::default();
        let log: Arc<Mutex<Vec<FakeRequest>>> = Arc::default();
        let (shared, noted) = (Arc::clone(&content), Arc::clone(&log));
        let host = listen(move |stream| serve(stream, &shared, &noted, &rule)).expect("free port");
        FakeRegistry { host, content, log }
    }

    /// Returns the address with the port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Serves `body` at a path.
    pub fn put(&self, path: &str, media_type: &str, body: &[u8]) {
        let response = FakeResponse::status(200).header("Content-Type", media_type).body(body);
        self.content.lock().unwrap_or_else(PoisonError::into_inner).insert(path.into(), response);
    }

    /// Returns the requests so far.
    pub fn log(&self) -> Vec<FakeRequest> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(
    stream: TcpStream,
    content: &Mutex<HashMap<String, FakeResponse>>,
    log: &Mutex<Vec<FakeRequest>>,
    rule: &Rule,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(request) = read_request(&mut reader)? {
        log.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        let (fault, scripted) = rule(&request);
        let stored = || content.lock().unwrap_or_else(PoisonError::into_inner).get(&request.path).cloned();
        let default = || {
            if request.path == "/v2/" { FakeResponse::status(200).body("{}") } else { FakeResponse::status(404) }
        };
        let mut response = scripted.or_else(stored).unwrap_or_else(default);
        if response.status == 200
            && let Some(start) =
                request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'))
            && let Ok(start) = start.parse::<usize>()
            && start < response.body.len()
        {
            let range = format!("bytes {start}-{}/{}", response.body.len() - 1, response.body.len());
            response = FakeResponse { status: 206, body: response.body.split_off(start), ..response }
                .header("Content-Range", &range);
        }
        let mut length = response.body.len();
        match fault {
            ResponseFault::None | ResponseFault::Drip(_) => {}
            ResponseFault::Reset => return stream.shutdown(Shutdown::Both),
            ResponseFault::TooMany(seconds) => {
                response = FakeResponse::status(429).header("Retry-After", &seconds.to_string());
                length = 0;
            }
            ResponseFault::Status(status) => {
                response = FakeResponse::status(status);
                length = 0;
            }
            ResponseFault::Truncated => {
                let half = length / 2;
                response.body.truncate(half);
            }
            ResponseFault::Wrong => response.body.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1)),
            ResponseFault::Redirect => {
                response = FakeResponse::status(307).header("Location", &request.path);
                length = 0;
            }
            ResponseFault::Silence(time) => thread::sleep(time),
        }
        let mut head = format!("HTTP/1.1 {} x\r\nContent-Length: {length}\r\n", response.status);
        for (name, value) in &response.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let mut message = head.into_bytes();
        if let ResponseFault::Drip(pause) = fault {
            stream.write_all(&message)?;
            for byte in &response.body {
                stream.write_all(&[*byte])?;
                thread::sleep(pause);
            }
            continue;
        }
        if request.method != "HEAD" {
            message.extend_from_slice(&response.body);
        }
        stream.write_all(&message)?;
        if fault == ResponseFault::Truncated {
            return stream.shutdown(Shutdown::Both);
        }
    }
    Ok(())
}

fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<FakeRequest>> {
    let Some(head) = RecordedRequest::read(reader)? else { return Ok(None) };
    let mut body = vec![0; usize::try_from(head.length()).unwrap_or_default()];
    reader.read_exact(&mut body)?;
    Ok(Some(FakeRequest { method: head.method, path: head.path, headers: head.headers, body }))
}
