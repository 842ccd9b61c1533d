//! The blobs of a catalog as lines of JSON, for the catalog API over HTTP.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use fbc::blob::{PACKAGE, TextBuffer};
use fbc::json::{JsonLayout, write_canonical};
use fbc::{Blob, Fbc};
use rayon::prelude::*;

use crate::cache::ContentDigest;
use crate::graphql::Discovered;

/// The number of blobs that are encoded in parallel before they are written.
const BATCH: usize = 64;

/// All blobs of a catalog, a line each, in an unnamed temporary file.
pub struct CatalogContent {
    file: File,
    /// The length of the file, in bytes.
    pub(crate) length: u64,
    pub(crate) digest: String,
    pub(crate) since: SystemTime,
    lines: Vec<Line>,
    /// The distinct schemas, packages and names.
    texts: Vec<Box<str>>,
    /// The GraphQL types of the blobs.
    pub(crate) discovered: Discovered,
}

/// The position of a blob in the file, and its schema, package and name as indexes of `texts`.
#[derive(Clone, Copy)]
struct Line {
    offset: u64,
    length: u32,
    schema: u32,
    /// The `package` field of the blob, which a package blob does not have.
    package: u32,
    name: u32,
}

/// A filter for blobs; an empty field matches any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BlobFilter {
    pub(crate) schema: String,
    pub(crate) package: String,
    pub(crate) name: String,
}

/// A filter for blobs, by indexes of `texts`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pick {
    Matching { schema: Option<u32>, package: Option<u32>, name: Option<u32> },
    OfPackage { package: u32, schema: Option<u32> },
    Nothing,
}

/// The bytes to send, in order.
pub(crate) enum ContentSelection {
    /// Ranges of the content, and texts between them.
    Pieces(VecDeque<ContentPiece>),
    /// Matching lines, from this one on.
    Lines(Pick, usize),
}

/// A part of the bytes to send.
pub(crate) enum ContentPiece {
    Text(Bytes),
    /// Offset and length.
    Range(u64, u64),
}

impl CatalogContent {
    /// Writes the blobs of a catalog to a temporary file.
    ///
    /// # Errors
    /// Fails when files of the catalog changed, or the temporary file cannot be written.
    pub(crate) fn of(fbc: &Fbc) -> io::Result<CatalogContent> {
        // Blobs are served as the files have them: channels that were derived from the legacy format are in no file.
        let is_read = fbc.blobs().iter().any(|blob| blob.origin.is_some());
        let blobs: Vec<&Blob> = fbc.blobs().iter().filter(|blob| !is_read || blob.origin.is_some()).collect();
        let write_failed = |error: io::Error| {
            let folder = std::env::temp_dir();
            io::Error::new(error.kind(), format!("cannot write a temporary file in {}: {error}", folder.display()))
        };
        let mut out = BufWriter::with_capacity(1 << 20, tempfile::tempfile().map_err(write_failed)?);
        let mut known: BTreeMap<Box<str>, u32> = BTreeMap::new();
        let mut number = |text: &str| {
            let next = known.len() as u32;
            *known.entry(text.into()).or_insert(next)
        };
        let (mut lines, mut length, mut digests) = (Vec::with_capacity(blobs.len()), 0, Vec::new());
        for batch in blobs.chunks(BATCH) {
            let encoded: Vec<Vec<u8>> = batch
                .par_iter()
                .map_init(TextBuffer::default, |buffer, blob| -> io::Result<Vec<u8>> {
                    let mut line = Vec::new();
                    write_canonical(fbc.text(blob, buffer)?, JsonLayout::Compact, &mut line);
                    line.push(b'\n');
                    Ok(line)
                })
                .collect::<io::Result<_>>()?;
            for (blob, line) in batch.iter().zip(encoded) {
                let package = if &*blob.schema == PACKAGE { "" } else { &blob.package };
                lines.push(Line {
                    offset: length,
                    length: u32::try_from(line.len()).map_err(io::Error::other)?,
                    schema: number(&blob.schema),
                    package: number(package),
                    name: number(&blob.name),
                });
                digests.extend_from_slice(&ContentDigest::of(&line).0.to_le_bytes());
                length += line.len() as u64;
                out.write_all(&line).map_err(write_failed)?;
            }
        }
        let mut texts = vec![Box::from(""); known.len()];
        for (text, number) in known {
            texts[number as usize] = text;
        }
        let file = out.into_inner().map_err(|error| write_failed(error.into_error()))?;
        let digest = ContentDigest::of(&digests).to_string();
        Ok(CatalogContent {
            file,
            length,
            digest,
            since: SystemTime::now(),
            lines,
            texts,
            discovered: Discovered::default(),
        })
    }

