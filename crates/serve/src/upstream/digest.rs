//! The digest of catalog and cache: FNV-1a of 64 bits over a tar archive of each, as Go writes them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{UpstreamError, in_path};

const BLOCK: usize = 512;
/// The lengths of a path that fits a header, in one field and in two.
const NAME: usize = 100;
const PREFIX: usize = 155;
/// Larger sizes do not fit a header.
const LARGE: u64 = 1 << 33;
/// The maximum nesting of directories.
const MAX_DEPTH: usize = 100;

/// FNV-1a of 64 bits.
pub(super) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let mut state = self.0;
        for byte in bytes {
            state = (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.0 = state;
    }

    pub(super) fn value(&self) -> u64 {
        self.0
    }
}

/// The modes of the files in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeModes {
    /// Of the root directory.
    pub root: u32,
    /// Of the directories below it.
    pub directory: u32,
    /// Of files.
    pub file: u32,
}

/// Hashes the archive of a tree with these modes; times and owners are zero, and links are included only if they point
/// to files.
pub(super) fn tree(root: &Path, modes: TreeModes, digest: &mut Fnv) -> Result<(), UpstreamError> {
    header(b".", modes.root, 0, b'5', digest);
    directory(root, &mut Vec::new(), modes, 0, digest)?;
    digest.add(&[0; 2 * BLOCK]);
    Ok(())
}

fn directory(
    place: &Path,
    path: &mut Vec<u8>,
    modes: TreeModes,
    depth: usize,
    digest: &mut Fnv,
) -> Result<(), UpstreamError> {
    if depth > MAX_DEPTH {
        return Err(in_path(place)(io::Error::other("nested too deeply")));
    }
    let mut entries: Vec<fs::DirEntry> =
        fs::read_dir(place).and_then(|entries| entries.collect()).map_err(in_path(place))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let source = entry.path();
        let length = path.len();
        if length > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(entry.file_name().as_bytes());
        let kind = entry.file_type().map_err(in_path(&source))?;
        if kind.is_dir() {
            header(path, modes.directory, 0, b'5', digest);
            directory(&source, path, modes, depth + 1, digest)?;
        } else if source.is_file() {
            file(&source, path, modes.file, digest).map_err(in_path(&source))?;
        }
        path.truncate(length);
    }
    Ok(())
}

fn file(source: &Path, path: &[u8], mode: u32, digest: &mut Fnv) -> io::Result<()> {
    let mut file = File::open(source)?;
    let size = file.metadata()?.len();
    header(path, mode, size, b'0', digest);
    let mut buffer = vec![0; 64 << 10];
    let mut left = size;
    while left > 0 {
        let length = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.read_exact(&mut buffer[..length])?;
        digest.add(&buffer[..length]);
        left -= length as u64;
    }
    if file.read(&mut buffer[..1])? > 0 {
        return Err(io::Error::other("the file grew while opm read it"));
    }
    digest.add(&padding(size));
    Ok(())
}

fn padding(size: u64) -> Vec<u8> {
    vec![0; (BLOCK - (size % BLOCK as u64) as usize) % BLOCK]
}

/// Adds the header of a file or directory, in the oldest format that can represent it.
fn header(path: &[u8], mode: u32, size: u64, flag: u8, digest: &mut Fnv) {
    let ascii = path.iter().all(|byte| (1..0x80).contains(byte));
    let split = if ascii && path.len() > NAME { split(path) } else { None };
    if size < LARGE && ascii && (path.len() <= NAME || split.is_some()) {
        let (prefix, name) = split.unwrap_or((&[], path));
        digest.add(&block(name, prefix, mode, size, flag, Devices::Zero));
        return;
    }
    let mut records = Vec::new();
    if !ascii || path.len() > NAME {
        records.extend(record(b"path", path));
    }
    if size >= LARGE {
        records.extend(record(b"size", size.to_string().as_bytes()));
    }
    let slash = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let mut name = plain(&[&path[..slash], b"PaxHeaders.0/", &path[slash..]].concat());
    name.truncate(NAME);
    while name.last() == Some(&b'/') {
        name.pop();
    }
    digest.add(&block(&name, &[], 0, records.len() as u64, b'x', Devices::Unset));
    digest.add(&records);
    digest.add(&padding(records.len() as u64));
    let mut name = plain(path);
    name.truncate(NAME);
    while path.len() > NAME && name.last() == Some(&b'/') {
        name.pop();
    }
    let shown = if size < LARGE { size } else { 0 };
    digest.add(&block(&name, &[], mode, shown, flag, Devices::Zero));
}

/// Splits a long path into the two fields of a header.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = path.len().min(PREFIX + 1);
    let slash = path[..length].iter().rposition(|byte| *byte == b'/').filter(|slash| *slash > 0)?;
    let (prefix, name) = (&path[..slash], &path[slash + 1..]);
    (name.len() <= NAME && !name.is_empty() && prefix.len() <= PREFIX).then_some((prefix, name))
}

/// Drops the characters that old headers cannot represent.
fn plain(path: &[u8]) -> Vec<u8> {
    path.iter().copied().filter(|byte| (1..0x80).contains(byte)).collect()
}

/// Encodes a record `LENGTH KEY=VALUE`; the length includes itself.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [length.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}

/// Whether a header has device numbers.
#[derive(PartialEq, Eq)]
enum Devices {
    Zero,
    Unset,
}

fn block(name: &[u8], prefix: &[u8], mode: u32, size: u64, flag: u8, devices: Devices) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name);
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, b"00000000000");
    put(148, b"        ");
    put(156, &[flag]);
    put(257, b"ustar\x0000");
    if devices == Devices::Zero {
        put(329, b"0000000");
        put(337, b"0000000");
    }
    put(345, prefix);
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}
