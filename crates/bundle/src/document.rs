//! Parses the text of a file to the JSON of its documents.

use fbc::Limits;
use fbc::documents::{EndOfDocuments, Splitter};
use fbc::json::{self, JsonLayout, PathStep, Raw, Text};
use fbc::spans::Spans;
use fbc::yaml::{self, BadSeparator, YamlError, YamlFault};
use serde_json::Value;

use crate::whole::Position;

/// Why a text has no readable documents.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The text is empty.
    #[error("file is empty")]
    Empty,
    /// A separator is followed by text; with its line, from 0.
    #[error("line {}: {source}", line + 1)]
    Separator {
        /// The line, from 0.
        line: usize,
        /// The error.
        source: BadSeparator,
    },
    /// A document is not YAML.
    #[error("line {}: {source}", line + 1)]
    Yaml {
        /// The line, from 0.
        line: usize,
        source: YamlError,
    },
    /// A document that looks like JSON is neither JSON nor YAML.
    #[error("json: offset {}: {source}", source.offset)]
    NotJson { source: json::JsonSyntaxError },
    /// A document after others is not JSON.
    #[error(transparent)]
    Json(#[from] json::JsonSyntaxError),
    /// The text is not UTF-8 from this byte on.
    #[error("invalid UTF-8 at byte {0}")]
    NotUtf8(usize),
    /// There are more documents than this.
    #[error("more than {0} documents")]
    TooMany(usize),
    /// A value cannot be represented.
    #[error(transparent)]
    Value(#[from] serde_json::Error),
}

impl DocumentError {
    /// Returns the position of a syntax error in YAML.
    pub(crate) fn position(&self) -> Option<Position> {
        match self {
            DocumentError::Separator { line, .. } => Some(Position { line: line + 1, column: 1 }),
            DocumentError::Yaml { line, source } => Some(Position { line: line + 1, column: source.column + 1 }),
            _ => None,
        }
    }

    /// Returns how to fix a syntax error, if its rule does not tell.
    pub(crate) fn help(&self) -> Option<&'static str> {
        match self {
            DocumentError::Yaml { source, .. } => match &source.fault {
                YamlFault::Tab(_) | YamlFault::Syntax("found character that cannot start any token") => {
                    Some("indent with spaces instead of tabs, and quote a value that starts with '@', '`' or '%'")
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// The first document of a file.
#[derive(Debug)]
pub(crate) struct LeadingDocument<'a> {
    pub(crate) body: DocumentBody<'a>,
    /// Whether another document follows.
    pub(crate) more: bool,
}

/// A document in the format of its file.
#[derive(Debug)]
pub(crate) enum DocumentBody<'a> {
    /// Valid JSON, as written.
    Json(Raw<'a>),
    /// Valid JSON in which replacement characters stand for invalid UTF-8.
    Replaced(Text),
    /// YAML that is not parsed yet.
    Yaml {
        text: &'a [u8],
        /// The zero-based line of the file on which the text starts.
        line: usize,
        /// Why the text is not JSON, if it looks like JSON.
        not_json: Option<json::JsonSyntaxError>,
    },
}

/// Finds the first document in the text of a file.
///
/// Text whose first character is `{` is JSON. If it does not parse, it may still be YAML in flow style.
pub(crate) fn first<'a>(text: &'a [u8], limits: &Limits) -> Result<LeadingDocument<'a>, DocumentError> {
    let mut splitter = Splitter::new(limits.depth);
    let mut not_json = None;
    let mut batch = splitter.step(text, true, 1);
    if matches!(batch.end, EndOfDocuments::Utf8(_)) && batch.documents.is_empty() {
        // Invalid UTF-8 is read as the replacement character.
        let json = String::from_utf8_lossy(text).into_owned();
        let mut splitter = Splitter::new(limits.depth);
        let batch = splitter.step(json.as_bytes(), true, 1);
        if let Some(value) = batch.documents.first().and_then(|document| batch.json(document.as_ref().ok()?)) {
            let more = json.as_bytes()[batch.consumed..].trim_ascii_start().first() == Some(&b'{');
            return Ok(LeadingDocument { body: DocumentBody::Replaced(value.into()), more });
        }
        not_json = batch.not_json;
    }
    if let Some(Ok(document)) = batch.documents.first()
        && let Some(value) = batch.lasting_json(document)
    {
        let more = text[batch.consumed..].trim_ascii_start().first() == Some(&b'{');
        return Ok(LeadingDocument { body: DocumentBody::Json(value), more });
    }
    let mut start = 0;
    if let Some(error) = batch.not_json.take() {
        not_json = Some(error);
        start = batch.consumed;
        batch = splitter.step(&text[start..], true, 1);
    }
    match batch.documents.first() {
        None => Err(DocumentError::Empty),
        Some(Err(error)) => {
            let line = lines(&text[..start]) + error.line;
            Err(DocumentError::Separator { line, source: error.clone() })
        }
        Some(Ok(document)) => {
            let line = lines(&text[..start + document.start]);
            let own = &text[start + document.start..start + document.end];
            let (own, rest) = split_at_end_mark(own);
            let mut more = has_content(rest);
            let mut at = start + batch.consumed;
            while !more && batch.end == EndOfDocuments::Window && batch.not_json.is_none() {
                batch = splitter.step(&text[at..], true, 1);
                let next = batch.documents.iter().flatten().next();
                more = next.is_some_and(|next| has_content(batch.text(next)));
                at += batch.consumed;
            }
            Ok(LeadingDocument { body: DocumentBody::Yaml { text: own, line, not_json }, more })
        }
    }
}

/// One of the documents of a file.
#[derive(Debug)]
pub(crate) struct FileDocument<'a> {
    pub(crate) body: DocumentBody<'a>,
    /// The zero-based line of the file on which it starts.
    pub(crate) line: usize,
    /// The byte offset of its text in the file.
    offset: usize,
}

/// Finds all non-empty documents in the text of a file.
pub(crate) fn all<'a>(text: &'a [u8], limits: &Limits) -> Result<Vec<FileDocument<'a>>, DocumentError> {
    let mut splitter = Splitter::new(limits.depth);
    let mut found = Vec::new();
    // Line counting continues where it stopped.
    let (mut counted, mut line) = (0, 0);
    let mut at = 0;
    loop {
        let batch = splitter.step(&text[at..], true, limits.documents.saturating_add(1));
        for document in &batch.documents {
            let document = document.as_ref().map_err(|error| DocumentError::Separator {
                line: lines(&text[..at]) + error.line,
                source: error.clone(),
            })?;
            let (start, end) = (at + document.start, at + document.end);
            line += lines(&text[counted..start]);
            counted = start;
            if let Some(value) = batch.lasting_json(document) {
                found.push(FileDocument { line, offset: start, body: DocumentBody::Json(value) });
                continue;
            }
            let (own, rest) = split_at_end_mark(&text[start..end]);
            let mut add = |text: &'a [u8], offset: usize, line: usize| {
                if has_content(text) {
                    found.push(FileDocument { body: DocumentBody::Yaml { text, line, not_json: None }, line, offset });
                }
            };
            add(own, start, line);
            add(rest, start + own.len(), line + lines(own));
        }
        if found.len() > limits.documents {
            return Err(DocumentError::TooMany(limits.documents));
        }
        at += batch.consumed;
        match batch.end {
            EndOfDocuments::Text => return Ok(found),
            EndOfDocuments::Window if batch.consumed > 0 || batch.not_json.is_some() => {}
            EndOfDocuments::Window => return Ok(found),
            EndOfDocuments::Json(error) => return Err(error.into()),
            EndOfDocuments::Utf8(offset) => return Err(DocumentError::NotUtf8(offset)),
        }
    }
}

