//! The positions of the values of a document in its text.
//!
//! Positions are needed only for problems, so reading records none: the document is parsed again, once for all its
//! problems.

use std::collections::HashMap;
use std::ops::Range;

use crate::json::{JsonKind, PathStep, Raw};
use crate::limits::MAX_DEPTH;
use crate::yaml::YamlFault;
use crate::yaml::events::{Parser, Span, YamlEvent, YamlSyntaxError};
use crate::yaml::read::{terminated, with_quotes_rewritten};
use crate::yaml::scalar;

struct Node {
    span: Span,
    kind: NodeKind,
}

enum NodeKind {
    /// A scalar, with its text as a key.
    Scalar {
        key: Option<String>,
        /// Whether it is a string, so that its text is the key.
        string: bool,
        merge: bool,
    },
    Sequence(Vec<usize>),
    /// Alternating keys and values.
    Mapping(Vec<usize>),
    /// The index of the anchored node.
    Alias(usize),
}

/// The positions of a document's values.
pub struct Spans {
    nodes: Vec<Node>,
}

/// A value and its position.
#[derive(Clone, Copy)]
pub struct ValueAt<'a> {
    spans: &'a Spans,
    index: usize,
}

/// The kind of a [`ValueAt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// A string.
    Str,
    List,
    /// An object.
    Map,
    /// Anything else: a number, null, an alias.
    Other,
}

impl<'a> ValueAt<'a> {
    /// Returns its span in bytes, excluding trailing whitespace.
    pub fn span(self) -> Range<usize> {
        self.spans.nodes[self.index].span.clone()
    }

    /// Returns its kind, without following aliases.
    pub fn value_kind(self) -> ValueKind {
        match &self.spans.nodes[self.index].kind {
            NodeKind::Scalar { string: true, .. } => ValueKind::Str,
            NodeKind::Sequence(_) => ValueKind::List,
            NodeKind::Mapping(_) => ValueKind::Map,
            NodeKind::Scalar { .. } | NodeKind::Alias(_) => ValueKind::Other,
        }
    }

    /// Returns the content of a string.
    pub fn text(self) -> Option<&'a str> {
        match &self.spans.nodes[self.index].kind {
            NodeKind::Scalar { key, string: true, .. } => key.as_deref(),
            _ => None,
        }
    }

    /// Iterates over the items of a list; empty for other values.
    pub fn items(self) -> impl Iterator<Item = ValueAt<'a>> {
        let items = match &self.spans.nodes[self.index].kind {
            NodeKind::Sequence(items) => items.as_slice(),
            _ => &[],
        };
        items.iter().map(move |&index| ValueAt { spans: self.spans, index })
    }

    /// Iterates over the keys and values of an object in source order; empty for other values.
    pub fn members(self) -> impl Iterator<Item = (ValueAt<'a>, ValueAt<'a>)> {
        let members = match &self.spans.nodes[self.index].kind {
            NodeKind::Mapping(members) => members.as_slice(),
            _ => &[],
        };
        let at = move |index: usize| ValueAt { spans: self.spans, index };
        members.chunks_exact(2).map(move |pair| (at(pair[0]), at(pair[1])))
    }
}

impl Spans {
    /// Finds the values of a YAML document; `None` if it cannot be parsed.
    pub fn of_yaml(text: &[u8]) -> Option<Spans> {
        let (spans, rewritten) = with_quotes_rewritten(&terminated(text), Spans::parse_yaml);
        let mut spans = spans.ok()?;
        for node in &mut spans.nodes {
            let original = |offset| rewritten.original(offset).min(text.len());
            let span = original(node.span.start)..original(node.span.end);
            // Trailing whitespace is not part of a node.
            node.span = span.start..span.start + text.get(span).unwrap_or_default().trim_ascii_end().len();
        }
        Some(spans)
    }

    /// Finds the values of a JSON document.
    pub fn of_json(document: Raw<'_>) -> Spans {
        let mut spans = Spans { nodes: Vec::new() };
        spans.add_json(document, document);
        spans
    }

