//! `sigstoreSigned`: cosign signatures.

use fbc::spelling::calendar::rfc3339;

use crate::signature::attached::{
    BUNDLE_ANNOTATION, CERTIFICATE_ANNOTATION, CHAIN_ANNOTATION, SIGNATURE_ANNOTATION, SIGSTORE_MEDIA_TYPE, Sigstore,
};
use crate::signature::certificate::{Authorities, CertificateError, SignerCertificate};
use crate::signature::claim::{Claim, SIGSTORE};
use crate::signature::error::{KeysError, MaterialFault, SignatureError};
use crate::signature::judge::{ReadKeys, SignatureResult, Subject};
use crate::signature::key::Key;
use crate::signature::pem;
use crate::signature::policy::{Material, SigstoreSigned, TrustedSigners};
use crate::signature::rekor;

/// Maximum number of certificates attached to a signature.
pub(crate) const MAX_CHAIN: usize = 10;

/// A requirement with loaded keys.
pub(crate) struct SigstoreChecker<'a> {
    requirement: &'a SigstoreSigned,
    trust: Trusted<'a>,
    logs: Vec<Key>,
}

enum Trusted<'a> {
    Keys(Vec<Key>),
    Fulcio { authorities: Authorities, issuer: &'a str, email: &'a str },
    Pki { roots: Authorities, intermediates: Vec<Vec<u8>>, email: Option<&'a str>, hostname: Option<&'a str> },
}

impl<'a> SigstoreChecker<'a> {
    /// Loads the keys of a requirement.
    pub(crate) fn new(requirement: &'a SigstoreSigned, read: ReadKeys<'_>) -> Result<SigstoreChecker<'a>, KeysError> {
        let keys = |list: &[Material]| -> Result<Vec<Key>, KeysError> {
            list.iter().map(|one| Key::from_pem(&load(one, read)?).map_err(|fault| invalid(one, fault))).collect()
        };
        let authorities =
            |one: &Material| Authorities::from_pem(&load(one, read)?).map_err(|fault| invalid(one, fault));
        let trust = match &requirement.trust {
            TrustedSigners::Keys(list) => Trusted::Keys(keys(list)?),
            TrustedSigners::Fulcio { authorities: list, issuer, email } => {
                Trusted::Fulcio { authorities: authorities(list)?, issuer, email }
            }
            TrustedSigners::Pki { roots, intermediates, email, hostname } => Trusted::Pki {
                roots: authorities(roots)?,
                intermediates: match intermediates {
                    Some(one) => pem::certificates(&load(one, read)?).map_err(|fault| invalid(one, fault))?,
                    None => Vec::new(),
                },
                email: email.as_deref(),
                hostname: hostname.as_deref(),
            },
        };
        let logs = keys(&requirement.rekor)?;
        if logs.iter().any(|key| !key.is_ecdsa()) {
            return Err(KeysError::LogNotEcdsa);
        }
        Ok(SigstoreChecker { requirement, trust, logs })
    }

    /// Verifies one signature.
    pub(crate) fn check(
        &self,
        subject: &Subject<'_>,
        one: &Sigstore,
        now: i64,
        finding: &mut SignatureResult,
    ) -> Result<(), SignatureError> {
        if one.media_type != SIGSTORE_MEDIA_TYPE {
            return Err(SignatureError::MediaType(crate::signature::name::shorten(&one.media_type)));
        }
        // Record the claim even if it is rejected.
        let claim = Claim::parse(&one.payload, SIGSTORE);
        if let Ok(claim) = &claim {
            finding.claims(claim);
        }
        let annotation = |name: &str| one.annotations.get(name).map(String::as_str);
        let needed = |name: &'static str| annotation(name).ok_or(SignatureError::NoAnnotation(name));
        let signature = base64_simd::STANDARD
            .decode_to_vec(needed(SIGNATURE_ANNOTATION)?.as_bytes())
            .map_err(|_| SignatureError::NotBase64)?;
        let logged = |signer: &[u8]| {
            let entry = rekor::RekorEntry { signer, signature: &signature, payload: &one.payload };
            rekor::check(&self.logs, needed(BUNDLE_ANNOTATION)?, &entry).map_err(SignatureError::Log)
        };
        match &self.trust {
            Trusted::Keys(keys) => {
                let key = keys
                    .iter()
                    .find(|key| key.verifies(&one.payload, &signature))
                    .ok_or(SignatureError::NotTrustedKey)?;
                finding.signer = Some(format!("key {}", key.fingerprint()));
                if !self.logs.is_empty() {
                    let time = logged(key.info())?;
                    finding.time = Some(rfc3339(time));
                }
            }
            Trusted::Fulcio { authorities, issuer, email } => {
                let (certificate, bytes) = leaf(needed(CERTIFICATE_ANNOTATION)?)?;
                describe(&certificate, finding);
                let time = logged(&bytes)?;
                finding.time = Some(rfc3339(time));
                authorities.check(&certificate, &chain(annotation(CHAIN_ANNOTATION))?, time)?;
                let found = certificate.issuer()?;
                if found != *issuer {
                    return Err(SignatureError::Issuer { found, expected: (*issuer).to_owned() });
                }
                check_email(&certificate, email)?;
                verify(&certificate.key()?, &one.payload, &signature)?;
            }
            Trusted::Pki { roots, intermediates, email, hostname } => {
                let (certificate, _) = leaf(needed(CERTIFICATE_ANNOTATION)?)?;
                describe(&certificate, finding);
                email.map_or(Ok(()), |email| check_email(&certificate, email))?;
                hostname.map_or(Ok(()), |host| certificate.check_hostname(host))?;
                let all = [intermediates.clone(), chain(annotation(CHAIN_ANNOTATION))?].concat();
                roots.check(&certificate, &all, now)?;
                verify(&certificate.key()?, &one.payload, &signature)?;
            }
        }
        let claim = claim?;
        subject.check_digest(&claim.digest)?;
        self.requirement.identity.check(subject.name, &claim.identity)
    }
}

