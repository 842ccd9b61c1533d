//! Trusted keys, their capabilities and their expiry.

use super::armor;
use super::error::OpenPgpError;
use super::message::OpenPgpMessage;
use super::packet::{self, PUBLIC_KEY, PUBLIC_SUBKEY, Packet, SIGNATURE, USER_ATTRIBUTE, USER_ID};
use super::signed::{DIRECT, KEY_BINDING, KEY_REVOCATION, SUBKEY_BINDING, SUBKEY_REVOCATION, Signed, USER_REVOCATION};
use super::verify::{PublicKey, SHA1, framed};

/// A keyring.
#[derive(Default)]
pub(crate) struct Keyring {
    keys: Vec<PrimaryKey>,
}

/// A primary key with its user ID and subkeys.
struct PrimaryKey {
    key: PublicKey,
    name: Option<String>,
    state: KeyState,
    /// The self-signature of the primary key.
    self_signature: Option<Signed>,
    subkeys: Vec<Subkey>,
}

struct Subkey {
    key: PublicKey,
    state: KeyState,
    binding: Option<Signed>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyState {
    Good,
    Revoked,
}

impl Keyring {
    /// Adds keys, armored or binary.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), OpenPgpError> {
        let packets = packet::read(&armor::open(bytes)?)?;
        let before = self.keys.len();
        let mut rest = packets.as_slice();
        while let Some(start) = rest.iter().position(|packet| packet.tag == PUBLIC_KEY) {
            rest = &rest[start..];
            let length = rest[1..].iter().position(|packet| packet.tag == PUBLIC_KEY).map_or(rest.len(), |it| it + 1);
            let (one, after) = rest.split_at(length);
            // Keys of other versions are skipped; their signatures count as made by an unknown key.
            self.keys.extend(PublicKey::parse(&one[0].body).map(|key| primary(key, &one[1..])));
            rest = after;
        }
        if self.keys.len() == before { Err(OpenPgpError::NoKey) } else { Ok(()) }
    }

    /// Checks that a message is signed by one of the keys, and returns the signer.
    pub(crate) fn check(&self, message: &OpenPgpMessage, now: i64) -> Result<String, OpenPgpError> {
        let signed = message.signed();
        let id = message.issuer().ok_or(OpenPgpError::NoIssuer)?;
        let mut outcome = Err(OpenPgpError::UnknownKey(id.clone()));
        for primary in &self.keys {
            let subkeys = primary.subkeys.iter().map(|subkey| &subkey.key);
            for key in std::iter::once(&primary.key).chain(subkeys).filter(|key| Some(key.id()) == signed.issuer) {
                if key.verifies(message.content(), signed) {
                    return primary.may_sign(key, signed, now).map(|()| primary.shown(key));
                }
                outcome = Err(OpenPgpError::Invalid(id.clone()));
            }
        }
        outcome
    }
}

impl PrimaryKey {
    /// Checks that one of these keys was allowed to make `signed` and is valid `now`.
    fn may_sign(&self, key: &PublicKey, signed: &Signed, now: i64) -> Result<(), OpenPgpError> {
        let name = key.fingerprint();
        if signed.hash == SHA1 {
            return Err(OpenPgpError::Sha1);
        }
        if self.state == KeyState::Revoked {
            return Err(OpenPgpError::Revoked(self.key.fingerprint()));
        }
        let self_signature =
            self.self_signature.as_ref().ok_or_else(|| OpenPgpError::NoSelfSignature(self.key.fingerprint()))?;
        expired(&self.key, self_signature, now)?;
        if key.fingerprint() != self.key.fingerprint() {
            let subkey = self.subkeys.iter().find(|subkey| subkey.key.fingerprint() == name);
            let subkey = subkey.ok_or(OpenPgpError::NoSubkey)?;
            if subkey.state == KeyState::Revoked {
                return Err(OpenPgpError::RevokedSubkey(name));
            }
            let unbound = || OpenPgpError::Unbound { subkey: name.clone(), key: self.key.fingerprint() };
            let binding = subkey.binding.as_ref().ok_or_else(unbound)?;
            expired(&subkey.key, binding, now)?;
            if binding.flags.is_none() || !binding.may_sign() {
                return Err(OpenPgpError::SubkeyNotForSigning(name));
            }
        } else if !self_signature.may_sign() {
            return Err(OpenPgpError::NotForSigning(name));
        }
        if signed.created < key.created {
            return Err(OpenPgpError::OlderThanKey);
        }
        if signed.is_expired(now) {
            return Err(OpenPgpError::Expired);
        }
        Ok(())
    }

    fn shown(&self, key: &PublicKey) -> String {
        let mut text = self.key.fingerprint();
        if let Some(name) = &self.name {
            text = format!("{text} ({name})");
        }
        if key.fingerprint() == self.key.fingerprint() { text } else { format!("{text}, subkey {}", key.fingerprint()) }
    }
}

