//! PEM: base64 between two marker lines.

use crate::der;

/// One block.
pub(crate) struct Block {
    pub(crate) label: String,
    pub(crate) content: Vec<u8>,
}

/// Maximum number of blocks in a text.
const MAX_BLOCKS: usize = 100;

/// Parses all blocks; text between them is ignored.
pub(crate) fn blocks(text: &[u8]) -> Result<Vec<Block>, String> {
    let text = str::from_utf8(text).map_err(|_| "it is not PEM".to_owned())?;
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
                None => return Err(format!("PEM block {label:?} has no end")),
                Some(line) if line == end => break,
                Some(line) => base64.push_str(line.trim()),
            }
        }
        let content = base64_simd::STANDARD
            .decode_to_vec(base64.as_bytes())
            .map_err(|_| format!("PEM block {label:?} is not base64"))?;
        found.push(Block { label: label.to_owned(), content });
        if found.len() > MAX_BLOCKS {
            return Err(format!("more than {MAX_BLOCKS} PEM blocks"));
        }
    }
    Ok(found)
}

/// Parses a text that consists of exactly one block.
pub(crate) fn only(text: &[u8]) -> Result<Block, String> {
    let mut found = blocks(text)?;
    let around = str::from_utf8(text).unwrap_or_default().trim();
    match found.pop() {
        Some(block) if found.is_empty() && around.starts_with("-----BEGIN ") && around.ends_with("-----") => Ok(block),
        Some(_) => Err("it is more than one PEM block".into()),
        None => Err("it is not PEM".into()),
    }
}

/// Parses certificates.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let blocks = blocks(text)?;
    if let Some(other) = blocks.iter().find(|block| block.label != "CERTIFICATE") {
        return Err(format!("PEM block {:?} is not a certificate", other.label));
    }
    Ok(blocks.into_iter().map(|block| block.content).collect())
}

/// Parses a public key to `SubjectPublicKeyInfo`.
pub(crate) fn public_key(text: &[u8]) -> Result<Vec<u8>, String> {
    let blocks = blocks(text)?;
    let first = blocks.into_iter().next().ok_or("it is not PEM")?;
    match first.label.as_str() {
        "PUBLIC KEY" => Ok(first.content),
        "RSA PUBLIC KEY" => {
            let algorithm = [der::write(der::OID, crate::key::RSA), vec![5, 0]].concat();
            let bits = [&[0], first.content.as_slice()].concat();
            let parts = [der::write(der::SEQUENCE, &algorithm), der::write(der::BIT_STRING, &bits)].concat();
            Ok(der::write(der::SEQUENCE, &parts))
        }
        other => Err(format!("PEM block {other:?} is not a public key")),
    }
}