    /// Creates content from schemas and blobs in canonical form, without packages and names.
    ///
    /// # Errors
    /// Fails when the temporary file cannot be written.
    pub(crate) fn of_lines(blobs: &[(&str, &str)]) -> io::Result<CatalogContent> {
        let (mut file, mut lines, mut length) = (tempfile::tempfile()?, Vec::new(), 0);
        for (index, (_, blob)) in blobs.iter().enumerate() {
            let line = format!("{blob}\n");
            file.write_all(line.as_bytes())?;
            let (offset, size) = (length, u32::try_from(line.len()).map_err(io::Error::other)?);
            lines.push(Line { offset, length: size, schema: index as u32 + 1, package: 0, name: 0 });
            length += u64::from(size);
        }
        let texts = std::iter::once("").chain(blobs.iter().map(|(schema, _)| *schema)).map(Box::from).collect();
        let (digest, since, discovered) = (String::new(), SystemTime::now(), Discovered::default());
        Ok(CatalogContent { file, length, digest, since, lines, texts, discovered })
    }

    /// Returns the schemas of all blobs, in order.
    pub(crate) fn schemas(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| self.text(line.schema))
    }

    /// Returns the rows of the blobs of a schema, in order, optionally of one package or name.
    pub(crate) fn rows(
        &self,
        schema: &str,
        package: Option<&str>,
        name: Option<&str>,
    ) -> impl Iterator<Item = usize> + use<> {
        let is_package = schema == PACKAGE;
        let number = |wanted: Option<&str>| wanted.map(|wanted| self.number(wanted));
        let (schema, package, name) = (self.number(schema), number(package), number(name));
        let matches = |line: &Line| {
            let own = if is_package { line.name } else { line.package };
            Some(line.schema) == schema
                && package.is_none_or(|wanted| wanted == Some(own))
                && name.is_none_or(|wanted| wanted == Some(line.name))
        };
        let rows: Vec<usize> = (0..self.lines.len()).filter(|row| matches(&self.lines[*row])).collect();
        rows.into_iter()
    }

    /// Returns the blob in a row as a line of at most `most` bytes.
    ///
    /// # Errors
    /// Fails when it is longer, or cannot be read.
    pub(crate) fn line(&self, row: usize, most: u32) -> io::Result<String> {
        let line = self.lines.get(row).ok_or(io::ErrorKind::NotFound)?;
        if line.length > most {
            let name = self.text(line.name);
            return Err(io::Error::other(format!("blob {name:?} is larger than {} MiB", most >> 20)));
        }
        let mut bytes = vec![0; line.length as usize];
        self.file.read_exact_at(&mut bytes, line.offset)?;
        String::from_utf8(bytes).map_err(io::Error::other)
    }

    fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", |text| text)
    }

    fn number(&self, wanted: &str) -> Option<u32> {
        self.texts.iter().position(|text| **text == *wanted).map(|number| number as u32)
    }

    /// Selects the blobs that match a filter.
    pub(crate) fn find(&self, filter: &BlobFilter) -> Pick {
        let number = |wanted: &str| match wanted {
            "" => Some(None),
            wanted => self.number(wanted).map(Some),
        };
        match (number(&filter.schema), number(&filter.package), number(&filter.name)) {
            (Some(schema), Some(package), Some(name)) => Pick::Matching { schema, package, name },
            _ => Pick::Nothing,
        }
    }

    /// Selects all blobs of a package, including the package blob.
    pub(crate) fn of_package(&self, name: &str) -> Pick {
        match self.number(name) {
            Some(package) => Pick::OfPackage { package, schema: self.number(PACKAGE) },
            None => Pick::Nothing,
        }
    }

    /// Returns the total length of the selected blobs, in bytes.
    pub(crate) fn length_of(&self, pick: Pick) -> u64 {
        self.lines.iter().filter(|line| pick.matches(line)).map(|line| u64::from(line.length)).sum()
    }

    /// Returns the names of all packages, sorted.
    pub(crate) fn packages(&self) -> BTreeSet<&str> {
        self.lines.iter().filter(|line| self.text(line.schema) == PACKAGE).map(|line| self.text(line.name)).collect()
    }
}

