//! The values of a document with their spans.

use std::ops::Range;

use fbc::json::Raw;
use fbc::limits::MAX_DEPTH;
use fbc::spans::{Spans, ValueAt, ValueKind};

/// A value and its span.
#[derive(Debug, Clone)]
pub(crate) struct TreeNode {
    /// The span in the text of the document.
    pub(crate) span: Range<usize>,
    pub(crate) kind: TreeValue,
}

#[derive(Debug, Clone)]
pub(crate) enum TreeValue {
    Str(String),
    List(Vec<TreeNode>),
    Map(Vec<TreeMember>),
    /// Anything else: a number, null, an alias.
    Other,
}

/// A member of a map.
#[derive(Debug, Clone)]
pub(crate) struct TreeMember {
    pub(crate) key: Range<usize>,
    pub(crate) name: String,
    pub(crate) value: TreeNode,
}

impl TreeNode {
    /// Parses the text of a document; `None` if it is invalid.
    pub(crate) fn parse(text: &str, json: bool) -> Option<TreeNode> {
        let spans = match json {
            // Offsets count from the value, so the text must start with it.
            true if !text.starts_with(['{', '[']) => return None,
            true => Spans::of_json(Raw::parse(text, MAX_DEPTH).ok()?),
            false => Spans::of_yaml(text.as_bytes())?,
        };
        spans.root().map(node)
    }

    /// Returns the members of a map; empty for other kinds.
    pub(crate) fn members(&self) -> &[TreeMember] {
        match &self.kind {
            TreeValue::Map(members) => members,
            _ => &[],
        }
    }

    /// Returns the items of a list; empty for other kinds.
    pub(crate) fn items(&self) -> &[TreeNode] {
        match &self.kind {
            TreeValue::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the index of the member called `name`: an exact match, or one in another case; the last of several.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let members = self.members();
        members
            .iter()
            .rposition(|member| member.name == name)
            .or_else(|| members.iter().rposition(|member| member.name.eq_ignore_ascii_case(name)))
    }

    /// Returns the value of the member called `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&TreeNode> {
        self.position(name).map(|at| &self.members()[at].value)
    }

    /// Returns the content of a string.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            TreeValue::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the string of the member called `name`, or an empty string.
    pub(crate) fn string(&self, name: &str) -> &str {
        self.get(name).and_then(TreeNode::text).unwrap_or_default()
    }
}

/// Builds a node from a value, recursively.
fn node(value: ValueAt<'_>) -> TreeNode {
    let kind = match value.value_kind() {
        ValueKind::Str => TreeValue::Str(value.text().unwrap_or_default().to_owned()),
        ValueKind::List => TreeValue::List(value.items().map(node).collect()),
        ValueKind::Map => TreeValue::Map(value.members().map(|(key, value)| member(key, value)).collect()),
        ValueKind::Other => TreeValue::Other,
    };
    TreeNode { span: value.span(), kind }
}

fn member(key: ValueAt<'_>, value: ValueAt<'_>) -> TreeMember {
    let mut value = node(value);
    // A missing value is at the end of its key.
    if value.span.is_empty() {
        value.span = key.span().end..key.span().end;
    }
    // A key that is not a string never matches.
    TreeMember { key: key.span(), name: key.text().unwrap_or_default().to_owned(), value }
}
