//! Unpacks the untrusted layers of an image into a directory.
//!
//! `stream` decompresses and enforces size limits, `tar` reads headers, `tree` applies them to an in-memory tree, and
//! `place` writes the result.
//!
//! - Nothing is written outside the target, whatever names and links say: paths are resolved in memory, where
//!   `..` stops at the root of the image, and links are created after everything else is written.
//! - The target appears completely or not at all: everything is written to a temporary directory next to it,
//!   which is renamed at the end, when all layers matched their digests, and removed on failure.
//! - Links never leave the target, so it can be read like any directory. A relative link that stays inside keeps
//!   its text. Any other link is rewritten as the relative path to its target inside the image; a link without
//!   a target dangles.
//! - Files have mode 0600 and directories 0700, and belong to the caller. Times, extended attributes and
//!   capabilities are dropped; devices and pipes are skipped.

mod outcome;
mod place;
pub(crate) mod stream;
pub(crate) mod tar;
mod tree;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use fbc::scratch::TempFolder;
pub use outcome::{LayerFile, LayerProblem, UnpackError, UnpackLimits, UnpackedImage};
use stream::LayerStream;
use tar::{TarEntry, TarEntryKind, TarReader};
use tree::{FileContent, NodeKind, ROOT, Tree};

/// Unpacks layers, base first, into `target`, which must not exist or be an empty directory.
///
/// `progress` receives the number of layer bytes read since its last call.
///
/// # Errors
/// Fails when a layer is malformed, hostile or too large, or a file cannot be read or written. Nothing is left behind
/// then.
pub fn unpack(
    layers: &[LayerFile],
    target: &Path,
    limits: &UnpackLimits,
    progress: &dyn Fn(u64),
) -> Result<UnpackedImage, UnpackError> {
    Unpacker::new(layers, target, limits, progress)?.run(None)
}

/// Unpacks the paths `only` of an image, and the targets of links in them.
///
/// Paths stay the same: `/configs` is unpacked to `configs` in the target. If that is a link to `/data`, `data` is
/// unpacked, too. Paths that the image lacks are skipped; check for them with [`contained`](fn@crate::contained). The
/// guarantees of [`unpack`] apply.
///
/// # Errors
/// Fails as [`unpack`] does.
pub fn unpack_only(
    only: &[&Path],
    layers: &[LayerFile],
    target: &Path,
    limits: &UnpackLimits,
    progress: &dyn Fn(u64),
) -> Result<UnpackedImage, UnpackError> {
    Unpacker::new(layers, target, limits, progress)?.run(Some(only))
}

struct Unpacker<'a> {
    layers: &'a [LayerFile],
    target: &'a Path,
    limits: &'a UnpackLimits,
    progress: &'a dyn Fn(u64),
    /// Holds file contents by number, then the tree; removed on drop.
    scratch: TempFolder,
    tree: Tree,
    spooled: BTreeMap<FileContent, u64>,
    skipped: u64,
}

impl<'a> Unpacker<'a> {
    fn new(
        layers: &'a [LayerFile],
        target: &'a Path,
        limits: &'a UnpackLimits,
        progress: &'a dyn Fn(u64),
    ) -> Result<Unpacker<'a>, UnpackError> {
        let io = |path: &Path, error| UnpackError::Io { path: path.into(), error };
        match fs::symlink_metadata(target) {
            Ok(metadata) if metadata.is_dir() => {
                if fs::read_dir(target).map_err(|error| io(target, error))?.next().is_some() {
                    return Err(UnpackError::Occupied(target.into()));
                }
            }
            Ok(_) => return Err(UnpackError::Occupied(target.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io(target, error)),
        }
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let scratch = TempFolder::inside(parent, ".opm-unpack-").map_err(|error| io(parent, error))?;
        for name in ["content", "root"] {
            let path = scratch.path().join(name);
            DirBuilder::new().mode(0o700).create(&path).map_err(|error| io(&path, error))?;
        }
        let tree = Tree::new(limits);
        Ok(Unpacker { layers, target, limits, progress, scratch, tree, spooled: BTreeMap::new(), skipped: 0 })
    }

