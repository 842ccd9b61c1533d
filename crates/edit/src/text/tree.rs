//! The places of values in the text of a document.

use std::ops::Range;

use fbc::json::{Kind as JsonKind, Raw};
use fbc::limits::MAX_DEPTH;
use fbc::yaml::events::{Event, Parser};
use fbc::yaml::scalar;

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
        if json { Some(from_json(text, Raw::parse(text, MAX_DEPTH).ok()?)) } else { from_yaml(text) }
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

fn from_json(whole: &str, value: Raw<'_>) -> Node {
    let base = Raw::from_checked(whole);
    let start = base.offset_of(value);
    let span = start..start + value.text().len();
    let kind = match value.kind() {
        JsonKind::String => Kind::Str(value.as_str().unwrap_or_default().into_owned()),
        JsonKind::Array => Kind::List(value.items().map(|item| from_json(whole, item)).collect()),
        JsonKind::Object => {
            let mut at = start + 1;
            let mut members = Vec::new();
            for (name, value) in value.members() {
                let value = from_json(whole, value);
                let before = &whole[at..value.span.start];
                let key = at + before.find('"').unwrap_or(0);
                let key_end = at + before.trim_end().trim_end_matches(':').trim_end().len();
                at = value.span.end;
                members.push(Member { key: key..key_end.max(key), name: name.into_owned(), value });
            }
            Kind::Map(members)
        }
        _ => Kind::Other,
    };
    Node { span, kind }
}

/// A collection that is not at its end.
enum Open {
    List(usize, Vec<Node>),
    Map(usize, Vec<Member>, Option<(Range<usize>, String)>),
}

fn from_yaml(text: &str) -> Option<Node> {
    let mut parser = Parser::new(text.as_bytes());
    let mut open: Vec<Open> = Vec::new();
    loop {
        let (event, span) = parser.next_event().ok()?;
        let node = match event {
            Event::DocumentStart { .. } => continue,
            Event::DocumentEnd | Event::StreamEnd => return None,
            Event::Alias(_) => Node { span, kind: Kind::Other },
            Event::Scalar(found) => {
                let span = span.start.min(text.len())..span.end.min(text.len());
                let end = span.start + text.get(span.clone())?.trim_ascii_end().len();
                let kind = match scalar::value(&found) {
                    Ok(scalar::Value::Str(text)) => Kind::Str(text.into_owned()),
                    // A key that is no string is none that is looked for.
                    _ => Kind::Other,
                };
                Node { span: span.start..end, kind }
            }
            Event::SequenceStart { .. } => {
                open.push(Open::List(span.start, Vec::new()));
                continue;
            }
            Event::MappingStart { .. } => {
                open.push(Open::Map(span.start, Vec::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let flow = |start: usize| matches!(text.as_bytes().get(start), Some(b'[' | b'{'));
                match open.pop()? {
                    Open::List(start, items) => {
                        let end = match items.last() {
                            Some(last) if !flow(start) => last.span.end,
                            _ => span.end.min(text.len()),
                        };
                        Node { span: start..end.max(start), kind: Kind::List(items) }
                    }
                    Open::Map(start, members, _) => {
                        let end = match members.last() {
                            Some(last) if !flow(start) => last.value.span.end,
                            _ => span.end.min(text.len()),
                        };
                        Node { span: start..end.max(start), kind: Kind::Map(members) }
                    }
                }
            }
        };
        match open.last_mut() {
            None => return Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, _, key @ None)) => {
                let name = node.text().unwrap_or_default().to_owned();
                *key = Some((node.span, name));
            }
            Some(Open::Map(_, members, key)) => {
                let (key, name) = key.take()?;
                let mut value = node;
                // Nothing at all stands where its key ends.
                if value.span.is_empty() {
                    value.span = key.end..key.end;
                }
                members.push(Member { key, name, value });
            }
        }
    }
}
