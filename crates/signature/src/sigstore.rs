//! `sigstoreSigned`: cosign signatures.

use spelling::calendar::rfc3339;

use crate::attached::{
    BUNDLE_ANNOTATION, CERTIFICATE_ANNOTATION, CHAIN_ANNOTATION, SIGNATURE_ANNOTATION, SIGSTORE_MEDIA_TYPE, Sigstore,
};
use crate::certificate::{Authorities, Certificate};
use crate::claim::{Claim, SIGSTORE};
use crate::judge::{Finding, ReadKeys, Subject};
use crate::key::Key;
use crate::pem;
use crate::policy::{Material, SigstoreSigned, Trust};
use crate::rekor;

/// Maximum number of certificates attached to a signature.
const MAX_CHAIN: usize = 10;

/// A requirement with loaded keys.
pub(crate) struct Checker<'a> {
    requirement: &'a SigstoreSigned,
    trust: Trusted<'a>,
    logs: Vec<Key>,
}

enum Trusted<'a> {
    Keys(Vec<Key>),
    Fulcio { authorities: Authorities, issuer: &'a str, email: &'a str },
    Pki { roots: Authorities, intermediates: Vec<Vec<u8>>, email: Option<&'a str>, hostname: Option<&'a str> },
}

impl<'a> Checker<'a> {
    /// Loads the keys of a requirement.
    pub(crate) fn new(requirement: &'a SigstoreSigned, read: ReadKeys<'_>) -> Result<Checker<'a>, String> {
        let keys = |list: &[Material]| -> Result<Vec<Key>, String> {
            list.iter().map(|one| Key::from_pem(&load(one, read)?).map_err(|error| named(one, &error))).collect()
        };
        let authorities = |one: &Material| Authorities::from_pem(&load(one, read)?).map_err(|error| named(one, &error));
        let trust = match &requirement.trust {
            Trust::Keys(list) => Trusted::Keys(keys(list)?),
            Trust::Fulcio { authorities: list, issuer, email } => {
                Trusted::Fulcio { authorities: authorities(list)?, issuer, email }
            }
            Trust::Pki { roots, intermediates, email, hostname } => Trusted::Pki {
                roots: authorities(roots)?,
                intermediates: match intermediates {
                    Some(one) => pem::certificates(&load(one, read)?).map_err(|error| named(one, &error))?,
                    None => Vec::new(),
                },
                email: email.as_deref(),
                hostname: hostname.as_deref(),
            },
        };
        let logs = keys(&requirement.rekor)?;
        if logs.iter().any(|key| !key.is_ecdsa()) {
            return Err("the key of a log is not ECDSA".into());
        }
        Ok(Checker { requirement, trust, logs })
    }

    /// Verifies one signature.
    pub(crate) fn check(
        &self,
        subject: &Subject<'_>,
        one: &Sigstore,
        now: i64,
        finding: &mut Finding,
    ) -> Result<(), String> {
        if one.media_type != SIGSTORE_MEDIA_TYPE {
            return Err(format!("it is a {:?}, not a signature", crate::name::shorten(&one.media_type)));
        }
        // Record the claim even if it is rejected.
        let claim = Claim::parse(&one.payload, SIGSTORE);
        if let Ok(claim) = &claim {
            finding.claims(claim);
        }
        let annotation = |name: &str| one.annotations.get(name).map(String::as_str);
        let needed = |name: &str| annotation(name).ok_or_else(|| format!("it has no annotation {name}"));
        let signature = base64_simd::STANDARD
            .decode_to_vec(needed(SIGNATURE_ANNOTATION)?.as_bytes())
            .map_err(|_| "the signature is not base64".to_owned())?;
        let logged = |signer: &[u8]| {
            let entry = rekor::Entry { signer, signature: &signature, payload: &one.payload };
            rekor::check(&self.logs, needed(BUNDLE_ANNOTATION)?, &entry)
        };
        match &self.trust {
            Trusted::Keys(keys) => {
                let key = keys
                    .iter()
                    .find(|key| key.verifies(&one.payload, &signature))
                    .ok_or("it is not a valid signature of a trusted key for this content")?;
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
                    return Err(format!("the identity issuer is {found:?}, not {issuer:?}"));
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

fn verify(key: &Key, payload: &[u8], signature: &[u8]) -> Result<(), String> {
    if key.verifies(payload, signature) {
        Ok(())
    } else {
        Err("it is not a valid signature of the key in its certificate".into())
    }
}

fn leaf(text: &str) -> Result<(Certificate, Vec<u8>), String> {
    let mut found = pem::certificates(text.as_bytes())?;
    match (found.pop(), found.len()) {
        (Some(bytes), 0) => Ok((Certificate::parse(&bytes)?, bytes)),
        (None, _) => Err("its certificate is missing".into()),
        _ => Err("it has several certificates, expected one".into()),
    }
}

/// Returns the certificates between the signer's and the root, which comes last.
fn chain(text: Option<&str>) -> Result<Vec<Vec<u8>>, String> {
    let mut found = text.map_or(Ok(Vec::new()), |text| pem::certificates(text.as_bytes()))?;
    found.pop();
    if found.len() > MAX_CHAIN {
        return Err(format!("more than {MAX_CHAIN} certificates between the signer's and an authority"));
    }
    Ok(found)
}

fn check_email(certificate: &Certificate, email: &str) -> Result<(), String> {
    if certificate.emails().iter().any(|it| it == email) {
        return Ok(());
    }
    let found = certificate.emails().join(", ");
    let found = if found.is_empty() { "no address" } else { &found };
    Err(format!("the certificate is for {found}, not for {email}"))
}

fn describe(certificate: &Certificate, finding: &mut Finding) {
    let emails = certificate.emails().join(", ");
    let subject = if emails.is_empty() { "certificate".to_owned() } else { format!("certificate of {emails}") };
    let issuer = certificate.issuer().map(|issuer| format!(", vouched for by {issuer}")).unwrap_or_default();
    finding.signer = Some(format!("{subject}{issuer}"));
}

/// Loads keys or certificates.
pub(crate) fn load(material: &Material, read: ReadKeys<'_>) -> Result<Vec<u8>, String> {
    match material {
        Material::Data(bytes) => Ok(bytes.clone()),
        Material::Path(path) => read(path),
    }
}

pub(crate) fn named(material: &Material, error: &str) -> String {
    match material {
        Material::Data(_) => format!("the key in the policy: {error}"),
        Material::Path(path) => format!("{}: {error}", path.display()),
    }
}