    /// Returns the root value; `None` if the document is empty.
    pub fn root(&self) -> Option<ValueAt<'_>> {
        (!self.nodes.is_empty()).then_some(ValueAt { spans: self, index: 0 })
    }

    /// Returns the span of the value at `path`, in bytes.
    pub fn find(&self, path: &[PathStep]) -> Option<Range<usize>> {
        let (value, rest) = self.walk(path)?;
        rest.is_empty().then(|| self.nodes[value].span.clone())
    }

    /// Returns the span of the value at `path` or, if there is none, of its nearest existing ancestor.
    ///
    /// Keys match exactly, or else regardless of ASCII case, and the last of several counts. The path follows aliases
    /// to the anchored node, and merge keys for names that the mapping itself lacks.
    pub fn find_or_ancestor(&self, path: &[PathStep]) -> Option<Range<usize>> {
        self.walk(path).map(|(value, _)| self.nodes[value].span.clone())
    }

    fn add_json(&mut self, document: Raw<'_>, value: Raw<'_>) -> usize {
        let start = document.offset_of(value);
        let index = self.nodes.len();
        let span = start..start + value.text().len();
        let string = value.as_str().map(std::borrow::Cow::into_owned);
        let scalar = NodeKind::Scalar { string: string.is_some(), key: string, merge: false };
        self.nodes.push(Node { span, kind: scalar });
        self.nodes[index].kind = match value.kind() {
            JsonKind::Array => NodeKind::Sequence(value.items().map(|item| self.add_json(document, item)).collect()),
            JsonKind::Object => {
                let mut members = Vec::new();
                let mut at = start + 1;
                for (key, value) in value.members() {
                    let between = &document.text()[at..document.offset_of(value)];
                    let opening = at + between.find('"').unwrap_or(0);
                    let closing = at + between.trim_end().trim_end_matches(':').trim_end().len();
                    at = document.offset_of(value) + value.text().len();
                    let key = NodeKind::Scalar { key: Some(key.into_owned()), string: true, merge: false };
                    members.push(self.nodes.len());
                    self.nodes.push(Node { span: opening..closing.max(opening), kind: key });
                    members.push(self.add_json(document, value));
                }
                NodeKind::Mapping(members)
            }
            _ => return index,
        };
        index
    }

    fn parse_yaml(text: &[u8]) -> Result<Spans, YamlSyntaxError> {
        let mut parser = Parser::new(text);
        let mut nodes: Vec<Node> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut anchors: HashMap<String, usize> = HashMap::new();
        loop {
            let (event, span) = parser.next_event()?;
            let (anchor, kind) = match event {
                YamlEvent::Scalar(scalar) => {
                    let value = scalar::value(&scalar);
                    let string = matches!(value, Ok(scalar::ScalarValue::Str(_)));
                    let key = value.and_then(scalar::key).ok().map(|key| key.into_owned());
                    (scalar.anchor, NodeKind::Scalar { key, string, merge: scalar::is_merge_key(&scalar) })
                }
                YamlEvent::Alias(name) => {
                    let unknown = || YamlSyntaxError::new(span.start, YamlFault::UnknownAnchor(name.to_owned()));
                    (None, NodeKind::Alias(*anchors.get(name).ok_or_else(unknown)?))
                }
                YamlEvent::SequenceStart { anchor } => (anchor, NodeKind::Sequence(Vec::new())),
                YamlEvent::MappingStart { anchor } => (anchor, NodeKind::Mapping(Vec::new())),
                YamlEvent::SequenceEnd | YamlEvent::MappingEnd => {
                    if let Some(index) = open.pop() {
                        let last = match &nodes[index].kind {
                            NodeKind::Sequence(children) | NodeKind::Mapping(children) => children.last(),
                            _ => None,
                        };
                        // A block collection ends with its last part; comments may follow it.
                        nodes[index].span.end = match last {
                            Some(&last) if span.is_empty() => nodes[last].span.end,
                            _ => span.end,
                        };
                    }
                    continue;
                }
                YamlEvent::DocumentStart { .. } => continue,
                YamlEvent::DocumentEnd | YamlEvent::StreamEnd => return Ok(Spans { nodes }),
            };
            // No document that can be read is deeper, and the parser takes time for each open level at every token.
            if open.len() > MAX_DEPTH {
                return Ok(Spans { nodes });
            }
            let index = nodes.len();
            if let Some(name) = anchor {
                anchors.insert(name.to_owned(), index);
            }
            if let Some(NodeKind::Sequence(children) | NodeKind::Mapping(children)) =
                open.last().map(|&parent| &mut nodes[parent].kind)
            {
                children.push(index);
            }
            if matches!(kind, NodeKind::Sequence(_) | NodeKind::Mapping(_)) {
                open.push(index);
            }
            nodes.push(Node { span, kind });
        }
    }

    /// Follows `path` as far as possible, and returns the value reached and the remaining steps.
    fn walk<'p>(&self, path: &'p [PathStep]) -> Option<(usize, &'p [PathStep])> {
        self.nodes.first()?;
        let mut value = 0;
        for (done, step) in path.iter().enumerate() {
            let next = match (step, self.kind(value)) {
                (PathStep::Key(name), NodeKind::Mapping(_)) => self
                    .member(value, name, |a, b| a == b, 0)
                    .or_else(|| self.member(value, name, str::eq_ignore_ascii_case, 0)),
                (PathStep::Index(index), NodeKind::Sequence(items)) => items.get(*index).copied(),
                _ => None,
            };
            match next {
                Some(next) => value = next,
                None => return Some((value, &path[done..])),
            }
        }
        Some((value, &[]))
    }

    /// Returns the kind of a node, following aliases.
    fn kind(&self, index: usize) -> &NodeKind {
        match &self.nodes[index].kind {
            NodeKind::Alias(target) => &self.nodes[*target].kind,
            kind => kind,
        }
    }

    fn member(&self, mapping: usize, name: &str, equal: fn(&str, &str) -> bool, depth: usize) -> Option<usize> {
        // Merge keys may form a cycle.
        const MAX_MERGES: usize = 20;
        let NodeKind::Mapping(children) = self.kind(mapping) else { return None };
        let pairs = || children.chunks_exact(2).map(|pair| (pair[0], pair[1])).rev();
        let named =
            |key: &usize| matches!(self.kind(*key), NodeKind::Scalar { key: Some(key), .. } if equal(key, name));
        let merges = |key: &usize| matches!(self.nodes[*key].kind, NodeKind::Scalar { merge: true, .. });
        pairs().find(|(key, _)| !merges(key) && named(key)).map(|(_, value)| value).or_else(|| {
            pairs().filter(|(key, _)| depth < MAX_MERGES && merges(key)).find_map(|(_, source)| {
                match self.kind(source) {
                    NodeKind::Sequence(items) => {
                        items.iter().find_map(|&item| self.member(item, name, equal, depth + 1))
                    }
                    _ => self.member(source, name, equal, depth + 1),
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path;

    const TEXT: &str = "\
schema: olm.channel
ä: &a
  Name: x  # note
  list: [é, {deep: \"ö\"}]
b: *a
c:
  <<: *a
  more: |
    text
d: &d
  <<: [*d, {k: v}]
list:
- one
- name: two
  replaces: one

n: 1
";

    fn locate(text: &[u8], path: &[PathStep]) -> Option<Range<usize>> {
        Spans::of_yaml(text)?.find(path)
    }

    fn at(path: &crate::json::JsonPath) -> Option<&'static str> {
        locate(TEXT.as_bytes(), &path.0).map(|range| &TEXT[range])
    }

    #[test]
    fn a_path_is_resolved_to_its_value() {
        assert_eq!(at(&path!["schema"]), Some("olm.channel"));
        assert_eq!(at(&path!["ä", "list", 1, "deep"]), Some("\"ö\""));
        assert_eq!(at(&path!["list", 0]), Some("one"));
        assert_eq!(at(&path!["list", 1]), Some("name: two\n  replaces: one"));
        assert_eq!(at(&path!["false"]), Some("1"));
        assert_eq!(at(&path![]).map(str::len), Some(TEXT.len() - 1));
        assert_eq!(at(&path!["list", 2]), None);
        assert_eq!(at(&path!["schema", "x"]), None);
    }

    #[test]
    fn a_missing_value_is_located_by_its_parent() {
        let spans = Spans::of_yaml(TEXT.as_bytes()).unwrap();
        let holder = |path: crate::json::JsonPath| &TEXT[spans.find_or_ancestor(&path.0).unwrap()];
        assert_eq!(holder(path!["list", 2, "name"]), "- one\n- name: two\n  replaces: one");
        assert_eq!(holder(path!["schema", "x"]), "olm.channel");
        assert_eq!(holder(path!["list", 0]), "one");
    }

    #[test]
    fn a_document_is_followed_no_deeper_than_it_can_be_read() {
        let deep = format!("a: 1\nb: {}", "[".repeat(200_000));
        let spans = Spans::of_yaml(deep.as_bytes()).unwrap();
        assert!(spans.nodes.len() <= MAX_DEPTH + 10, "{}", spans.nodes.len());
        assert_eq!(spans.find(&path!["a"].0), Some(3..4));
    }

    #[test]
    fn values_of_json_are_located_like_values_of_yaml() {
        let text = r#" {"a": {"B": [1, {"c": "x"}]}, "a": {"b": [2, {"C": "é"}]}}"#;
        let document = Raw::parse(text.trim(), 10).unwrap();
        let found = |path: crate::json::JsonPath| &text.trim()[Spans::of_json(document).find(&path.0).unwrap()];
        assert_eq!(found(path!["a", "B", 1, "c"]), "\"é\"");
        assert_eq!(found(path!["a", "b", 0]), "2");
    }

    #[test]
    fn names_match_exactly_or_without_regard_to_case() {
        assert_eq!(at(&path!["LIST", 1, "Name"]), Some("two"));
        let text = b"name: 1\nName: 2\nNAME: 3\nname: 4\n";
        assert_eq!(locate(text, &path!["name"].0), Some(30..31));
        assert_eq!(locate(text, &path!["nAme"].0), Some(30..31));
    }

    #[test]
    fn aliases_and_merges_are_followed() {
        assert_eq!(at(&path!["b"]), Some("*a"));
        assert_eq!(at(&path!["b", "name"]), Some("x"));
        assert_eq!(at(&path!["c", "list", 0]), Some("é"));
        assert_eq!(at(&path!["c", "more"]), Some("|\n    text"));
        assert_eq!(at(&path!["d", "k"]), Some("v"));
        assert_eq!(at(&path!["d", "z"]), None);
    }

    #[test]
    fn values_after_an_escaped_single_quote_are_located() {
        let text = br#"{"a\'": "x\'y\'", "b": |}"#;
        assert_eq!(locate(text, &path!["b"].0), None);
        let text = br#"{"a\'": "x\'y\'", "b": 1}"#;
        assert_eq!(locate(text, &path!["a'"].0), Some(8..16));
        assert_eq!(locate(text, &path!["b"].0), Some(23..24));
    }

    #[test]
    fn the_last_line_needs_no_line_break() {
        assert_eq!(locate(b"a: |\n  text", &path!["a"].0), Some(3..11));
    }

    proptest::proptest! {
        #[test]
        fn locating_in_any_text_does_not_panic(text in "[ab:{}\\[\\], \n&*<>|'\"-]{0,30}", index in 0..3usize) {
            for path in [path![], path!["a"], path!["b", index], path![index, "a", "b"]] {
                if let Some(range) = locate(text.as_bytes(), &path.0) {
                    proptest::prop_assert!(range.end <= text.len());
                }
            }
        }
    }
}
