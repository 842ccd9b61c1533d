//! Certificate authorities.

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, date_time_ymd,
};

use super::key;

/// A certificate authority.
pub(super) struct Authority {
    pub(super) key: KeyPair,
    pub(super) params: CertificateParams,
    pub(super) pem: String,
}

impl Authority {
    pub(super) fn new(name: &str, parent: Option<&Authority>) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.not_before = date_time_ymd(2024, 1, 1);
        params.not_after = date_time_ymd(2025, 1, 1);
        let key = key();
        let certificate = match parent {
            None => params.self_signed(&key).unwrap(),
            Some(parent) => params.signed_by(&key, &parent.issuer()).unwrap(),
        };
        Authority { key, params, pem: certificate.pem() }
    }

    pub(super) fn issuer(&self) -> Issuer<'_, &KeyPair> {
        Issuer::from_params(&self.params, &self.key)
    }

    pub(super) fn certify(&self, key: &impl PublicKeyData, params: &CertificateParams) -> String {
        params.signed_by(key, &self.issuer()).unwrap().pem()
    }
}

/// Returns the parameters of a certificate for keyless signing.
pub(super) fn keyless(email: &str, issuers: &[(u64, Vec<u8>)]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.subject_alt_names = vec![SanType::Rfc822Name(email.try_into().unwrap())];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
    params.not_before = date_time_ymd(2024, 5, 1);
    params.not_after = date_time_ymd(2024, 5, 2);
    let oid = |last: u64| [1, 3, 6, 1, 4, 1, 57264, 1, last];
    params.custom_extensions =
        issuers.iter().map(|(last, value)| CustomExtension::from_oid_content(&oid(*last), value.clone())).collect();
    params
}

pub(super) fn utf8(text: &str) -> Vec<u8> {
    [&[0x0c, text.len() as u8], text.as_bytes()].concat()
}
