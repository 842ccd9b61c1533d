//! Signature packets.

use super::error::OpenPgpError;
use super::packet::Bytes;

pub(crate) const BINARY: u8 = 0x00;
pub(crate) const TEXT: u8 = 0x01;
pub(crate) const SUBKEY_BINDING: u8 = 0x18;
pub(crate) const KEY_BINDING: u8 = 0x19;
pub(crate) const DIRECT: u8 = 0x1f;
pub(crate) const KEY_REVOCATION: u8 = 0x20;
pub(crate) const SUBKEY_REVOCATION: u8 = 0x28;
pub(crate) const USER_REVOCATION: u8 = 0x30;

/// The key flag for signing data.
const MAY_SIGN: u8 = 0x02;

/// An unverified signature.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signed {
    pub(crate) kind: u8,
    pub(crate) algorithm: u8,
    pub(crate) hash: u8,
    /// The trailer that is hashed after the content.
    pub(crate) trailer: Vec<u8>,
    /// The signature numbers.
    pub(crate) numbers: Vec<u8>,
    /// The creation time, in seconds since 1970.
    pub(crate) created: i64,
    /// The validity in seconds; `None` means forever.
    pub(crate) lives: Option<u32>,
    /// The validity of the key after its creation, in seconds; `None` means forever.
    pub(crate) key_lives: Option<u32>,
    pub(crate) flags: Option<u8>,
    /// The ID of the issuing key: the last eight bytes of its fingerprint.
    pub(crate) issuer: Option<[u8; 8]>,
    /// The embedded cross-certification of a subkey.
    pub(crate) embedded: Option<Vec<u8>>,
    /// Whether another key may revoke this one.
    pub(crate) has_revoker: bool,
}

impl Signed {
    pub(crate) fn parse(body: &[u8]) -> Result<Signed, OpenPgpError> {
        match body.first() {
            Some(3) => old(body).ok_or(OpenPgpError::DamagedSignature),
            Some(4) => new(body),
            Some(version) => Err(OpenPgpError::SignatureVersion(*version)),
            None => Err(OpenPgpError::EmptySignature),
        }
    }

    /// Returns whether the key may sign data. A key without flags has all capabilities.
    pub(crate) fn may_sign(&self) -> bool {
        self.flags.is_none_or(|flags| flags & MAY_SIGN != 0)
    }

    /// Returns whether the signature is expired at `now`.
    pub(crate) fn is_expired(&self, now: i64) -> bool {
        self.lives.is_some_and(|seconds| seconds > 0 && self.created + i64::from(seconds) <= now)
    }
}

/// Version 3 has no subpackets; a few signers still use it.
fn old(body: &[u8]) -> Option<Signed> {
    let mut bytes = Bytes(body);
    bytes.byte()?;
    if bytes.byte()? != 5 {
        return None;
    }
    let trailer = Bytes(bytes.0).take(5)?.to_vec();
    let (kind, created) = (bytes.byte()?, i64::from(bytes.u32()?));
    let issuer = bytes.take(8)?.try_into().ok()?;
    let (algorithm, hash) = (bytes.byte()?, bytes.byte()?);
    bytes.take(2)?;
    let numbers = bytes.0.to_vec();
    Some(Signed { kind, algorithm, hash, trailer, numbers, created, issuer: Some(issuer), ..Signed::default() })
}

fn new(body: &[u8]) -> Result<Signed, OpenPgpError> {
    let mut bytes = Bytes(body);
    let head = bytes.take(4).ok_or(OpenPgpError::DamagedSignature)?;
    let length = bytes.u16().ok_or(OpenPgpError::DamagedSignature)?;
    let hashed = bytes.take(usize::from(length)).ok_or(OpenPgpError::DamagedSignature)?;
    let covered = &body[..6 + hashed.len()];
    let length = bytes.u16().ok_or(OpenPgpError::DamagedSignature)?;
    let loose = bytes.take(usize::from(length)).ok_or(OpenPgpError::DamagedSignature)?;
    bytes.take(2).ok_or(OpenPgpError::DamagedSignature)?;
    let mut trailer = covered.to_vec();
    trailer.extend([4, 0xff]);
    trailer.extend((covered.len() as u32).to_be_bytes());
    let mut signed = Signed {
        kind: head[1],
        algorithm: head[2],
        hash: head[3],
        trailer,
        numbers: bytes.0.to_vec(),
        created: -1,
        ..Signed::default()
    };
    subpackets(hashed, true, &mut signed)?;
    subpackets(loose, false, &mut signed)?;
    if signed.created < 0 {
        return Err(OpenPgpError::NoCreationTime);
    }
    Ok(signed)
}

/// Reads subpackets. Only hashed ones count, except for the issuer.
fn subpackets(area: &[u8], hashed: bool, signed: &mut Signed) -> Result<(), OpenPgpError> {
    let damaged = || OpenPgpError::DamagedSignature;
    let mut bytes = Bytes(area);
    while !bytes.0.is_empty() {
        let length = match bytes.byte().ok_or_else(damaged)? {
            length @ 0..192 => usize::from(length),
            255 => bytes.u32().and_then(|length| usize::try_from(length).ok()).ok_or_else(damaged)?,
            high => usize::from(high - 192) * 256 + usize::from(bytes.byte().ok_or_else(damaged)?) + 192,
        };
        let (&kind, content) = bytes.take(length).and_then(<[u8]>::split_first).ok_or_else(damaged)?;
        let number = || content.try_into().map(u32::from_be_bytes).map_err(|_| damaged());
        match (kind & 0x7f, hashed) {
            (2, true) => signed.created = i64::from(number()?),
            (3, true) => signed.lives = Some(number()?),
            (9, true) => signed.key_lives = Some(number()?),
            (27, true) => signed.flags = Some(content.first().copied().unwrap_or(0)),
            (12, true) => signed.has_revoker = true,
            (16, _) => signed.issuer = Some(content.try_into().map_err(|_| damaged())?),
            // The key version, then the fingerprint.
            (33, _) if content.first() == Some(&4) && content.len() == 21 && signed.issuer.is_none() => {
                signed.issuer = content[13..].try_into().ok();
            }
            (32, _) => signed.embedded = Some(content.to_vec()),
            // Preferences, names, notations and reasons have no effect here.
            (4..=7 | 11 | 21..=26 | 28..=31 | 33..=35 | 39, _) => {}
            _ if kind & 0x80 != 0 => {
                return Err(OpenPgpError::Critical(kind & 0x7f));
            }
            _ => {}
        }
    }
    Ok(())
}
