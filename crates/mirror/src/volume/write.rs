//! Writes volumes deterministically: the same set gives the same bytes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use image::tar::{self, entry_size};
use image::{BlobError, BlobReader, Descriptor, Digest, Hasher, SparseWriter, StoredBlob, media_type};

use schemars::JsonSchema;
use serde::Serialize;

use super::packed::packed;
use super::sums::Sums;
use super::{LIST, List, SMALLEST, VERSION, VolumeEntry, VolumeError, digest_of, file_name, series};
use crate::MirrorError;
use crate::error::at;
use crate::known_blobs::SetBase;
use crate::lock::Lock;
use crate::set::{Inventory, SetDir, sync_directory};

/// The alignment in a volume.
const BLOCK: u64 = tar::BLOCK as u64;

/// The chunk size for reading blobs.
const CHUNK: u64 = 256 << 10;

/// Maximum size of an entry in the list: names have at most 100 bytes, and digests 71.
const ENTRY_SIZE: u64 = 320;
/// The size of the rest of the list.
const LIST_OVERHEAD: u64 = 512;
/// The size of a lock's digest in the list.
const LOCK_SIZE: u64 = 80;

/// A complete set.
#[derive(Debug, Clone, Copy)]
pub struct CompleteSet<'a> {
    /// Its directory.
    pub set: &'a SetDir,
    /// Its lock.
    pub lock: &'a Lock,
    /// Its parts.
    pub inventory: &'a Inventory,
    /// What it builds on.
    pub base: &'a SetBase,
}

/// The result of writing volumes.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// The volumes, in order.
    pub files: Vec<PathBuf>,
    /// Their total size in bytes.
    pub bytes: u64,
    /// The number of blobs that the destination already has.
    pub left_out: usize,
}

/// A file to pack.
struct PackedFile {
    name: String,
    path: PathBuf,
    size: u64,
    digest: Digest,
}

/// A piece of an item in a volume.
struct VolumePiece<'a> {
    item: &'a PackedFile,
    start: u64,
    size: u64,
    part: Option<(usize, usize)>,
}

/// Writes the volumes of a complete set, each of at most `size` bytes, without what the set builds on.
///
/// With `drain`, blobs are removed from the directory once the volume with their last part is written. Volumes of an
/// earlier run stay unchanged if all their content is undamaged, so the blobs drained then are not needed again.
///
/// # Errors
/// Fails when a file cannot be read or written, a blob is damaged, or a volume exists with other content.
pub fn write(from: &CompleteSet<'_>, size: u64, directory: &Path, drain: bool) -> Result<Written, MirrorError> {
    let CompleteSet { set, lock, inventory, base } = *from;
    let size = size.max(SMALLEST);
    let have = &base.blobs;
    let items = items(set, inventory, have)?;
    let volumes = distribute(&items, size.saturating_sub(LOCK_SIZE * base.locks.len() as u64));
    let series = series(lock, have);
    fs::create_dir_all(directory).map_err(at(directory))?;
    let all = inventory.blobs.keys().chain(inventory.documents.keys());
    let mut written = Written { left_out: all.filter(|digest| have.contains(digest)).count(), ..Written::default() };
    let mut sums = Sums::read(directory);
    let packed = packed(directory, lock, have);
    let mut source = SplitFile::default();
    for (number, pieces) in volumes.iter().enumerate() {
        let name = file_name(&series, number + 1);
        let path = directory.join(&name);
        let list = list(lock, base, &series, (number + 1, volumes.len()), pieces);
        let undamaged = pieces.iter().all(|piece| packed.contains(&piece.item.digest));
        let bytes = match sums.holds(&path, &name, &list).filter(|_| undamaged) {
            Some(bytes) => {
                // All of its files are complete and undamaged in the volumes of an earlier run.
                source = SplitFile::default();
                bytes
            }
            None => {
                let (digest, bytes) = write_one(&path, &list, pieces, &mut source)?;
                sums.add(&name, &digest)?;
                bytes
            }
        };
        written.files.push(path);
        written.bytes += bytes;
        if drain {
            // The name must be durable before blobs are removed, which may be on another disk.
            sync_directory(directory).map_err(at(directory))?;
            let last = |piece: &&VolumePiece<'_>| piece.part.is_none_or(|(number, count)| number == count);
            for piece in pieces.iter().filter(last).filter(|piece| piece.item.name.starts_with("blobs/")) {
                let digest = piece.item.digest;
                if inventory.blobs.contains_key(&digest)
                    && let Err(error) = fs::remove_file(&piece.item.path)
                    && error.kind() != io::ErrorKind::NotFound
                {
                    return Err(at(&piece.item.path)(error));
                }
            }
        }
    }
    Ok(written)
}

