//! OpenPGP: as much of it as simple signing needs.
//!
//! Keys of version 4 with RSA, ECDSA and Ed25519; messages that are signed once, compressed or not. Where GnuPG and
//! the standard leave a choice, the stricter one is taken: a signature is good, or it does not count.

mod armor;
mod keys;
mod message;
mod packet;
mod signed;
mod verify;

pub(crate) use keys::Ring;
pub(crate) use message::Message;
