//! Certificates of signers and their verification against authorities.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use fbc::spelling::calendar::{rfc3339, seconds};
use jiff::civil::DateTime;
use rustls_pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::signature::der::{self, DerReader};
use crate::signature::key::{Key, KeyError};
use crate::signature::pem::PemError;

const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// 1.3.6.1.4.1.57264.1.1: the identity issuer, as plain bytes.
const ISSUER: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xbf, 0x30, 0x01, 0x01];
/// 1.3.6.1.4.1.57264.1.8: the identity issuer, as a DER string.
const ISSUER_2: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xbf, 0x30, 0x01, 0x08];
/// 1.3.6.1.5.5.7.3.3: code signing.
const CODE_SIGNING: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x03];

/// Why a certificate is rejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error(transparent)]
    Pem(#[from] PemError),
    #[error("it contains no certificate")]
    None,
    #[error("the certificate is damaged")]
    Damaged,
    #[error("the issuer is not text")]
    IssuerNotText,
    #[error("the certificate names two issuers, {0:?} and {1:?}")]
    TwoIssuers(String, String),
    #[error("the certificate does not name the issuer of the identity")]
    NoIssuer,
    #[error("the certificate is not for {host}: {source}")]
    NotHostName { host: String, source: InvalidDnsNameError },
    #[error("the certificate is not for {host}: {source}")]
    OtherHost { host: String, source: webpki::Error },
    #[error("the certificate is not valid at {}", rfc3339(*.0))]
    NotValidAt(i64),
    #[error("the time is before 1970")]
    Before1970,
    #[error("an authority: {0}")]
    Authority(webpki::Error),
    #[error("no authority is valid at {}", rfc3339(*.0))]
    NoAuthority(i64),
    #[error("the certificate is not trusted: {0}")]
    NotTrusted(#[from] webpki::Error),
}

/// An unverified certificate of a signer; [`Authorities::check`] verifies it.
pub(crate) struct SignerCertificate {
    bytes: CertificateDer<'static>,
    validity: RangeInclusive<i64>,
    key: Vec<u8>,
    emails: Vec<String>,
    issuer: Option<Vec<u8>>,
    issuer_2: Option<Vec<u8>>,
}

impl SignerCertificate {
    pub(crate) fn parse(bytes: &[u8]) -> Result<SignerCertificate, CertificateError> {
        read(bytes).ok_or(CertificateError::Damaged)
    }

    /// Returns the public key.
    pub(crate) fn key(&self) -> Result<Key, KeyError> {
        Key::from_info(&self.key)
    }

    /// Returns the email addresses in the certificate.
    pub(crate) fn emails(&self) -> &[String] {
        &self.emails
    }

    /// Returns the identity issuer.
    pub(crate) fn issuer(&self) -> Result<String, CertificateError> {
        let old = self.issuer.as_deref().map(|value| str::from_utf8(value).ok());
        let new = self.issuer_2.as_deref().map(|value| {
            let mut reader = DerReader(value);
            let text = reader.next(der::UTF8_STRING).filter(|_| reader.is_empty());
            text.and_then(|text| str::from_utf8(text).ok())
        });
        match (old, new) {
            (Some(None), _) | (_, Some(None)) => Err(CertificateError::IssuerNotText),
            (Some(Some(old)), Some(Some(new))) if old != new => {
                Err(CertificateError::TwoIssuers(old.to_owned(), new.to_owned()))
            }
            (Some(Some(issuer)), _) | (None, Some(Some(issuer))) => Ok(issuer.to_owned()),
            (None, None) => Err(CertificateError::NoIssuer),
        }
    }

    /// Checks that the certificate is valid for a host name.
    pub(crate) fn check_hostname(&self, host: &str) -> Result<(), CertificateError> {
        let name = ServerName::try_from(host)
            .map_err(|source| CertificateError::NotHostName { host: host.to_owned(), source })?;
        EndEntityCert::try_from(&self.bytes)
            .and_then(|certificate| certificate.verify_is_valid_for_subject_name(&name))
            .map_err(|source| CertificateError::OtherHost { host: host.to_owned(), source })
    }

    fn is_valid_at(&self, time: i64) -> bool {
        self.validity.contains(&time)
    }
}

/// The trusted certificate authorities.
pub(crate) struct Authorities(Vec<SignerCertificate>);

impl Authorities {
    /// Parses certificates in PEM.
    pub(crate) fn from_pem(text: &[u8]) -> Result<Authorities, CertificateError> {
        let all: Vec<SignerCertificate> = crate::signature::pem::certificates(text)?
            .iter()
            .map(|it| SignerCertificate::parse(it))
            .collect::<Result<_, _>>()?;
        if all.is_empty() { Err(CertificateError::None) } else { Ok(Authorities(all)) }
    }

    /// Checks that a certificate chains to an authority, is for code signing, and is valid at `time` (seconds since
    /// 1970), as are all certificates above it.
    pub(crate) fn check(
        &self,
        certificate: &SignerCertificate,
        intermediates: &[Vec<u8>],
        time: i64,
    ) -> Result<(), CertificateError> {
        if !certificate.is_valid_at(time) {
            return Err(CertificateError::NotValidAt(time));
        }
        let seconds = u64::try_from(time).map_err(|_| CertificateError::Before1970)?;
        // webpki does not check the dates of trust anchors, so expired ones are dropped.
        let mut anchors = Vec::new();
        for authority in self.0.iter().filter(|authority| authority.is_valid_at(time)) {
            anchors.push(anchor_from_trusted_cert(&authority.bytes).map_err(CertificateError::Authority)?);
        }
        if anchors.is_empty() {
            return Err(CertificateError::NoAuthority(time));
        }
        let intermediates: Vec<CertificateDer<'_>> =
            intermediates.iter().map(|it| CertificateDer::from(it.as_slice())).collect();
        EndEntityCert::try_from(&certificate.bytes)?
            .verify_for_usage(
                webpki::ALL_VERIFICATION_ALGS,
                &anchors,
                &intermediates,
                UnixTime::since_unix_epoch(Duration::from_secs(seconds)),
                KeyUsage::required_if_present(CODE_SIGNING),
                None,
                None,
            )
            .map(|_| ())
            .map_err(CertificateError::NotTrusted)
    }
}

/// Returns whether a certificate is valid at `time`, in seconds since 1970, or `None` if it cannot be parsed.
pub(crate) fn is_valid_at(certificate: &[u8], time: i64) -> Option<bool> {
    let (period, _) = validity(certificate)?;
    Some(period.contains(&time))
}

/// The distinguished names of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateNames {
    pub(crate) subject: String,
    pub(crate) issuer: String,
}

