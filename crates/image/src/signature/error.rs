//! Why the keys of a requirement cannot be used, and why a signature does not meet it.

use std::io;
use std::path::PathBuf;

use crate::signature::certificate::CertificateError;
use crate::signature::claim::ClaimError;
use crate::signature::key::KeyError;
use crate::signature::name::{Name, NameError};
use crate::signature::openpgp::OpenPgpError;
use crate::signature::pem::PemError;
use crate::signature::rekor::LogError;
use crate::signature::sigstore::MAX_CHAIN;

/// Why the keys of a requirement cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeysError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    InFile { path: PathBuf, source: MaterialFault },
    #[error("the key in the policy: {0}")]
    InPolicy(MaterialFault),
    #[error("keyType {0:?} is not supported")]
    KeyType(String),
    #[error("the key of a log is not ECDSA")]
    LogNotEcdsa,
}

/// Why a text has no usable keys or certificates.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum MaterialFault {
    Key(#[from] KeyError),
    Certificate(#[from] CertificateError),
    Pem(#[from] PemError),
    OpenPgp(#[from] OpenPgpError),
}

/// Why a signature does not meet a requirement.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignatureError {
    #[error(transparent)]
    OpenPgp(#[from] OpenPgpError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("the policy wants simple signing")]
    WantsSimple,
    #[error("the policy wants a sigstore signature")]
    WantsSigstore,
    #[error("it is for {signed}, and the image is {image}")]
    OtherDigest { signed: String, image: String },
    #[error("the image has no name in a registry, which the policy compares with")]
    Unnamed,
    #[error("it is for {signed}, {expected}")]
    OtherName { signed: Name, expected: String },
    #[error("{image} with the prefix {prefix} is not an image name")]
    NotMoved { image: Name, prefix: String },
    #[error("it is a {0:?}, not a signature")]
    MediaType(String),
    #[error("it has no annotation {0}")]
    NoAnnotation(&'static str),
    #[error("the signature is not base64")]
    NotBase64,
    #[error("it is not a valid signature of a trusted key for this content")]
    NotTrustedKey,
    #[error("its certificate is missing")]
    NoCertificate,
    #[error("it has several certificates, expected one")]
    SeveralCertificates,
    #[error("more than {MAX_CHAIN} certificates between the signer's and an authority")]
    LongChain,
    #[error("the identity issuer is {found:?}, not {expected:?}")]
    Issuer { found: String, expected: String },
    #[error("the certificate is for {}, not for {expected}", addresses(found))]
    Email { found: Vec<String>, expected: String },
    #[error("it is not a valid signature of the key in its certificate")]
    NotOfCertificate,
}

fn addresses(found: &[String]) -> String {
    if found.is_empty() { "no address".to_owned() } else { found.join(", ") }
}
