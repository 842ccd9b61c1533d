//! Builds canonical JSON from the events of a document.
//!
//! No tree is built: values are written as they arrive. A mapping with unsorted keys is sorted when it ends, by moving
//! the text of its members. An anchored node is kept as JSON, so an alias is a copy of bytes, and its expanded size is
//! checked before it is copied.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::rc::Rc;

use super::events::Scalar;
use super::fault::YamlFault;
use super::read::YamlLimits;
use super::scalar::{self, ScalarValue};
use crate::json::members::{MemberSpan, compare, sort_members};
use crate::json::{self, Raw};

/// A collection being written.
struct Frame {
    /// The name of the collection's anchor.
    anchor: Option<Box<str>>,
    /// The start of the collection in the output.
    start: usize,
    /// The number of nodes counted before this one.
    nodes: usize,
    /// The depth of the deepest nested value.
    height: usize,
    kind: FrameKind,
}

enum FrameKind {
    Sequence,
    Mapping {
        /// Index of the first member in `Builder::members`.
        first: usize,
        /// Whether the keys so far are sorted and distinct.
        in_order: bool,
        next: Next,
    },
}

/// What a mapping expects next.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Key,
    Value,
    /// The value of a merge key.
    Merge,
}

/// An anchored node.
enum Anchor {
    /// The node has not ended yet.
    Open,
    Scalar {
        json: Rc<[u8]>,
        key: Result<Box<str>, YamlFault>,
    },
    Collection {
        json: Rc<[u8]>,
        nodes: usize,
        height: usize,
    },
}

/// Writes one document.
pub(super) struct Builder<'a> {
    limits: &'a YamlLimits,
    out: &'a mut Vec<u8>,
    start: usize,
    nodes: usize,
    /// The number of bytes kept for anchors.
    kept: usize,
    frames: Vec<Frame>,
    /// The members written so far of all open mappings.
    members: Vec<MemberSpan>,
    anchors: HashMap<Box<str>, Anchor>,
    /// Whether a mapping has equal keys.
    pub(super) repeated: bool,
}

