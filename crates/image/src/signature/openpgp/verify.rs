//! Public keys and signature verification.

use aws_lc_rs::digest;
use aws_lc_rs::rsa::RsaParameters;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA1_ASN1, ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P256_SHA512_ASN1,
    ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA512_ASN1, ECDSA_P521_SHA1_ASN1,
    ECDSA_P521_SHA256_ASN1, ECDSA_P521_SHA384_ASN1, ECDSA_P521_SHA512_ASN1, ED25519,
    RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

use super::packet::Bytes;
use super::signed::Signed;
use crate::signature::der;
use crate::signature::key::{P256, P384, P521, hex};

const ED25519_OID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];

pub(crate) const SHA1: u8 = 2;
const SHA256: u8 = 8;
const SHA384: u8 = 9;
const SHA512: u8 = 10;

/// A public key, primary or subkey.
#[derive(Clone)]
pub(crate) struct PublicKey {
    /// The packet body, which is hashed when the key is signed.
    pub(crate) body: Vec<u8>,
    /// The creation time, in seconds since 1970.
    pub(crate) created: i64,
    algorithm: u8,
    material: Material,
    fingerprint: [u8; 20],
}

#[derive(Clone)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    Ecdsa {
        curve: Vec<u8>,
        point: Vec<u8>,
    },
    Ed25519(Vec<u8>),
    /// The key cannot sign, or uses an unsupported algorithm.
    Other,
}

impl PublicKey {
    pub(crate) fn parse(body: &[u8]) -> Option<PublicKey> {
        let mut bytes = Bytes(body);
        if bytes.byte()? != 4 || body.len() > usize::from(u16::MAX) {
            return None;
        }
        let (created, algorithm) = (i64::from(bytes.u32()?), bytes.byte()?);
        let material = match algorithm {
            1 | 3 => Material::Rsa { modulus: bytes.number()?.to_vec(), exponent: bytes.number()?.to_vec() },
            19 => {
                let length = bytes.byte()?;
                let curve = bytes.take(usize::from(length))?.to_vec();
                Material::Ecdsa { curve, point: bytes.number()?.to_vec() }
            }
            22 => {
                let length = bytes.byte()?;
                let curve = bytes.take(usize::from(length))?;
                match (curve, bytes.number()?) {
                    (ED25519_OID, [0x40, point @ ..]) if point.len() == 32 => Material::Ed25519(point.to_vec()),
                    _ => Material::Other,
                }
            }
            27 => Material::Ed25519(bytes.take(32)?.to_vec()),
            _ => Material::Other,
        };
        let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
        hash.update(&framed(body));
        let fingerprint = hash.finish().as_ref().try_into().ok()?;
        Some(PublicKey { body: body.to_vec(), created, algorithm, material, fingerprint })
    }

    pub(crate) fn id(&self) -> [u8; 8] {
        let mut id = [0; 8];
        id.copy_from_slice(&self.fingerprint[12..]);
        id
    }

    pub(crate) fn fingerprint(&self) -> String {
        hex(&self.fingerprint).to_uppercase()
    }

    /// Returns whether `signed` is a valid signature of `content` by this key.
    pub(crate) fn verifies(&self, content: &[u8], signed: &Signed) -> bool {
        let message = [content, signed.trailer.as_slice()].concat();
        self.algorithm == signed.algorithm && self.verify(&message, signed).is_some()
    }

    fn verify(&self, message: &[u8], signed: &Signed) -> Option<()> {
        let mut numbers = Bytes(&signed.numbers);
        match &self.material {
            Material::Rsa { modulus, exponent } => {
                let parameters: &RsaParameters = match signed.hash {
                    SHA1 => &RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
                    SHA256 => &RSA_PKCS1_2048_8192_SHA256,
                    SHA384 => &RSA_PKCS1_2048_8192_SHA384,
                    SHA512 => &RSA_PKCS1_2048_8192_SHA512,
                    _ => return None,
                };
                let signature = padded(numbers.number()?, modulus.len())?;
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, message, &signature).ok()
            }
            Material::Ecdsa { curve, point } => {
                let algorithm: &'static dyn VerificationAlgorithm = match (curve.as_slice(), signed.hash) {
                    (P256, SHA1) => &ECDSA_P256_SHA1_ASN1,
                    (P256, SHA256) => &ECDSA_P256_SHA256_ASN1,
                    (P256, SHA384) => &ECDSA_P256_SHA384_ASN1,
                    (P256, SHA512) => &ECDSA_P256_SHA512_ASN1,
                    (P384, SHA256) => &ECDSA_P384_SHA256_ASN1,
                    (P384, SHA384) => &ECDSA_P384_SHA384_ASN1,
                    (P384, SHA512) => &ECDSA_P384_SHA512_ASN1,
                    (P521, SHA1) => &ECDSA_P521_SHA1_ASN1,
                    (P521, SHA256) => &ECDSA_P521_SHA256_ASN1,
                    (P521, SHA384) => &ECDSA_P521_SHA384_ASN1,
                    (P521, SHA512) => &ECDSA_P521_SHA512_ASN1,
                    _ => return None,
                };
                let (one, two) = (der::write_unsigned(numbers.number()?), der::write_unsigned(numbers.number()?));
                let signature = der::write(der::SEQUENCE, &[one, two].concat());
                UnparsedPublicKey::new(algorithm, point).verify(message, &signature).ok()
            }
            Material::Ed25519(point) => {
                let hash = match signed.hash {
                    SHA1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
                    SHA256 => &digest::SHA256,
                    SHA384 => &digest::SHA384,
                    SHA512 => &digest::SHA512,
                    _ => return None,
                };
                let signature = if self.algorithm == 27 {
                    numbers.take(64)?.to_vec()
                } else {
                    [padded(numbers.number()?, 32)?, padded(numbers.number()?, 32)?].concat()
                };
                let hashed = digest::digest(hash, message);
                UnparsedPublicKey::new(&ED25519, point).verify(hashed.as_ref(), &signature).ok()
            }
            Material::Other => None,
        }
    }
}

/// Returns a key packet in its hashed form.
pub(crate) fn framed(body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
    [&[0x99], &length.to_be_bytes()[..], body].concat()
}

fn padded(number: &[u8], length: usize) -> Option<Vec<u8>> {
    let missing = length.checked_sub(number.len())?;
    Some([vec![0; missing].as_slice(), number].concat())
}
