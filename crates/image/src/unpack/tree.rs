//! The files of an image as they will be, kept in memory while layers are applied.
//!
//! No path of an archive is ever followed on disk: names and links are resolved here, where the
//! way up ends at the root, and contents lie in numbered files until every layer is applied.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{LayerProblem, UnpackLimits};

/// How many links may be passed on the way to one file, as in the kernel.
const MAX_LINKS: usize = 40;

/// How many steps all resolving together may take: some 400 for each of the most entries.
const MAX_STEPS: u64 = 200_000_000;

/// The longest name that file systems take.
const MAX_NAME: usize = 255;

pub(super) type NodeId = u32;

/// The root directory.
pub(super) const ROOT: NodeId = 0;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: Rc<[u8]>,
    pub(super) parent: NodeId,
    depth: u32,
    /// The layer that brought it; for a directory, the last that has something in it.
    layer: u32,
    pub(super) what: What,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Directory(BTreeMap<Rc<[u8]>, NodeId>),
    File(Content),
    Symlink(Box<[u8]>),
    /// Removed; nothing refers to it.
    Gone,
}

/// Where the content of a file is. Files that are linked to each other have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Content {
    pub(super) layer: u32,
    /// The number of the entry in its layer.
    pub(super) entry: u32,
}

/// Where a path leads.
#[derive(Debug)]
pub(super) struct Resolved {
    /// The last node that exists.
    pub(super) node: NodeId,
    /// What is missing behind it, from the first missing name on.
    pub(super) missing: Vec<Box<[u8]>>,
    /// Whether the way left the root or began anew at it: on disk it would lead elsewhere.
    pub(super) rooted: bool,
    /// The links on the way.
    pub(super) links: Vec<NodeId>,
}

pub(super) struct Tree {
    nodes: Vec<Node>,
    steps: u64,
    entries: u64,
    limits: UnpackLimits,
}

