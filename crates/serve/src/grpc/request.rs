//! Receives the message of a request.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use h2::RecvStream;
use http::HeaderMap;
use tonic::Status;

use super::memory_budget::{MemoryBudget, Reservation};
use super::piece::PREFIX;

/// Requests up to this size need no reservation of their own.
const SMALL: usize = 1 << 10;

/// Receives the single message of a request.
pub(super) struct Incoming {
    stream: RecvStream,
    bytes: Received,
    limit: usize,
    hold: Option<Reservation>,
}

/// The bytes received so far. Nearly always the whole request arrives at once.
enum Received {
    Nothing,
    One(Bytes),
    Several(BytesMut),
}

impl Received {
    fn add(&mut self, bytes: Bytes) {
        match self {
            Received::Nothing => *self = Received::One(bytes),
            Received::One(first) => {
                let mut all = BytesMut::with_capacity(first.len() + bytes.len());
                all.extend_from_slice(first);
                all.extend_from_slice(&bytes);
                *self = Received::Several(all);
            }
            Received::Several(all) => all.extend_from_slice(&bytes),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Received::Nothing => &[],
            Received::One(bytes) => bytes,
            Received::Several(bytes) => bytes,
        }
    }

    fn take(&mut self) -> Bytes {
        match std::mem::replace(self, Received::Nothing) {
            Received::Nothing => Bytes::new(),
            Received::One(bytes) => bytes,
            Received::Several(bytes) => bytes.freeze(),
        }
    }
}

impl Incoming {
    pub(super) fn new(stream: RecvStream, limit: usize) -> Incoming {
        Incoming { stream, bytes: Received::Nothing, limit, hold: None }
    }

    /// Returns the message when the request is complete.
    ///
    /// # Errors
    /// Fails with the status for the caller when the request is malformed.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, memory: &MemoryBudget) -> Poll<Result<Bytes, Status>> {
        loop {
            match ready!(self.stream.poll_data(context)) {
                None => return Poll::Ready(self.finish()),
                Some(Err(error)) => return Poll::Ready(Err(Status::cancelled(error.to_string()))),
                Some(Ok(bytes)) => {
                    let _ = self.stream.flow_control().release_capacity(bytes.len());
                    // Bytes after the message are ignored and dropped.
                    let wanted =
                        self.wanted().map_or(usize::MAX, |wanted| wanted.saturating_sub(self.bytes.bytes().len()));
                    if wanted > 0 && !bytes.is_empty() {
                        self.bytes.add(bytes);
                    }
                    if let Err(status) = self.check(memory) {
                        return Poll::Ready(Err(status));
                    }
                }
            }
        }
    }

    /// Returns the length of prefix and message, once it is known.
    fn wanted(&self) -> Option<usize> {
        let length: [u8; 4] = self.bytes.bytes().get(1..PREFIX)?.try_into().ok()?;
        Some(u32::from_be_bytes(length) as usize + PREFIX)
    }

    /// Rejects messages that cannot be received.
    fn check(&mut self, memory: &MemoryBudget) -> Result<(), Status> {
        match self.bytes.bytes().first() {
            None | Some(0) => {}
            Some(1) => {
                return Err(Status::internal(
                    "protocol error: received message with compressed-flag but no grpc-encoding was specified",
                ));
            }
            Some(flag) => {
                return Err(Status::internal(format!(
                    "protocol error: received message with invalid compression flag: {flag} (valid flags are 0 and 1), \
                     while sending request"
                )));
            }
        }
        let Some(wanted) = self.wanted() else { return Ok(()) };
        let (length, limit) = (wanted - PREFIX, self.limit);
        if length > limit {
            return Err(Status::out_of_range(format!(
                "Error, decoded message length too large: found {length} bytes, the limit is: {limit} bytes"
            )));
        }
        if wanted > SMALL && self.hold.is_none() {
            self.hold =
                Some(memory.try_reserve(wanted).ok_or_else(|| Status::resource_exhausted("too many large requests"))?);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Bytes, Status> {
        let Some(wanted) = self.wanted() else {
            return Err(Status::internal(match self.bytes.bytes() {
                [] => "Missing request message.",
                _ => "Unexpected EOF decoding stream.",
            }));
        };
        let mut bytes = self.bytes.take();
        if bytes.len() < wanted {
            return Err(Status::internal("Unexpected EOF decoding stream."));
        }
        bytes.truncate(wanted);
        bytes.advance(PREFIX);
        Ok(bytes)
    }
}

/// Rejects compressed requests: requests are a few names, too short to compress.
///
/// # Errors
/// Fails with the status for the caller.
pub(super) fn check_encoding(headers: &HeaderMap) -> Result<(), Status> {
    let Some(encoding) = headers.get("grpc-encoding").filter(|encoding| *encoding != "identity") else {
        return Ok(());
    };
    let name = encoding.to_str().map_or_else(|_| format!("{:?}", encoding.as_bytes()), ToOwned::to_owned);
    let mut status = Status::unimplemented(format!("Content is compressed with `{name}` which isn't supported"));
    status.metadata_mut().insert("grpc-accept-encoding", tonic::metadata::MetadataValue::from_static("identity"));
    Err(status)
}

/// Returns the timeout that the caller sent.
pub(super) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.is_empty() || number.len() > 8 || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_parsed_like_in_the_protocol() {
        let read =
            |text: &str| timeout(&HeaderMap::from_iter([("grpc-timeout".parse().unwrap(), text.parse().unwrap())]));
        assert_eq!(read("5S"), Some(Duration::from_secs(5)));
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for wrong in ["", "S", "5", "5s", "-5S", "123456789S", "+5S"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
