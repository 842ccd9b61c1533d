//! The directory of a set: an OCI layout of distinct blobs, with the lock and the catalogs.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{BlobRequest, Descriptor, Digest, ImageLimits, Parts, Reference, Store};

use crate::MirrorError;
use crate::error::{at, parse_digest};
use crate::lock::{self, Lock, LockedImage};

/// The annotation with the name of an image in a layout.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// Maximum number of source repositories per blob.
const SOURCES_PER_BLOB: usize = 4;

/// The directory of a set.
#[derive(Debug, Clone)]
pub struct SetDir {
    root: PathBuf,
}

/// An exclusive lock on a set for writing.
#[derive(Debug)]
pub struct WriteLock {
    _held: File,
}

/// All parts of the images of a set.
#[derive(Debug, Default)]
pub struct Inventory {
    /// Manifests and indexes.
    pub documents: BTreeMap<Digest, u64>,
    /// Configs and layers.
    pub blobs: BTreeMap<Digest, Descriptor>,
    /// The parts of each image, by its index in the list of images, including its referrers.
    pub by_image: Vec<Vec<Digest>>,
}

/// Manifests of images are not in the store: the images, each with the reason.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(|(image, cause)| format!("{image}: {cause}")).collect::<Vec<_>>().join("\n"))]
pub struct MissingManifests(Vec<(String, String)>);

impl Inventory {
    /// Collects the parts of images whose manifests are in the store.
    ///
    /// # Errors
    /// Fails with every image whose manifests are missing.
    pub fn of(store: &Store, images: &[LockedImage], limits: &ImageLimits) -> Result<Inventory, MissingManifests> {
        let mut inventory = Inventory::default();
        let mut missing = Vec::new();
        for image in images {
            for error in inventory.add(store, image, limits) {
                missing.push((image.source.clone(), error.to_string()));
            }
        }
        if missing.is_empty() { Ok(inventory) } else { Err(MissingManifests(missing)) }
    }

    /// Adds the parts of an image, and returns an error for each of its manifests that is missing.
    pub(crate) fn add(&mut self, store: &Store, image: &LockedImage, limits: &ImageLimits) -> Vec<image::Error> {
        let mut own = Vec::new();
        let mut errors = Vec::new();
        for (number, top) in image.tops().enumerate() {
            let platforms = if number == 0 { image.platforms() } else { Vec::new() };
            match Parts::of(store, &top, &platforms, limits) {
                Ok(parts) => {
                    self.documents.extend(parts.documents.iter().map(|it| (it.digest, it.size)));
                    own.extend(parts.documents.iter().chain(&parts.blobs).map(|it| it.digest));
                    self.blobs.extend(parts.blobs.into_iter().map(|it| (it.digest, it)));
                }
                Err(error) => errors.push(error),
            }
        }
        self.by_image.push(own);
        errors
    }

    /// Keeps the parts of some images, by their indexes.
    pub(crate) fn retain(&mut self, kept: impl Fn(usize) -> bool) {
        let mut number = 0..;
        self.by_image.retain(|_| number.next().is_some_and(&kept));
        let used: HashSet<Digest> = self.by_image.iter().flatten().copied().collect();
        self.documents.retain(|digest, _| used.contains(digest));
        self.blobs.retain(|digest, _| used.contains(digest));
    }

    /// Returns whether this is a part of an image.
    pub fn contains(&self, digest: &Digest) -> bool {
        self.blobs.contains_key(digest) || self.documents.contains_key(digest)
    }

    /// Returns the total size of all distinct parts in bytes.
    pub fn bytes(&self) -> u64 {
        let blobs: u64 = self.blobs.values().map(|blob| blob.size).sum();
        blobs + self.documents.values().sum::<u64>()
    }

    /// Returns the list of all parts with their sizes.
    pub fn list(&self) -> String {
        let mut all: BTreeMap<Digest, u64> = self.documents.clone();
        all.extend(self.blobs.iter().map(|(digest, blob)| (*digest, blob.size)));
        all.iter().map(|(digest, size)| format!("{digest} {size}\n")).collect()
    }