/// Lists all files in writing order: the set's own, manifests, configs, and layers in the order of the lock.
fn items(set: &SetDir, inventory: &Inventory, have: &BTreeSet<Digest>) -> Result<Vec<PackedFile>, MirrorError> {
    let mut items = Vec::new();
    let mut own = vec!["oci-layout".to_owned(), "index.json".to_owned()];
    walk(set.root(), "mirror", &mut own)?;
    for name in own {
        let path = set.root().join(&name);
        if name.len() > 100 {
            return Err(VolumeError::LongName(name).into());
        }
        let content = fs::read(&path).map_err(at(&path))?;
        items.push(PackedFile { name, size: content.len() as u64, digest: Digest::of(&content), path: path.clone() });
    }
    let blob = |digest: &Digest, size: u64| {
        let name = format!("blobs/sha256/{}", digest.hex());
        PackedFile { path: set.root().join(&name), name, size, digest: *digest }
    };
    let mut seen = BTreeSet::new();
    items.extend(inventory.documents.iter().filter(|it| seen.insert(*it.0)).map(|(digest, size)| blob(digest, *size)));
    // Configs are small; with them, the first volume describes the images completely, except for their layers.
    for configs in [true, false] {
        for parts in &inventory.by_image {
            for digest in parts.iter().filter(|digest| !have.contains(digest)) {
                if let Some(found) = inventory.blobs.get(digest).filter(|found| is_config(found) == configs)
                    && seen.insert(*digest)
                {
                    items.push(blob(digest, found.size));
                }
            }
        }
    }
    Ok(items)
}

fn is_config(blob: &Descriptor) -> bool {
    matches!(blob.media_type.as_str(), media_type::OCI_CONFIG | media_type::DOCKER_CONFIG)
}

/// Lists the files below a directory, sorted by path.
fn walk(root: &Path, below: &str, found: &mut Vec<String>) -> Result<(), MirrorError> {
    let place = root.join(below);
    let mut entries: Vec<_> = fs::read_dir(&place).map_err(at(&place))?.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{below}/{}", entry.file_name().to_string_lossy());
        match entry.file_type().map_err(at(&place))? {
            kind if kind.is_dir() => walk(root, &name, found)?,
            kind if kind.is_file() => found.push(name),
            _ => {}
        }
    }
    Ok(())
}

/// Distributes files over volumes in order; a file larger than a volume is split.
fn distribute(items: &[PackedFile], size: u64) -> Vec<Vec<VolumePiece<'_>>> {
    // A tar file ends with two empty blocks; the list at the start is a file, too.
    let frame = entry_size(LIST_OVERHEAD) + 2 * BLOCK + BLOCK;
    let room_left = size.saturating_sub(frame);
    let cost = |bytes: u64| entry_size(bytes) + ENTRY_SIZE;
    let largest = room_left.saturating_sub(BLOCK + ENTRY_SIZE) / BLOCK * BLOCK;
    let mut volumes: Vec<Vec<VolumePiece<'_>>> = vec![Vec::new()];
    let mut used = 0;
    for item in items {
        let parts = usize::try_from(item.size.div_ceil(largest.max(BLOCK)).max(1)).unwrap_or(usize::MAX);
        let mut start = 0;
        for number in 1..=parts {
            let bytes = (item.size - start).min(largest.max(BLOCK));
            let full = volumes.last().is_some_and(|last| !last.is_empty()) && used + cost(bytes) > room_left;
            if full {
                volumes.push(Vec::new());
                used = 0;
            }
            used += cost(bytes);
            let part = (parts > 1).then_some((number, parts));
            if let Some(last) = volumes.last_mut() {
                last.push(VolumePiece { item, start, size: bytes, part });
            }
            start += bytes;
        }
    }
    volumes
}

