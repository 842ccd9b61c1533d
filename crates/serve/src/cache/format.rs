//! The layout of the cache file.
//!
//! Goals: opened in the time it takes to read its tables; read-only, by any number of servers at
//! once; every answer found by a binary search and a copy; no byte believed before its checksum
//! is. The file is written once, beside its final name, and renamed into place. We never change it
//! afterwards; what others do to it shows in the checksums.
//!
//! ```text
//! header    magic (8 bytes), version u32, number of sections u32, length of the file u64,
//!           then for each section: kind u32, zero u32, offset u64, length u64, checksum u64,
//!           then the checksum of all of the above
//! data      replies and the parts they are put together from, each found by an extent
//! sections  tables of records of one size, in the order of `Kind`
//! ```
//!
//! Numbers are little-endian, checksums are XXH3 (64 bits), digests XXH3 (128 bits). Tables are
//! read into memory and checked when the file is opened, the data at each read: an extent carries the
//! checksum of its bytes. The checksum of the whole data section is looked at only when integrity is
//! enforced.
//!
//! A `Bundle` reply is put together from three sources. Its *slim part*, which is stored as
//! it is, holds the fields that do not depend on a channel. Its *entry* adds the fields that do.
//! Its *body*, which is compressed, is the encoded `object` field followed by the CSV if that is
//! none of the objects; `csvJson` is a stretch of it. Bundles of a package resemble each other, so
//! most bodies are compressed against the body of another, their *base*, which has none itself.
//!
//! The *shelf* of a package is what pages for people need of it without reading its blobs. Shelves of all packages
//! stand together, and are read when a page is asked for.

use std::hash::Hasher;

/// What the file starts with. The second half makes damage by text conversion show.
pub(super) const MAGIC: [u8; 8] = *b"opmc\r\n\x1a\n";
/// The version of this layout. Other versions are rebuilt, not read.
pub(super) const VERSION: u32 = 2;
/// The checksum of the file that a fixed catalog gives in this version: caches of one version are alike, wherever
/// they were built. Whoever changes what is written gives a new number to the version and records the new checksum.
#[cfg(test)]
const RECORDED: (u32, u64) = (2, 16_703_262_834_183_132_401);
/// Stands for "no base".
pub(super) const NONE: u32 = u32::MAX;

/// The sections, in the order they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
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
/// How long the header is, with its checksum.
pub(super) const HEADER_SIZE: usize = 24 + KINDS * SECTION_SIZE + 8;

/// Where a section is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) checksum: u64,
}

/// Why bytes are no header of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadHeader {
    /// The file is something else.
    Foreign,
    /// It is a cache of another version.
    Version(u32),
    /// It ends too early, or goes on too long.
    Length { expected: u64 },
    /// Its checksum is wrong.
    Damaged,
}

/// Returns the checksum of `bytes`.
///
/// Fuzzing is for the code behind checksums, so that all are the same there.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    if cfg!(fuzzing) { 0 } else { twox_hash::XxHash3_64::oneshot(bytes) }
}

/// A fingerprint of content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Digest(pub(crate) u128);

impl Digest {
    /// Returns the digest of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> Digest {
        Digest(twox_hash::XxHash3_128::oneshot(bytes))
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Makes a checksum of bytes that come in pieces.
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

/// Reads the header of a file of `size` bytes; `file` is its start, as far as the header goes.
///
/// # Errors
/// Fails when the file is not wholly a cache of this version. Sections are known to lie inside it, one behind
/// the other.
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

/// Something of one size that can be a part of a record.
pub(super) trait Field: Sized {
    const SIZE: usize;
    fn put(&self, out: &mut Vec<u8>);
    fn get(bytes: &mut &[u8]) -> Option<Self>;
}

macro_rules! number_fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
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

impl Field for Digest {
    const SIZE: usize = 16;
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn get(bytes: &mut &[u8]) -> Option<Self> {
        u128::get(bytes).map(Digest)
    }
}

macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub(super) struct $name {
            $($(#[$field_doc])* pub(super) $field: $type,)*
        }
        impl Field for $name {
            const SIZE: usize = 0 $(+ <$type as Field>::SIZE)*;
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn get(bytes: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: <$type as Field>::get(bytes)?,)* })
            }
        }
    };
}

