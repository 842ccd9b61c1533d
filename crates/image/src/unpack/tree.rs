//! The file tree of an image, kept in memory while layers are applied.
//!
//! No archive path is ever resolved on disk: names and links are resolved here, where `..` stops at the root, and
//! contents stay in numbered files until every layer is applied.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{LayerProblem, UnpackLimits};

/// Maximum number of links to follow to one file, as in the kernel.
const MAX_LINKS: usize = 40;

/// Maximum number of steps of all resolutions: about 400 for each of the maximum number of entries.
const MAX_STEPS: u64 = 200_000_000;

/// Maximum length of a file name, as in common file systems.
const MAX_NAME: usize = 255;

pub(super) type NodeId = u32;

/// The root directory.
pub(super) const ROOT: NodeId = 0;

#[derive(Debug)]
pub(super) struct FileNode {
    pub(super) name: Rc<[u8]>,
    pub(super) parent: NodeId,
    depth: u32,
    /// The layer that created it; for a directory, the last layer with an entry in it.
    layer: u32,
    pub(super) kind: NodeKind,
}

#[derive(Debug, Clone)]
pub(super) enum NodeKind {
    Directory(BTreeMap<Rc<[u8]>, NodeId>),
    File(FileContent),
    Symlink(Box<[u8]>),
    /// Removed: no node refers to it.
    Removed,
}

/// The content of a file. Hard-linked files share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileContent {
    pub(super) layer: u32,
    /// The index of the entry in its layer.
    pub(super) entry: u32,
}

/// A resolved path.
#[derive(Debug)]
pub(super) struct Resolved {
    /// The last existing node.
    pub(super) node: NodeId,
    /// The missing names after it.
    pub(super) missing: Vec<Box<[u8]>>,
    /// Whether the path is absolute or climbed above the root: it has another target on disk.
    pub(super) rooted: bool,
    /// The links that were followed.
    pub(super) links: Vec<NodeId>,
}

pub(super) struct Tree {
    nodes: Vec<FileNode>,
    steps: u64,
    entries: u64,
    limits: UnpackLimits,
}

impl Tree {
    pub(super) fn new(limits: &UnpackLimits) -> Tree {
        let root =
            FileNode { name: [].into(), parent: ROOT, depth: 0, layer: 0, kind: NodeKind::Directory(BTreeMap::new()) };
        Tree { nodes: vec![root], steps: 0, entries: 0, limits: limits.clone() }
    }

    pub(super) fn node(&self, id: NodeId) -> &FileNode {
        &self.nodes[id as usize]
    }

