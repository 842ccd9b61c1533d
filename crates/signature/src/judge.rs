//! Whether an image fulfils a requirement, and why.

use std::path::Path;

use serde::Serialize;

use crate::attached::Attached;
use crate::name::Name;
use crate::policy::Requirement;

/// Reads a file of keys that a policy names.
pub type ReadKeys<'a> = &'a dyn Fn(&Path) -> Result<Vec<u8>, String>;

/// The image in question.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// What it was asked for by, if that is a name in a registry.
    pub name: Option<&'a Name>,
    /// The digest of its manifest.
    pub digest: &'a str,
}

/// What a requirement comes to for an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// The type of the requirement.
    pub requirement: &'static str,
    /// It is fulfilled.
    pub accepted: bool,
    /// Why it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was found of each signature; empty if no signatures are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<Finding>,
}

/// What was found of one signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of signature it is.
    pub kind: &'static str,
    /// It fulfils the requirement.
    pub accepted: bool,
    /// Who made it: proven if it is accepted, else as it says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// When it was made: proven by a log for sigstore, by the signer's own word for simple signing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The digest that it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The name that it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Why it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[cfg(feature = "verify")]
impl Subject<'_> {
    pub(crate) fn check_digest(&self, digest: &str) -> Result<(), String> {
        if digest == self.digest {
            Ok(())
        } else {
            Err(format!("it is for {digest}, and the image is {}", self.digest))
        }
    }
}

#[cfg(feature = "verify")]
impl Finding {
    fn new(kind: &'static str) -> Finding {
        Finding { kind, accepted: false, signer: None, time: None, digest: None, identity: None, reason: None }
    }

    pub(crate) fn claims(&mut self, claim: &crate::claim::Claim) {
        self.digest = Some(claim.digest.clone());
        self.identity = Some(crate::name::shorten(&claim.identity));
    }
}

impl Requirement {
    /// Judges an image by its signatures; `now` is in seconds since 1970.
    ///
    /// Every signature is checked, so that all can be shown; one that is good is enough.
    pub fn judge(&self, subject: &Subject<'_>, signatures: &[Attached], now: i64, read: ReadKeys<'_>) -> Judgement {
        let simply = |reason: Option<&str>| Judgement {
            requirement: self.kind(),
            accepted: reason.is_none(),
            reason: reason.map(Into::into),
            signatures: Vec::new(),
        };
        match self {
            Requirement::InsecureAcceptAnything => simply(None),
            Requirement::Reject => simply(Some("the policy rejects it")),
            Requirement::SignedBaseLayer => simply(Some("signedBaseLayer is implemented by nobody")),
            Requirement::SignedBy(_) | Requirement::SigstoreSigned(_) => {
                self.judge_signatures(subject, signatures, now, read)
            }
        }
    }

    #[cfg(not(feature = "verify"))]
    fn judge_signatures(&self, _: &Subject<'_>, _: &[Attached], _: i64, _: ReadKeys<'_>) -> Judgement {
        let reason = Some("this program was built without the checking of signatures".into());
        Judgement { requirement: self.kind(), accepted: false, reason, signatures: Vec::new() }
    }

    #[cfg(feature = "verify")]
    fn judge_signatures(
        &self,
        subject: &Subject<'_>,
        signatures: &[Attached],
        now: i64,
        read: ReadKeys<'_>,
    ) -> Judgement {
        let mut found = Vec::new();
        let outcome = match self {
            Requirement::SignedBy(it) => crate::simple::Checker::new(it, read).map(|checker| {
                for one in signatures {
                    let mut finding = Finding::new(one.kind());
                    let outcome = match one {
                        Attached::Simple(message) => checker.check(subject, message, now, &mut finding),
                        Attached::Sigstore(_) => Err("the policy wants simple signing".into()),
                    };
                    found.push(finding.with(outcome));
                }
            }),
            Requirement::SigstoreSigned(it) => crate::sigstore::Checker::new(it, read).map(|checker| {
                for one in signatures {
                    let mut finding = Finding::new(one.kind());
                    let outcome = match one {
                        Attached::Sigstore(layer) => checker.check(subject, layer, now, &mut finding),
                        Attached::Simple(_) => Err("the policy wants a sigstore signature".into()),
                    };
                    found.push(finding.with(outcome));
                }
            }),
            _ => Ok(()),
        };
        let accepted = outcome.is_ok() && found.iter().any(|finding| finding.accepted);
        let reason = match (outcome, found.as_slice()) {
            (Err(error), _) => Some(error),
            _ if accepted => None,
            (_, []) => Some("it has no signature".into()),
            (_, [one]) => one.reason.clone(),
            (_, many) => {
                // A few are enough to understand what is wrong.
                let reasons: Vec<&str> = many.iter().filter_map(|one| one.reason.as_deref()).take(5).collect();
                Some(format!("none of its {} signatures counts: {}", many.len(), reasons.join("; ")))
            }
        };
        Judgement { requirement: self.kind(), accepted, reason, signatures: found }
    }
}

#[cfg(feature = "verify")]
impl Finding {
    fn with(mut self, outcome: Result<(), String>) -> Finding {
        self.accepted = outcome.is_ok();
        self.reason = outcome.err();
        // What comes from others must not write to terminals.
        for text in [&mut self.reason, &mut self.signer, &mut self.identity].into_iter().flatten() {
            *text = printable(text);
        }
        self
    }
}

/// Escapes what is no visible character.
#[cfg(feature = "verify")]
fn printable(text: &str) -> String {
    let escape =
        |char: char| if matches!(char, '"' | '\'' | '\\') { vec![char] } else { char.escape_debug().collect() };
    text.chars().flat_map(escape).collect()
}
