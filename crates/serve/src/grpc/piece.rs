//! Bytes of replies on their way to the peer.

use std::io::IoSlice;

use bytes::{Buf, Bytes};

use super::memory_budget::Reservation;
use crate::buffer_pool;

/// The length of the gRPC message prefix: compression flag and message length.
pub(super) const PREFIX: usize = 5;

/// Bytes to send, with the memory reservation that they hold.
pub(crate) struct ReservedBytes {
    /// The prefix of the one message that follows; unused where messages include theirs.
    prefix: [u8; PREFIX],
    bytes: Memory,
    /// The number of sent bytes of prefix and message.
    at: usize,
    _hold: Option<Reservation>,
}

enum Memory {
    Owned(Vec<u8>),
    Shared(Bytes),
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Owned(bytes) => bytes,
            Memory::Shared(bytes) => bytes,
        }
    }
}

/// Returns the prefix of a message of `length` bytes.
pub(super) fn prefix(length: usize) -> [u8; PREFIX] {
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [0, a, b, c, d]
}

impl ReservedBytes {
    /// Creates a piece of one message.
    pub(super) fn message(message: Vec<u8>, hold: Reservation) -> ReservedBytes {
        ReservedBytes { prefix: prefix(message.len()), bytes: Memory::Owned(message), at: 0, _hold: Some(hold) }
    }

    /// Creates a piece of messages that include their prefixes.
    pub(super) fn messages(bytes: Vec<u8>, hold: Reservation) -> ReservedBytes {
        ReservedBytes { prefix: [0; PREFIX], bytes: Memory::Owned(bytes), at: PREFIX, _hold: Some(hold) }
    }

    /// Creates a piece of bytes from another service.
    pub(super) fn foreign(bytes: Bytes, hold: Option<Reservation>) -> ReservedBytes {
        ReservedBytes { prefix: [0; PREFIX], bytes: Memory::Shared(bytes), at: PREFIX, _hold: hold }
    }
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        if let Memory::Owned(bytes) = &mut self.bytes {
            buffer_pool::recycle(std::mem::take(bytes));
        }
    }
}

impl Buf for ReservedBytes {
    fn remaining(&self) -> usize {
        PREFIX + self.bytes.bytes().len() - self.at
    }

    fn chunk(&self) -> &[u8] {
        if self.at < PREFIX { &self.prefix[self.at..] } else { &self.bytes.bytes()[self.at - PREFIX..] }
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining(), "advanced past the end");
        self.at += count;
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut used = 0;
        let prefix = &self.prefix[self.at.min(PREFIX)..];
        let bytes = &self.bytes.bytes()[self.at.saturating_sub(PREFIX)..];
        for part in [prefix, bytes].into_iter().filter(|part| !part.is_empty()) {
            let Some(slice) = slices.get_mut(used) else { break };
            *slice = IoSlice::new(part);
            used += 1;
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory_budget::{MemoryBudget, MemoryPool};
    use super::*;

    #[test]
    fn a_message_follows_its_prefix_in_chunks_of_any_size() {
        let memory = MemoryBudget::new(MemoryPool::new());
        for step in 1..9 {
            let mut piece = ReservedBytes::message(b"abcdef".to_vec(), memory.try_reserve(6).unwrap());
            let mut sent = Vec::new();
            while piece.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 4];
                let used = piece.chunks_vectored(&mut slices);
                let all: Vec<u8> = slices[..used].iter().flat_map(|slice| slice.to_vec()).collect();
                assert_eq!(all.len(), piece.remaining());
                let length = step.min(piece.chunk().len());
                sent.extend_from_slice(&piece.chunk()[..length]);
                piece.advance(length);
            }
            assert_eq!(sent, b"\0\0\0\0\x06abcdef");
        }
    }
}