fn verify(key: &Key, payload: &[u8], signature: &[u8]) -> Result<(), SignatureError> {
    if key.verifies(payload, signature) { Ok(()) } else { Err(SignatureError::NotOfCertificate) }
}

fn leaf(text: &str) -> Result<(SignerCertificate, Vec<u8>), SignatureError> {
    let mut found = pem::certificates(text.as_bytes()).map_err(CertificateError::Pem)?;
    match (found.pop(), found.len()) {
        (Some(bytes), 0) => Ok((SignerCertificate::parse(&bytes)?, bytes)),
        (None, _) => Err(SignatureError::NoCertificate),
        _ => Err(SignatureError::SeveralCertificates),
    }
}

/// Returns the certificates between the signer's and the root, which comes last.
fn chain(text: Option<&str>) -> Result<Vec<Vec<u8>>, SignatureError> {
    let mut found =
        text.map_or(Ok(Vec::new()), |text| pem::certificates(text.as_bytes())).map_err(CertificateError::Pem)?;
    found.pop();
    if found.len() > MAX_CHAIN {
        return Err(SignatureError::LongChain);
    }
    Ok(found)
}

fn check_email(certificate: &SignerCertificate, email: &str) -> Result<(), SignatureError> {
    if certificate.emails().iter().any(|it| it == email) {
        return Ok(());
    }
    Err(SignatureError::Email { found: certificate.emails().to_vec(), expected: email.to_owned() })
}

fn describe(certificate: &SignerCertificate, finding: &mut SignatureResult) {
    let emails = certificate.emails().join(", ");
    let subject = if emails.is_empty() { "certificate".to_owned() } else { format!("certificate of {emails}") };
    let issuer = certificate.issuer().map(|issuer| format!(", vouched for by {issuer}")).unwrap_or_default();
    finding.signer = Some(format!("{subject}{issuer}"));
}

/// Loads keys or certificates.
pub(crate) fn load(material: &Material, read: ReadKeys<'_>) -> Result<Vec<u8>, KeysError> {
    match material {
        Material::Data(bytes) => Ok(bytes.clone()),
        Material::Path(path) => read(path).map_err(|source| KeysError::File { path: path.clone(), source }),
    }
}

/// Adds where the invalid keys or certificates are.
pub(crate) fn invalid(material: &Material, fault: impl Into<MaterialFault>) -> KeysError {
    match material {
        Material::Data(_) => KeysError::InPolicy(fault.into()),
        Material::Path(path) => KeysError::InFile { path: path.clone(), source: fault.into() },
    }
}
