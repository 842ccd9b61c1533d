//! Writing volumes: the same set gives the same bytes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use image::tar::{self, room};
use image::{Descriptor, Digest, Hasher, Holes, media_type};

use super::sums::Sums;
use super::{Entry, LIST, List, SMALLEST, VERSION, digest_of, file_name, series};
use crate::have::Base;
use crate::lock::Lock;
use crate::set::{Contents, SetDir, sync_names};

/// What everything in a volume is rounded up to.
const BLOCK: u64 = tar::BLOCK as u64;

/// How much of a blob is in memory at once.
const PIECE: u64 = 256 << 10;

/// How much of the list an entry takes at most: names have at most 100 bytes, and digests 71.
const LINE: u64 = 320;
/// What else is in a list.
const REST: u64 = 512;
/// How much room the digest of a lock takes in it.
const LOCK: u64 = 80;

/// What was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The volumes, in their order.
    pub files: Vec<PathBuf>,
    /// How many bytes they have.
    pub bytes: u64,
    /// How many blobs the other side has already.
    pub left_out: usize,
}

/// A file that goes into volumes.
struct Item {
    name: String,
    path: PathBuf,
    size: u64,
    digest: Digest,
}

/// A piece of an item in a volume.
struct Piece<'a> {
    item: &'a Item,
    start: u64,
    size: u64,
    part: Option<(usize, usize)>,
}

/// Writes the volumes of a set that is whole, each of at most `size` bytes, without what it builds on.
///
/// With `drain`, blobs leave the directory when the volume with the last of them is written. A volume that an earlier
/// run wrote stays as it is, so that blobs which left the directory then are not needed again.
///
/// # Errors
/// Fails when something cannot be read or written, or a file with other content is in the way.
pub fn write(
    set: &SetDir,
    lock: &Lock,
    contents: &Contents,
    size: u64,
    base: &Base,
    directory: &Path,
    drain: bool,
) -> Result<Written, String> {
    let size = size.max(SMALLEST);
    let have = &base.blobs;
    let items = items(set, contents, have)?;
    let volumes = distribute(&items, size.saturating_sub(LOCK * base.locks.len() as u64));
    let series = series(lock, have);
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let all = contents.blobs.keys().chain(contents.documents.keys());
    let mut written = Written { left_out: all.filter(|digest| have.contains(digest)).count(), ..Written::default() };
    let mut sums = Sums::read(directory);
    for (number, pieces) in volumes.iter().enumerate() {
        let name = file_name(&series, number + 1);
        let path = directory.join(&name);
        let list = list(lock, base, &series, (number + 1, volumes.len()), pieces);
        let bytes = match sums.holds(&path, &name, &list) {
            Some(bytes) => bytes,
            None => {
                let (digest, bytes) = write_one(&path, &list, pieces)?;
                sums.add(&name, &digest)?;
                bytes
            }
        };
        written.files.push(path);
        written.bytes += bytes;
        if drain {
            // Another disk may forget a name that this one relies on.
            sync_names(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
            let last = |piece: &&Piece<'_>| piece.part.is_none_or(|(number, count)| number == count);
            for piece in pieces.iter().filter(last).filter(|piece| piece.item.name.starts_with("blobs/")) {
                let digest = piece.item.digest;
                if contents.blobs.contains_key(&digest)
                    && let Err(error) = fs::remove_file(&piece.item.path)
                    && error.kind() != io::ErrorKind::NotFound
                {
                    return Err(format!("{}: {error}", piece.item.path.display()));
                }
            }
        }
    }
    Ok(written)
}

/// Lists all files in the order they are written: the set's own, manifests, configs, and layers in the order of the lock.
fn items(set: &SetDir, contents: &Contents, have: &BTreeSet<Digest>) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let mut own = vec!["oci-layout".to_owned(), "index.json".to_owned()];
    walk(set.root(), "mirror", &mut own)?;
    for name in own {
        let path = set.root().join(&name);
        let named = |error: io::Error| format!("{}: {error}", path.display());
        if name.len() > 100 {
            return Err(format!("{name}: the name is too long for a volume"));
        }
        let content = fs::read(&path).map_err(named)?;
        items.push(Item { name, size: content.len() as u64, digest: Digest::of(&content), path: path.clone() });
    }
    let blob = |digest: &Digest, size: u64| {
        let name = format!("blobs/sha256/{}", digest.hex());
        Item { path: set.root().join(&name), name, size, digest: *digest }
    };
    let mut seen = BTreeSet::new();
    items.extend(contents.documents.iter().filter(|it| seen.insert(*it.0)).map(|(digest, size)| blob(digest, *size)));
    // Configs are small, and with them the first volume says all of the images but their layers.
    for configs in [true, false] {
        for parts in &contents.by_image {
            for digest in parts.iter().filter(|digest| !have.contains(digest)) {
                if let Some(found) = contents.blobs.get(digest).filter(|found| is_config(found) == configs)
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
fn walk(root: &Path, below: &str, found: &mut Vec<String>) -> Result<(), String> {
    let named = |error: io::Error| format!("{}: {error}", root.join(below).display());
    let mut entries: Vec<_> = fs::read_dir(root.join(below)).map_err(named)?.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{below}/{}", entry.file_name().to_string_lossy());
        match entry.file_type().map_err(named)? {
            kind if kind.is_dir() => walk(root, &name, found)?,
            kind if kind.is_file() => found.push(name),
            _ => {}
        }
    }
    Ok(())
}

/// Puts files into volumes, in their order; one that is larger than a volume is cut.
fn distribute(items: &[Item], size: u64) -> Vec<Vec<Piece<'_>>> {
    // The end of a tar file is two empty blocks; the list in front is itself a file.
    let frame = room(REST) + 2 * BLOCK + BLOCK;
    let room_left = size.saturating_sub(frame);
    let cost = |bytes: u64| room(bytes) + LINE;
    let largest = room_left.saturating_sub(BLOCK + LINE) / BLOCK * BLOCK;
    let mut volumes: Vec<Vec<Piece<'_>>> = vec![Vec::new()];
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
                last.push(Piece { item, start, size: bytes, part });
            }
            start += bytes;
        }
    }
    volumes
}