fn expired(key: &PublicKey, self_signature: &Signed, now: i64) -> Result<(), OpenPgpError> {
    if key.created > now {
        return Err(OpenPgpError::FutureKey(key.fingerprint()));
    }
    match self_signature.key_lives.filter(|seconds| *seconds > 0).map(|seconds| key.created + i64::from(seconds)) {
        Some(end) if end <= now => Err(OpenPgpError::ExpiredKey { key: key.fingerprint(), end }),
        _ => Ok(()),
    }
}

/// Collects the packets of a key and verifies its self-signatures.
fn primary(key: PublicKey, packets: &[Packet]) -> PrimaryKey {
    let mut primary = PrimaryKey { key, name: None, state: KeyState::Good, self_signature: None, subkeys: Vec::new() };
    let mut direct: Option<Signed> = None;
    let (mut has_revoker, mut foreign_revocation) = (false, false);
    let head = packets.iter().position(|packet| packet.tag != SIGNATURE).unwrap_or(packets.len());
    for signed in signatures(&packets[..head]) {
        let verified = primary.key.verifies(&framed(&primary.key.body), &signed);
        match signed.kind {
            KEY_REVOCATION if verified => primary.state = KeyState::Revoked,
            KEY_REVOCATION => foreign_revocation = true,
            DIRECT if verified => {
                has_revoker |= signed.has_revoker;
                newer(&mut direct, signed);
            }
            _ => {}
        }
    }
    let mut rest = &packets[head..];
    let mut certified: Option<Signed> = None;
    while let Some((first, after)) = rest.split_first() {
        let length = after.iter().position(|packet| packet.tag != SIGNATURE).unwrap_or(after.len());
        let (attached, next) = after.split_at(length);
        match first.tag {
            USER_ID | USER_ATTRIBUTE => {
                if let Some(signed) = user(&primary.key, first, attached) {
                    has_revoker |= signed.has_revoker;
                    let is_newest = certified.as_ref().is_none_or(|it| signed.created >= it.created);
                    if first.tag == USER_ID && is_newest {
                        let name: String = String::from_utf8_lossy(&first.body).chars().take(200).collect();
                        primary.name = Some(name.replace(char::is_control, " "));
                    }
                    newer(&mut certified, signed);
                }
            }
            PUBLIC_SUBKEY => primary.subkeys.extend(subkey(&primary.key, first, attached)),
            _ => {}
        }
        rest = next;
    }
    if has_revoker && foreign_revocation {
        // A designated revoker may have revoked the key; its signature cannot be verified here, so reject the key.
        primary.state = KeyState::Revoked;
    }
    // A direct-key signature overrides the user ID certification.
    primary.self_signature = match (direct, certified) {
        (Some(direct), Some(certified)) => Some(Signed {
            key_lives: direct.key_lives.or(certified.key_lives),
            flags: direct.flags.or(certified.flags),
            ..certified
        }),
        (_, certified) => certified,
    };
    primary
}

/// Returns the latest certification of a user ID, unless it is revoked.
fn user(key: &PublicKey, packet: &Packet, packets: &[Packet]) -> Option<Signed> {
    let mark = if packet.tag == USER_ID { 0xb4 } else { 0xd1 };
    let length = u32::try_from(packet.body.len()).ok()?.to_be_bytes();
    let content = [framed(&key.body).as_slice(), &[mark], &length, &packet.body].concat();
    let mut newest = None;
    for signed in signatures(packets) {
        if matches!(signed.kind, 0x10..=0x13 | USER_REVOCATION) && key.verifies(&content, &signed) {
            newer(&mut newest, signed);
        }
    }
    newest.filter(|signed| signed.kind != USER_REVOCATION)
}

fn subkey(primary: &PublicKey, packet: &Packet, packets: &[Packet]) -> Option<Subkey> {
    let key = PublicKey::parse(&packet.body)?;
    let content = [framed(&primary.body), framed(&key.body)].concat();
    let mut subkey = Subkey { key, state: KeyState::Good, binding: None };
    for signed in signatures(packets).into_iter().filter(|signed| primary.verifies(&content, signed)) {
        match signed.kind {
            SUBKEY_REVOCATION => subkey.state = KeyState::Revoked,
            SUBKEY_BINDING => newer(&mut subkey.binding, signed),
            _ => {}
        }
    }
    // A signing subkey must cross-certify its primary key: otherwise anybody could claim it.
    let agrees = |signed: &Signed| {
        let embedded = signed.embedded.as_deref().and_then(|body| Signed::parse(body).ok());
        embedded.is_some_and(|it| it.kind == KEY_BINDING && subkey.key.verifies(&content, &it))
    };
    if !subkey.binding.as_ref().is_some_and(agrees) {
        subkey.binding = None;
    }
    Some(subkey)
}

fn signatures(packets: &[Packet]) -> Vec<Signed> {
    packets.iter().filter_map(|packet| Signed::parse(&packet.body).ok()).collect()
}

fn newer(slot: &mut Option<Signed>, signed: Signed) {
    if slot.as_ref().is_none_or(|old| signed.created >= old.created) {
        *slot = Some(signed);
    }
}
