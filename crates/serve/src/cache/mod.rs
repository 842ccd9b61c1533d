//! The cache: a catalog as one file of ready answers.
//!
//! `format` is the layout, `bundle` and `package` encode the answers, `build` writes the file, this module opens it,
//! `data` reads it, `query` answers from it, `sources` fingerprints the catalog files, `reading` tracks a catalog while
//! it is read, and [`store`] decides whether an existing cache can be used.

mod build;
mod bundle;
mod cache_dir;
mod data;
mod format;
mod package;
mod query;
mod reading;
mod sources;
pub mod store;
mod summary;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use catalog::query::QueryError;

pub use bundle::BundleFault;
use data::DataSource;
pub(crate) use format::ContentDigest;
use format::{BadHeader, HEADER_SIZE, KINDS, RecordField, SectionKind, Table, Text};
pub use package::EncodeError;

/// An open cache: tables in memory, data on disk.
pub struct Cache {
    /// Unique within this process.
    id: u64,
    source: DataSource,
    size: u64,
    /// All tables, concatenated.
    tables: Vec<u8>,
    /// The range of each table.
    sections: [Range<usize>; KINDS],
    data: format::Section,
    bases: Mutex<Bases>,
}

/// The reason why a cache file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It does not exist.
    #[error("there is no cache")]
    Missing,
    /// It is a file of another kind.
    #[error("the file is not an opm cache")]
    Foreign,
    /// It has another format version.
    #[error("the cache has format version {0}, this opm reads version {version}", version = format::VERSION)]
    Version(u32),
    /// Its length is wrong.
    #[error("the cache is truncated: it has {found} of {expected} bytes")]
    Truncated {
        /// The actual length.
        found: u64,
        /// The expected length.
        expected: u64,
    },
    /// A checksum does not match.
    #[error("the cache is damaged: the checksum of {0} is wrong")]
    Damaged(&'static str),
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A cache of decompressed bodies that others are compressed against, bounded by [`BASES_SIZE`].
#[derive(Default)]
struct Bases {
    bodies: HashMap<u32, (u64, Arc<Vec<u8>>)>,
    size: usize,
    clock: u64,
}

/// 0 is no valid id.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The maximum size of the decompressed bases, in bytes.
const BASES_SIZE: usize = 8 << 20;

impl Cache {
    /// Opens the cache file at `path`.
    ///
    /// # Errors
    /// Fails when the file does not exist or fails verification.
    pub fn open(path: &Path) -> Result<Cache, Unusable> {
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unusable::Missing,
            _ => Unusable::Io(error),
        })?;
        Cache::from_source(DataSource::File(file))
    }

    fn from_file(file: &File) -> Result<Cache, Unusable> {
        Cache::from_source(DataSource::File(file.try_clone()?))
    }

    fn from_source(source: DataSource) -> Result<Cache, Unusable> {
        let size = source.length()?;
        let mut header = vec![0; usize::try_from(size).unwrap_or(usize::MAX).min(HEADER_SIZE)];
        source.read_at(0, &mut header)?;
        let sections = format::read_header(&header, size).map_err(|bad| match bad {
            BadHeader::Foreign => Unusable::Foreign,
            BadHeader::Version(version) => Unusable::Version(version),
            BadHeader::Length { expected } => Unusable::Truncated { found: size, expected },
            BadHeader::Damaged => Unusable::Damaged("the header"),
        })?;
        let [data, tables @ ..] = &sections;
        let first = tables[0].offset;
        let end = tables[KINDS - 2].offset + tables[KINDS - 2].length;
        let mut bytes = vec![0; usize::try_from(end - first).map_err(|_| Unusable::Damaged("the header"))?];
        source.read_at(first, &mut bytes)?;
        let place = |section: &format::Section| {
            let start = section.offset.saturating_sub(first) as usize;
            start..start + section.length as usize
        };
        if tables.iter().any(|table| format::checksum(&bytes[place(table)]) != table.checksum) {
            return Err(Unusable::Damaged("an index"));
        }
        let mut places = sections.map(|section| place(&section));
        // The data section is not a table.
        places[SectionKind::Data as usize] = 0..0;
        let id = NEXT_ID.fetch_add(1, Relaxed);
        Ok(Cache { id, source, size, tables: bytes, sections: places, data: *data, bases: Mutex::default() })
    }

    /// Verifies the checksum of the whole data section.
    fn check_data(&self) -> Result<(), Unusable> {
        let mut checksum = format::Checksum::new();
        let mut buffer = vec![0; 256 << 10];
        let mut at = 0;
        while at < self.data.length {
            let length = buffer.len().min(usize::try_from(self.data.length - at).unwrap_or(usize::MAX));
            self.read_data(at, &mut buffer[..length])?;
            checksum.add(&buffer[..length]);
            at += length as u64;
        }
        if checksum.finish() == self.data.checksum { Ok(()) } else { Err(Unusable::Damaged("the data")) }
    }

    /// Returns the size of the cache, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn data_length(&self) -> u64 {
        self.data.length
    }

    fn read_data(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.source.read_at(self.data.offset + offset, out)
    }

    fn section(&self, kind: SectionKind) -> &[u8] {
        &self.tables[self.sections[kind as usize].clone()]
    }

    fn table<R: RecordField>(&self, kind: SectionKind) -> Table<'_, R> {
        Table::new(self.section(kind))
    }

    fn text(&self, text: Text) -> Option<&str> {
        std::str::from_utf8(self.text_bytes(text)?).ok()
    }

    fn text_bytes(&self, text: Text) -> Option<&[u8]> {
        let start = text.start as usize;
        self.section(SectionKind::Texts).get(start..start.checked_add(text.length as usize)?)
    }

    fn find_package(&self, name: &str) -> Option<(usize, format::Package)> {
        let packages = self.table::<format::Package>(SectionKind::Packages);
        packages.search(packages.all(), |package| self.text_bytes(package.name).cmp(&Some(name.as_bytes())))
    }

    fn bundles_of(&self, package: &format::Package) -> impl Iterator<Item = (usize, format::Bundle)> {
        self.table::<format::Bundle>(SectionKind::Bundles).span(package.bundles)
    }

    fn about(&self) -> format::About {
        self.table(SectionKind::About).get(0).unwrap_or_default()
    }
}

/// Returns the error for an answer that failed verification.
fn damaged() -> QueryError {
    QueryError::Damaged("the cache is damaged: rebuild it with --cache-only".into())
}
