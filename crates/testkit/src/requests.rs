//! Parses HTTP/1.1 requests for fake registries.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Maximum length of a request line. Only our own clients connect, and they need less.
const LINE_LENGTH: u64 = 64 << 10;

/// A request without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers, with lowercase names; the last one of a name wins.
    pub headers: HashMap<String, String>,
}

impl RecordedRequest {
    /// Reads the next request of a connection; `None` at its end.
    ///
    /// # Errors
    /// Fails when the connection breaks or a line is not terminated.
    pub fn read(reader: &mut impl BufRead) -> io::Result<Option<RecordedRequest>> {
        let line = line(reader)?;
        let mut words = line.split_whitespace();
        let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
        let (method, path) = (method.to_owned(), path.to_owned());
        let mut headers = HashMap::new();
        while let Some((name, value)) = self::line(reader)?.trim_end().split_once(':') {
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        Ok(Some(RecordedRequest { method, path, headers }))
    }

    /// Returns the length of the body.
    pub fn length(&self) -> u64 {
        self.headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)
    }

    /// Returns the start of the requested range, if any.
    pub fn start(&self) -> Option<u64> {
        self.headers.get("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    io::Read::take(reader.by_ref(), LINE_LENGTH).read_line(&mut line)?;
    match line.len() as u64 == LINE_LENGTH {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, "a line of a request is not terminated")),
        false => Ok(line),
    }
}

/// Listens on a free port, calls `serve` for each connection on its own thread, and returns the address.
///
/// # Errors
/// Fails when no port is available.
pub fn listen(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let host = listener.local_addr()?.to_string();
    let serve = Arc::new(serve);
    // The thread ends with the process.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || {
                // A client that disconnects is not an error.
                let _ = stream.set_nodelay(true).and_then(|()| serve(stream));
            });
        }
    });
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_connection_are_parsed_in_sequence() {
        let text =
            "GET /v2/a?b HTTP/1.1\r\nRange: bytes=7-\r\nX:y\r\n\r\nPUT /c HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
        let mut reader = text.as_bytes();
        let first = RecordedRequest::read(&mut reader).unwrap().unwrap();
        assert_eq!(
            (first.method.as_str(), first.path.as_str(), first.start(), first.length()),
            ("GET", "/v2/a?b", Some(7), 0)
        );
        assert_eq!(first.headers["x"], "y");
        let second = RecordedRequest::read(&mut reader).unwrap().unwrap();
        assert_eq!((second.method.as_str(), second.start(), second.length()), ("PUT", None, 5));
        assert_eq!(reader, b"hello");
        assert_eq!(RecordedRequest::read(&mut &b""[..]).unwrap(), None);
        assert!(RecordedRequest::read(&mut "x".repeat(1 << 20).as_bytes()).is_err());
    }
}