impl<'a> Builder<'a> {
    /// Starts a document within `limits`, appended to `out`.
    pub(super) fn new(limits: &'a YamlLimits, out: &'a mut Vec<u8>) -> Builder<'a> {
        let start = out.len();
        Builder {
            limits,
            out,
            start,
            nodes: 0,
            kept: 0,
            frames: Vec::new(),
            members: Vec::new(),
            anchors: HashMap::new(),
            repeated: false,
        }
    }

    /// Starts a mapping.
    pub(super) fn open_mapping(&mut self, anchor: Option<&str>) -> Result<(), YamlFault> {
        let first = self.members.len();
        self.open(anchor, FrameKind::Mapping { first, in_order: true, next: Next::Key }, b'{')
    }

    /// Starts a sequence.
    pub(super) fn open_sequence(&mut self, anchor: Option<&str>) -> Result<(), YamlFault> {
        self.open(anchor, FrameKind::Sequence, b'[')
    }

    /// Writes a scalar, as a key or as a value.
    pub(super) fn scalar(&mut self, scalar: &Scalar<'_>) -> Result<(), YamlFault> {
        self.count(1)?;
        if self.waits_for_key() {
            if scalar::is_merge_key(scalar) {
                self.set_next(Next::Merge);
                return Ok(());
            }
            if scalar.plain || scalar.tag.is_some() || scalar.anchor.is_some() {
                let value = scalar::value(scalar)?;
                if let Some(name) = scalar.anchor {
                    self.keep_scalar(name, &value)?;
                }
                return self.key(&scalar::key(value)?);
            }
            return self.key(scalar.text);
        }
        self.before_value();
        let value_start = self.out.len();
        if scalar.plain || scalar.tag.is_some() || scalar.anchor.is_some() {
            let value = scalar::value(scalar)?;
            scalar::write_json(&value, self.out)?;
            if let Some(name) = scalar.anchor {
                self.keep_scalar(name, &value)?;
            }
        } else {
            json::write_str(self.out, scalar.text);
        }
        self.after_value(value_start)
    }

    fn keep_scalar(&mut self, name: &str, value: &ScalarValue<'_>) -> Result<(), YamlFault> {
        let mut json = Vec::new();
        // A value that JSON lacks is an error when used as a value; as a key it may be valid.
        scalar::write_json(value, &mut json).or_else(|fault| if self.waits_for_key() { Ok(()) } else { Err(fault) })?;
        self.keep(json.len())?;
        let key = scalar::key(value.clone()).map(|key| key.into_owned().into_boxed_str());
        self.anchors.insert(name.into(), Anchor::Scalar { json: json.into(), key });
        Ok(())
    }

    /// Writes a copy of an anchored node.
    pub(super) fn alias(&mut self, name: &str) -> Result<(), YamlFault> {
        let (json, nodes, height) = match self.anchors.get(name) {
            None => return Err(YamlFault::UnknownAnchor(name.to_owned())),
            Some(Anchor::Open) => return Err(YamlFault::Recursive(name.to_owned())),
            Some(Anchor::Scalar { json, key }) => {
                if self.waits_for_key() {
                    let key = key.clone()?;
                    self.count(1)?;
                    return self.key(&key);
                }
                (Rc::clone(json), 1, 0)
            }
            Some(Anchor::Collection { json, nodes, height }) => {
                if self.waits_for_key() {
                    return Err(YamlFault::CollectionKey);
                }
                if self.frames.len() + height > self.limits.depth {
                    return Err(YamlFault::TooDeep(self.limits.depth));
                }
                let size = self.out.len() - self.start + json.len();
                if self.nodes + nodes > self.limits.nodes || size > self.limits.bytes {
                    return Err(YamlFault::Aliasing);
                }
                (Rc::clone(json), *nodes, *height)
            }
        };
        self.count(nodes)?;
        if let Some(frame) = self.frames.last_mut() {
            frame.height = frame.height.max(height);
        }
        self.before_value();
        let value_start = self.out.len();
        self.out.extend_from_slice(&json);
        self.after_value(value_start)
    }

    fn open(&mut self, anchor: Option<&str>, kind: FrameKind, bracket: u8) -> Result<(), YamlFault> {
        if self.waits_for_key() {
            return Err(YamlFault::CollectionKey);
        }
        if self.frames.len() >= self.limits.depth {
            return Err(YamlFault::TooDeep(self.limits.depth));
        }
        let nodes = self.nodes;
        self.count(1)?;
        if let Some(name) = anchor {
            self.anchors.insert(name.into(), Anchor::Open);
        }
        self.before_value();
        let start = self.out.len();
        self.out.push(bracket);
        self.frames.push(Frame { anchor: anchor.map(Into::into), start, nodes, height: 0, kind });
        Ok(())
    }

    /// Ends the innermost collection.
    pub(super) fn close(&mut self) -> Result<(), YamlFault> {
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        match frame.kind {
            FrameKind::Sequence => self.out.push(b']'),
            FrameKind::Mapping { first, in_order, .. } => {
                if !in_order {
                    self.repeated |= sort_members(&self.members[first..], |out| out.push(b','), self.out);
                }
                self.members.truncate(first);
                self.out.push(b'}');
            }
        }
        let height = frame.height + 1;
        if let Some(name) = frame.anchor {
            let json: Rc<[u8]> = self.out[frame.start..].into();
            self.keep(json.len())?;
            self.anchors.insert(name, Anchor::Collection { json, nodes: self.nodes - frame.nodes, height });
        }
        if let Some(parent) = self.frames.last_mut() {
            parent.height = parent.height.max(height);
        }
        self.after_value(frame.start)
    }

    fn waits_for_key(&self) -> bool {
        matches!(self.frames.last(), Some(Frame { kind: FrameKind::Mapping { next: Next::Key, .. }, .. }))
    }

    fn set_next(&mut self, waits_for: Next) {
        if let Some(Frame { kind: FrameKind::Mapping { next, .. }, .. }) = self.frames.last_mut() {
            *next = waits_for;
        }
    }

    /// Writes a key of the innermost mapping.
    fn key(&mut self, key: &str) -> Result<(), YamlFault> {
        let start = self.begin_member();
        json::write_str(self.out, key);
        self.end_key(start);
        self.set_next(Next::Value);
        Ok(())
    }

    /// Writes the comma before a member, if any, and returns the start of the member.
    fn begin_member(&mut self) -> usize {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.len()
    }

    /// Records the member whose key starts at `start` and ends here, and writes the colon.
    fn end_key(&mut self, start: usize) {
        let key_end = self.out.len();
        let plain = !self.out[start..].contains(&b'\\');
        let member = MemberSpan { start, key_end, end: 0, plain };
        if let Some(Frame { kind: FrameKind::Mapping { first, in_order, .. }, .. }) = self.frames.last_mut()
            && let Some(previous) = self.members[*first..].last()
        {
            *in_order &= compare(previous, &member, self.out) == Ordering::Less;
        }
        self.out.push(b':');
        self.members.push(member);
    }

    fn before_value(&mut self) {
        if let Some(Frame { kind: FrameKind::Sequence, start, .. }) = self.frames.last()
            && self.out.len() > start + 1
        {
            self.out.push(b',');
        }
    }

    fn after_value(&mut self, value_start: usize) -> Result<(), YamlFault> {
        if self.out.len() - self.start > self.limits.bytes {
            return Err(YamlFault::TooLarge(self.limits.bytes));
        }
        match self.frames.last_mut() {
            Some(Frame { kind: FrameKind::Mapping { next: next @ Next::Value, .. }, .. }) => {
                *next = Next::Key;
                if let Some(member) = self.members.last_mut() {
                    member.end = self.out.len();
                }
                Ok(())
            }
            Some(Frame { kind: FrameKind::Mapping { next: next @ Next::Merge, .. }, .. }) => {
                *next = Next::Key;
                self.merge(value_start)
            }
            _ => Ok(()),
        }
    }

    /// Removes the value of a merge key and adds the members of its mappings.
    ///
    /// As in the existing tools, the position of a merge matters: it yields to later keys and overrides earlier ones.
    /// In a list, earlier mappings take precedence over later ones.
    #[cold]
    fn merge(&mut self, value_start: usize) -> Result<(), YamlFault> {
        let json = self.out.split_off(value_start);
        let text = String::from_utf8(json).unwrap_or_default();
        let value = Raw::from_checked(&text);
        let sources = match value.kind() {
            json::JsonKind::Object => vec![value],
            json::JsonKind::Array => value.items().collect(),
            _ => Vec::new(),
        };
        if value.kind() != json::JsonKind::Array && sources.is_empty()
            || sources.iter().any(|source| source.kind() != json::JsonKind::Object)
        {
            return Err(YamlFault::Merge);
        }
        for source in sources.into_iter().rev() {
            for (key, value) in source.members() {
                let start = self.begin_member();
                json::write_str(self.out, &key);
                self.end_key(start);
                self.out.extend_from_slice(value.text().as_bytes());
                if let Some(member) = self.members.last_mut() {
                    member.end = self.out.len();
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, nodes: usize) -> Result<(), YamlFault> {
        self.nodes += nodes;
        if self.nodes > self.limits.nodes {
            return Err(YamlFault::TooManyValues(self.limits.nodes));
        }
        Ok(())
    }

    fn keep(&mut self, bytes: usize) -> Result<(), YamlFault> {
        self.kept += bytes;
        if self.kept > self.limits.bytes {
            return Err(YamlFault::Anchors);
        }
        Ok(())
    }
}
