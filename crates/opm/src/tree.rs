//! Copies directories.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The maximum nesting of directories to copy.
const MAX_DEPTH: usize = 100;

/// Copies the content of `from` into the directory `to`, and overwrites existing files.
///
/// A symlink that stays in `from` is copied as a link. Any other is replaced by a copy of its target, which does not
/// exist at the destination. Dangling links are returned.
///
/// # Errors
/// Fails if a file cannot be read or written.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<Vec<PathBuf>> {
    let mut dangling = Vec::new();
    let root = from.canonicalize().map_err(|error| in_path(from, &error))?;
    copy_into(&root, &root, to, 0, &mut dangling)?;
    Ok(dangling)
}

fn copy_into(root: &Path, from: &Path, to: &Path, depth: usize, dangling: &mut Vec<PathBuf>) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(in_path(from, &io::Error::other("nested too deeply")));
    }
    let mut names: Vec<_> =
        fs::read_dir(from).map_err(|error| in_path(from, &error))?.collect::<io::Result<Vec<_>>>()?;
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|error| in_path(&source, &error))?;
        if kind.is_symlink() {
            let text = fs::read_link(&source).map_err(|error| in_path(&source, &error))?;
            if stays_inside(root, from, &text) {
                clear(&target)?;
                std::os::unix::fs::symlink(&text, &target).map_err(|error| in_path(&target, &error))?;
                continue;
            }
        }
        match fs::metadata(&source) {
            Ok(metadata) if metadata.is_dir() => {
                make_directory(&target)?;
                copy_into(root, &source, &target, depth + 1, dangling)?;
            }
            Ok(metadata) if metadata.is_file() => {
                clear(&target)?;
                let content = fs::File::open(&source).map_err(|error| in_path(&source, &error))?;
                let written = fs::File::create_new(&target).and_then(|mut file| io::copy(&mut &content, &mut file));
                written.map_err(|error| in_path(&target, &error))?;
            }
            Ok(_) => return Err(in_path(&source, &io::Error::other("neither a file nor a directory"))),
            Err(_) if kind.is_symlink() => dangling.push(source),
            Err(error) => return Err(in_path(&source, &error)),
        }
    }
    Ok(())
}

/// Returns whether a link in `directory` resolves to a path in `root` without leaving it.
fn stays_inside(root: &Path, directory: &Path, text: &Path) -> bool {
    let mut depth = directory.strip_prefix(root).map_or(0, |below| below.components().count());
    for part in text.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::CurDir => {}
            _ => return false,
        }
    }
    directory.join(text).canonicalize().is_ok_and(|real| real.starts_with(root))
}

/// Creates a directory, unless it exists.
fn make_directory(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => fs::remove_file(path).and_then(|()| fs::create_dir(path)).map_err(|error| in_path(path, &error)),
        Err(_) => fs::create_dir(path).map_err(|error| in_path(path, &error)),
    }
}

/// Removes a file or link, so that a later write does not follow it.
fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(in_path(path, &io::Error::other("a directory is in the way"))),
        Ok(_) => fs::remove_file(path).map_err(|error| in_path(path, &error)),
        Err(_) => Ok(()),
    }
}

/// Returns the parent directory of a path.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != OsStr::new("") => parent,
        _ => Path::new("."),
    }
}

pub(crate) fn in_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