fn list(lock: &Lock, base: &SetBase, series: &str, which: (usize, usize), pieces: &[VolumePiece<'_>]) -> Vec<u8> {
    let mut at = 0;
    let entries = pieces.iter().map(|piece| {
        let offset = at + BLOCK;
        at += entry_size(piece.size);
        VolumeEntry {
            name: piece.item.name.clone(),
            offset,
            size: piece.size,
            digest: piece.item.digest.to_string(),
            part: piece.part,
        }
    });
    let list = List {
        version: VERSION,
        lock: lock.digest().to_string(),
        series: series.to_owned(),
        number: which.0,
        count: which.1,
        since: base.locks.iter().map(ToString::to_string).collect(),
        entries: entries.collect(),
    };
    serde_json::to_vec(&list).unwrap_or_default()
}

/// Reads files in the order of their pieces. A file that is split is read once, and hashed as a whole.
#[derive(Default)]
struct SplitFile {
    /// The split file that is being read.
    split: Option<(Digest, BlobReader)>,
    /// The new volumes with its parts, which are not known to be undamaged yet. They contain nothing else.
    unproven: Vec<PathBuf>,
}

impl SplitFile {
    /// Returns a reader at the start of a piece.
    fn open(&mut self, piece: &VolumePiece<'_>) -> io::Result<BlobReader> {
        let PackedFile { digest, path, size, .. } = piece.item;
        let mut reader = match self.split.take() {
            Some((of, reader)) if of == *digest && reader.position() <= piece.start => reader,
            _ => StoredBlob::file(*digest, path, *size).open(),
        };
        // The parts before may be in volumes of an earlier run.
        reader.advance_to(piece.start)?;
        Ok(reader)
    }

    /// Keeps the reader of a split file for its next part.
    fn keep(&mut self, piece: &VolumePiece<'_>, reader: BlobReader) {
        if piece.part.is_some_and(|(number, count)| number < count) {
            self.split = Some((piece.item.digest, reader));
        }
    }
}

/// Writes a volume atomically, unless it exists; returns its digest and size.
fn write_one(
    path: &Path,
    list: &[u8],
    pieces: &[VolumePiece<'_>],
    source: &mut SplitFile,
) -> Result<(Digest, u64), MirrorError> {
    let named = at(path);
    let existed = path.exists();
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = PathBuf::from(aside);
    let mut write = || {
        if existed {
            let (digest, size, _) = pack(io::sink(), list, pieces, source).map_err(&named)?;
            return match digest_of(path).map_err(&named)? == digest {
                true => Ok((digest, size)),
                false => Err(VolumeError::Exists(path.to_owned()).into()),
            };
        }
        let file = image::create_file(&aside).map_err(&named)?;
        let file = BufWriter::with_capacity(1 << 20, SparseWriter::new(file));
        let (digest, size, file) = pack(file, list, pieces, source).map_err(&named)?;
        let file = file.into_inner().map_err(|error| named(error.into_error()))?;
        file.into_file().sync_all().and_then(|()| fs::rename(&aside, path)).map_err(&named)?;
        Ok((digest, size))
    };
    let outcome = write();
    if outcome.is_err() {
        for file in source.unproven.drain(..).chain([aside]) {
            let _ = fs::remove_file(file);
        }
    } else if source.split.is_none() {
        source.unproven.clear();
    } else if !existed {
        source.unproven.push(path.to_owned());
    }
    outcome
}

/// Writes the tar file of a volume; returns its digest and size.
fn pack<W: Write>(
    file: W,
    list: &[u8],
    pieces: &[VolumePiece<'_>],
    source: &mut SplitFile,
) -> io::Result<(Digest, u64, W)> {
    let mut out = Hashing { file, hasher: Hasher::new(), size: 0 };
    out.file(LIST, list.len() as u64, &mut &*list)?;
    for piece in pieces {
        let item = piece.item;
        let explained = |error: io::Error| {
            let text = match BlobError::of(&error) {
                Some(BlobError::Missing { .. }) => {
                    format!("{} is no longer in the set: remove this volume's file and pull again", item.name)
                }
                Some(BlobError::Damaged { .. }) => {
                    format!("{}: the file is damaged, so no volume is written with it: pull again", item.path.display())
                }
                _ => return error,
            };
            io::Error::new(error.kind(), text)
        };
        let mut reader = source.open(piece).map_err(explained)?;
        let name = match piece.part {
            None => item.name.clone(),
            Some((number, _)) => format!("{}.part{number}", item.name),
        };
        out.file(&name, piece.size, &mut reader.by_ref().take(piece.size)).map_err(explained)?;
        if piece.start + piece.size == item.size {
            // An empty file has no last bytes.
            reader.finish().map_err(explained)?;
        } else {
            source.keep(piece, reader);
        }
    }
    out.write_all(&[0; 2 * tar::BLOCK])?;
    Ok((out.hasher.finish(), out.size, out.file))
}

/// Writes a tar file and hashes it.
struct Hashing<W> {
    file: W,
    hasher: Hasher,
    size: u64,
}

impl<W: Write> Hashing<W> {
    fn file(&mut self, name: &str, size: u64, content: &mut dyn Read) -> io::Result<()> {
        self.write_all(&tar::file_header(name, size))?;
        let mut buffer = vec![0; usize::try_from(size.min(CHUNK)).unwrap_or_default()];
        let mut copied = 0;
        while let count @ 1.. = content.read(&mut buffer)? {
            self.write_all(&buffer[..count])?;
            copied += count as u64;
        }
        if copied != size {
            return Err(io::Error::other(format!("{name} has {copied} bytes instead of {size}")));
        }
        self.write_all(tar::padding(size))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.file.write_all(piece)?;
        self.hasher.update(piece);
        self.size += piece.len() as u64;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
