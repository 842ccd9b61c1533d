//! Writes tar files deterministically.
//!
//! [`file_header`] is for archives of regular files with short names; [`headers`] is for layers with any entries.
//! Archives to read are untrusted and need more care: see `unpack`.

use std::io;

/// The block size of tar.
pub const BLOCK: usize = 512;

/// The end-of-archive marker.
pub(crate) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Maximum length of a name in a header.
pub(crate) const LONGEST_NAME: usize = 100;

/// Returns the size of a file in an archive, including its header.
pub fn entry_size(size: u64) -> u64 {
    BLOCK as u64 + size.next_multiple_of(BLOCK as u64)
}

/// Returns the padding after a file of `size` bytes.
pub fn padding(size: u64) -> &'static [u8] {
    &END[..(BLOCK - (size % BLOCK as u64) as usize) % BLOCK]
}

/// Returns the header of a regular file, deterministic for name and size. Names are cut at 100 bytes.
pub fn file_header(name: &str, size: u64) -> [u8; BLOCK] {
    let entry = TarHeader { name: name.as_bytes(), flag: b'0', mode: 0o644, size, link: b"", time: 0 };
    block(&entry, true)
}

/// The header fields of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TarHeader<'a> {
    pub(crate) name: &'a [u8],
    /// The type flag.
    pub(crate) flag: u8,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// The target of a link.
    pub(crate) link: &'a [u8],
    /// In seconds since 1970.
    pub(crate) time: u64,
}

/// Returns the header of an entry: one block, preceded by a pax header if the fields do not fit.
pub(crate) fn headers(entry: &TarHeader<'_>) -> io::Result<Vec<u8>> {
    let mut records = Vec::new();
    for (key, value) in [("path", entry.name), ("linkpath", entry.link)] {
        if value.len() > LONGEST_NAME || !value.is_ascii() {
            match std::str::from_utf8(value) {
                Ok(text) => records.push(record(key, text)),
                // Pax headers are UTF-8; the block itself holds any bytes.
                Err(_) if value.len() <= LONGEST_NAME => {}
                Err(_) => {
                    let shown = String::from_utf8_lossy(value);
                    return Err(io::Error::other(format!("{shown:?}: the name is too long and not UTF-8")));
                }
            }
        }
    }
    if octal(entry.size).is_none() {
        records.push(record("size", &entry.size.to_string()));
    }
    if octal(entry.time).is_none() {
        records.push(record("mtime", &entry.time.to_string()));
    }
    let mut out = Vec::new();
    if !records.is_empty() {
        let records = records.concat();
        let size = records.len() as u64;
        let extended = TarHeader { name: b"PaxHeaders.0/x", flag: b'x', mode: 0o644, size, link: b"", time: 0 };
        out.extend_from_slice(&block(&extended, false));
        out.extend_from_slice(records.as_bytes());
        out.extend_from_slice(padding(size));
    }
    out.extend_from_slice(&block(entry, false));
    Ok(out)
}

/// Returns one header block. Values that do not fit are cut; the pax header has them. Without one, a large size is
/// written in base 256, which all tools read.
fn block(entry: &TarHeader<'_>, base_256: bool) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut field = |range: std::ops::Range<usize>, value: &[u8]| {
        let length = value.len().min(range.len());
        block[range][..length].copy_from_slice(&value[..length]);
    };
    let zeros = || "0".repeat(11);
    field(0..LONGEST_NAME, entry.name);
    field(100..108, format!("{:07o}", entry.mode).as_bytes());
    field(108..116, b"0000000");
    field(116..124, b"0000000");
    match octal(entry.size) {
        None if base_256 => {
            field(124..125, &[0x80]);
            field(128..136, &entry.size.to_be_bytes());
        }
        size => field(124..136, size.unwrap_or_else(zeros).as_bytes()),
    }
    field(136..148, octal(entry.time).unwrap_or_else(zeros).as_bytes());
    field(148..156, b"        ");
    field(156..157, &[entry.flag]);
    field(157..257, entry.link);
    field(257..265, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// Formats a number for a field of twelve bytes with a trailing NUL, if it fits.
fn octal(number: u64) -> Option<String> {
    let digits = format!("{number:011o}");
    (digits.len() <= 11).then_some(digits)
}

/// Returns a pax record, which starts with its own length.
fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length += 1;
    }
    format!("{length} {key}={value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_sizes_are_encoded_in_binary_or_in_a_pax_record() {
        let header = file_header("a", 1 << 33);
        assert_eq!(header[124], 0x80);
        assert_eq!(&header[128..136], &(1_u64 << 33).to_be_bytes());
        assert_eq!(&file_header("a", (1 << 33) - 1)[124..136], b"77777777777\0");
        let entry = TarHeader { name: b"a", flag: b'0', mode: 0o644, size: 1 << 33, link: b"", time: 0 };
        let headers = headers(&entry).unwrap();
        assert_eq!(headers.len(), 3 * BLOCK);
        assert!(headers[BLOCK..].starts_with(b"19 size=8589934592\n"));
    }

    #[test]
    fn small_entries_of_a_layer_have_plain_headers() {
        let entry = TarHeader { name: b"blobs/x", flag: b'0', mode: 0o644, size: 700, link: b"", time: 0 };
        assert_eq!(headers(&entry).unwrap(), file_header("blobs/x", 700));
        assert_eq!((entry_size(0), entry_size(1), entry_size(512)), (512, 1024, 1024));
        assert_eq!((padding(0).len(), padding(1).len(), padding(512).len()), (0, 511, 0));
    }
}