impl Tree {
    pub(super) fn new(limits: &UnpackLimits) -> Tree {
        let root = Node { name: [].into(), parent: ROOT, depth: 0, layer: 0, what: What::Directory(BTreeMap::new()) };
        Tree { nodes: vec![root], steps: 0, entries: 0, limits: limits.clone() }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// Counts an entry, or a directory that an entry only implies.
    pub(super) fn count_entry(&mut self) -> Result<(), LayerProblem> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(LayerProblem::Entries(self.limits.entries));
        }
        Ok(())
    }

    /// Splits a path of an archive into names, without empty ones and dots. `..` takes back the name before it.
    pub(super) fn clean<'a>(&self, path: &'a [u8]) -> Result<Vec<&'a [u8]>, LayerProblem> {
        if path.len() > self.limits.path_length {
            return Err(LayerProblem::PathLength(self.limits.path_length));
        }
        if path.contains(&0) {
            return Err(LayerProblem::Name("it holds a zero byte"));
        }
        let mut names: Vec<&[u8]> = Vec::new();
        for name in path.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => drop(names.pop().ok_or(LayerProblem::Name("it leads out of the image"))?),
                _ if name.len() > MAX_NAME => return Err(LayerProblem::Name("a part of it is longer than 255 bytes")),
                _ => names.push(name),
            }
        }
        if names.len() > self.limits.depth {
            return Err(LayerProblem::Depth(self.limits.depth));
        }
        Ok(names)
    }

    /// Follows a path from `from`, links included, the last one only if `follow_last`.
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
            let child = match &self.node(at).what {
                What::Directory(children) => children.get(&*name).copied(),
                // Nothing is behind a file.
                _ => None,
            };
            let Some(child) = child else {
                pending.push(name);
                pending.reverse();
                return Ok(Resolved { node: at, missing: pending, rooted, links });
            };
            match &self.node(child).what {
                What::Symlink(target) if follow_last || !pending.is_empty() => {
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

    /// Returns the directory that `names` lead to, making what is missing of it.
    pub(super) fn directory(&mut self, names: &[&[u8]], layer: u32) -> Result<NodeId, LayerProblem> {
        let resolved = self.resolve(ROOT, &names.join(&b'/'), true)?;
        let mut at = resolved.node;
        if !matches!(self.node(at).what, What::Directory(_)) {
            return Err(LayerProblem::NotADirectory);
        }
        for name in resolved.missing {
            if *name == *b".." {
                at = self.node(at).parent;
                continue;
            }
            let existing = match &self.node(at).what {
                What::Directory(children) => children.get(&*name).copied(),
                _ => None,
            };
            at = match existing {
                Some(child) if matches!(self.node(child).what, What::Directory(_)) => child,
                // The way goes through a link again, after `..`: nobody needs that.
                Some(_) => return Err(LayerProblem::NotADirectory),
                None => {
                    self.count_entry()?;
                    self.put(at, &name, What::Directory(BTreeMap::new()), layer)?
                }
            };
        }
        Ok(at)
    }

    /// Returns the child of that name, links not followed.
    pub(super) fn child(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        match &self.node(directory).what {
            What::Directory(children) => children.get(name).copied(),
            _ => None,
        }
    }

    /// Puts something under a name, in the place of whatever is there; two directories become one.
    pub(super) fn put(
        &mut self,
        directory: NodeId,
        name: &[u8],
        what: What,
        layer: u32,
    ) -> Result<NodeId, LayerProblem> {
        if name.len() > MAX_NAME {
            return Err(LayerProblem::Name("a part of it is longer than 255 bytes"));
        }
        let depth = self.node(directory).depth + 1;
        if depth as usize > self.limits.depth {
            return Err(LayerProblem::Depth(self.limits.depth));
        }
        if let Some(old) = self.child(directory, name) {
            if matches!((&self.node(old).what, &what), (What::Directory(_), What::Directory(_))) {
                self.touch(old, layer);
                return Ok(old);
            }
            self.remove(directory, name);
        }
        self.touch(directory, layer);
        let id = NodeId::try_from(self.nodes.len()).map_err(|_| LayerProblem::TooComplex)?;
        let name: Rc<[u8]> = name.into();
        self.nodes.push(Node { name: Rc::clone(&name), parent: directory, depth, layer, what });
        if let What::Directory(children) = &mut self.nodes[directory as usize].what {
            children.insert(name, id);
        }
        Ok(id)
    }

    /// Notes that a layer has something in a directory, and so in all above it.
    fn touch(&mut self, mut directory: NodeId, layer: u32) {
        while self.node(directory).layer != layer {
            self.nodes[directory as usize].layer = layer;
            directory = self.node(directory).parent;
        }
    }

    /// Removes a name with all that is below it.
    pub(super) fn remove(&mut self, directory: NodeId, name: &[u8]) {
        let What::Directory(children) = &mut self.nodes[directory as usize].what else { return };
        let mut doomed: Vec<NodeId> = children.remove(name).into_iter().collect();
        while let Some(id) = doomed.pop() {
            if let What::Directory(children) = std::mem::replace(&mut self.nodes[id as usize].what, What::Gone) {
                doomed.extend(children.into_values());
            }
        }
    }

    /// Removes what layers below `layer` have put into a directory.
    pub(super) fn make_opaque(&mut self, directory: NodeId, layer: u32) {
        let mut directories = vec![directory];
        while let Some(directory) = directories.pop() {
            let What::Directory(children) = &self.node(directory).what else { continue };
            let mut doomed = Vec::new();
            for (name, child) in children {
                let node = self.node(*child);
                let is_directory = matches!(node.what, What::Directory(_));
                match node.layer < layer {
                    // A directory of this layer may still hold things from below.
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

    /// Returns how many nodes there ever were: one more than the highest number.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns how deep a node lies.
    pub(super) fn depth(&self, id: NodeId) -> u32 {
        self.node(id).depth
    }
}

/// Puts the names of a path on a stack, the first on top.
fn push_names(pending: &mut Vec<Box<[u8]>>, path: &[u8]) {
    let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    pending.extend(names.rev().map(Into::into));
}