/// Returns the spans of the values of a document.
pub(crate) fn spans(document: &FileDocument<'_>) -> Option<Spans> {
    match &document.body {
        DocumentBody::Json(value) => Some(Spans::of_json(*value)),
        DocumentBody::Replaced(text) => Some(Spans::of_json(text.raw())),
        DocumentBody::Yaml { text, .. } => Spans::of_yaml(text),
    }
}

/// The offsets of the line breaks of a text, so that positions of many findings cost no walk over the text each.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    /// Finds the line breaks of a text.
    pub(crate) fn of(text: &[u8]) -> Lines {
        Lines(memchr::memchr_iter(b'\n', text).collect())
    }

    fn position(&self, offset: usize) -> Position {
        let line = self.0.partition_point(|&end| end < offset);
        let start = line.checked_sub(1).map_or(0, |before| self.0[before] + 1);
        Position { line: line + 1, column: offset - start + 1 }
    }
}

/// Resolves a JSON pointer in a document to its position, given the line breaks of the text and the `spans` of values.
pub(crate) fn position(lines: &Lines, document: &FileDocument<'_>, spans: &Spans, pointer: &str) -> Option<Position> {
    let path: Vec<PathStep> = pointer
        .split('/')
        .skip(1)
        .map(|step| match step.parse() {
            Ok(index) => PathStep::Index(index),
            Err(_) => PathStep::Key(step.replace("~1", "/").replace("~0", "~").into()),
        })
        .collect();
    let offset = document.offset + spans.find_or_ancestor(&path)?.start;
    Some(lines.position(offset))
}

fn lines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}

/// Splits the text of a document after a line `...`, which ends it.
fn split_at_end_mark(text: &[u8]) -> (&[u8], &[u8]) {
    let ends = |&at: &usize| text.get(at + 4).is_none_or(u8::is_ascii_whitespace);
    match memchr::memmem::find_iter(text, b"\n...").find(ends) {
        Some(at) => text.split_at(at + 4),
        None => (text, b""),
    }
}