record! {
    /// A text in the section of texts.
    Text { start: u32, length: u32, }
}
record! {
    /// Records of another table that stand together.
    Span { first: u32, count: u32, }
}
record! {
    /// Bytes in the data section.
    Extent { offset: u64, length: u32, checksum: u64, }
}
record! {
    /// What the cache was made from; there is one.
    About {
        /// Of all files and their contents.
        sources: Digest,
        /// Of the blobs that belong to no package.
        homeless: Digest,
        /// How many packages were left out because they are broken.
        left_out: u32,
    }
}
record! {
    /// A package; they are sorted by name.
    Package {
        name: Text,
        /// Of all of its blobs.
        content: Digest,
        /// The `Package` reply.
        reply: Extent,
        /// What pages for people keep of it, compressed; empty if nobody makes any.
        shelf: Extent,
        shelf_length: u32,
        /// Its picture; empty if it has none.
        icon: Extent,
        channels: Span,
        bundles: Span,
        default_channel: u32,
    }
}
record! {
    /// A channel; those of a package are sorted by name.
    Channel { name: Text, package: u32, entries: Span, head: u32, }
}
record! {
    /// A bundle's place in a channel; those of a channel are sorted by name.
    Entry { bundle: u32, channel: u32, replaces: Text, skips: Span, skip_range: Text, }
}
record! {
    /// A bundle; those of a package are sorted by name.
    Bundle {
        name: Text,
        package: u32,
        /// Its place among the bundles of its package, by version.
        rank: u32,
        /// Whether `ListBundles` leaves out its body.
        has_image: u32,
        slim: Extent,
        /// Where `skipRange` goes in the slim part.
        before_skip_range: u32,
        /// Where `replaces` and `skips` go in the slim part.
        before_replaces: u32,
        body: Extent,
        body_length: u32,
        /// How much of the body is the `object` field.
        objects_length: u32,
        csv_start: u32,
        csv_length: u32,
        /// The bundle whose body is the base, or `NONE`.
        base: u32,
    }
}
record! {
    /// An API that entries provide; they are sorted by group, version and kind.
    Api { group: Text, version: Text, kind: Text, entries: Span, }
}
record! {
    /// A name that entries replace or skip; they are sorted by name.
    Replaced { name: Text, entries: Span, }
}
record! {
    /// A custom schema in a package or in none; they are sorted by schema and package.
    Custom { schema: Text, package: Text, blobs: Span, }
}
record! {
    /// A blob of a custom schema.
    CustomBlob { stored: Extent, length: u32, }
}
record! {
    /// A file that the catalog was read from; they are sorted by path.
    Source {
        path: Text,
        size: u64,
        modified: i64,
        modified_nanos: u32,
        changed: i64,
        changed_nanos: u32,
        inode: u64,
        content: Digest,
    }
}

/// A table of records.
pub(super) struct Table<'a, R> {
    bytes: &'a [u8],
    record: std::marker::PhantomData<R>,
}

impl<'a, R: Field> Table<'a, R> {
    pub(super) fn new(bytes: &'a [u8]) -> Table<'a, R> {
        Table { bytes, record: std::marker::PhantomData }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() / R::SIZE
    }

    /// Returns the record at `index`.
    pub(super) fn get(&self, index: usize) -> Option<R> {
        let start = index.checked_mul(R::SIZE)?;
        R::get(&mut self.bytes.get(start..start.checked_add(R::SIZE)?)?)
    }

    /// Walks the records of `span` with their indexes, as far as they exist.
    pub(super) fn span(&self, span: Span) -> impl Iterator<Item = (usize, R)> + use<'a, R> {
        let table = Table::<'a, R>::new(self.bytes);
        let first = span.first as usize;
        (first..first.saturating_add(span.count as usize)).map_while(move |i| Some((i, table.get(i)?)))
    }

