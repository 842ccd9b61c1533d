//! `signedBy`: simple signing, a claim inside an OpenPGP message.

use spelling::calendar::rfc3339;

use crate::claim::{Claim, SIMPLE};
use crate::judge::{Finding, ReadKeys, Subject};
use crate::openpgp::{Message, Ring};
use crate::policy::SignedBy;
use crate::sigstore::{load, named};

/// A requirement with its keys read.
pub(crate) struct Checker<'a> {
    requirement: &'a SignedBy,
    ring: Ring,
}

impl<'a> Checker<'a> {
    /// Reads the keys that a requirement names.
    pub(crate) fn new(requirement: &'a SignedBy, read: ReadKeys<'_>) -> Result<Checker<'a>, String> {
        if requirement.key_type != "GPGKeys" {
            return Err(format!("keyType {:?} is not supported", requirement.key_type));
        }
        let mut ring = Ring::default();
        for keys in &requirement.keys {
            ring.add(&load(keys, read)?).map_err(|error| named(keys, &error))?;
        }
        Ok(Checker { requirement, ring })
    }

    /// Judges one signature.
    pub(crate) fn check(
        &self,
        subject: &Subject<'_>,
        one: &[u8],
        now: i64,
        finding: &mut Finding,
    ) -> Result<(), String> {
        let message = Message::parse(one)?;
        // What is claimed is shown also when it does not count.
        let claim = Claim::parse(message.content(), SIMPLE);
        if let Ok(claim) = &claim {
            finding.claims(claim);
        }
        finding.signer = message.issuer().map(|id| format!("key {id}"));
        finding.time = message.created().map(rfc3339);
        finding.signer = Some(format!("key {}", self.ring.check(&message, now)?));
        let claim = claim?;
        subject.check_digest(&claim.digest)?;
        self.requirement.identity.check(subject.name, &claim.identity)
    }
}