impl CertificateNames {
    /// Parses the names of a certificate, which may be untrusted: they are shortened, without control characters.
    pub(crate) fn of(bytes: &[u8]) -> Option<CertificateNames> {
        let mut body = DerReader(DerReader(DerReader(bytes).next(der::SEQUENCE)?).next(der::SEQUENCE)?);
        body.maybe(0xa0);
        body.next(der::INTEGER)?;
        body.next(der::SEQUENCE)?;
        let issuer = distinguished_name(body.next(der::SEQUENCE)?)?;
        body.next(der::SEQUENCE)?;
        Some(CertificateNames { subject: distinguished_name(body.next(der::SEQUENCE)?)?, issuer })
    }
}

impl fmt::Display for CertificateNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CertificateNames { subject, issuer } = self;
        match subject == issuer {
            true => write!(f, "the certificate of {subject:?} is self-signed"),
            false => write!(f, "the certificate of {subject:?} was issued by {issuer:?}"),
        }
    }
}

/// Formats a distinguished name with the attributes that people know: `CN=server,O=Example`.
fn distinguished_name(name: &[u8]) -> Option<String> {
    let (mut sets, mut parts) = (DerReader(name), Vec::new());
    while !sets.is_empty() {
        let mut set = DerReader(sets.next(der::SET)?);
        while !set.is_empty() {
            let mut attribute = DerReader(set.next(der::SEQUENCE)?);
            let key = match attribute.next(der::OID)? {
                [0x55, 0x04, 3] => "CN",
                [0x55, 0x04, 6] => "C",
                [0x55, 0x04, 7] => "L",
                [0x55, 0x04, 8] => "ST",
                [0x55, 0x04, 10] => "O",
                [0x55, 0x04, 11] => "OU",
                _ => continue,
            };
            let (_, value, _) = attribute.any()?;
            let value: String = String::from_utf8_lossy(value).chars().filter(|c| !c.is_control()).take(100).collect();
            parts.push(format!("{key}={value}"));
        }
    }
    parts.truncate(10);
    Some(parts.join(","))
}

/// Returns the validity period of a certificate, and its fields after it.
fn validity(bytes: &[u8]) -> Option<(RangeInclusive<i64>, DerReader<'_>)> {
    let mut reader = DerReader(bytes);
    let mut whole = DerReader(reader.next(der::SEQUENCE)?);
    if !reader.is_empty() {
        return None;
    }
    let mut body = DerReader(whole.next(der::SEQUENCE)?);
    body.maybe(0xa0);
    body.next(der::INTEGER)?;
    body.next(der::SEQUENCE)?;
    body.next(der::SEQUENCE)?;
    let mut period = DerReader(body.next(der::SEQUENCE)?);
    Some((time(&mut period)?..=time(&mut period)?, body))
}

