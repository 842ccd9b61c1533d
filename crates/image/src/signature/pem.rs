//! PEM: base64 between two marker lines.

use crate::signature::der;

/// One block.
pub(crate) struct Block {
    pub(crate) label: String,
    pub(crate) content: Vec<u8>,
}

/// Why a text is not the expected PEM.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PemError {
    #[error("it is not PEM")]
    NotPem,
    #[error("PEM block {0:?} has no end")]
    NoEnd(String),
    #[error("PEM block {0:?} is not base64")]
    NotBase64(String),
    #[error("more than {MAX_BLOCKS} PEM blocks")]
    TooMany,
    #[error("it is more than one PEM block")]
    NotOne,
    #[error("PEM block {0:?} is not a certificate")]
    NotCertificate(String),
    #[error("PEM block {0:?} is not a public key")]
    NotPublicKey(String),
}

/// Maximum number of blocks in a text.
const MAX_BLOCKS: usize = 100;

/// Parses all blocks; text between them is ignored.
pub(crate) fn blocks(text: &[u8]) -> Result<Vec<Block>, PemError> {
    let text = str::from_utf8(text).map_err(|_| PemError::NotPem)?;
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) else {
            continue;
        };
        let end = format!("-----END {label}-----");
        let mut base64 = String::new();
        loop {
            match lines.next() {
                None => return Err(PemError::NoEnd(label.to_owned())),
                Some(line) if line == end => break,
                Some(line) => base64.push_str(line.trim()),
            }
        }
        let content = base64_simd::STANDARD
            .decode_to_vec(base64.as_bytes())
            .map_err(|_| PemError::NotBase64(label.to_owned()))?;
        found.push(Block { label: label.to_owned(), content });
        if found.len() > MAX_BLOCKS {
            return Err(PemError::TooMany);
        }
    }
    Ok(found)
}

/// Parses a text that consists of exactly one block.
pub(crate) fn only(text: &[u8]) -> Result<Block, PemError> {
    let mut found = blocks(text)?;
    let around = str::from_utf8(text).unwrap_or_default().trim();
    match found.pop() {
        Some(block) if found.is_empty() && around.starts_with("-----BEGIN ") && around.ends_with("-----") => Ok(block),
        Some(_) => Err(PemError::NotOne),
        None => Err(PemError::NotPem),
    }
}

/// Parses certificates.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, PemError> {
    let blocks = blocks(text)?;
    let content = |block: Block| match block.label.as_str() {
        "CERTIFICATE" => Ok(block.content),
        _ => Err(PemError::NotCertificate(block.label)),
    };
    blocks.into_iter().map(content).collect()
}

/// Parses a public key to `SubjectPublicKeyInfo`.
pub(crate) fn public_key(text: &[u8]) -> Result<Vec<u8>, PemError> {
    let blocks = blocks(text)?;
    let first = blocks.into_iter().next().ok_or(PemError::NotPem)?;
    match first.label.as_str() {
        "PUBLIC KEY" => Ok(first.content),
        "RSA PUBLIC KEY" => {
            let algorithm = [der::write(der::OID, crate::signature::key::RSA), vec![5, 0]].concat();
            let bits = [&[0], first.content.as_slice()].concat();
            let parts = [der::write(der::SEQUENCE, &algorithm), der::write(der::BIT_STRING, &bits)].concat();
            Ok(der::write(der::SEQUENCE, &parts))
        }
        other => Err(PemError::NotPublicKey(other.to_owned())),
    }
}
