//! The layout of the cache file.
//!
//! Goals: opening takes the time to read its tables; any number of servers read it at once; every answer is a binary
//! search and a copy; no byte is trusted before its checksum is verified. The file is written once, beside its final
//! name, and renamed into place. opm never modifies it afterwards; the checksums reveal changes by others.
//!
//! ```text
//! header    magic (8 bytes), version u32, number of sections u32, length of the file u64,
//!           then for each section: kind u32, zero u32, offset u64, length u64, checksum u64,
//!           then the checksum of all of the above
//! data      replies and parts of replies, each addressed by an extent
//! sections  tables of fixed-size records, in the order of `SectionKind`
//! ```
//!
//! Numbers are little-endian, checksums are XXH3 (64 bits), digests XXH3 (128 bits). Tables are read into memory and
//! verified when the file is opened, the data at each read: an extent carries the checksum of its bytes. The checksum
//! of the whole data section is verified only when integrity is enforced.
//!
//! A `Bundle` reply is assembled from three sources. Its *slim part*, stored uncompressed, holds the fields that do not
//! depend on a channel. Its *entry* adds the fields that do. Its *body*, which is compressed, is the encoded `object`
//! field followed by the CSV if that is not one of the objects; `csvJson` is a range of it. Bundles of a package
//! resemble each other, so most bodies are compressed against the body of another, their *base*, which has no base
//! itself.
//!
//! The *summary* of a package is the data that web pages show of it without reading its blobs. The summaries of all
//! packages are adjacent, and are read when a page is requested.

mod table;

use std::hash::Hasher;

pub(super) use table::Table;

/// The magic bytes. The second half reveals damage by text conversion.
pub(super) const MAGIC: [u8; 8] = *b"opmc\r\n\x1a\n";
/// The version of this layout. Caches of other versions are rebuilt, not read.
pub(super) const VERSION: u32 = 3;
/// The checksum of the file built from a fixed catalog in this version: caches of one version are identical, wherever
/// they were built. A change of the written bytes needs a new version number and a new recorded checksum.
#[cfg(test)]
const RECORDED: (u32, u64) = (3, 776_561_318_178_465_334);
/// The value for "no base".
pub(super) const NONE: u32 = u32::MAX;

/// The sections, in the order they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum SectionKind {
    Data,
    Texts,
    About,
    Packages,
    Channels,
    Entries,
    Skips,
    Bundles,
    ListOrder,
    Apis,
    ApiEntries,
    Replaced,
    ReplacedEntries,
    Customs,
    CustomBlobs,
    Sources,
}

pub(super) const KINDS: usize = 16;
const SECTION_SIZE: usize = 32;
/// The length of the header, including its checksum.
pub(super) const HEADER_SIZE: usize = 24 + KINDS * SECTION_SIZE + 8;

/// The position of a section.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) checksum: u64,
}

/// The reason why a header is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadHeader {
    /// The magic bytes are wrong.
    Foreign,
    /// The cache has another version.
    Version(u32),
    /// The file is shorter or longer than its header says.
    Length { expected: u64 },
    /// The checksum is wrong.
    Damaged,
}

/// Returns the checksum of `bytes`.
///
/// While fuzzing, all checksums are equal, so that inputs reach the code behind them.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    if cfg!(fuzzing) { 0 } else { twox_hash::XxHash3_64::oneshot(bytes) }
}

/// A digest of content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct ContentDigest(pub(crate) u128);

impl ContentDigest {
    /// Returns the digest of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> ContentDigest {
        ContentDigest(twox_hash::XxHash3_128::oneshot(bytes))
    }
}

impl std::fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Computes a checksum incrementally.
#[derive(Clone)]
pub(super) struct Checksum(twox_hash::XxHash3_64);

impl Checksum {
    pub(super) fn new() -> Checksum {
        Checksum(twox_hash::XxHash3_64::new())
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(super) fn finish(&self) -> u64 {
        if cfg!(fuzzing) { 0 } else { self.0.finish() }
    }
}

/// Writes the header of a file of `length` bytes.
pub(super) fn write_header(sections: &[Section; KINDS], length: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_SIZE);
    out.extend_from_slice(&MAGIC);
    VERSION.put(&mut out);
    (KINDS as u32).put(&mut out);
    length.put(&mut out);
    for (kind, section) in sections.iter().enumerate() {
        (kind as u32).put(&mut out);
        0u32.put(&mut out);
        section.offset.put(&mut out);
        section.length.put(&mut out);
        section.checksum.put(&mut out);
    }
    checksum(&out).put(&mut out);
    out
}

