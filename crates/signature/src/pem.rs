//! PEM: base64 between two lines.

use crate::der;

/// One block.
pub(crate) struct Block {
    pub(crate) label: String,
    pub(crate) content: Vec<u8>,
}

/// The largest number of blocks in one text.
const MOST: usize = 100;

/// Reads all blocks; what is between them does not count.
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
        if found.len() > MOST {
            return Err(format!("more than {MOST} PEM blocks"));
        }
    }
    Ok(found)
}

/// Reads a text that is one block, and nothing else.
pub(crate) fn only(text: &[u8]) -> Result<Block, String> {
    let mut found = blocks(text)?;
    let around = str::from_utf8(text).unwrap_or_default().trim();
    match found.pop() {
        Some(block) if found.is_empty() && around.starts_with("-----BEGIN ") && around.ends_with("-----") => Ok(block),
        Some(_) => Err("it is more than one PEM block".into()),
        None => Err("it is not PEM".into()),
    }
}

/// Reads certificates.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let blocks = blocks(text)?;
    if let Some(other) = blocks.iter().find(|block| block.label != "CERTIFICATE") {
        return Err(format!("PEM block {:?} is no certificate", other.label));
    }
    Ok(blocks.into_iter().map(|block| block.content).collect())
}

/// Reads a public key as `SubjectPublicKeyInfo`.
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
        other => Err(format!("PEM block {other:?} is no public key")),
    }
}
