//! Splits a catalog into parts that fit into ConfigMaps.
//!
//! Documents are never split. Each part is one gzip stream, and the same documents give the same bytes.

use std::io::Read;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Maximum size of the values of a ConfigMap; the API server does not count keys and metadata.
pub const LIMIT: usize = 1_048_576;
/// Maximum number of ConfigMaps: more would not fit into the pod spec.
pub const CONFIG_MAPS_PER_POD: usize = 1000;

/// No time, no name, no operating system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// An empty last block.
const LAST_BLOCK: [u8; 2] = [0x03, 0x00];
/// The length of checksum and size.
const TRAILER: usize = 8;

/// The language of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// YAML: documents are separated by `---`.
    Yaml,
    /// JSON: objects are concatenated.
    Json,
}

/// One blob of a catalog as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogDocument {
    /// Its name, for messages.
    pub name: String,
    /// The language of the text.
    pub language: Language,
    /// The text, which is not modified.
    pub text: Vec<u8>,
}

/// Why a catalog does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// One document is too large.
    #[error(
        "{name} is too large: {bytes} bytes, {packed} bytes compressed, and a ConfigMap holds at most \
         {LIMIT}; nothing was created"
    )]
    Document {
        /// What it is.
        name: String,
        /// Its size.
        bytes: usize,
        /// Its size when compressed.
        packed: usize,
    },
    /// The catalog has too many parts.
    #[error("the catalog does not fit into {CONFIG_MAPS_PER_POD} ConfigMaps of {LIMIT} bytes; nothing was created")]
    TooMany,
    /// The catalog is empty.
    #[error("file-based catalog contents cannot be empty")]
    Empty,
}

/// Splits documents into as few parts as possible, keeping their order; YAML comes first, because no part has both.
///
/// # Errors
/// Fails if a document does not fit into a part, or there are too many parts.
pub fn partition(documents: &[CatalogDocument]) -> Result<Vec<Vec<u8>>, PartitionError> {
    partition_within(documents, LIMIT)
}

fn partition_within(documents: &[CatalogDocument], limit: usize) -> Result<Vec<Vec<u8>>, PartitionError> {
    let mut parts = Vec::new();
    for language in [Language::Yaml, Language::Json] {
        let mut part = ConfigMapPart::new(language);
        for document in documents.iter().filter(|document| document.language == language) {
            if document.text.trim_ascii().is_empty() || part.add(&document.text, limit) {
                continue;
            }
            if !part.is_empty() {
                parts.push(part.finish());
                part = ConfigMapPart::new(language);
                if part.add(&document.text, limit) {
                    continue;
                }
            }
            let packed = part.measure(&document.text);
            return Err(PartitionError::Document { name: document.name.clone(), bytes: document.text.len(), packed });
        }
        if !part.is_empty() {
            parts.push(part.finish());
        }
    }
    match parts.len() {
        0 => Err(PartitionError::Empty),
        count if count > CONFIG_MAPS_PER_POD => Err(PartitionError::TooMany),
        _ => Ok(parts),
    }
}

/// Decompresses a part, as the pod does.
///
/// # Errors
/// Fails if the bytes are not a part.
pub fn unpack(part: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(part).read_to_end(&mut text)?;
    Ok(text)
}

/// A gzip stream that grows document by document and can drop the last one.
struct ConfigMapPart {
    compress: Compress,
    packed: Vec<u8>,
    checksum: Crc,
    language: Language,
    /// Whether the last line is terminated.
    line_ended: bool,
}

impl ConfigMapPart {
    fn new(language: Language) -> ConfigMapPart {
        let compress = Compress::new(Compression::new(6), false);
        ConfigMapPart { compress, packed: HEADER.to_vec(), checksum: Crc::new(), language, line_ended: true }
    }

    fn is_empty(&self) -> bool {
        self.checksum.amount() == 0
    }

    /// Adds a document if it fits; otherwise nothing more can be added.
    fn add(&mut self, document: &[u8], limit: usize) -> bool {
        let before = self.packed.len();
        let separator: &[u8] = match (self.language, self.line_ended) {
            _ if self.is_empty() => b"",
            (Language::Yaml, true) => b"---\n",
            (Language::Yaml, false) => b"\n---\n",
            (Language::Json, true) => b"",
            (Language::Json, false) => b"\n",
        };
        self.deflate(separator, FlushCompress::None);
        self.deflate(document, FlushCompress::Sync);
        if self.packed.len() + LAST_BLOCK.len() + TRAILER > limit {
            // The previous output ends at a byte boundary and is a complete stream with an empty block after it.
            self.packed.truncate(before);
            return false;
        }
        self.checksum.update(separator);
        self.checksum.update(document);
        self.line_ended = document.ends_with(b"\n");
        true
    }

