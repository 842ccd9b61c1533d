//! Transparency log entries: proof that a log has seen a signature, by this key, at that time.

use aws_lc_rs::digest;
use serde::Deserialize;

use crate::key::{Key, hex};
use crate::pem;
use crate::strict::{self, Fields};

/// JSON numbers beyond this are not exact.
const EXACT: i64 = 1 << 53;

/// The expected log entry.
pub(crate) struct Entry<'a> {
    /// The key or certificate of the signer, in DER.
    pub(crate) signer: &'a [u8],
    /// The signature.
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
pub(crate) fn check(logs: &[Key], bundle: &str, entry: &Entry<'_>) -> Result<i64, String> {
    let to_error = |error: String| format!("the log entry: {error}");
    let mut fields = Fields::of(strict::parse(bundle.as_bytes()).map_err(to_error)?, "the log entry")?;
    let promise = base64("SignedEntryTimestamp", &fields.required_text("SignedEntryTimestamp")?)?;
    let mut payload = Fields::of(fields.required("Payload")?, "the log's payload")?;
    fields.end()?;
    let body = payload.required_text("body")?;
    let time = payload.required_integer("integratedTime")?;
    let index = payload.required_integer("logIndex")?;
    let log = payload.required_text("logID")?;
    payload.end()?;
    if !(0..EXACT).contains(&time) || !(-EXACT..EXACT).contains(&index) {
        return Err("the log entry: a number is out of range".into());
    }
    // The canonical form of RFC 8785: sorted keys, no spaces.
    let canonical = serde_json::json!({ "body": body, "integratedTime": time, "logID": log, "logIndex": index });
    if !logs.iter().any(|log| log.verifies(canonical.to_string().as_bytes(), &promise)) {
        return Err("no log that the policy trusts has signed the log entry".into());
    }
    let body: Body = serde_json::from_slice(&base64("body", &body)?)
        .map_err(|error| format!("the body of the log entry: {error}"))?;
    check_body(&body, entry)?;
    Ok(time)
}

fn check_body(body: &Body, entry: &Entry<'_>) -> Result<(), String> {
    if (body.kind.as_str(), body.api_version.as_str()) != ("hashedrekord", "0.0.1") {
        return Err("the log entry is not a hashedrekord 0.0.1".into());
    }
    let signer = pem::only(&base64("publicKey", &body.spec.signature.public_key.content)?)
        .map_err(|error| format!("the signer in the log entry: {error}"))?;
    if signer.content != entry.signer {
        return Err("the log entry is for another signer".into());
    }
    if base64("signature", &body.spec.signature.content)? != entry.signature {
        return Err("the log entry is for another signature".into());
    }
    let hash = &body.spec.data.hash;
    if hash.algorithm != "sha256" {
        return Err("the log entry uses a hash that is not sha256".into());
    }
    if !hash.value.eq_ignore_ascii_case(&hex(digest::digest(&digest::SHA256, entry.payload).as_ref())) {
        return Err("the log entry is for another payload".into());
    }
    Ok(())
}

fn base64(what: &str, text: &str) -> Result<Vec<u8>, String> {
    base64_simd::STANDARD.decode_to_vec(text.as_bytes()).map_err(|_| format!("the log entry: {what} is not base64"))
}