    /// Walks all records.
    pub(super) fn iter(&self) -> impl Iterator<Item = R> + use<'a, R> {
        self.span(Span { first: 0, count: u32::MAX }).map(|(_, record)| record)
    }

    /// Finds a record in a sorted stretch of the table.
    pub(super) fn search(&self, span: Span, mut order: impl FnMut(&R) -> std::cmp::Ordering) -> Option<(usize, R)> {
        let mut low = span.first as usize;
        let mut high = low.saturating_add(span.count as usize).min(self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let record = self.get(middle)?;
            match order(&record) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some((middle, record)),
            }
        }
        None
    }

    /// Returns the stretch that is the whole table.
    pub(super) fn all(&self) -> Span {
        Span { first: 0, count: u32::try_from(self.len()).unwrap_or(u32::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_every_flipped_bit_shows() {
        let start = HEADER_SIZE as u64;
        let mut sections = [Section { offset: start, ..Section::default() }; KINDS];
        sections[KINDS - 1] = Section { offset: start, length: 5, checksum: 7 };
        let mut file = write_header(&sections, HEADER_SIZE as u64 + 5);
        assert_eq!(file.len(), HEADER_SIZE);
        file.extend_from_slice(b"hello");
        assert_eq!(read_header(&file, file.len() as u64), Ok(sections));
        for bit in 0..HEADER_SIZE * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            assert!(read_header(&file, file.len() as u64).is_err(), "bit {bit}");
            file[bit / 8] ^= 1 << (bit % 8);
        }
        for length in 0..file.len() {
            assert!(read_header(&file[..length], length as u64).is_err(), "length {length}");
        }
    }

    /// A catalog with something of everything that a cache holds.
    const FIXED: &str = r#"---
schema: olm.package
name: one
defaultChannel: stable
description: the first
---
schema: olm.channel
package: one
name: stable
entries:
- name: one.v1.0.0
- name: one.v1.1.0
  replaces: one.v1.0.0
  skips: [one.v0.9.0, one.v1.0.1]
  skipRange: ">=0.5.0 <1.1.0"
---
schema: olm.bundle
package: one
name: one.v1.0.0
image: registry.test/one:v1.0.0
properties:
- {type: olm.package, value: {packageName: one, version: 1.0.0}}
- {type: olm.gvk, value: {group: one.test, version: v1, kind: Thing}}
- {type: olm.csv.metadata, value: {displayName: One, description: text of the first}}
---
schema: olm.bundle
package: one
name: one.v1.1.0
image: registry.test/one:v1.1.0
properties:
- {type: olm.package, value: {packageName: one, version: 1.1.0}}
- {type: olm.gvk, value: {group: one.test, version: v1, kind: Thing}}
- {type: olm.gvk.required, value: {group: two.test, version: v1, kind: Other}}
- {type: olm.bundle.object, value: {data: eyJraW5kIjoiQ29uZmlnTWFwIn0=}}
- {type: olm.csv.metadata, value: {displayName: One, description: text of the second}}
relatedImages:
- {name: operator, image: registry.test/operator:v1.1.0}
---
schema: olm.deprecations
package: one
entries:
- reference: {schema: olm.bundle, name: one.v1.0.0}
  message: use the second
---
schema: custom.note
package: one
text: of the package
---
schema: custom.note
text: of nobody
"#;

    #[test]
    fn what_is_written_changes_only_with_the_version() {
        let scratch = tempfile::tempdir().unwrap();
        let (root, cache) = (scratch.path().join("catalog"), scratch.path().join("cache"));
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("catalog.yaml"), FIXED).unwrap();
        let on_invalid = crate::load::OnInvalid::Fail;
        let directory = crate::load::Directory { root, limits: fbc::Limits::default(), on_invalid, shelve: None };
        super::super::store::build_portable(&directory, &cache).unwrap();
        let written = std::fs::read(super::super::store::file_in(&cache)).unwrap();
        assert_eq!(
            (VERSION, checksum(&written)),
            RECORDED,
            "the same catalog gives other bytes: raise VERSION, then record what is given here on the left"
        );
    }

    #[test]
    fn records_have_the_size_they_say() {
        let mut out = Vec::new();
        Bundle::default().put(&mut out);
        assert_eq!(out.len(), Bundle::SIZE);
        let table = Table::<Bundle>::new(&out);
        assert_eq!((table.len(), table.get(0), table.get(1)), (1, Some(Bundle::default()), None));
        assert_eq!(table.get(usize::MAX), None);
    }
}
