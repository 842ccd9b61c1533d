//! The blobs of a catalog as lines of JSON, for those who want the catalog itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

use fbc::blob::{PACKAGE, TextBuffer};
use fbc::json::{Layout, write_canonical};
use fbc::{Blob, Fbc, LoadOptions};
use rayon::prelude::*;

use crate::cache::Digest;
use crate::load::{Directory, LeftOut};

/// How many blobs are made into lines before they are written.
const BATCH: usize = 64;

/// All blobs of a catalog, a line each, in a file without a name.
pub struct Content {
    file: File,
    /// How many bytes there are.
    pub(crate) length: u64,
    pub(crate) digest: String,
    pub(crate) since: SystemTime,
    lines: Vec<Line>,
    /// Each different schema, package and name once.
    texts: Vec<Box<str>>,
}

/// Where a blob is, and what it is called.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    schema: u32,
    /// The package that it says it belongs to, which a package blob does not.
    package: u32,
    name: u32,
}

/// What blobs are asked for; empty means any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) schema: String,
    pub(crate) package: String,
    pub(crate) name: String,
}

impl Content {
    /// Reads the catalog in `directory`, without the packages `left_out`.
    ///
    /// # Errors
    /// Fails when it cannot be read, or there is no room for it.
    pub fn load(directory: &Directory, left_out: &[LeftOut]) -> io::Result<Content> {
        let mut fbc = Fbc::default();
        let options = LoadOptions { limits: directory.limits.clone(), keep_text: true, ..LoadOptions::default() };
        fbc.load_dir(&directory.root, &options)?;
        let left_out: BTreeSet<&str> = left_out.iter().map(|package| package.package.as_str()).collect();
        let blobs: Vec<&Blob> = fbc.blobs().iter().filter(|blob| !left_out.contains(&*blob.package)).collect();
        let mut out = BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
        let mut known: BTreeMap<Box<str>, u32> = BTreeMap::new();
        let mut number = |text: &str| {
            let next = known.len() as u32;
            *known.entry(text.into()).or_insert(next)
        };
        let (mut lines, mut length, mut digests) = (Vec::with_capacity(blobs.len()), 0, Vec::new());
        for batch in blobs.chunks(BATCH) {
            let made: Vec<Vec<u8>> = batch
                .par_iter()
                .map_init(TextBuffer::default, |buffer, blob| -> io::Result<Vec<u8>> {
                    let mut line = Vec::new();
                    write_canonical(fbc.text(blob, buffer)?, Layout::Compact, &mut line);
                    line.push(b'\n');
                    Ok(line)
                })
                .collect::<io::Result<_>>()?;
            for (blob, line) in batch.iter().zip(made) {
                let package = if &*blob.schema == PACKAGE { "" } else { &blob.package };
                lines.push(Line {
                    offset: length,
                    length: u32::try_from(line.len()).map_err(io::Error::other)?,
                    schema: number(&blob.schema),
                    package: number(package),
                    name: number(&blob.name),
                });
                digests.extend_from_slice(&Digest::of(&line).0.to_le_bytes());
                length += line.len() as u64;
                out.write_all(&line)?;
            }
        }
        let mut texts = vec![Box::from(""); known.len()];
        for (text, number) in known {
            texts[number as usize] = text;
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let digest = Digest::of(&digests).to_string();
        Ok(Content { file, length, digest, since: SystemTime::now(), lines, texts })
    }

    fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", |text| text)
    }

    /// Walks the blobs that fit a filter, in order.
    pub(crate) fn find(&self, filter: &Filter) -> Vec<Line> {
        let fits = |wanted: &str, number: u32| wanted.is_empty() || self.text(number) == wanted;
        let fits = |line: &&Line| {
            fits(&filter.schema, line.schema) && fits(&filter.package, line.package) && fits(&filter.name, line.name)
        };
        self.lines.iter().filter(fits).copied().collect()
    }

    /// Walks all blobs of a package, its own blob included.
    pub(crate) fn of_package(&self, name: &str) -> Vec<Line> {
        let fits = |line: &&Line| {
            self.text(line.package) == name || (self.text(line.schema) == PACKAGE && self.text(line.name) == name)
        };
        self.lines.iter().filter(fits).copied().collect()
    }

    /// Returns the names of all packages, sorted.
    pub(crate) fn packages(&self) -> BTreeSet<&str> {
        self.lines.iter().filter(|line| self.text(line.schema) == PACKAGE).map(|line| self.text(line.name)).collect()
    }
}

/// Reads stretches of a [`Content`], one after the other.
pub(crate) struct Reader {
    content: std::sync::Arc<Content>,
    /// What is left to be read.
    stretches: std::vec::IntoIter<(u64, u64)>,
    current: (u64, u64),
}

impl Reader {
    /// Reads the given stretches: offset and length.
    pub(crate) fn new(content: std::sync::Arc<Content>, stretches: Vec<(u64, u64)>) -> Reader {
        Reader { content, stretches: stretches.into_iter(), current: (0, 0) }
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.1 == 0 {
            match self.stretches.next() {
                Some(next) => self.current = next,
                None => return Ok(0),
            }
        }
        let (offset, left) = self.current;
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.content.file.read_at(&mut buffer[..wanted], offset)?;
        if read == 0 && wanted > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.current = (offset + read as u64, left - read as u64);
        Ok(read)
    }
}

/// Joins lines that follow each other into stretches.
pub(crate) fn stretches(lines: &[Line]) -> Vec<(u64, u64)> {
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    for line in lines {
        match stretches.last_mut() {
            Some((offset, length)) if *offset + *length == line.offset => *length += u64::from(line.length),
            _ => stretches.push((line.offset, u64::from(line.length))),
        }
    }
    stretches
}
