//! Public keys of sigstore signatures.

use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P521_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256,
    UnparsedPublicKey, VerificationAlgorithm,
};

use crate::signature::der::{self, DerReader};
use crate::signature::pem::PemError;

/// rsaEncryption
pub(crate) const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
pub(crate) const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
pub(crate) const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
pub(crate) const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];
const ED: &[u8] = &[0x2b, 0x65, 0x70];

/// A public key and its signature algorithm.
///
/// As in cosign, signatures use SHA-256 for every curve, and PKCS #1 v1.5 for RSA.
#[derive(Clone)]
pub(crate) struct Key {
    algorithm: &'static dyn VerificationAlgorithm,
    material: Vec<u8>,
    ecdsa: bool,
    /// The `SubjectPublicKeyInfo`.
    info: Vec<u8>,
}

/// Why a public key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error(transparent)]
    Pem(#[from] PemError),
    #[error("the public key is damaged")]
    Damaged,
    #[error("the curve of the public key is not supported")]
    Curve,
    #[error("the algorithm of the public key is not supported")]
    Algorithm,
}

impl Key {
    /// Parses a key in PEM.
    pub(crate) fn from_pem(text: &[u8]) -> Result<Key, KeyError> {
        Key::from_info(&crate::signature::pem::public_key(text)?)
    }

    /// Parses a `SubjectPublicKeyInfo`.
    pub(crate) fn from_info(info: &[u8]) -> Result<Key, KeyError> {
        let mut reader = DerReader(info);
        let mut parts = DerReader(reader.next(der::SEQUENCE).ok_or(KeyError::Damaged)?);
        let mut algorithm = DerReader(parts.next(der::SEQUENCE).ok_or(KeyError::Damaged)?);
        let (oid, bits) = (algorithm.next(der::OID).ok_or(KeyError::Damaged)?, parts.bits().ok_or(KeyError::Damaged)?);
        if !reader.is_empty() || !parts.is_empty() {
            return Err(KeyError::Damaged);
        }
        let algorithm: &'static dyn VerificationAlgorithm = match oid {
            RSA => &RSA_PKCS1_2048_8192_SHA256,
            ED if bits.len() == 32 => &ED25519,
            EC => match algorithm.next(der::OID).ok_or(KeyError::Damaged)? {
                P256 => &ECDSA_P256_SHA256_ASN1,
                P384 => &ECDSA_P384_SHA256_ASN1,
                P521 => &ECDSA_P521_SHA256_ASN1,
                _ => return Err(KeyError::Curve),
            },
            _ => return Err(KeyError::Algorithm),
        };
        Ok(Key { algorithm, material: bits.to_vec(), ecdsa: oid == EC, info: info.to_vec() })
    }

    /// Returns whether `signature` is a valid signature of `message` by this key.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(self.algorithm, &self.material).verify(message, signature).is_ok()
    }

    pub(crate) fn info(&self) -> &[u8] {
        &self.info
    }

    /// Returns whether this is an elliptic curve key, as logs use.
    pub(crate) fn is_ecdsa(&self) -> bool {
        self.ecdsa
    }

    /// Returns the SHA-256 of the `SubjectPublicKeyInfo`.
    pub(crate) fn fingerprint(&self) -> String {
        format!("sha256:{}", hex(digest::digest(&digest::SHA256, &self.info).as_ref()))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