/// Parses the header of a file of `size` bytes; `file` is its start, as far as the header goes.
///
/// # Errors
/// Fails unless the file is a complete cache of this version. Sections are guaranteed to lie inside the file, one
/// behind the other.
pub(super) fn read_header(file: &[u8], size: u64) -> Result<[Section; KINDS], BadHeader> {
    let short = BadHeader::Length { expected: HEADER_SIZE as u64 };
    if file.len() < MAGIC.len() && MAGIC.starts_with(file) {
        return Err(short);
    }
    if !file.starts_with(&MAGIC) {
        return Err(BadHeader::Foreign);
    }
    let mut rest = &file[MAGIC.len()..];
    let version = u32::get(&mut rest).ok_or(short.clone())?;
    if version != VERSION {
        return Err(BadHeader::Version(version));
    }
    let header = file.get(..HEADER_SIZE).ok_or(short)?;
    let (body, mut sum) = header.split_at(HEADER_SIZE - 8);
    if u64::get(&mut sum) != Some(checksum(body)) {
        return Err(BadHeader::Damaged);
    }
    let count = u32::get(&mut rest).ok_or(BadHeader::Damaged)?;
    let length = u64::get(&mut rest).ok_or(BadHeader::Damaged)?;
    if count as usize != KINDS {
        return Err(BadHeader::Damaged);
    }
    if length != size {
        return Err(BadHeader::Length { expected: length });
    }
    let mut sections = [Section::default(); KINDS];
    let mut behind = HEADER_SIZE as u64;
    for (kind, section) in sections.iter_mut().enumerate() {
        let read = (u32::get(&mut rest), u32::get(&mut rest), u64::get(&mut rest), u64::get(&mut rest));
        let (Some(found), Some(0), Some(offset), Some(length)) = read else { return Err(BadHeader::Damaged) };
        let end = offset.checked_add(length).filter(|end| *end <= size).ok_or(BadHeader::Damaged)?;
        if found as usize != kind || offset < behind {
            return Err(BadHeader::Damaged);
        }
        behind = end;
        *section = Section { offset, length, checksum: u64::get(&mut rest).ok_or(BadHeader::Damaged)? };
    }
    Ok(sections)
}

/// A fixed-size part of a record.
pub(super) trait RecordField: Sized {
    const SIZE: usize;
    fn put(&self, out: &mut Vec<u8>);
    fn get(bytes: &mut &[u8]) -> Option<Self>;
}

macro_rules! number_fields {
    ($($type:ty),*) => {$(
        impl RecordField for $type {
            const SIZE: usize = size_of::<$type>();
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn get(bytes: &mut &[u8]) -> Option<Self> {
                let (number, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(<$type>::from_le_bytes(*number))
            }
        }
    )*};
}
number_fields!(u32, u64, i64, u128);

impl RecordField for ContentDigest {
    const SIZE: usize = 16;
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn get(bytes: &mut &[u8]) -> Option<Self> {
        u128::get(bytes).map(ContentDigest)
    }
}

macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub(super) struct $name {
            $($(#[$field_doc])* pub(super) $field: $type,)*
        }
        impl RecordField for $name {
            const SIZE: usize = 0 $(+ <$type as RecordField>::SIZE)*;
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn get(bytes: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: <$type as RecordField>::get(bytes)?,)* })
            }
        }
    };
}

record! {
    /// A text in the texts section.
    Text { start: u32, length: u32, }
}
record! {
    /// Adjacent records of another table.
    Span { first: u32, count: u32, }
}
record! {
    /// Bytes in the data section.
    Extent { offset: u64, length: u32, checksum: u64, }
}
record! {
    /// The source of the cache; the table has one record.
    About {
        /// The digest of all files and their contents.
        sources: ContentDigest,
        /// The digest of the blobs that belong to no package.
        unowned: ContentDigest,
        /// The number of quarantined packages.
        quarantined: u32,
    }
}
record! {
    /// A package; sorted by name.
    Package {
        name: Text,
        /// The digest of all its blobs.
        content: ContentDigest,
        /// The `Package` reply.
        reply: Extent,
        /// The page data, compressed; empty without pages.
        summary: Extent,
        summary_length: u32,
        /// The icon; empty if it has none.
        icon: Extent,
        channels: Span,
        bundles: Span,
        default_channel: u32,
    }
}
record! {
    /// A channel; sorted by name within a package.
    Channel { name: Text, package: u32, entries: Span, head: u32, }
}
record! {
    /// A channel entry; sorted by name within a channel.
    Entry { bundle: u32, channel: u32, replaces: Text, skips: Span, skip_range: Text, }
}
record! {
    /// A bundle; sorted by name within a package.
    Bundle {
        name: Text,
        package: u32,
        /// Its rank among the bundles of its package, by version.
        rank: u32,
        /// Whether `ListBundles` leaves out its body.
        has_image: u32,
        slim: Extent,
        /// The offset of `skipRange` in the slim part.
        before_skip_range: u32,
        /// The offset of `replaces` and `skips` in the slim part.
        before_replaces: u32,
        body: Extent,
        body_length: u32,
        /// The length of the `object` field in the body.
        objects_length: u32,
        csv_start: u32,
        csv_length: u32,
        /// The bundle whose body is the base, or `NONE`.
        base: u32,
    }
}
record! {
    /// An API that entries provide; sorted by group, version and kind.
    Api { group: Text, version: Text, kind: Text, entries: Span, }
}
record! {
    /// A name that entries replace or skip; sorted by name.
    Replaced { name: Text, entries: Span, }
}
record! {
    /// A custom schema in a package or in none; sorted by schema and package.
    Custom { schema: Text, package: Text, blobs: Span, }
}
record! {
    /// A blob of a custom schema.
    CustomBlob { stored: Extent, length: u32, }
}
record! {
    /// A file of the catalog; sorted by path.
    Source {
        path: Text,
        size: u64,
        modified: i64,
        modified_nanos: u32,
        changed: i64,
        changed_nanos: u32,
        inode: u64,
        content: ContentDigest,
    }
}

#[cfg(test)]
mod tests;