fn list(lock: &Lock, base: &Base, series: &str, which: (usize, usize), pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut at = 0;
    let entries = pieces.iter().map(|piece| {
        let offset = at + BLOCK;
        at += room(piece.size);
        Entry {
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

/// Writes a volume aside and puts it in place, unless it is there; returns its digest and size.
fn write_one(path: &Path, list: &[u8], pieces: &[Piece<'_>]) -> Result<(Digest, u64), String> {
    let named = |error: io::Error| format!("{}: {error}", path.display());
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = PathBuf::from(aside);
    let write = || -> io::Result<(Digest, u64)> {
        let file = BufWriter::with_capacity(1 << 20, Holes::new(File::create(&aside)?));
        let mut out = Hashing { file, hasher: Hasher::new(), size: 0 };
        out.file(LIST, list.len() as u64, &mut &*list)?;
        for piece in pieces {
            let mut file = File::open(&piece.item.path).map_err(|error| {
                let name = &piece.item.name;
                io::Error::new(error.kind(), format!("{name} is not in the set any more: remove what is there of this volume, and pull again ({error})"))
            })?;
            file.seek(SeekFrom::Start(piece.start))?;
            let name = match piece.part {
                None => piece.item.name.clone(),
                Some((number, _)) => format!("{}.part{number}", piece.item.name),
            };
            out.file(&name, piece.size, &mut file.take(piece.size))?;
        }
        out.write_all(&[0; 2 * tar::BLOCK])?;
        let file = out.file.into_inner().map_err(io::IntoInnerError::into_error)?.into_file();
        file.sync_all()?;
        Ok((out.hasher.finish(), out.size))
    };
    let outcome = write().map_err(named);
    let outcome = outcome.and_then(|(digest, size)| match path.exists() {
        true if digest_of(path).map_err(named)? == digest => {
            fs::remove_file(&aside).map_err(named).map(|()| (digest, size))
        }
        true => Err(format!("{}: another file of that name is in the way, and is not overwritten", path.display())),
        false => fs::rename(&aside, path).map_err(named).map(|()| (digest, size)),
    });
    if outcome.is_err() {
        let _ = fs::remove_file(&aside);
    }
    outcome
}

/// Writes a tar file and hashes it on the way.
struct Hashing {
    file: BufWriter<Holes>,
    hasher: Hasher,
    size: u64,
}

impl Hashing {
    fn file(&mut self, name: &str, size: u64, content: &mut dyn Read) -> io::Result<()> {
        self.write_all(&tar::file_header(name, size))?;
        let mut buffer = vec![0; usize::try_from(size.min(PIECE)).unwrap_or_default()];
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

impl Write for Hashing {
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
