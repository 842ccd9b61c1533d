//! Signatures attached to images.

use std::collections::BTreeMap;

use crate::signature::strict::{self, JsonError, StrictObject, StrictValue};

/// The media type of an attachment layer with a signed payload.
pub const SIGSTORE_MEDIA_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation with the signature.
pub const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
/// The annotation with the signer's certificate.
pub const CERTIFICATE_ANNOTATION: &str = "dev.sigstore.cosign/certificate";
/// The annotation with the certificate chain above it.
pub const CHAIN_ANNOTATION: &str = "dev.sigstore.cosign/chain";
/// The annotation with the transparency log entry.
pub const BUNDLE_ANNOTATION: &str = "dev.sigstore.cosign/bundle";

/// One unverified signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachedSignature {
    /// Simple signing: an OpenPGP message.
    Simple(Vec<u8>),
    /// A sigstore signature.
    Sigstore(Sigstore),
}

/// A layer of a sigstore attachment with its annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sigstore {
    /// The media type; only [`SIGSTORE_MEDIA_TYPE`] is a signature.
    pub media_type: String,
    /// The signed payload.
    pub payload: Vec<u8>,
    /// Signature, certificates and log entry.
    pub annotations: BTreeMap<String, String>,
}

/// Why a file of a signature storage is not a signature.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct AttachedError(#[from] AttachedFault);

#[derive(Debug, thiserror::Error)]
enum AttachedFault {
    #[error("it is empty")]
    Empty,
    #[error("its format is unknown")]
    Format,
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("its payload is not base64")]
    NotBase64,
    #[error("annotation {name:?} is {found}, not a string")]
    Annotation { name: String, found: &'static str },
}

const SIGSTORE_JSON: &[u8] = b"\0sigstore-json\n";

impl AttachedSignature {
    /// Parses a file of a signature storage: an OpenPGP message, or another format named in a prefix.
    ///
    /// # Errors
    /// Fails when the format is unknown.
    pub fn from_file(content: &[u8]) -> Result<AttachedSignature, AttachedError> {
        if let Some(text) = content.strip_prefix(SIGSTORE_JSON) {
            return Ok(AttachedSignature::Sigstore(sigstore_json(text)?));
        }
        match content.first() {
            None => Err(AttachedError(AttachedFault::Empty)),
            Some(0) => Err(AttachedError(AttachedFault::Format)),
            Some(_) => Ok(AttachedSignature::Simple(content.to_vec())),
        }
    }

    /// Writes the format that [`AttachedSignature::from_file`] parses.
    pub fn to_file(&self) -> Vec<u8> {
        match self {
            AttachedSignature::Simple(message) => message.clone(),
            AttachedSignature::Sigstore(it) => {
                let payload = base64_simd::STANDARD.encode_to_string(&it.payload);
                let json = serde_json::json!({
                    "mimeType": it.media_type, "payload": payload, "annotations": it.annotations
                });
                [SIGSTORE_JSON, json.to_string().as_bytes()].concat()
            }
        }
    }

    /// Returns the kind of signature for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            AttachedSignature::Simple(_) => "simple signing",
            AttachedSignature::Sigstore(it) if it.media_type == SIGSTORE_MEDIA_TYPE => "sigstore",
            AttachedSignature::Sigstore(_) => "sigstore attachment that is not a signature",
        }
    }
}

fn sigstore_json(text: &[u8]) -> Result<Sigstore, AttachedFault> {
    let mut fields = StrictObject::of(strict::parse(text)?, "the signature")?;
    let media_type = fields.required_text("mimeType")?;
    let payload = base64_simd::STANDARD
        .decode_to_vec(fields.required_text("payload")?.as_bytes())
        .map_err(|_| AttachedFault::NotBase64)?;
    let mut annotations = BTreeMap::new();
    for (name, value) in StrictObject::of(fields.required("annotations")?, "annotations")?.rest() {
        match value {
            StrictValue::Text(text) => annotations.insert(name, text),
            other => return Err(AttachedFault::Annotation { name, found: other.kind() }),
        };
    }
    fields.end()?;
    Ok(Sigstore { media_type, payload, annotations })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_declares_its_kind_of_signature() {
        let simple = AttachedSignature::Simple(b"\xa3message".to_vec());
        let sigstore = AttachedSignature::Sigstore(Sigstore {
            media_type: SIGSTORE_MEDIA_TYPE.into(),
            payload: b"{}".to_vec(),
            annotations: [(SIGNATURE_ANNOTATION.to_owned(), "x".to_owned())].into(),
        });
        for one in [simple, sigstore] {
            assert_eq!(AttachedSignature::from_file(&one.to_file()).unwrap(), one);
        }
        for text in [&b""[..], b"\0other\n{}", b"\0sigstore-json\n{}", b"\0sigstore-json\n{\"mimeType\":\"a\"}"] {
            assert!(AttachedSignature::from_file(text).is_err(), "{text:?}");
        }
    }
}
