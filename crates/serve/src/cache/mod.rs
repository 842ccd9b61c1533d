//! The cache: a catalog as one file of answers that are ready to be sent.
//!
//! `format` is the layout, `bundle` and `package` make the answers, `build` writes the file, `map`
//! and this module open it, `query` answers from it, `sources` knows the files it was made from, and
//! [`store`] decides whether a cache that is there can be used.

mod build;
mod bundle;
mod format;
mod map;
mod package;
mod query;
mod sources;
pub mod store;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use catalog::QueryError;

pub(crate) use format::Digest;
use format::{BadHeader, Extent, Field, KINDS, Kind, Table, Text};
use map::Map;

/// An open cache.
pub struct Cache {
    map: Map,
    sections: [Range<usize>; KINDS],
    data_checksum: u64,
    bases: Mutex<Bases>,
}

/// Why a cache file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// There is none.
    #[error("no cache was built there")]
    Missing,
    /// There is a file, but not one of ours.
    #[error("the file is no cache of this program")]
    Foreign,
    /// It was written by another version of this program.
    #[error("the cache has format version {0}, this program reads version {version}", version = format::VERSION)]
    Version(u32),
    /// It is not as long as it should be.
    #[error("the cache is cut off: it has {found} bytes of {expected}")]
    Truncated {
        /// How long it is.
        found: u64,
        /// How long it should be.
        expected: u64,
    },
    /// Its content does not fit its checksums.
    #[error("the cache is damaged: the checksum of {0} is wrong")]
    Damaged(&'static str),
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Bodies that others are compressed against, as long as they are in use.
#[derive(Default)]
struct Bases {
    bodies: HashMap<u32, (u64, Arc<Vec<u8>>)>,
    size: usize,
    clock: u64,
}

/// How many bytes of bases are kept.
const BASES_SIZE: usize = 8 << 20;

impl Cache {
    /// Opens the cache file at `path`.
    ///
    /// # Errors
    /// Fails when there is none, or it cannot be trusted.
    pub fn open(path: &Path) -> Result<Cache, Unusable> {
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unusable::Missing,
            _ => Unusable::Io(error),
        })?;
        Cache::from_file(&file)
    }

    fn from_file(file: &File) -> Result<Cache, Unusable> {
        Cache::from_map(Map::file(file)?)
    }

    fn from_map(map: Map) -> Result<Cache, Unusable> {
        let sections = format::read_header(&map).map_err(|bad| match bad {
            BadHeader::Foreign => Unusable::Foreign,
            BadHeader::Version(version) => Unusable::Version(version),
            BadHeader::Length { expected } => Unusable::Truncated { found: map.len() as u64, expected },
            BadHeader::Damaged => Unusable::Damaged("the header"),
        })?;
        let data_checksum = sections[Kind::Data as usize].checksum;
        for section in &sections[Kind::Data as usize + 1..] {
            let bytes = &map[section.offset as usize..(section.offset + section.length) as usize];
            if format::checksum(bytes) != section.checksum {
                return Err(Unusable::Damaged("an index"));
            }
        }
        let sections = sections.map(|section| section.offset as usize..(section.offset + section.length) as usize);
        Ok(Cache { map, sections, data_checksum, bases: Mutex::default() })
    }

    /// Checks every byte of the cache by reading `file`, which it was opened from.
    fn check_data(&self, file: &mut File) -> Result<(), Unusable> {
        let Range { start, end } = self.sections[Kind::Data as usize].clone();
        file.seek(SeekFrom::Start(start as u64))?;
        let mut rest = (end - start) as u64;
        let mut checksum = format::Checksum::new();
        let mut buffer = vec![0; 256 << 10];
        while rest > 0 {
            let wanted = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
            let length = file.read(&mut buffer[..wanted])?;
            if length == 0 {
                break;
            }
            checksum.add(&buffer[..length]);
            rest -= length as u64;
        }
        if checksum.finish() == self.data_checksum { Ok(()) } else { Err(Unusable::Damaged("the data")) }
    }

    /// Returns how many bytes the cache has.
    pub fn size(&self) -> usize {
        self.map.len()
    }

    fn section(&self, kind: Kind) -> &[u8] {
        &self.map[self.sections[kind as usize].clone()]
    }

    fn table<R: Field>(&self, kind: Kind) -> Table<'_, R> {
        Table::new(self.section(kind))
    }

    fn text(&self, text: Text) -> Option<&str> {
        std::str::from_utf8(self.text_bytes(text)?).ok()
    }

    fn text_bytes(&self, text: Text) -> Option<&[u8]> {
        let start = text.start as usize;
        self.section(Kind::Texts).get(start..start.checked_add(text.length as usize)?)
    }

    /// Returns the bytes of an extent, if they are what they were.
    fn extent(&self, extent: &Extent) -> Result<&[u8], QueryError> {
        let bytes = usize::try_from(extent.offset).ok().and_then(|start| {
            let end = start.checked_add(extent.length as usize)?;
            self.section(Kind::Data).get(start..end)
        });
        match bytes {
            Some(bytes) if format::checksum(bytes) == extent.checksum => Ok(bytes),
            _ => Err(damaged()),
        }
    }

    fn find_package(&self, name: &str) -> Option<(usize, format::Package)> {
        let packages = self.table::<format::Package>(Kind::Packages);
        packages.search(packages.all(), |package| self.text_bytes(package.name).cmp(&Some(name.as_bytes())))
    }

    fn bundles_of(&self, package: &format::Package) -> impl Iterator<Item = (usize, format::Bundle)> {
        self.table::<format::Bundle>(Kind::Bundles).span(package.bundles)
    }

    fn about(&self) -> format::About {
        self.table(Kind::About).get(0).unwrap_or_default()
    }
}

/// Says that an answer cannot be given because the cache is not what it was.
fn damaged() -> QueryError {
    QueryError::Damaged("the cache is damaged: rebuild it with --cache-only".into())
}
