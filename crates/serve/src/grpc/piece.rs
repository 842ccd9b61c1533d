//! Bytes of replies on their way to the peer.

use std::io::IoSlice;

use bytes::{Buf, Bytes};

use super::room::Hold;
use crate::spare;

/// What stands in front of a message: whether it is compressed, and its length.
pub(super) const PREFIX: usize = 5;

/// Bytes that are to be sent, with the room that they hold.
pub(crate) struct Piece {
    /// The prefix of the one message that follows; unused where messages bring theirs.
    prefix: [u8; PREFIX],
    bytes: Memory,
    /// How much of prefix and bytes is sent.
    at: usize,
    _hold: Option<Hold>,
}

enum Memory {
    Ours(Vec<u8>),
    Theirs(Bytes),
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Ours(bytes) => bytes,
            Memory::Theirs(bytes) => bytes,
        }
    }
}

/// Returns what stands in front of a message of `length` bytes.
pub(super) fn prefix(length: usize) -> [u8; PREFIX] {
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [0, a, b, c, d]
}

impl Piece {
    /// Makes a piece of one message.
    pub(super) fn message(message: Vec<u8>, hold: Hold) -> Piece {
        Piece { prefix: prefix(message.len()), bytes: Memory::Ours(message), at: 0, _hold: Some(hold) }
    }

    /// Makes a piece of messages that have their prefixes.
    pub(super) fn messages(bytes: Vec<u8>, hold: Hold) -> Piece {
        Piece { prefix: [0; PREFIX], bytes: Memory::Ours(bytes), at: PREFIX, _hold: Some(hold) }
    }

    /// Makes a piece of what another service sends.
    pub(super) fn foreign(bytes: Bytes, hold: Option<Hold>) -> Piece {
        Piece { prefix: [0; PREFIX], bytes: Memory::Theirs(bytes), at: PREFIX, _hold: hold }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Memory::Ours(bytes) = &mut self.bytes {
            spare::give_back(std::mem::take(bytes));
        }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        PREFIX + self.bytes.bytes().len() - self.at
    }

    fn chunk(&self) -> &[u8] {
        if self.at < PREFIX { &self.prefix[self.at..] } else { &self.bytes.bytes()[self.at - PREFIX..] }
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining(), "more is sent than there is");
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
    use super::super::room::{Pool, Room};
    use super::*;

    #[test]
    fn a_message_goes_out_behind_its_prefix_in_whatever_steps() {
        let room = Room::new(Pool::new());
        for step in 1..9 {
            let mut piece = Piece::message(b"abcdef".to_vec(), room.try_take(6).unwrap());
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
