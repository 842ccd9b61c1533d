//! ASCII armor: packets in base64 between two marker lines.

use super::error::OpenPgpError;

const BEGIN: &str = "-----BEGIN PGP ";

/// Returns the packets in `bytes`, armored or binary. Several armored blocks are concatenated.
pub(crate) fn open(bytes: &[u8]) -> Result<Vec<u8>, OpenPgpError> {
    // The first byte of a packet has its highest bit set, unlike text.
    if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
        return Ok(bytes.to_vec());
    }
    let text = str::from_utf8(bytes).map_err(|_| OpenPgpError::NotOpenPgp)?;
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix("-----")) else { continue };
        if label == "SIGNED MESSAGE" {
            return Err(OpenPgpError::PlainText);
        }
        let end = format!("-----END PGP {label}-----");
        // Headers end with an empty line.
        let mut base64 = String::new();
        let mut in_headers = true;
        loop {
            match lines.next() {
                None => return Err(OpenPgpError::ArmorWithoutEnd),
                Some(line) if line == end => break,
                Some(line) if in_headers && !line.is_empty() && !line.contains(": ") => {
                    in_headers = false;
                    base64.push_str(line);
                }
                Some(line) if in_headers => in_headers = !line.is_empty(),
                // The checksum adds nothing to the signature.
                Some(line) if line.starts_with('=') => {}
                Some(line) => base64.push_str(line.trim()),
            }
        }
        let packets = base64_simd::STANDARD.decode_to_vec(base64.as_bytes());
        found.extend(packets.map_err(|_| OpenPgpError::ArmorNotBase64)?);
    }
    if found.is_empty() { Err(OpenPgpError::NotOpenPgp) } else { Ok(found) }
}
