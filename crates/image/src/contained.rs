//! Resolves paths inside a directory with untrusted content.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Maximum number of symbolic links to follow, as in the kernel.
const MAX_LINKS: usize = 40;

/// Resolves `path` inside `root` as if `root` were the root of the file system.
///
/// Symbolic links are followed, absolute ones from `root`, and `..` stops at `root`. The result contains no link, so
/// opening it stays inside.
///
/// # Errors
/// Fails when `path` does not exist or its links form a loop.
pub fn contained(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut pending: Vec<OsString> = Vec::new();
    let mut names: Vec<OsString> = Vec::new();
    let mut links = 0;
    push(&mut pending, path);
    // The caller owns the root, which may be a link itself.
    fs::metadata(root)?;
    while let Some(name) = pending.pop() {
        if name == ".." {
            names.pop();
            continue;
        }
        let here = root.join(names.iter().collect::<PathBuf>());
        let next = here.join(&name);
        if fs::symlink_metadata(&next)?.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                let text = format!("{}: too many levels of symbolic links", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            let target = fs::read_link(&next)?;
            if target.is_absolute() {
                names.clear();
            }
            push(&mut pending, &target);
        } else {
            names.push(name);
        }
    }
    Ok(root.join(names.iter().collect::<PathBuf>()))
}

fn push(pending: &mut Vec<OsString>, path: &Path) {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    });
    let names: Vec<OsString> = names.collect();
    pending.extend(names.into_iter().rev());
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_path_leads_outside() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("root");
        fs::create_dir_all(root.join("data/sub")).unwrap();
        fs::write(scratch.path().join("secret"), "outside").unwrap();
        fs::write(root.join("data/file"), "inside").unwrap();
        fs::write(root.join("secret"), "inside").unwrap();
        symlink("/data", root.join("absolute")).unwrap();
        symlink("data/sub", root.join("relative")).unwrap();
        symlink("../../../../secret", root.join("data/climbing")).unwrap();
        symlink(scratch.path().join("secret"), root.join("leaving")).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        let find = |path: &str| {
            contained(&root, Path::new(path)).map(|found| found.strip_prefix(&root).unwrap().to_path_buf())
        };
        for (path, found) in [
            ("/data/file", "data/file"),
            ("data//./file", "data/file"),
            ("absolute/file", "data/file"),
            ("relative/../file", "data/file"),
            ("../../data/file", "data/file"),
            ("data/climbing", "secret"),
            ("/", ""),
            ("..", ""),
        ] {
            assert_eq!(find(path).unwrap(), PathBuf::from(found), "{path}");
        }
        for path in ["leaving", "circle", "data/none", "data/file/none"] {
            find(path).unwrap_err();
        }
    }
}
