//! Evaluates a requirement for an image.

use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::signature::attached::AttachedSignature;
use crate::signature::error::SignatureError;
use crate::signature::name::Name;
use crate::signature::policy::PolicyRequirement;

/// Reads a key file that a policy names.
pub type ReadKeys<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// The image to verify.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The requested name, if it is in a registry.
    pub name: Option<&'a Name>,
    /// The digest of its manifest.
    pub digest: &'a str,
}

/// The result of a requirement for an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Judgement {
    /// The type of the requirement.
    pub requirement: &'static str,
    /// Whether the requirement is met.
    pub accepted: bool,
    /// Why it is not met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The result for each signature; empty if no signatures are required.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<SignatureResult>,
}

/// The result for one signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SignatureResult {
    /// The kind of signature.
    pub kind: &'static str,
    /// Whether it meets the requirement.
    pub accepted: bool,
    /// The signer: verified if accepted, otherwise as claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// The signing time: verified by a log for sigstore, claimed by the signer for simple signing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The digest in the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The name in the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Why it is rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Subject<'_> {
    pub(crate) fn check_digest(&self, digest: &str) -> Result<(), SignatureError> {
        if digest == self.digest {
            Ok(())
        } else {
            Err(SignatureError::OtherDigest { signed: digest.to_owned(), image: self.digest.to_owned() })
        }
    }
}

impl SignatureResult {
    fn new(kind: &'static str) -> SignatureResult {
        SignatureResult { kind, accepted: false, signer: None, time: None, digest: None, identity: None, reason: None }
    }

    pub(crate) fn claims(&mut self, claim: &crate::signature::claim::Claim) {
        self.digest = Some(claim.digest.clone());
        self.identity = Some(crate::signature::name::shorten(&claim.identity));
    }
}

impl PolicyRequirement {
    /// Evaluates the requirement for an image and its signatures; `now` is in seconds since 1970.
    ///
    /// All signatures are checked, so that all can be shown; a single valid one is enough.
    pub fn judge(
        &self,
        subject: &Subject<'_>,
        signatures: &[AttachedSignature],
        now: i64,
        read: ReadKeys<'_>,
    ) -> Judgement {
        let simply = |reason: Option<&str>| Judgement {
            requirement: self.kind(),
            accepted: reason.is_none(),
            reason: reason.map(Into::into),
            signatures: Vec::new(),
        };
        match self {
            PolicyRequirement::InsecureAcceptAnything => simply(None),
            PolicyRequirement::Reject => simply(Some("the policy rejects it")),
            PolicyRequirement::SignedBaseLayer => simply(Some("no tool implements signedBaseLayer")),
            PolicyRequirement::SignedBy(_) | PolicyRequirement::SigstoreSigned(_) => {
                self.judge_signatures(subject, signatures, now, read)
            }
        }
    }

    fn judge_signatures(
        &self,
        subject: &Subject<'_>,
        signatures: &[AttachedSignature],
        now: i64,
        read: ReadKeys<'_>,
    ) -> Judgement {
        let mut found = Vec::new();
        let outcome = match self {
            PolicyRequirement::SignedBy(it) => {
                crate::signature::simple::SimpleSigningChecker::new(it, read).map(|checker| {
                    for one in signatures {
                        let mut finding = SignatureResult::new(one.kind());
                        let outcome = match one {
                            AttachedSignature::Simple(message) => checker.check(subject, message, now, &mut finding),
                            AttachedSignature::Sigstore(_) => Err(SignatureError::WantsSimple),
                        };
                        found.push(finding.with(outcome));
                    }
                })
            }
            PolicyRequirement::SigstoreSigned(it) => {
                crate::signature::sigstore::SigstoreChecker::new(it, read).map(|checker| {
                    for one in signatures {
                        let mut finding = SignatureResult::new(one.kind());
                        let outcome = match one {
                            AttachedSignature::Sigstore(layer) => checker.check(subject, layer, now, &mut finding),
                            AttachedSignature::Simple(_) => Err(SignatureError::WantsSigstore),
                        };
                        found.push(finding.with(outcome));
                    }
                })
            }
            _ => Ok(()),
        };
        let accepted = outcome.is_ok() && found.iter().any(|finding| finding.accepted);
        let reason = match (outcome, found.as_slice()) {
            (Err(error), _) => Some(error.to_string()),
            _ if accepted => None,
            (_, []) => Some("it has no signature".into()),
            (_, [one]) => one.reason.clone(),
            (_, many) => {
                // The first few reasons are enough.
                let reasons: Vec<&str> = many.iter().filter_map(|one| one.reason.as_deref()).take(5).collect();
                Some(format!("none of its {} signatures counts: {}", many.len(), reasons.join("; ")))
            }
        };
        Judgement { requirement: self.kind(), accepted, reason, signatures: found }
    }
}

impl SignatureResult {
    fn with(mut self, outcome: Result<(), SignatureError>) -> SignatureResult {
        self.accepted = outcome.is_ok();
        self.reason = outcome.err().map(|error| error.to_string());
        // Foreign text must not contain terminal control sequences.
        for text in [&mut self.reason, &mut self.signer, &mut self.identity].into_iter().flatten() {
            *text = printable(text);
        }
        self
    }
}

/// Escapes non-printable characters.
fn printable(text: &str) -> String {
    let escape =
        |char: char| if matches!(char, '"' | '\'' | '\\') { vec![char] } else { char.escape_debug().collect() };
    text.chars().flat_map(escape).collect()
}
