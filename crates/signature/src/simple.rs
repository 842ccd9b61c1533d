//! `signedBy`: simple signing, a claim in an OpenPGP message.

use spelling::calendar::rfc3339;

use crate::claim::{Claim, SIMPLE};
use crate::judge::{Finding, ReadKeys, Subject};
use crate::openpgp::{Keyring, Message};
use crate::policy::SignedBy;
use crate::sigstore::{load, named};

/// A requirement with loaded keys.
pub(crate) struct Checker<'a> {
    requirement: &'a SignedBy,
    keyring: Keyring,
}

impl<'a> Checker<'a> {
    /// Loads the keys of a requirement.
    pub(crate) fn new(requirement: &'a SignedBy, read: ReadKeys<'_>) -> Result<Checker<'a>, String> {
        if requirement.key_type != "GPGKeys" {
            return Err(format!("keyType {:?} is not supported", requirement.key_type));
        }
        let mut keyring = Keyring::default();
        for keys in &requirement.keys {
            keyring.add(&load(keys, read)?).map_err(|error| named(keys, &error))?;
        }
        Ok(Checker { requirement, keyring })
    }

    /// Verifies one signature.
    pub(crate) fn check(
        &self,
        subject: &Subject<'_>,
        one: &[u8],
        now: i64,
        finding: &mut Finding,
    ) -> Result<(), String> {
        let message = Message::parse(one)?;
        // Record the claim even if it is rejected.
        let claim = Claim::parse(message.content(), SIMPLE);
        if let Ok(claim) = &claim {
            finding.claims(claim);
        }
        finding.signer = message.issuer().map(|id| format!("key {id}"));
        finding.time = message.created().map(rfc3339);
        finding.signer = Some(format!("key {}", self.keyring.check(&message, now)?));
        let claim = claim?;
        subject.check_digest(&claim.digest)?;
        self.requirement.identity.check(subject.name, &claim.identity)
    }
}
