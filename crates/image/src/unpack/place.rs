//! Writes a finished tree to disk: directories and files first, then links.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::tree::{FileContent, NodeId, NodeKind, ROOT, Tree};
use super::{LayerProblem, UnpackError, UnpackedImage};

/// Returns the spool file of a content.
pub(super) fn spool_path(scratch: &Path, content: FileContent) -> PathBuf {
    scratch.join(format!("content/{}-{}", content.layer, content.entry))
}

/// Selects the nodes at `paths`, the targets of links in them, and their parent directories.
pub(super) fn choose(tree: &mut Tree, paths: &[Vec<u8>]) -> Result<Vec<bool>, LayerProblem> {
    let mut chosen = vec![false; tree.len()];
    let mut whole = vec![false; tree.len()];
    let mut pending = Vec::new();
    let follow = |tree: &mut Tree, from, path: &[u8], pending: &mut Vec<NodeId>, chosen: &mut Vec<bool>| {
        // A link loop counts as a dangling link.
        let resolved = match tree.resolve(from, path, true) {
            Err(LayerProblem::Loop) => return Ok(()),
            resolved => resolved?,
        };
        for mut node in resolved.links.into_iter().chain([resolved.node]) {
            while !std::mem::replace(&mut chosen[node as usize], true) {
                node = tree.node(node).parent;
            }
        }
        if resolved.missing.is_empty() {
            pending.push(resolved.node);
        }
        Ok(())
    };
    chosen[ROOT as usize] = true;
    for path in paths {
        // The path itself may be a link loop, which stays visible.
        let last = tree.resolve(ROOT, path, false).map(|resolved| resolved.node);
        if let Ok(mut node) = last {
            while !std::mem::replace(&mut chosen[node as usize], true) {
                node = tree.node(node).parent;
            }
        }
        follow(tree, ROOT, path, &mut pending, &mut chosen)?;
        while let Some(node) = pending.pop() {
            if std::mem::replace(&mut whole[node as usize], true) {
                continue;
            }
            chosen[node as usize] = true;
            match &tree.node(node).kind {
                NodeKind::Directory(children) => pending.extend(children.values()),
                NodeKind::Symlink(target) => {
                    let (target, parent) = (target.clone(), tree.node(node).parent);
                    follow(tree, parent, &target, &mut pending, &mut chosen)?;
                }
                NodeKind::File(_) | NodeKind::Removed => {}
            }
        }
    }
    Ok(chosen)
}

/// Returns the contents of the selected files.
pub(super) fn contents(tree: &Tree, chosen: &[bool]) -> BTreeSet<FileContent> {
    let nodes = (0..tree.len() as NodeId).filter(|id| chosen[*id as usize]);
    let contents = nodes.filter_map(|id| match tree.node(id).kind {
        NodeKind::File(content) => Some(content),
        _ => None,
    });
    contents.collect()
}

/// Creates the tree at `root` in the scratch directory.
pub(super) fn place(
    tree: &mut Tree,
    chosen: Option<&[bool]>,
    spooled: &BTreeMap<FileContent, u64>,
    scratch: &Path,
) -> Result<UnpackedImage, UnpackError> {
    let mut unpacked = UnpackedImage::default();
    let mut placed: HashMap<FileContent, PathBuf> = HashMap::new();
    let mut links = Vec::new();
    let mut pending = vec![(ROOT, scratch.join("root"))];
    while let Some((id, path)) = pending.pop() {
        let failed = |error| UnpackError::Io { path: path.clone(), error };
        match &tree.node(id).kind {
            NodeKind::Directory(children) => {
                if id != ROOT {
                    DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
                    unpacked.made += 1;
                }
                let children = children.iter().filter(|(_, child)| chosen.is_none_or(|all| all[**child as usize]));
                pending.extend(children.map(|(name, child)| (*child, path.join(OsStr::from_bytes(name)))));
            }
            NodeKind::File(content) => {
                match placed.get(content) {
                    Some(first) => fs::hard_link(first, &path).map_err(failed)?,
                    None => {
                        fs::rename(spool_path(scratch, *content), &path).map_err(failed)?;
                        unpacked.bytes += spooled.get(content).copied().unwrap_or_default();
                        placed.insert(*content, path);
                    }
                }
                unpacked.made += 1;
            }
            NodeKind::Symlink(_) => links.push((id, path)),
            NodeKind::Removed => {}
        }
    }
    for (id, path) in links {
        let text = link_text(tree, id, &path);
        std::os::unix::fs::symlink(OsStr::from_bytes(&text), &path)
            .map_err(|error: io::Error| UnpackError::Io { path: path.clone(), error })?;
        unpacked.made += 1;
    }
    Ok(unpacked)
}

/// Returns the link text that has the same target on disk as in the image.
fn link_text(tree: &mut Tree, id: NodeId, path: &Path) -> Vec<u8> {
    let NodeKind::Symlink(text) = &tree.node(id).kind else { return Vec::new() };
    let text = text.to_vec();
    let parent = tree.node(id).parent;
    // A link loop, or a link through too many others, becomes a link to itself.
    let Ok(resolved) = tree.resolve(parent, &text, true) else {
        return path.file_name().unwrap_or_default().as_bytes().to_vec();
    };
    if !resolved.rooted {
        return text;
    }
    let mut names: Vec<&[u8]> = resolved.missing.first().map(|name| &**name).into_iter().collect();
    let mut node = resolved.node;
    while node != ROOT {
        names.push(&tree.node(node).name);
        node = tree.node(node).parent;
    }
    names.extend((0..tree.depth(parent)).map(|_| &b".."[..]));
    names.reverse();
    if names.is_empty() { b".".to_vec() } else { names.join(&b'/') }
}
