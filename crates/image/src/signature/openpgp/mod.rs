//! The subset of OpenPGP that simple signing needs.
//!
//! Keys of version 4 with RSA, ECDSA and Ed25519; messages with one signature, compressed or not. Where GnuPG and the
//! standard leave a choice, this implementation takes the stricter one: a signature is valid, or it is rejected.

mod armor;
mod error;
mod keys;
mod message;
mod packet;
mod signed;
mod verify;

pub(crate) use error::OpenPgpError;
pub(crate) use keys::Keyring;
pub(crate) use message::OpenPgpMessage;