/// Returns whether a document contains more than blank lines, comments and its separator.
fn has_content(document: &[u8]) -> bool {
    document.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).any(|line| {
        let line = line.strip_prefix(b"---").unwrap_or(line).trim_ascii_start();
        !line.is_empty() && !line.starts_with(b"#")
    })
}

impl DocumentBody<'_> {
    /// Returns the document as canonical JSON of an object in a catalog: keys sorted, `<`, `>` and `&` escaped,
    /// integers beyond signed 64 bits as floats.
    pub(crate) fn to_json(&self, limits: &Limits) -> Result<Text, DocumentError> {
        Ok(self.to_plain_json(limits)?.for_html())
    }

    /// Returns the document as a value.
    pub(crate) fn to_value(&self, limits: &Limits) -> Result<Value, DocumentError> {
        Ok(serde_json::from_str(&self.to_plain_json(limits)?)?)
    }

    /// Returns the document as canonical JSON, without HTML escapes.
    fn to_plain_json(&self, limits: &Limits) -> Result<Text, DocumentError> {
        let (json, minus_zero) = match self {
            DocumentBody::Json(value) => (Text::canonical(*value, JsonLayout::Compact), false),
            DocumentBody::Replaced(text) => (Text::canonical(text.raw(), JsonLayout::Compact), false),
            DocumentBody::Yaml { text, line, not_json } => {
                let limits =
                    yaml::YamlLimits { depth: limits.depth, nodes: limits.yaml_nodes, bytes: limits.blob_size };
                let json = yaml::to_text(text, &limits).map_err(|source| match not_json {
                    Some(json) => DocumentError::NotJson { source: json.clone() },
                    None => DocumentError::Yaml { line: line + source.line, source },
                })?;
                // In YAML, minus zero is an integer; JSON already wrote it as a float.
                (json, true)
            }
        };
        Ok(json.with_64_bit_numbers(minus_zero))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        let limits = Limits::default();
        let json = first(text.as_bytes(), &limits).and_then(|first| first.body.to_json(&limits));
        json.map_or_else(|error| error.to_string(), Text::into_string)
    }

    #[test]
    fn objects_are_written_with_sorted_keys_and_escaped_for_html() {
        assert_eq!(json("b: <&>\na: x>\n"), r#"{"a":"x\u003e","b":"\u003c\u0026\u003e"}"#);
        assert_eq!(
            json(r#" {"b<":"\u2028é","a":[{"z":1,"y":"&"}]}"#),
            r#"{"a":[{"y":"\u0026","z":1}],"b\u003c":"\u2028é"}"#
        );
        assert_eq!(json("a: plain"), r#"{"a":"plain"}"#);
    }

    #[test]
    fn integers_beyond_64_bits_with_sign_are_floats() {
        let yaml = "[9223372036854775807, 9223372036854775808, -9223372036854775808, 18446744073709551616, '9223372036854775808\"']";
        assert_eq!(
            json(yaml),
            r#"[9223372036854775807,9223372036854776000,-9223372036854775808,18446744073709552000,"9223372036854775808\""]"#
        );
        assert_eq!(json(r#"{"a":12345678901234567890}"#), r#"{"a":12345678901234567000}"#);
        for shift in 0..40 {
            let text = format!("{{\"a\":\"{}\",\"b\":12345678901234567890}}", "x".repeat(shift));
            assert!(json(&text).ends_with("\"b\":12345678901234567000}"), "{shift}");
        }
    }

    #[test]
    fn minus_zero_is_an_integer_in_yaml_only() {
        assert_eq!(json("[-0.0, 'a:-0,', -0.5]"), r#"[0,"a:-0,",-0.5]"#);
        assert_eq!(json(r#"{"a":-0.0}"#), r#"{"a":-0}"#);
    }

    #[test]
    fn braces_open_json_or_yaml_in_flow_style() {
        assert_eq!(json("{kind: Foo,}"), r#"{"kind":"Foo"}"#);
        assert_eq!(json("\u{feff}{\"b\":1,\"a\":2}"), r#"{"a":2,"b":1}"#);
        assert_eq!(json("\u{feff}b: 1\n"), r#"{"b":1}"#);
        assert_eq!(json(""), "file is empty");
        assert_eq!(json("{\"a\": ]"), "json: offset 6: invalid character ']' looking for beginning of value");
    }

    #[test]
    fn the_document_ends_at_its_end_marker() {
        assert_eq!(json("a: b\n...\nc: [\n"), r#"{"a":"b"}"#);
        assert_eq!(json("a: |\n  b\n  ...\n"), r#"{"a":"b\n...\n"}"#);
        assert!(first(b"a: b\n... \nc: d\n", &Limits::default()).unwrap().more);
        assert!(!first(b"a: b\n...\n# end\n", &Limits::default()).unwrap().more);
    }

    #[test]
    fn faults_have_the_line_of_the_file() {
        assert_eq!(json("---\na: b\n c: [\n"), "line 3: mapping values are not allowed in this context");
        assert_eq!(json("--- a\nb: c\n"), "line 1: invalid Yaml document separator: a");
    }
}