    /// Returns the blobs that a store lacks, each with its source images. A damaged blob is lacking.
    pub fn lacking(&self, store: &Store, images: &[LockedImage]) -> Vec<BlobRequest> {
        let all: Vec<Descriptor> = self.blobs.values().cloned().collect();
        let lacking = store.lacking(&all).into_iter();
        let mut lacking: Vec<BlobRequest> = lacking.map(|blob| BlobRequest { blob, from: Vec::new() }).collect();
        // Both are sorted by digest.
        for (image, parts) in images.iter().zip(&self.by_image) {
            let mut reference = None;
            for part in parts {
                let Ok(at) = lacking.binary_search_by(|one| one.blob.digest.cmp(part)) else { continue };
                let source = image.source.trim_start_matches("docker://");
                let parse = || Reference::parse(source).ok().map(Arc::new);
                let Some(own) = reference.get_or_insert_with(parse) else { break };
                let from = &mut lacking[at].from;
                let beside =
                    |other: &Arc<Reference>| (other.host(), other.repository()) == (own.host(), own.repository());
                if from.len() < SOURCES_PER_BLOB && !from.iter().any(beside) {
                    from.reserve_exact(1);
                    from.push(Arc::clone(own));
                }
            }
        }
        lacking
    }
}

impl SetDir {
    /// Opens a directory, creating it if needed.
    ///
    /// # Errors
    /// Fails when it cannot be created, or holds images but no set: opening a set deletes the blobs it does not need.
    pub fn open(root: &Path) -> Result<SetDir, MirrorError> {
        let foreign = ["oci-layout", "index.json", "blobs"].iter().any(|name| root.join(name).exists());
        if foreign && !root.join("mirror").is_dir() {
            return Err(MirrorError::ForeignDirectory(root.to_owned()));
        }
        fs::create_dir_all(root.join("mirror")).map_err(at(root))?;
        Ok(SetDir { root: root.to_owned() })
    }

    /// Opens an existing set.
    ///
    /// # Errors
    /// Fails when the directory holds no set.
    pub fn existing(root: &Path) -> Result<SetDir, MirrorError> {
        match root.join("mirror").is_dir() && root.join("oci-layout").is_file() {
            true => Ok(SetDir { root: root.to_owned() }),
            false => Err(MirrorError::NoSet(root.to_owned())),
        }
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of one of the set's own files.
    pub fn own(&self, name: &str) -> PathBuf {
        self.root.join("mirror").join(name)
    }

    /// Locks the set for writing.
    ///
    /// # Errors
    /// Fails when another process holds the lock.
    pub fn write(&self) -> Result<WriteLock, MirrorError> {
        let place = self.root.join("mirror");
        let file = File::open(&place).map_err(at(&place))?;
        match file.try_lock() {
            Ok(()) => Ok(WriteLock { _held: file }),
            Err(TryLockError::WouldBlock) => Err(MirrorError::Busy { path: self.root.clone(), holder: holder(&file) }),
            Err(TryLockError::Error(error)) => Err(at(&place)(error)),
        }
    }

    /// Reads the lock of a complete set.
    ///
    /// # Errors
    /// Fails when it is missing or invalid.
    pub fn lock(&self) -> Result<Lock, MirrorError> {
        read_lock(&self.own("lock.json"))
    }

    /// Writes one of the set's own files atomically.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub fn put(&self, name: &str, content: &[u8]) -> Result<(), MirrorError> {
        write_whole(&self.own(name), content)
    }

    /// Removes one of the set's own files, if it exists.
    ///
    /// # Errors
    /// Fails when it cannot be removed.
    pub fn drop(&self, name: &str) -> Result<(), MirrorError> {
        match fs::remove_file(self.own(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(name.as_ref())(error)),
            _ => Ok(()),
        }
    }

