//! Why bytes are not keys or a message, and why a message is not signed by one of the keys.

use std::io;

use fbc::spelling::calendar::rfc3339;

use super::message::MAX_CONTENT;
use super::packet::MAX_PACKETS;

/// Fingerprints and key IDs are in hexadecimal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenPgpError {
    #[error("it is not OpenPGP")]
    NotOpenPgp,
    #[error("it is a signature of plain text")]
    PlainText,
    #[error("its armor has no end")]
    ArmorWithoutEnd,
    #[error("its armor is not base64")]
    ArmorNotBase64,
    #[error("more than {MAX_PACKETS} packets")]
    TooManyPackets,
    #[error("a packet is damaged or truncated")]
    DamagedPacket,
    #[error("it is damaged")]
    Damaged,
    #[error("its content is damaged")]
    DamagedContent,
    #[error("its compression {0} is not supported")]
    Compression(u8),
    #[error("it cannot be decompressed: {0}")]
    Decompress(#[from] io::Error),
    #[error("it is larger than {MAX_CONTENT} bytes")]
    TooLarge,
    #[error("trailing data after the message")]
    TrailingData,
    #[error("it is not an OpenPGP message with exactly one signature (it has {0})")]
    NotOneSignature(usize),
    #[error("it is a text signature, which ignores line endings")]
    TextSignature,
    #[error("it is not a document signature (type {0:#04x})")]
    NotDocument(u8),
    #[error("the signature is damaged")]
    DamagedSignature,
    #[error("signatures of version {0} are not supported")]
    SignatureVersion(u8),
    #[error("the signature is empty")]
    EmptySignature,
    #[error("the signature has no creation time")]
    NoCreationTime,
    #[error("the signature has an unknown critical subpacket ({0})")]
    Critical(u8),
    #[error("it contains no OpenPGP key")]
    NoKey,
    #[error("it does not name its key")]
    NoIssuer,
    #[error("key {0} is not among the keys of the policy")]
    UnknownKey(String),
    #[error("it is not a valid signature of key {0} for this content")]
    Invalid(String),
    #[error("it uses SHA-1, which is broken")]
    Sha1,
    #[error("key {0} is revoked")]
    Revoked(String),
    #[error("key {0} has no self-signature")]
    NoSelfSignature(String),
    #[error("the subkey is missing")]
    NoSubkey,
    #[error("subkey {0} is revoked")]
    RevokedSubkey(String),
    #[error("subkey {subkey} does not belong to key {key}")]
    Unbound { subkey: String, key: String },
    #[error("subkey {0} is not for signing")]
    SubkeyNotForSigning(String),
    #[error("key {0} is not for signing")]
    NotForSigning(String),
    #[error("the signature is older than its key")]
    OlderThanKey,
    #[error("the signature has expired")]
    Expired,
    #[error("key {0} was created in the future")]
    FutureKey(String),
    #[error("key {key} expired at {}", rfc3339(*end))]
    ExpiredKey { key: String, end: i64 },
}