    fn run(mut self, only: Option<&[&Path]>) -> Result<UnpackedImage, UnpackError> {
        let only: Option<Vec<Vec<u8>>> = only.map(|paths| paths.iter().map(|path| bytes_of(path).to_vec()).collect());
        let budget = Cell::new(self.limits.total_size);
        for number in 0..self.layers.len() {
            self.apply(number, only.as_deref(), &budget)?;
        }
        let chosen = match &only {
            None => None,
            Some(paths) => {
                let to_error = |problem| UnpackError::Layer { layer: self.layers.len(), entry: None, problem };
                Some(place::choose(&mut self.tree, paths).map_err(to_error)?)
            }
        };
        if let Some(chosen) = &chosen {
            self.spool_missing(&place::contents(&self.tree, chosen))?;
        }
        let mut unpacked = place::place(&mut self.tree, chosen.as_deref(), &self.spooled, self.scratch.path())?;
        unpacked.skipped = self.skipped;
        let root = self.scratch.path().join("root");
        fs::rename(&root, self.target).map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty => UnpackError::Occupied(self.target.into()),
            _ => UnpackError::Io { path: self.target.into(), error },
        })?;
        Ok(unpacked)
    }

    /// Adds the entries of a layer to the tree and spools their contents: all of them, or those below `only`.
    fn apply(&mut self, number: usize, only: Option<&[Vec<u8>]>, budget: &Cell<u64>) -> Result<(), UnpackError> {
        let layer = &self.layers[number];
        let to_error = |entry: Option<&[u8]>, problem| UnpackError::Layer {
            layer: number + 1,
            entry: entry.map(|name| String::from_utf8_lossy(&name[..name.len().min(200)]).into_owned()),
            problem,
        };
        if layer.media_type.ends_with("+encrypted") {
            return Err(to_error(None, LayerProblem::Encrypted));
        }
        let mut blob = layer.blob.open();
        let stream = LayerStream::open(&mut blob, self.limits, budget, self.progress)
            .map_err(|error| to_error(None, LayerProblem::Read(error)))?;
        let mut reader = TarReader::new(stream);
        let mut last: Option<Vec<u8>> = None;
        let number = u32::try_from(number).map_err(|_| to_error(None, LayerProblem::TooComplex))?;
        for ordinal in 0..=u32::MAX {
            let tree = &mut self.tree;
            let entry = reader.next(|| tree.count_entry()).map_err(|problem| to_error(last.as_deref(), problem))?;
            let Some(entry) = entry else { break };
            let content = FileContent { layer: number, entry: ordinal };
            let name = entry.path.clone();
            let spool = self.enter(&entry, content).map_err(|problem| to_error(Some(&name), problem))?;
            if spool && only.is_none_or(|only| only.iter().any(|prefix| is_below(&name, prefix))) {
                self.spool(&mut reader, content).map_err(|problem| to_error(Some(&name), problem))?;
            }
            last = Some(name);
        }
        drop(reader);
        // The archive may end before its file.
        blob.finish().map_err(|error| to_error(None, LayerProblem::Read(error)))
    }

    /// Adds an entry to the tree; returns whether its content is needed.
    fn enter(&mut self, entry: &TarEntry, content: FileContent) -> Result<bool, LayerProblem> {
        let names = self.tree.clean(&entry.path)?;
        let Some((name, parents)) = names.split_last() else {
            return match entry.kind {
                TarEntryKind::Directory => Ok(false),
                _ => Err(LayerProblem::Name("it is the root of the image")),
            };
        };
        if let Some(hidden) = name.strip_prefix(b".wh.") {
            self.whiteout(parents, hidden, content.layer)?;
            return Ok(false);
        }
        let limits = self.limits;
        let link_text = || match entry.link.as_slice() {
            b"" => Err(LayerProblem::Link("its target is empty")),
            link if link.contains(&0) => Err(LayerProblem::Link("it contains a NUL byte")),
            link if link.len() > limits.path_length => Err(LayerProblem::PathLength(limits.path_length)),
            link => Ok(link),
        };
        let what = match entry.kind {
            TarEntryKind::File if entry.size > self.limits.file_size => {
                return Err(LayerProblem::FileSize(self.limits.file_size));
            }
            TarEntryKind::File => NodeKind::File(content),
            TarEntryKind::Directory => NodeKind::Directory(BTreeMap::new()),
            TarEntryKind::Symlink => NodeKind::Symlink(link_text()?.into()),
            TarEntryKind::HardLink => self.linked(link_text()?)?,
            TarEntryKind::Special => {
                self.skipped += 1;
                // The device replaces an existing entry, although it is not created.
                if let Some(directory) = self.existing(parents)? {
                    self.tree.remove(directory, name);
                }
                return Ok(false);
            }
        };
        let directory = self.tree.directory(parents, content.layer)?;
        self.tree.put(directory, name, what, content.layer)?;
        Ok(entry.kind == TarEntryKind::File)
    }

    /// Resolves a hard link: to a file of the image, or to a symbolic link itself.
    fn linked(&mut self, link: &[u8]) -> Result<NodeKind, LayerProblem> {
        let names = self.tree.clean(link).map_err(|problem| match problem {
            LayerProblem::Name(_) => LayerProblem::Link("it leaves the image"),
            other => other,
        })?;
        let (name, parents) = names.split_last().ok_or(LayerProblem::Link("directories cannot be linked"))?;
        let target = self.existing(parents)?.and_then(|directory| self.tree.child(directory, name));
        match target.map(|target| &self.tree.node(target).kind) {
            Some(NodeKind::Directory(_)) => Err(LayerProblem::Link("directories cannot be linked")),
            Some(what @ (NodeKind::File(_) | NodeKind::Symlink(_))) => Ok(what.clone()),
            Some(NodeKind::Removed) | None => Err(LayerProblem::Link("the image has no such file")),
        }
    }

    fn whiteout(&mut self, parents: &[&[u8]], hidden: &[u8], layer: u32) -> Result<(), LayerProblem> {
        let directory = self.existing(parents)?;
        match (hidden, directory) {
            (b"" | b"." | b"..", _) => return Err(LayerProblem::Name("it removes an entry without a name")),
            (b".wh..opq", Some(directory)) => self.tree.make_opaque(directory, layer),
            // Metadata of the tools that built the layer.
            _ if hidden.starts_with(b".wh.") => {}
            (name, Some(directory)) => self.tree.remove(directory, name),
            (_, None) => {}
        }
        Ok(())
    }

    /// Returns the directory at `names`, if it exists.
    fn existing(&mut self, names: &[&[u8]]) -> Result<Option<tree::NodeId>, LayerProblem> {
        let resolved = self.tree.resolve(ROOT, &names.join(&b'/'), true)?;
        let is_directory = matches!(self.tree.node(resolved.node).kind, NodeKind::Directory(_));
        Ok((resolved.missing.is_empty() && is_directory).then_some(resolved.node))
    }

    /// Writes the content of the current entry to its spool file.
    fn spool(&mut self, reader: &mut TarReader<'_>, content: FileContent) -> Result<(), LayerProblem> {
        let path = place::spool_path(self.scratch.path(), content);
        let failed = |error| LayerProblem::Write { path: path.clone(), error };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        let mut size = 0;
        reader.content(|piece| {
            size += piece.len() as u64;
            file.write_all(piece).map_err(failed)
        })?;
        self.spooled.insert(content, size);
        Ok(())
    }

    /// Reads layers again for contents that are needed after all.
    fn spool_missing(&mut self, wanted: &BTreeSet<FileContent>) -> Result<(), UnpackError> {
        let missing: Vec<FileContent> =
            wanted.iter().filter(|content| !self.spooled.contains_key(content)).copied().collect();
        let budget = Cell::new(self.limits.total_size);
        for wanted in missing.chunk_by(|a, b| a.layer == b.layer) {
            let number = wanted[0].layer as usize;
            let mut blob = self.layers[number].blob.open();
            let to_error = |problem| UnpackError::Layer { layer: number + 1, entry: None, problem };
            let stream = LayerStream::open(&mut blob, self.limits, &budget, &|_| {})
                .map_err(|error| to_error(LayerProblem::Read(error)))?;
            let mut reader = TarReader::new(stream);
            let mut ordinal = 0;
            for content in wanted {
                while ordinal <= content.entry {
                    reader.next(|| Ok(())).map_err(to_error)?.ok_or(LayerProblem::Truncated).map_err(to_error)?;
                    ordinal += 1;
                }
                self.spool(&mut reader, *content).map_err(to_error)?;
            }
            drop(reader);
            blob.finish().map_err(|error| to_error(LayerProblem::Read(error)))?;
        }
        Ok(())
    }
}

fn bytes_of(path: &Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

/// Returns whether an archive path is `prefix` or below it, comparing names only.
fn is_below(path: &[u8], prefix: &[u8]) -> bool {
    let names = |path| <[u8]>::split(path, |byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    let mut path = names(path);
    names(prefix).all(|name| path.next() == Some(name))
}
