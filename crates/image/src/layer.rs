//! Writes layers reproducibly: the same files give the same bytes.
//!
//! Entries are sorted by path, belong to root, and have the given modes and one common time. Only the content of
//! files is used.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::gzip::GzipWriter;
use crate::{Descriptor, Digest, Store, media_type, tar};

/// Maximum nesting depth of directories in an image.
const MAX_DEPTH: usize = 100;

/// A layer to be written: entries by their path in the image.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    entries: BTreeMap<Vec<u8>, LayerEntry>,
}

#[derive(Debug, Clone)]
struct LayerEntry {
    kind: EntryKind,
    mode: u32,
}

#[derive(Debug, Clone)]
enum EntryKind {
    Directory,
    File(PathBuf, u64),
    Symlink(Vec<u8>),
}

/// The file modes of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerModes {
    /// The mode of directories.
    pub directory: u32,
    /// The mode of files.
    pub file: u32,
}

impl Default for LayerModes {
    /// Readable by everyone, writable by root.
    fn default() -> LayerModes {
        LayerModes { directory: 0o755, file: 0o644 }
    }
}

/// A written layer.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltLayer {
    /// The descriptor for the manifest.
    pub descriptor: Descriptor,
    /// The digest of the uncompressed layer, for the config.
    pub diff_id: Digest,
}

impl Layer {
    /// Creates an empty layer.
    pub fn new() -> Layer {
        Layer::default()
    }

    /// Adds a directory and its parents.
    pub fn directory(&mut self, path: &str, mode: u32) {
        self.put(normalize(path), EntryKind::Directory, mode);
    }

    /// Adds the file at `source`.
    ///
    /// # Errors
    /// Fails when the file cannot be read or is not a regular file.
    pub fn file(&mut self, path: &str, source: &Path, mode: u32) -> io::Result<()> {
        let metadata = fs::metadata(source).map_err(|error| in_path(source, &error))?;
        if !metadata.is_file() {
            return Err(in_path(source, &io::Error::other("not a regular file")));
        }
        self.put(normalize(path), EntryKind::File(source.into(), metadata.len()), mode);
        Ok(())
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, path: &str, target: &str) {
        self.put(normalize(path), EntryKind::Symlink(target.into()), 0o777);
    }

    /// Adds everything below `directory` at `path`.
    ///
    /// # Errors
    /// Fails when a path cannot be read, or is neither a file nor a directory. Links are not followed: their targets may
    /// be private, or missing in the image.
    pub fn tree(&mut self, path: &str, directory: &Path, modes: LayerModes) -> io::Result<()> {
        let path = normalize(path);
        self.put(path.clone(), EntryKind::Directory, modes.directory);
        self.add_tree(&path, directory, modes, 0)
    }

    fn add_tree(&mut self, at: &[u8], directory: &Path, modes: LayerModes, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(in_path(directory, &io::Error::other("nested too deeply")));
        }
        for entry in fs::read_dir(directory).map_err(|error| in_path(directory, &error))? {
            let entry = entry.map_err(|error| in_path(directory, &error))?;
            let source = entry.path();
            let mut path = at.to_vec();
            path.push(b'/');
            path.extend_from_slice(entry.file_name().as_bytes());
            let metadata = entry.metadata().map_err(|error| in_path(&source, &error))?;
            if metadata.is_dir() {
                self.put(path.clone(), EntryKind::Directory, modes.directory);
                self.add_tree(&path, &source, modes, depth + 1)?;
            } else if metadata.is_file() {
                self.put(path, EntryKind::File(source, metadata.len()), modes.file);
            } else {
                return Err(in_path(&source, &io::Error::other("neither a file nor a directory")));
            }
        }
        Ok(())
    }

    fn put(&mut self, path: Vec<u8>, kind: EntryKind, mode: u32) {
        let parents = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end]);
        for parent in parents {
            let directory = || LayerEntry { kind: EntryKind::Directory, mode: LayerModes::default().directory };
            self.entries.entry(parent.to_vec()).or_insert_with(directory);
        }
        if !path.is_empty() {
            self.entries.insert(path, LayerEntry { kind, mode });
        }
    }

    /// Writes the layer into a store, compressed with gzip; all entries get the time `time` in seconds since 1970.
    ///
    /// `progress` receives the number of bytes read since its last call.
    ///
    /// # Errors
    /// Fails when a file cannot be read or changes meanwhile, or the layer cannot be written.
    pub fn write(&self, store: &Store, time: u64, progress: &dyn Fn(u64)) -> io::Result<BuiltLayer> {
        let mut out = GzipWriter::new(store.writer()?)?;
        let mut buffer = vec![0; 128 << 10];
        for (path, entry) in &self.entries {
            let mut name = path.clone();
            let (flag, link, size) = match &entry.kind {
                EntryKind::Directory => {
                    name.push(b'/');
                    (b'5', &[][..], 0)
                }
                EntryKind::File(_, size) => (b'0', &[][..], *size),
                EntryKind::Symlink(target) => (b'2', &target[..], 0),
            };
            out.write_all(&tar::headers(&tar::TarHeader { name: &name, flag, mode: entry.mode, size, link, time })?)?;
            if let EntryKind::File(source, size) = &entry.kind {
                copy(source, *size, &mut out, &mut buffer, progress)?;
            }
        }
        out.write_all(&tar::END)?;
        let (blob, diff_id, _) = out.finish()?;
        let blob = blob.finish(None)?;
        let descriptor = Descriptor::new(media_type::OCI_LAYER_GZIP, blob.digest(), blob.size());
        Ok(BuiltLayer { descriptor, diff_id })
    }
}

fn copy(source: &Path, size: u64, out: &mut impl Write, buffer: &mut [u8], progress: &dyn Fn(u64)) -> io::Result<()> {
    let failed = |error: io::Error| in_path(source, &error);
    let changed = || in_path(source, &io::Error::other("the file changed while it was read"));
    let mut file = File::open(source).map_err(failed)?;
    let mut rest = size;
    loop {
        let length = match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            length => length.map_err(failed)?,
        };
        rest = rest.checked_sub(length as u64).ok_or_else(changed)?;
        if length == 0 {
            break;
        }
        out.write_all(&buffer[..length])?;
        progress(length as u64);
    }
    if rest > 0 {
        return Err(changed());
    }
    out.write_all(tar::padding(size))
}

/// Normalizes a path in the image: no leading or trailing slashes, no dot components.
fn normalize(path: &str) -> Vec<u8> {
    let normalize = path.split('/').filter(|name| !matches!(*name, "" | "." | ".."));
    normalize.collect::<Vec<&str>>().join("/").into_bytes()
}

fn in_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
