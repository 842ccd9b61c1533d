//! Keys that are trusted: which of them may sign, and until when.

use spelling::calendar::rfc3339;

use super::armor;
use super::message::Message;
use super::packet::{self, PUBLIC_KEY, PUBLIC_SUBKEY, Packet, SIGNATURE, USER_ATTRIBUTE, USER_ID};
use super::signed::{DIRECT, KEY_BINDING, KEY_REVOCATION, SUBKEY_BINDING, SUBKEY_REVOCATION, Signed, USER_REVOCATION};
use super::verify::{PublicKey, SHA1, framed};

/// Keys.
#[derive(Default)]
pub(crate) struct Ring {
    keys: Vec<Owner>,
}

/// A primary key with all that belongs to it.
struct Owner {
    key: PublicKey,
    name: Option<String>,
    state: State,
    /// What the primary key says of itself.
    own: Option<Signed>,
    subkeys: Vec<Subkey>,
}

struct Subkey {
    key: PublicKey,
    state: State,
    binding: Option<Signed>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    Revoked,
}

impl Ring {
    /// Adds keys, armored or not.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        let packets = packet::read(&armor::open(bytes)?)?;
        let before = self.keys.len();
        let mut rest = packets.as_slice();
        while let Some(start) = rest.iter().position(|packet| packet.tag == PUBLIC_KEY) {
            rest = &rest[start..];
            let length = rest[1..].iter().position(|packet| packet.tag == PUBLIC_KEY).map_or(rest.len(), |it| it + 1);
            let (one, after) = rest.split_at(length);
            // Keys of other versions are no keys here; a signature of theirs is by an unknown key.
            self.keys.extend(PublicKey::parse(&one[0].body).map(|key| owner(key, &one[1..])));
            rest = after;
        }
        if self.keys.len() == before { Err("there is no OpenPGP key in it".into()) } else { Ok(()) }
    }

    /// Checks that a message is signed by one of the keys, and returns whose it is.
    pub(crate) fn check(&self, message: &Message, now: i64) -> Result<String, String> {
        let signed = message.signed();
        let id = message.issuer().ok_or("it does not say which key made it")?;
        let mut outcome = Err(format!("key {id} is not among the keys of the policy"));
        for owner in &self.keys {
            let subkeys = owner.subkeys.iter().map(|subkey| &subkey.key);
            for key in std::iter::once(&owner.key).chain(subkeys).filter(|key| Some(key.id()) == signed.issuer) {
                if key.verifies(message.content(), signed) {
                    return owner.may_sign(key, signed, now).map(|()| owner.shown(key));
                }
                outcome = Err(format!("it was not made by key {id}, or for something else"));
            }
        }
        outcome
    }
}

impl Owner {
    /// Checks that a key of this owner could make `signed`, and can be believed `now`.
    fn may_sign(&self, key: &PublicKey, signed: &Signed, now: i64) -> Result<(), String> {
        let name = key.fingerprint();
        if signed.hash == SHA1 {
            return Err("it uses SHA-1, which is broken".into());
        }
        if self.state == State::Revoked {
            return Err(format!("key {} is revoked", self.key.fingerprint()));
        }
        let own = self.own.as_ref().ok_or_else(|| format!("key {} has not signed itself", self.key.fingerprint()))?;
        expired(&self.key, own, now)?;
        if key.fingerprint() != self.key.fingerprint() {
            let subkey = self.subkeys.iter().find(|subkey| subkey.key.fingerprint() == name);
            let subkey = subkey.ok_or("the subkey is missing")?;
            if subkey.state == State::Revoked {
                return Err(format!("subkey {name} is revoked"));
            }
            let unbound = || format!("subkey {name} does not belong to key {}", self.key.fingerprint());
            let binding = subkey.binding.as_ref().ok_or_else(unbound)?;
            expired(&subkey.key, binding, now)?;
            if binding.flags.is_none() || !binding.may_sign() {
                return Err(format!("subkey {name} is not for signing"));
            }
        } else if !own.may_sign() {
            return Err(format!("key {name} is not for signing"));
        }
        if signed.created < key.created {
            return Err("it is older than its key".into());
        }
        if signed.is_expired(now) {
            return Err("it has expired".into());
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

fn expired(key: &PublicKey, own: &Signed, now: i64) -> Result<(), String> {
    if key.created > now {
        return Err(format!("key {} comes from the future", key.fingerprint()));
    }
    match own.key_lives.filter(|seconds| *seconds > 0).map(|seconds| key.created + i64::from(seconds)) {
        Some(end) if end <= now => Err(format!("key {} has expired at {}", key.fingerprint(), rfc3339(end))),
        _ => Ok(()),
    }
}

/// Puts together what belongs to a key, and checks what it says of itself.
fn owner(key: PublicKey, packets: &[Packet]) -> Owner {
    let mut owner = Owner { key, name: None, state: State::Good, own: None, subkeys: Vec::new() };
    let mut direct: Option<Signed> = None;
    let (mut has_revoker, mut foreign_revocation) = (false, false);
    let head = packets.iter().position(|packet| packet.tag != SIGNATURE).unwrap_or(packets.len());
    for signed in signatures(&packets[..head]) {
        let own = owner.key.verifies(&framed(&owner.key.body), &signed);
        match signed.kind {
            KEY_REVOCATION if own => owner.state = State::Revoked,
            KEY_REVOCATION => foreign_revocation = true,
            DIRECT if own => {
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
        let (own, next) = after.split_at(length);
        match first.tag {
            USER_ID | USER_ATTRIBUTE => {
                if let Some(signed) = user(&owner.key, first, own) {
                    has_revoker |= signed.has_revoker;
                    let is_newest = certified.as_ref().is_none_or(|it| signed.created >= it.created);
                    if first.tag == USER_ID && is_newest {
                        let name: String = String::from_utf8_lossy(&first.body).chars().take(200).collect();
                        owner.name = Some(name.replace(char::is_control, " "));
                    }
                    newer(&mut certified, signed);
                }
            }
            PUBLIC_SUBKEY => owner.subkeys.extend(subkey(&owner.key, first, own)),
            _ => {}
        }
        rest = next;
    }
    if has_revoker && foreign_revocation {
        // Another key may revoke this one, and somebody did: better not to believe it.
        owner.state = State::Revoked;
    }
    // What a key says of itself directly is newer in kind than what it says beside a name.
    owner.own = match (direct, certified) {
        (Some(direct), Some(certified)) => Some(Signed {
            key_lives: direct.key_lives.or(certified.key_lives),
            flags: direct.flags.or(certified.flags),
            ..certified
        }),
        (_, certified) => certified,
    };
    owner
}

/// Returns what a key says of itself beside a name, unless it has taken the name back.
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

fn subkey(owner: &PublicKey, packet: &Packet, packets: &[Packet]) -> Option<Subkey> {
    let key = PublicKey::parse(&packet.body)?;
    let content = [framed(&owner.body), framed(&key.body)].concat();
    let mut subkey = Subkey { key, state: State::Good, binding: None };
    for signed in signatures(packets).into_iter().filter(|signed| owner.verifies(&content, signed)) {
        match signed.kind {
            SUBKEY_REVOCATION => subkey.state = State::Revoked,
            SUBKEY_BINDING => newer(&mut subkey.binding, signed),
            _ => {}
        }
    }
    // A subkey that signs has to agree: otherwise anybody could take it for theirs.
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
