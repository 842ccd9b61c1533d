//! Claims: the signed statement that a digest has a name.

use crate::signature::name::{is_digest, shorten};
use crate::signature::strict::{self, JsonError, StrictObject, StrictValue};

/// The type of a simple signing claim.
pub(crate) const SIMPLE: &str = "atomic container signature";
/// The type of a cosign claim.
pub(crate) const SIGSTORE: &str = "cosign container image signature";

/// A signed claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) digest: String,
    pub(crate) identity: String,
}

/// Why a text is not a claim.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("it is a {found:?}, not a {expected:?}")]
    Type { found: String, expected: &'static str },
    #[error("{0:?} is not a digest")]
    NotDigest(String),
    #[error("\"timestamp\" is not an integer")]
    Timestamp,
}

impl Claim {
    /// Parses a claim. Unknown fields are an error.
    pub(crate) fn parse(text: &[u8], kind: &'static str) -> Result<Claim, ClaimError> {
        let mut fields = StrictObject::of(strict::parse(text)?, "what was signed")?;
        let (critical, optional) = (fields.required("critical")?, fields.required("optional")?);
        fields.end()?;
        check_optional(optional, kind)?;
        let mut critical = StrictObject::of(critical, "\"critical\"")?;
        let found = critical.required_text("type")?;
        let (image, identity) = (critical.required("image")?, critical.required("identity")?);
        critical.end()?;
        if found != kind {
            return Err(ClaimError::Type { found: shorten(&found), expected: kind });
        }
        let mut image = StrictObject::of(image, "\"image\"")?;
        let digest = image.required_text("docker-manifest-digest")?;
        image.end()?;
        if !is_digest(&digest) {
            return Err(ClaimError::NotDigest(shorten(&digest)));
        }
        let mut fields = StrictObject::of(identity, "\"identity\"")?;
        let identity = fields.required_text("docker-reference")?;
        fields.end()?;
        Ok(Claim { digest, identity })
    }
}

/// Checks the optional part: `creator` and `timestamp` must have the right types; other fields are free.
fn check_optional(optional: StrictValue, kind: &str) -> Result<(), ClaimError> {
    // cosign writes null for an empty part.
    if optional == StrictValue::Null && kind == SIGSTORE {
        return Ok(());
    }
    let mut optional = StrictObject::of(optional, "\"optional\"")?;
    optional.text("creator")?;
    match optional.any("timestamp") {
        None | Some(StrictValue::Integer(_)) => Ok(()),
        Some(StrictValue::Fraction(number)) if number.fract() == 0.0 => Ok(()),
        Some(_) => Err(ClaimError::Timestamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";

    fn claim(critical: &str, optional: &str) -> Result<Claim, ClaimError> {
        Claim::parse(format!(r#"{{"critical": {{{critical}}}, "optional": {optional}}}"#).as_bytes(), SIGSTORE)
    }

    #[test]
    fn a_claim_has_exactly_the_required_fields() {
        let kind = format!(r#""type": "{SIGSTORE}""#);
        let image = format!(r#""image": {{"docker-manifest-digest": "sha256:{HEX}"}}"#);
        let identity = r#""identity": {"docker-reference": "quay.io/a/b"}"#;
        let good = format!("{kind}, {image}, {identity}");
        for optional in ["null", "{}", r#"{"creator": "x", "timestamp": 1.0, "other": {"deep": [1]}}"#] {
            let claim = claim(&good, optional).unwrap();
            assert_eq!((claim.digest, claim.identity), (format!("sha256:{HEX}"), "quay.io/a/b".to_owned()));
        }
        for optional in ["1", "[]", r#"{"creator": 1}"#, r#"{"timestamp": 1.5}"#, r#"{"timestamp": "1"}"#] {
            assert!(claim(&good, optional).is_err(), "{optional}");
        }
        for critical in [
            String::new(),
            format!("{kind}, {image}"),
            format!("{good}, \"extra\": 1"),
            format!("{good}, {image}"),
            format!(r#""type": "{SIMPLE}", {image}, {identity}"#),
            format!(r#"{kind}, {identity}, "image": {{"docker-manifest-digest": "sha256:12"}}"#),
            format!(r#"{kind}, {identity}, "image": {{"docker-manifest-digest": "sha256:{HEX}", "x": 1}}"#),
            format!(r#"{kind}, {image}, "identity": {{"docker-reference": null}}"#),
            format!(r#"{kind}, {image}, "identity": "quay.io/a/b""#),
        ] {
            assert!(claim(&critical, "null").is_err(), "{critical}");
        }
        assert!(Claim::parse(br#"{"critical": {}, "optional": {}, "more": 1}"#, SIMPLE).is_err());
    }

    #[test]
    fn simple_signing_rejects_null() {
        let text = format!(
            r#"{{"critical": {{"type": "{SIMPLE}", "image": {{"docker-manifest-digest": "sha256:{HEX}"}},
            "identity": {{"docker-reference": "a:v1"}}}}, "optional": null}}"#
        );
        assert!(Claim::parse(text.as_bytes(), SIMPLE).is_err());
        assert!(Claim::parse(text.replace("null", "{}").as_bytes(), SIMPLE).is_ok());
    }
}
