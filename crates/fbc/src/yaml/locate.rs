//! Finding the place of a value in the text of its document.
//!
//! Positions are wanted only when something is wrong, so nothing is kept while
//! reading: the document is parsed once more into a tree of places.

use std::collections::HashMap;
use std::ops::Range;

use super::events::{Event, Fault, Parser, Span};
use super::read::{terminated, with_quotes_respelled};
use super::scalar;
use crate::json::Step;

/// Returns where the value at `path` stands in the document `text`, in bytes.
///
/// Keys match exactly or else without regard to ASCII case, and the last of
/// equals counts. The path goes through aliases to the anchored node, and
/// through merge keys for names that the mapping itself lacks.
pub fn locate(text: &[u8], path: &[Step]) -> Option<Range<usize>> {
    let tree = Tree::parse(text)?;
    let (_, value) = tree.find(path)?;
    Some(tree.range(value, text))
}

/// Returns where the key of the member at `path` stands in the document `text`, in bytes.
///
/// There is none if `path` ends with an index. Otherwise see [`locate`].
pub fn locate_key(text: &[u8], path: &[Step]) -> Option<Range<usize>> {
    let tree = Tree::parse(text)?;
    let (key, _) = tree.find(path)?;
    Some(tree.range(key?, text))
}

struct Node {
    span: Span,
    kind: NodeKind,
}

enum NodeKind {
    /// A scalar, with its text if it were a key.
    Scalar {
        key: Option<String>,
        merge: bool,
    },
    Sequence(Vec<usize>),
    /// Keys and values in turn.
    Mapping(Vec<usize>),
    /// The index of the anchored node.
    Alias(usize),
}

struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    fn parse(text: &[u8]) -> Option<Tree> {
        let (tree, respelled) = with_quotes_respelled(&terminated(text), Tree::parse_once);
        let mut tree = tree.ok()?;
        for node in &mut tree.nodes {
            let original = |offset| respelled.original(offset).min(text.len());
            node.span = original(node.span.start)..original(node.span.end);
        }
        Some(tree)
    }

    fn parse_once(text: &[u8]) -> Result<Tree, Fault> {
        let mut parser = Parser::new(text);
        let mut nodes: Vec<Node> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut anchors: HashMap<String, usize> = HashMap::new();
        loop {
            let (event, span) = parser.next_event()?;
            let (anchor, kind) = match event {
                Event::Scalar(scalar) => {
                    let key = scalar::value(&scalar).and_then(scalar::key).ok().map(|key| key.into_owned());
                    (scalar.anchor, NodeKind::Scalar { key, merge: scalar::is_merge_key(&scalar) })
                }
                Event::Alias(name) => {
                    let unknown = || Fault::new(span.start, "unknown anchor");
                    (None, NodeKind::Alias(*anchors.get(name).ok_or_else(unknown)?))
                }
                Event::SequenceStart { anchor } => (anchor, NodeKind::Sequence(Vec::new())),
                Event::MappingStart { anchor } => (anchor, NodeKind::Mapping(Vec::new())),
                Event::SequenceEnd | Event::MappingEnd => {
                    if let Some(index) = open.pop() {
                        nodes[index].span.end = span.end;
                    }
                    continue;
                }
                Event::DocumentStart { .. } => continue,
                Event::DocumentEnd | Event::StreamEnd => return Ok(Tree { nodes }),
            };
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

    /// Returns the index of the value at `path` and of its key.
    fn find(&self, path: &[Step]) -> Option<(Option<usize>, usize)> {
        let (mut key, mut value) = (None, 0);
        self.nodes.first()?;
        for step in path {
            (key, value) = match (step, self.kind(value)) {
                (Step::Key(name), NodeKind::Mapping(_)) => {
                    let (key, value) = self
                        .member(value, name, |a, b| a == b, 0)
                        .or_else(|| self.member(value, name, str::eq_ignore_ascii_case, 0))?;
                    (Some(key), value)
                }
                (Step::Index(index), NodeKind::Sequence(items)) => (None, *items.get(*index)?),
                _ => return None,
            };
        }
        Some((key, value))
    }

    /// Returns what a node is, aliases followed.
    fn kind(&self, index: usize) -> &NodeKind {
        match &self.nodes[index].kind {
            NodeKind::Alias(target) => &self.nodes[*target].kind,
            kind => kind,
        }
    }

    fn member(
        &self,
        mapping: usize,
        name: &str,
        equal: fn(&str, &str) -> bool,
        depth: usize,
    ) -> Option<(usize, usize)> {
        // Merge keys may lead in a circle.
        const MERGES: usize = 20;
        let NodeKind::Mapping(children) = self.kind(mapping) else { return None };
        let pairs = || children.chunks_exact(2).map(|pair| (pair[0], pair[1])).rev();
        let named =
            |key: &usize| matches!(self.kind(*key), NodeKind::Scalar { key: Some(key), .. } if equal(key, name));
        let merges = |key: &usize| matches!(self.nodes[*key].kind, NodeKind::Scalar { merge: true, .. });
        pairs().find(|(key, _)| !merges(key) && named(key)).or_else(|| {
            pairs().filter(|(key, _)| depth < MERGES && merges(key)).find_map(|(_, source)| match self.kind(source) {
                NodeKind::Sequence(items) => items.iter().find_map(|&item| self.member(item, name, equal, depth + 1)),
                _ => self.member(source, name, equal, depth + 1),
            })
        })
    }

    /// Returns the text range of a node without the white space that ends it.
    fn range(&self, index: usize, text: &[u8]) -> Range<usize> {
        let span = self.nodes[index].span.clone();
        span.start..span.start + text.get(span).unwrap_or_default().trim_ascii_end().len()
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

    fn at(path: &crate::json::Path) -> Option<(&'static str, &'static str)> {
        let value = locate(TEXT.as_bytes(), &path.0).map(|range| &TEXT[range])?;
        let key = locate_key(TEXT.as_bytes(), &path.0).map_or("", |range| &TEXT[range]);
        Some((key, value))
    }

    #[test]
    fn a_path_leads_to_key_and_value() {
        assert_eq!(at(&path!["schema"]), Some(("schema", "olm.channel")));
        assert_eq!(at(&path!["ä", "list", 1, "deep"]), Some(("deep", "\"ö\"")));
        assert_eq!(at(&path!["list", 0]), Some(("", "one")));
        assert_eq!(at(&path!["list", 1]), Some(("", "name: two\n  replaces: one")));
        assert_eq!(at(&path!["false"]), Some(("n", "1")));
        assert_eq!(at(&path![]).map(|(_, value)| value.len()), Some(TEXT.len() - 1));
        assert_eq!(at(&path!["list", 2]), None);
        assert_eq!(at(&path!["schema", "x"]), None);
    }

    #[test]
    fn names_match_exactly_or_without_regard_to_case() {
        assert_eq!(at(&path!["LIST", 1, "Name"]), Some(("name", "two")));
        let text = b"name: 1\nName: 2\nNAME: 3\nname: 4\n";
        assert_eq!(locate(text, &path!["name"].0), Some(30..31));
        assert_eq!(locate_key(text, &path!["nAme"].0), Some(24..28));
    }

    #[test]
    fn aliases_and_merges_are_followed() {
        assert_eq!(at(&path!["b"]), Some(("b", "*a")));
        assert_eq!(at(&path!["b", "name"]), Some(("Name", "x")));
        assert_eq!(at(&path!["c", "list", 0]), Some(("", "é")));
        assert_eq!(at(&path!["c", "more"]), Some(("more", "|\n    text")));
        assert_eq!(at(&path!["d", "k"]), Some(("k", "v")));
        assert_eq!(at(&path!["d", "z"]), None);
    }

    #[test]
    fn values_behind_an_escaped_single_quote_are_found() {
        let text = br#"{"a\'": "x\'y\'", "b": |}"#;
        assert_eq!(locate(text, &path!["b"].0), None);
        let text = br#"{"a\'": "x\'y\'", "b": 1}"#;
        assert_eq!(locate_key(text, &path!["a'"].0), Some(1..6));
        assert_eq!(locate(text, &path!["a'"].0), Some(8..16));
        assert_eq!(locate(text, &path!["b"].0), Some(23..24));
    }

    #[test]
    fn a_last_line_needs_no_break() {
        assert_eq!(locate(b"a: |\n  text", &path!["a"].0), Some(3..11));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_searched_without_a_panic(text in "[ab:{}\\[\\], \n&*<>|'\"-]{0,30}", index in 0..3usize) {
            for path in [path![], path!["a"], path!["b", index], path![index, "a", "b"]] {
                if let Some(range) = locate(text.as_bytes(), &path.0) {
                    proptest::prop_assert!(range.end <= text.len());
                }
                locate_key(text.as_bytes(), &path.0);
            }
        }
    }
}
