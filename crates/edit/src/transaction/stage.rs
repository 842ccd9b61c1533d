//! Writes the edited catalog to the staging directory.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use rayon::prelude::*;

use super::{ChangedFile, NewContent};
use crate::error::{EditError, in_path};
use crate::journal::keep_owner;

/// Writes a copy of the catalog at `root`, which has these members, with the changes of `files` to `tree`.
///
/// Unchanged files are hard links if `link` is set, or else copies. What the catalog ignores is not touched.
pub(crate) fn stage(
    root: &Path,
    members: &[&Path],
    tree: &Path,
    files: &[ChangedFile],
    link: bool,
) -> Result<(), EditError> {
    let changed: HashMap<&Path, &ChangedFile> = files.iter().map(|file| (file.path.as_path(), file)).collect();
    fs::create_dir_all(tree).map_err(|error| in_path(tree, error))?;
    let unchanged: Vec<&Path> = members.iter().copied().filter(|path| !changed.contains_key(path)).collect();
    let make_parent = |target: &Path| fs::create_dir_all(target.parent().unwrap_or(tree));
    unchanged.par_iter().try_for_each(|path| {
        let (from, to) = (root.join(path), tree.join(path));
        let plain = fs::symlink_metadata(&from).is_ok_and(|metadata| metadata.is_file());
        let copied = make_parent(&to).and_then(|()| match link && plain && fs::hard_link(&from, &to).is_ok() {
            true => Ok(()),
            // Copies the target of a link, so that the tree is self-contained.
            false => fs::copy(&from, &to).map(|_| ()),
        });
        copied.map_err(|error| in_path(&from, error))
    })?;
    files.par_iter().try_for_each(|file| {
        let to = tree.join(&file.path);
        let from = root.join(&file.path);
        let written = match &file.content {
            NewContent::Text(text) => make_parent(&to).and_then(|()| fs::write(&to, text)),
            NewContent::CopyOf(path) => make_parent(&to).and_then(|()| fs::write(&to, fs::read(path)?)),
            NewContent::Removed => return Ok(()),
        };
        let written = written.and_then(|()| match fs::metadata(&from) {
            Ok(metadata) if file.exists => {
                keep_owner(&to, &metadata);
                fs::set_permissions(&to, metadata.permissions())
            }
            _ => Ok(()),
        });
        written.map_err(|error| in_path(&to, error))
    })
}
