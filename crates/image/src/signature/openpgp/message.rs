//! OpenPGP messages with one signature.

use std::io::Read;

use flate2::bufread::{DeflateDecoder, ZlibDecoder};

use super::armor;
use super::error::OpenPgpError;
use super::packet::{self, Bytes, COMPRESSED, LITERAL, MARKER, ONE_PASS, Packet, SIGNATURE};
use super::signed::{BINARY, Signed, TEXT};
use crate::signature::key::hex;

/// Maximum size of the content, in bytes. A claim has a few hundred.
pub(crate) const MAX_CONTENT: u64 = 1 << 20;

/// Maximum number of nested compressed packets.
const MAX_NESTING: usize = 2;

/// An unverified message: content and one signature.
pub(crate) struct OpenPgpMessage {
    content: Vec<u8>,
    signed: Signed,
}

impl OpenPgpMessage {
    pub(crate) fn parse(bytes: &[u8]) -> Result<OpenPgpMessage, OpenPgpError> {
        let mut packets = packet::read(&armor::open(bytes)?)?;
        for _ in 0..MAX_NESTING {
            match packets.as_slice() {
                [only] if only.tag == COMPRESSED => packets = packet::read(&inflate(&only.body)?)?,
                _ => break,
            }
        }
        packets.retain(|packet| packet.tag != MARKER);
        let tags: Vec<u8> = packets.iter().map(|packet| packet.tag).collect();
        let (content, signature) = match (tags.as_slice(), packets.as_slice()) {
            ([ONE_PASS, LITERAL, SIGNATURE], [_, content, signature]) => (content, signature),
            ([SIGNATURE, LITERAL], [signature, content]) => (content, signature),
            _ => {
                let signatures = tags.iter().filter(|tag| **tag == SIGNATURE).count();
                return Err(OpenPgpError::NotOneSignature(signatures));
            }
        };
        let signed = Signed::parse(&signature.body)?;
        match signed.kind {
            BINARY => {}
            TEXT => return Err(OpenPgpError::TextSignature),
            kind => return Err(OpenPgpError::NotDocument(kind)),
        }
        Ok(OpenPgpMessage { content: literal(content)?, signed })
    }

    /// Returns the signed content.
    pub(crate) fn content(&self) -> &[u8] {
        &self.content
    }

    pub(crate) fn signed(&self) -> &Signed {
        &self.signed
    }

    /// Returns the key ID that the signature claims.
    pub(crate) fn issuer(&self) -> Option<String> {
        self.signed.issuer.map(|id| hex(&id).to_uppercase())
    }

    /// Returns the creation time that the signature claims.
    pub(crate) fn created(&self) -> Option<i64> {
        Some(self.signed.created)
    }
}

fn literal(packet: &Packet) -> Result<Vec<u8>, OpenPgpError> {
    let mut bytes = Bytes(&packet.body);
    let mut skip = || {
        bytes.byte()?;
        let name = bytes.byte()?;
        bytes.take(usize::from(name))?;
        bytes.u32()
    };
    skip().ok_or(OpenPgpError::DamagedContent)?;
    Ok(bytes.0.to_vec())
}

fn inflate(body: &[u8]) -> Result<Vec<u8>, OpenPgpError> {
    let (&method, body) = body.split_first().ok_or(OpenPgpError::Damaged)?;
    let mut content = Vec::new();
    let mut unpack = |from: &mut dyn Read| from.take(MAX_CONTENT + 1).read_to_end(&mut content);
    let (read, rest) = match method {
        0 => (unpack(&mut &*body), &[][..]),
        1 => {
            let mut decoder = DeflateDecoder::new(body);
            (unpack(&mut decoder), decoder.into_inner())
        }
        2 => {
            let mut decoder = ZlibDecoder::new(body);
            (unpack(&mut decoder), decoder.into_inner())
        }
        other => return Err(OpenPgpError::Compression(other)),
    };
    read?;
    if content.len() as u64 > MAX_CONTENT {
        return Err(OpenPgpError::TooLarge);
    }
    if rest.is_empty() { Ok(content) } else { Err(OpenPgpError::TrailingData) }
}
