//! `signedBy`: simple signing, a claim in an OpenPGP message.

use fbc::spelling::calendar::rfc3339;

use crate::signature::claim::{Claim, SIMPLE};
use crate::signature::error::{KeysError, SignatureError};
use crate::signature::judge::{ReadKeys, SignatureResult, Subject};
use crate::signature::openpgp::{Keyring, OpenPgpMessage};
use crate::signature::policy::SignedBy;
use crate::signature::sigstore::{invalid, load};

/// A requirement with loaded keys.
pub(crate) struct SimpleSigningChecker<'a> {
    requirement: &'a SignedBy,
    keyring: Keyring,
}

impl<'a> SimpleSigningChecker<'a> {
    /// Loads the keys of a requirement.
    pub(crate) fn new(requirement: &'a SignedBy, read: ReadKeys<'_>) -> Result<SimpleSigningChecker<'a>, KeysError> {
        if requirement.key_type != "GPGKeys" {
            return Err(KeysError::KeyType(requirement.key_type.clone()));
        }
        let mut keyring = Keyring::default();
        for keys in &requirement.keys {
            keyring.add(&load(keys, read)?).map_err(|fault| invalid(keys, fault))?;
        }
        Ok(SimpleSigningChecker { requirement, keyring })
    }

    /// Verifies one signature.
    pub(crate) fn check(
        &self,
        subject: &Subject<'_>,
        one: &[u8],
        now: i64,
        finding: &mut SignatureResult,
    ) -> Result<(), SignatureError> {
        let message = OpenPgpMessage::parse(one)?;
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
