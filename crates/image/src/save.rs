//! Takes images out of a store.

use std::fs;
use std::io;
use std::path::Path;

use crate::layout::{copy_blob, set_tag};
use crate::{Descriptor, Digest, Index, Manifest, Store, media_type};

/// The largest document that is read on the way.
const DOCUMENT_LIMIT: u64 = 64 << 20;

/// Lists an image in the `index.json` of the store that it lies in, in place of the one of that name.
///
/// # Errors
/// Fails when the list cannot be read or written.
pub fn name_image(store: &Store, name: Option<&str>, image: &Descriptor) -> io::Result<()> {
    set_tag(store, name, image)
}

/// Copies an image with all its blobs into another store.
///
/// What is there already is not copied again.
///
/// # Errors
/// Fails when a blob is missing or damaged, or cannot be written.
pub fn copy_image(from: &Store, image: &Descriptor, to: &Store) -> io::Result<()> {
    let mut pending = vec![image.clone()];
    let mut documents = Vec::new();
    while let Some(document) = pending.pop() {
        let content = from.read(&document.digest, DOCUMENT_LIMIT)?;
        if matches!(document.media_type.as_str(), media_type::OCI_INDEX | media_type::DOCKER_LIST) {
            let index: Index = serde_json::from_slice(&content).map_err(io::Error::other)?;
            pending.extend(index.manifests);
        } else {
            let manifest: Manifest = serde_json::from_slice(&content).map_err(io::Error::other)?;
            for blob in manifest.layers.iter().chain([&manifest.config]) {
                copy_one(from, &blob.digest, to)?;
            }
        }
        documents.push(document.digest);
    }
    // Whoever finds a document finds all that it names.
    documents.iter().rev().try_for_each(|document| copy_one(from, document, to))
}

/// Copies a blob into another store.
///
/// # Errors
/// Fails when it is missing or damaged, or cannot be written.
pub fn copy_one(from: &Store, digest: &Digest, to: &Store) -> io::Result<()> {
    let path = from.path_of(digest);
    copy_blob(&path, digest, to, u64::MAX - 1)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Copies an image into the OCI image layout at `path`, which is made if there is none.
///
/// # Errors
/// Fails when something cannot be read or written; a layout that was made for it is removed again.
pub fn save_layout(from: &Store, image: &Descriptor, path: &Path, name: Option<&str>) -> io::Result<()> {
    let existed = path.symlink_metadata().is_ok();
    if existed && !path.join("oci-layout").is_file() && fs::read_dir(path)?.next().is_some() {
        return Err(io::Error::other(format!("{} is neither empty nor an OCI image layout", path.display())));
    }
    let saved = Store::open(path).and_then(|to| {
        copy_image(from, image, &to)?;
        set_tag(&to, name, image)
    });
    if saved.is_err() && !existed {
        let _ = fs::remove_dir_all(path);
    }
    saved
}