    /// Writes `index.json` with the images by their source names.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub fn put_index(&self, lock: &Lock, inventory: &Inventory) -> Result<(), MirrorError> {
        let size = |digest: &Digest| inventory.documents.get(digest).copied().unwrap_or_default();
        // A set has many images, so they are written one by one.
        let mut text = br#"{"schemaVersion":2,"manifests":["#.to_vec();
        let mut add = |entry: &Descriptor| -> Result<(), MirrorError> {
            if !text.ends_with(b"[") {
                text.push(b',');
            }
            Ok(serde_json::to_writer(&mut text, entry)?)
        };
        for image in &lock.images {
            let digest = image.digest()?;
            let mut entry = Descriptor::new(&image.media_type, digest, size(&digest));
            entry.annotations.insert(REF_NAME.into(), image.source.clone());
            entry.annotations.insert("io.containerd.image.name".into(), image.source.clone());
            add(&entry)?;
            for referrer in &image.referrers {
                let digest = parse_digest(&referrer.digest)?;
                let mut entry = Descriptor::new(image::media_type::OCI_MANIFEST, digest, size(&digest));
                if let Some(tag) = &referrer.tag {
                    entry.annotations.insert(REF_NAME.into(), tag.clone());
                }
                add(&entry)?;
            }
        }
        text.extend(b"]}");
        write_whole(&self.root.join("index.json"), &text)
    }

    /// Opens the store of the set.
    ///
    /// # Errors
    /// Fails when it cannot be created or written.
    pub fn store(&self) -> Result<Store, MirrorError> {
        Ok(Store::open(&self.root)?.durable())
    }

    /// Removes blobs that the set no longer needs, and partial downloads.
    ///
    /// # Errors
    /// Fails when one cannot be removed.
    pub(crate) fn sweep(&self, inventory: &Inventory) -> Result<(), MirrorError> {
        sweep(&self.root, inventory)?;
        for entry in fs::read_dir(self.root.join("partial")).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        let _ = fs::remove_dir(self.root.join("partial"));
        Ok(())
    }
}

/// Removes the blobs of a store that no image of a set needs.
///
/// # Errors
/// Fails when one cannot be removed.
pub(crate) fn sweep(store: &Path, inventory: &Inventory) -> Result<(), MirrorError> {
    let place = store.join("blobs/sha256");
    for entry in fs::read_dir(&place).map_err(at(&place))? {
        let entry = entry.map_err(at(&place))?;
        let digest = format!("sha256:{}", entry.file_name().to_string_lossy()).parse::<Digest>();
        if !digest.is_ok_and(|digest| inventory.contains(&digest)) {
            fs::remove_file(entry.path()).map_err(at(&place))?;
        }
    }
    Ok(())
}

/// Returns the process that holds the lock of a file, if the system reports it.
fn holder(file: &File) -> Option<String> {
    let inode = format!(":{}", file.metadata().ok()?.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // Such as `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`.
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let own = words.get(1) == Some(&"FLOCK") && words.get(5).is_some_and(|place| place.ends_with(&inode));
        own.then(|| words.get(4).map(|process| (*process).to_owned()))?
    })
}

/// Reads a lock from a file.
///
/// # Errors
/// Fails when it is missing or invalid.
pub fn read_lock(path: &Path) -> Result<Lock, MirrorError> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(at(path))?;
    file.take(lock::LIMIT + 1).read_to_end(&mut text).map_err(at(path))?;
    Lock::read(&text).map_err(|error| MirrorError::from(error).named(path.display()))
}

/// Writes a file atomically.
///
/// # Errors
/// Fails when it cannot be written.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), MirrorError> {
    let named = at(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(&named)?;
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let mut file = image::create_file(Path::new(&aside)).map_err(&named)?;
    let written = io::Write::write_all(&mut file, content).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&aside, path)) {
        let _ = fs::remove_file(&aside);
        return Err(named(error));
    }
    sync_directory(path.parent().unwrap_or(Path::new(""))).map_err(named)
}

/// Syncs a directory, so that its file names are durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    match File::open(directory)?.sync_all() {
        // Some network file systems do not support this; they persist names themselves.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        outcome => outcome,
    }
}
