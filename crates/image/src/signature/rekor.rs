//! Transparency log entries: proof that a log has seen a signature, by this key, at that time.

use aws_lc_rs::digest;
use serde::Deserialize;

use crate::signature::key::{Key, hex};
use crate::signature::pem::{self, PemError};
use crate::signature::strict::{self, JsonError, StrictObject};

/// JSON numbers beyond this are not exact.
const EXACT: i64 = 1 << 53;

/// Why a log entry proves nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error("the log entry: {0}")]
    Syntax(JsonError),
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("the log entry: {0} is not base64")]
    NotBase64(&'static str),
    #[error("the log entry: a number is out of range")]
    Number,
    #[error("no log that the policy trusts has signed the log entry")]
    NotSigned,
    #[error("the body of the log entry: {0}")]
    Body(#[from] serde_json::Error),
    #[error("the log entry is not a hashedrekord 0.0.1")]
    Kind,
    #[error("the signer in the log entry: {0}")]
    Signer(#[from] PemError),
    #[error("the log entry is for another signer")]
    OtherSigner,
    #[error("the log entry is for another signature")]
    OtherSignature,
    #[error("the log entry uses a hash that is not sha256")]
    Hash,
    #[error("the log entry is for another payload")]
    OtherPayload,
}

/// The expected log entry.
pub(crate) struct RekorEntry<'a> {
    /// The key or certificate of the signer, in DER.
    pub(crate) signer: &'a [u8],
    pub(crate) signature: &'a [u8],
    /// The signed payload.
    pub(crate) payload: &'a [u8],
}

/// The body of an entry; logs may add fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    kind: String,
    api_version: String,
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    data: Data,
    signature: Signature,
}

#[derive(Deserialize)]
struct Data {
    hash: Hash,
}

#[derive(Deserialize)]
struct Hash {
    algorithm: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signature {
    content: String,
    public_key: PublicKey,
}

#[derive(Deserialize)]
struct PublicKey {
    content: String,
}

/// Verifies that one of `logs` has signed a promise to include `entry`; returns the time of inclusion.
pub(crate) fn check(logs: &[Key], bundle: &str, entry: &RekorEntry<'_>) -> Result<i64, LogError> {
    let mut fields = StrictObject::of(strict::parse(bundle.as_bytes()).map_err(LogError::Syntax)?, "the log entry")?;
    let promise = base64("SignedEntryTimestamp", &fields.required_text("SignedEntryTimestamp")?)?;
    let mut payload = StrictObject::of(fields.required("Payload")?, "the log's payload")?;
    fields.end()?;
    let body = payload.required_text("body")?;
    let time = payload.required_integer("integratedTime")?;
    let index = payload.required_integer("logIndex")?;
    let log = payload.required_text("logID")?;
    payload.end()?;
    if !(0..EXACT).contains(&time) || !(-EXACT..EXACT).contains(&index) {
        return Err(LogError::Number);
    }
    // The canonical form of RFC 8785: sorted keys, no spaces.
    let canonical = serde_json::json!({ "body": body, "integratedTime": time, "logID": log, "logIndex": index });
    if !logs.iter().any(|log| log.verifies(canonical.to_string().as_bytes(), &promise)) {
        return Err(LogError::NotSigned);
    }
    let body: Body = serde_json::from_slice(&base64("body", &body)?)?;
    check_body(&body, entry)?;
    Ok(time)
}

fn check_body(body: &Body, entry: &RekorEntry<'_>) -> Result<(), LogError> {
    if (body.kind.as_str(), body.api_version.as_str()) != ("hashedrekord", "0.0.1") {
        return Err(LogError::Kind);
    }
    let signer = pem::only(&base64("publicKey", &body.spec.signature.public_key.content)?)?;
    if signer.content != entry.signer {
        return Err(LogError::OtherSigner);
    }
    if base64("signature", &body.spec.signature.content)? != entry.signature {
        return Err(LogError::OtherSignature);
    }
    let hash = &body.spec.data.hash;
    if hash.algorithm != "sha256" {
        return Err(LogError::Hash);
    }
    if !hash.value.eq_ignore_ascii_case(&hex(digest::digest(&digest::SHA256, entry.payload).as_ref())) {
        return Err(LogError::OtherPayload);
    }
    Ok(())
}

fn base64(what: &'static str, text: &str) -> Result<Vec<u8>, LogError> {
    base64_simd::STANDARD.decode_to_vec(text.as_bytes()).map_err(|_| LogError::NotBase64(what))
}