impl Pick {
    fn matches(self, line: &Line) -> bool {
        let matches = |wanted: Option<u32>, number: u32| wanted.is_none_or(|wanted| wanted == number);
        match self {
            Pick::Matching { schema, package, name } => {
                matches(schema, line.schema) && matches(package, line.package) && matches(name, line.name)
            }
            Pick::OfPackage { package, schema } => {
                line.package == package || (Some(line.schema) == schema && line.name == package)
            }
            Pick::Nothing => false,
        }
    }
}

impl ContentSelection {
    /// Selects one range.
    pub(crate) fn range(offset: u64, length: u64) -> ContentSelection {
        ContentSelection::Pieces(VecDeque::from([ContentPiece::Range(offset, length)]))
    }

    /// Returns the next piece, of at most `size` bytes unless it is a text.
    fn next(&mut self, content: &CatalogContent, size: u64) -> Option<ContentPiece> {
        match self {
            ContentSelection::Pieces(pieces) => match pieces.pop_front()? {
                ContentPiece::Range(offset, length) if length > size => {
                    pieces.push_front(ContentPiece::Range(offset + size, length - size));
                    Some(ContentPiece::Range(offset, size))
                }
                piece => Some(piece),
            },
            ContentSelection::Lines(pick, next) => {
                let picked = |next: &mut usize| {
                    let found = content.lines.get(*next..)?.iter().position(|line| pick.matches(line))?;
                    *next += found + 1;
                    content.lines.get(*next - 1)
                };
                let first = picked(next)?;
                let (offset, mut length) = (first.offset, u64::from(first.length));
                // Adjacent lines are read together.
                while let Some(line) = content.lines.get(*next).filter(|line| pick.matches(line)) {
                    if length + u64::from(line.length) > size {
                        break;
                    }
                    length += u64::from(line.length);
                    *next += 1;
                }
                Some(ContentPiece::Range(offset, length))
            }
        }
    }
}

/// Reads a [`ContentSelection`] of a [`CatalogContent`], a chunk at a time.
pub(crate) struct ContentReader {
    content: Arc<CatalogContent>,
    selection: ContentSelection,
    /// The rest of the piece that is being read.
    current: Option<ContentPiece>,
}

impl ContentReader {
    pub(crate) fn new(content: Arc<CatalogContent>, selection: ContentSelection) -> ContentReader {
        ContentReader { content, selection, current: None }
    }

    /// Reads the next bytes: `size` of them, or fewer at the end.
    ///
    /// # Errors
    /// Fails when they cannot be read.
    pub(crate) fn read(&mut self, size: usize) -> io::Result<Vec<u8>> {
        let mut chunk: Vec<u8> = Vec::new();
        while chunk.len() < size {
            let room = size - chunk.len();
            match self.current.take().or_else(|| self.selection.next(&self.content, size as u64)) {
                None => break,
                Some(ContentPiece::Text(mut text)) => {
                    chunk.extend_from_slice(&text.split_to(text.len().min(room)));
                    self.current = (!text.is_empty()).then_some(ContentPiece::Text(text));
                }
                Some(ContentPiece::Range(offset, length)) => {
                    let wanted = room.min(usize::try_from(length).unwrap_or(usize::MAX));
                    let start = chunk.len();
                    chunk.resize(start + wanted, 0);
                    self.content.file.read_exact_at(&mut chunk[start..], offset)?;
                    let left = length - wanted as u64;
                    self.current = (left > 0).then_some(ContentPiece::Range(offset + wanted as u64, left));
                }
            }
        }
        Ok(chunk)
    }
}