    /// Counts an entry, explicit or implied.
    pub(super) fn count_entry(&mut self) -> Result<(), LayerProblem> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(LayerProblem::Entries(self.limits.entries));
        }
        Ok(())
    }

    /// Splits an archive path into names, without empty ones and dots. `..` removes the name before it.
    pub(super) fn clean<'a>(&self, path: &'a [u8]) -> Result<Vec<&'a [u8]>, LayerProblem> {
        if path.len() > self.limits.path_length {
            return Err(LayerProblem::PathLength(self.limits.path_length));
        }
        if path.contains(&0) {
            return Err(LayerProblem::Name("it contains a NUL byte"));
        }
        let mut names: Vec<&[u8]> = Vec::new();
        for name in path.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => drop(names.pop().ok_or(LayerProblem::Name("it leaves the image"))?),
                _ if name.len() > MAX_NAME => return Err(LayerProblem::Name("a component is longer than 255 bytes")),
                _ => names.push(name),
            }
        }
        if names.len() > self.limits.depth {
            return Err(LayerProblem::Depth(self.limits.depth));
        }
        Ok(names)
    }

    /// Resolves a path from `from`, following links; the last component only if `follow_last`.
    pub(super) fn resolve(&mut self, from: NodeId, path: &[u8], follow_last: bool) -> Result<Resolved, LayerProblem> {
        let mut pending: Vec<Box<[u8]>> = Vec::new();
        let mut rooted = path.starts_with(b"/");
        let mut at = if rooted { ROOT } else { from };
        let mut links = Vec::new();
        push_names(&mut pending, path);
        while let Some(name) = pending.pop() {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(LayerProblem::TooComplex);
            }
            if *name == *b".." {
                rooted |= at == ROOT;
                at = self.node(at).parent;
                continue;
            }
            let child = match &self.node(at).kind {
                NodeKind::Directory(children) => children.get(&*name).copied(),
                // A file has no children.
                _ => None,
            };
            let Some(child) = child else {
                pending.push(name);
                pending.reverse();
                return Ok(Resolved { node: at, missing: pending, rooted, links });
            };
            match &self.node(child).kind {
                NodeKind::Symlink(target) if follow_last || !pending.is_empty() => {
                    links.push(child);
                    if links.len() > MAX_LINKS || pending.len() > 2 * self.limits.path_length {
                        return Err(LayerProblem::Loop);
                    }
                    let target = target.clone();
                    if target.starts_with(b"/") {
                        rooted = true;
                        at = ROOT;
                    }
                    push_names(&mut pending, &target);
                }
                _ => at = child,
            }
        }
        Ok(Resolved { node: at, missing: Vec::new(), rooted, links })
    }

    /// Returns the directory at `names`, creating missing ones.
    pub(super) fn directory(&mut self, names: &[&[u8]], layer: u32) -> Result<NodeId, LayerProblem> {
        let resolved = self.resolve(ROOT, &names.join(&b'/'), true)?;
        let mut at = resolved.node;
        if !matches!(self.node(at).kind, NodeKind::Directory(_)) {
            return Err(LayerProblem::NotADirectory);
        }
        for name in resolved.missing {
            if *name == *b".." {
                at = self.node(at).parent;
                continue;
            }
            let existing = match &self.node(at).kind {
                NodeKind::Directory(children) => children.get(&*name).copied(),
                _ => None,
            };
            at = match existing {
                Some(child) if matches!(self.node(child).kind, NodeKind::Directory(_)) => child,
                // The path passes through a link again after `..`; no real layer needs that.
                Some(_) => return Err(LayerProblem::NotADirectory),
                None => {
                    self.count_entry()?;
                    self.put(at, &name, NodeKind::Directory(BTreeMap::new()), layer)?
                }
            };
        }
        Ok(at)
    }

    /// Returns the child with a name, without following links.
    pub(super) fn child(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        match &self.node(directory).kind {
            NodeKind::Directory(children) => children.get(name).copied(),
            _ => None,
        }
    }

    /// Adds a child, replacing an existing one; directories are merged.
    pub(super) fn put(
        &mut self,
        directory: NodeId,
        name: &[u8],
        kind: NodeKind,
        layer: u32,
    ) -> Result<NodeId, LayerProblem> {
        if name.len() > MAX_NAME {
            return Err(LayerProblem::Name("a component is longer than 255 bytes"));
        }
        let depth = self.node(directory).depth + 1;
        if depth as usize > self.limits.depth {
            return Err(LayerProblem::Depth(self.limits.depth));
        }
        if let Some(old) = self.child(directory, name) {
            if matches!((&self.node(old).kind, &kind), (NodeKind::Directory(_), NodeKind::Directory(_))) {
                self.touch(old, layer);
                return Ok(old);
            }
            self.remove(directory, name);
        }
        self.touch(directory, layer);
        let id = NodeId::try_from(self.nodes.len()).map_err(|_| LayerProblem::TooComplex)?;
        let name: Rc<[u8]> = name.into();
        self.nodes.push(FileNode { name: Rc::clone(&name), parent: directory, depth, layer, kind });
        if let NodeKind::Directory(children) = &mut self.nodes[directory as usize].kind {
            children.insert(name, id);
        }
        Ok(id)
    }

    /// Marks a directory and its ancestors as used by a layer.
    fn touch(&mut self, mut directory: NodeId, layer: u32) {
        while self.node(directory).layer != layer {
            self.nodes[directory as usize].layer = layer;
            directory = self.node(directory).parent;
        }
    }

    /// Removes a child and its subtree.
    pub(super) fn remove(&mut self, directory: NodeId, name: &[u8]) {
        let NodeKind::Directory(children) = &mut self.nodes[directory as usize].kind else { return };
        let mut doomed: Vec<NodeId> = children.remove(name).into_iter().collect();
        while let Some(id) = doomed.pop() {
            if let NodeKind::Directory(children) =
                std::mem::replace(&mut self.nodes[id as usize].kind, NodeKind::Removed)
            {
                doomed.extend(children.into_values());
            }
        }
    }

    /// Removes the entries of lower layers from a directory.
    pub(super) fn make_opaque(&mut self, directory: NodeId, layer: u32) {
        let mut directories = vec![directory];
        while let Some(directory) = directories.pop() {
            let NodeKind::Directory(children) = &self.node(directory).kind else { continue };
            let mut doomed = Vec::new();
            for (name, child) in children {
                let node = self.node(*child);
                let is_directory = matches!(node.kind, NodeKind::Directory(_));
                match node.layer < layer {
                    // A directory of this layer may still hold entries of lower layers.
                    false if is_directory => directories.push(*child),
                    false => {}
                    true => doomed.push(name.clone()),
                }
            }
            for name in doomed {
                self.remove(directory, &name);
            }
        }
    }

    /// Returns the number of nodes ever created: the highest ID plus one.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the depth of a node.
    pub(super) fn depth(&self, id: NodeId) -> u32 {
        self.node(id).depth
    }
}

/// Pushes the components of a path onto a stack, first on top.
fn push_names(pending: &mut Vec<Box<[u8]>>, path: &[u8]) {
    let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    pending.extend(names.rev().map(Into::into));
}