fn read(bytes: &[u8]) -> Option<SignerCertificate> {
    let (validity, mut body) = validity(bytes)?;
    body.next(der::SEQUENCE)?;
    let (tag, _, key) = body.any()?;
    if tag != der::SEQUENCE {
        return None;
    }
    body.maybe(0x81);
    body.maybe(0x82);
    let mut certificate = SignerCertificate {
        bytes: CertificateDer::from(bytes.to_vec()),
        validity,
        key: key.to_vec(),
        emails: Vec::new(),
        issuer: None,
        issuer_2: None,
    };
    if let Some(extensions) = body.maybe(0xa3) {
        let mut list = DerReader(DerReader(extensions).next(der::SEQUENCE)?);
        let mut seen: Vec<&[u8]> = Vec::new();
        while !list.is_empty() {
            let mut extension = DerReader(list.next(der::SEQUENCE)?);
            let oid = extension.next(der::OID)?;
            extension.maybe(der::BOOLEAN);
            let value = extension.next(der::OCTET_STRING)?;
            if seen.contains(&oid) || seen.len() > 100 {
                return None;
            }
            seen.push(oid);
            match oid {
                SUBJECT_ALTERNATIVE_NAME => certificate.emails = emails(value)?,
                ISSUER => certificate.issuer = Some(value.to_vec()),
                ISSUER_2 => certificate.issuer_2 = Some(value.to_vec()),
                _ => {}
            }
        }
    }
    body.is_empty().then_some(certificate)
}

fn emails(value: &[u8]) -> Option<Vec<String>> {
    let mut names = DerReader(DerReader(value).next(der::SEQUENCE)?);
    let mut emails = Vec::new();
    while !names.is_empty() {
        let (tag, content, _) = names.any()?;
        if tag == 0x81 {
            let text = str::from_utf8(content).ok().filter(|text| text.is_ascii())?;
            emails.push(text.to_owned());
        }
    }
    Some(emails)
}

/// Parses a time to seconds since 1970.
fn time(reader: &mut DerReader<'_>) -> Option<i64> {
    let (tag, text, _) = reader.any()?;
    let (year_digits, text) = match tag {
        der::UTC_TIME => (2, text),
        der::GENERALIZED_TIME => (4, text),
        _ => return None,
    };
    let digits = text.strip_suffix(b"Z")?;
    if digits.len() != year_digits + 10 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |part: &[u8]| part.iter().fold(0, |sum, digit| sum * 10 + i16::from(digit - b'0'));
    let (year, rest) = digits.split_at(year_digits);
    let year = match (number(year), year_digits) {
        (year, 2) if year < 50 => 2000 + year,
        (year, 2) => 1900 + year,
        (year, _) => year,
    };
    let part = |at: usize| number(&rest[at..at + 2]) as i8;
    seconds(DateTime::new(year, part(0), part(2), part(4), part(6), part(8), 0).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_certificates_are_rejected() {
        for bytes in [&b""[..], b"\x30", b"\x30\x84\xff\xff\xff\xff", b"\x30\x80", b"\x30\x02\x30\x00"] {
            assert_eq!(is_valid_at(bytes, 0), None);
        }
    }

    #[test]
    fn times_are_parsed_and_formatted() {
        for (tag, text, seconds, full) in [
            (der::UTC_TIME, "700101000000Z", 0, "1970-01-01T00:00:00Z"),
            (der::UTC_TIME, "240229235959Z", 1_709_251_199, "2024-02-29T23:59:59Z"),
            (der::UTC_TIME, "491231000000Z", 2_524_521_600, "2049-12-31T00:00:00Z"),
            (der::GENERALIZED_TIME, "20500101000000Z", 2_524_608_000, "2050-01-01T00:00:00Z"),
        ] {
            let bytes = der::write(tag, text.as_bytes());
            assert_eq!(time(&mut DerReader(&bytes)), Some(seconds), "{text}");
            assert_eq!(rfc3339(seconds), full);
        }
        for text in ["", "Z", "7001010000Z", "700101000000", "701301000000Z", "7001010000x0Z"] {
            assert_eq!(time(&mut DerReader(&der::write(der::UTC_TIME, text.as_bytes()))), None, "{text}");
        }
    }
}