    /// Returns the size of a part with one document.
    fn measure(&self, document: &[u8]) -> usize {
        let mut part = ConfigMapPart::new(self.language);
        part.add(document, usize::MAX);
        part.finish().len()
    }

    fn deflate(&mut self, mut input: &[u8], flush: FlushCompress) {
        loop {
            self.packed.reserve(input.len() / 4 + 4096);
            let before = self.compress.total_in();
            let status = self.compress.compress_vec(input, &mut self.packed, flush);
            input = &input[(self.compress.total_in() - before) as usize..];
            let room = self.packed.capacity() - self.packed.len();
            // Unused output space means that the compressor is done.
            if (input.is_empty() && room > 0) || !matches!(status, Ok(Status::Ok | Status::BufError)) {
                return;
            }
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.packed.extend_from_slice(&LAST_BLOCK);
        self.packed.extend_from_slice(&self.checksum.sum().to_le_bytes());
        self.packed.extend_from_slice(&self.checksum.amount().to_le_bytes());
        self.packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(part: &[u8]) -> String {
        String::from_utf8(unpack(part).unwrap()).unwrap()
    }

    fn document(language: Language, text: impl Into<Vec<u8>>) -> CatalogDocument {
        CatalogDocument { name: "a document".into(), language, text: text.into() }
    }

    /// Returns text that compresses to three quarters at best.
    fn noise(length: usize, seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[(state >> 58) as usize]
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn small_catalogs_have_one_reproducible_part() {
        let yaml = |text: &str| document(Language::Yaml, text);
        let documents = [yaml("a: 1\n"), yaml(""), yaml("  \n"), yaml("  b: 2"), yaml("c: |+\n  3\n\n\n")];
        let parts = partition(&documents).unwrap();
        assert_eq!(parts, partition(&documents).unwrap());
        assert_eq!(
            parts.iter().map(|part| text(part)).collect::<Vec<_>>(),
            ["a: 1\n---\n  b: 2\n---\nc: |+\n  3\n\n\n"]
        );
        assert_eq!(parts[0][4..8], [0; 4], "no time");
    }

    #[test]
    fn languages_are_in_separate_parts() {
        let documents =
            [document(Language::Json, "{}"), document(Language::Yaml, "a: 1\n"), document(Language::Json, "{\n}\n")];
        let parts = partition(&documents).unwrap();
        assert_eq!(parts.iter().map(|part| text(part)).collect::<Vec<_>>(), ["a: 1\n", "{}\n{\n}\n"]);
    }

    #[test]
    fn nothing_is_lost_between_parts() {
        let documents: Vec<CatalogDocument> =
            (0..60).map(|seed| document(Language::Yaml, noise(20_000 + seed * 1000, seed as u64))).collect();
        let parts = partition_within(&documents, 100_000).unwrap();
        assert!(parts.len() > 20 && parts.iter().all(|part| part.len() <= 100_000), "{}", parts.len());
        let together: Vec<String> = parts.iter().map(|part| text(part)).collect();
        let together: Vec<&[u8]> = together.iter().flat_map(|part| part.split("\n---\n")).map(str::as_bytes).collect();
        assert_eq!(together, documents.iter().map(|one| one.text.as_slice()).collect::<Vec<_>>());
    }

    #[test]
    fn a_document_may_fill_a_part_to_the_last_byte() {
        let large = document(Language::Json, noise(50_000, 1));
        let size = partition(std::slice::from_ref(&large)).unwrap()[0].len();
        assert_eq!(partition_within(std::slice::from_ref(&large), size).unwrap()[0].len(), size);
        assert_eq!(
            partition_within(&[document(Language::Json, "{}"), large], size - 1),
            Err(PartitionError::Document { name: "a document".into(), bytes: 50_000, packed: size })
        );
    }

    #[test]
    fn an_empty_catalog_has_no_parts() {
        assert_eq!(partition(&[document(Language::Yaml, " \n")]), Err(PartitionError::Empty));
    }
}
