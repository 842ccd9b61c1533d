//! The places of values in the text of a document.

use std::ops::Range;

use fbc::json::Raw;
use fbc::limits::MAX_DEPTH;
use fbc::spans::{Sort, Spans, ValueAt};

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Its place in the text of the document.
    pub(crate) span: Range<usize>,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// A string.
    Str(String),
    List(Vec<Node>),
    Map(Vec<Member>),
    /// Anything else: a number, nothing, a reference to another value.
    Other,
}

/// A member of a map.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) key: Range<usize>,
    pub(crate) name: String,
    pub(crate) value: Node,
}

impl Node {
    /// Reads the text of a document; nothing when it cannot be read.
    pub(crate) fn parse(text: &str, json: bool) -> Option<Node> {
        let spans = match json {
            // Places are counted from the value, so nothing may stand before it.
            true if !text.starts_with(['{', '[']) => return None,
            true => Spans::of_json(Raw::parse(text, MAX_DEPTH).ok()?),
            false => Spans::of_yaml(text.as_bytes())?,
        };
        spans.root().map(node)
    }

    /// Returns the members of a map, or none.
    pub(crate) fn members(&self) -> &[Member] {
        match &self.kind {
            Kind::Map(members) => members,
            _ => &[],
        }
    }

    /// Returns the items of a list, or none.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the place among the members of the one called `name`: exactly, or but for case; of equals the last.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let members = self.members();
        members
            .iter()
            .rposition(|member| member.name == name)
            .or_else(|| members.iter().rposition(|member| member.name.eq_ignore_ascii_case(name)))
    }

    /// Returns the value of the member called `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.position(name).map(|at| &self.members()[at].value)
    }

    /// Returns the text of a string.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the string of the member called `name`, or an empty one.
    pub(crate) fn string(&self, name: &str) -> &str {
        self.get(name).and_then(Node::text).unwrap_or_default()
    }
}

/// Makes a node of a value, with all that is in it.
fn node(value: ValueAt<'_>) -> Node {
    let kind = match value.sort() {
        Sort::Str => Kind::Str(value.text().unwrap_or_default().to_owned()),
        Sort::List => Kind::List(value.items().map(node).collect()),
        Sort::Map => Kind::Map(value.members().map(|(key, value)| member(key, value)).collect()),
        Sort::Other => Kind::Other,
    };
    Node { span: value.span(), kind }
}

fn member(key: ValueAt<'_>, value: ValueAt<'_>) -> Member {
    let mut value = node(value);
    // Nothing at all stands where its key ends.
    if value.span.is_empty() {
        value.span = key.span().end..key.span().end;
    }
    // A key that is no string never matches.
    Member { key: key.span(), name: key.text().unwrap_or_default().to_owned(), value }
}
