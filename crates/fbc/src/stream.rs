//! Reads the documents of a text outside of a catalog: templates, standard input.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use crate::documents::{EndOfDocuments, Splitter};
use crate::json::{self, JsonLayout, Raw, Text};
use crate::limits::Limits;
use crate::yaml;

/// The reason why a text is not a stream of documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StreamError {
    /// The byte offset in the text.
    pub offset: usize,
    /// The error.
    pub message: String,
}

/// Returns the documents of `text` as canonical JSON, regardless of their format.
///
/// # Errors
/// Fails at the first document that cannot be parsed.
pub fn documents(text: &[u8], limits: &Limits) -> Result<Vec<Text>, StreamError> {
    let mut found = Vec::new();
    let mut walk = Walk::new(text, limits);
    while let Some((document, json)) = walk.next(limits.documents + 1 - found.len())? {
        found.push(json);
        if found.len() > limits.documents {
            let message = format!("more than {} documents", limits.documents);
            return Err(StreamError { offset: document.offset, message });
        }
    }
    Ok(found)
}

/// The first document of a text, for single-document files.
#[derive(Debug, Clone, Copy)]
pub struct FirstDocument<'a> {
    /// The byte offset of its start in the text.
    pub offset: usize,
    text: &'a [u8],
    is_json: bool,
}

/// A duplicate key in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatedKey {
    pub key: String,
    /// The byte offset of the second occurrence in the text.
    pub offset: usize,
}

/// Returns the first non-empty document of `text`, with its canonical JSON.
///
/// Everything after it is ignored.
///
/// # Errors
/// Fails if that document cannot be parsed.
pub fn first<'a>(text: &'a [u8], limits: &Limits) -> Result<Option<(FirstDocument<'a>, Text)>, StreamError> {
    let mut walk = Walk::new(text, limits);
    loop {
        match walk.next(1)? {
            Some((first, json)) if json != "null" => return Ok(Some((first, json))),
            Some(_) => {}
            None => return Ok(None),
        }
    }
}

impl FirstDocument<'_> {
    /// Finds a duplicate key in an object of the document; when reading, the last one counts.
    pub fn repeated_key(&self) -> Option<RepeatedKey> {
        let found = if self.is_json {
            std::str::from_utf8(self.text).ok().and_then(|text| repeated_in_json(Raw::from_checked(text)))
        } else {
            yaml::repeated_key(self.text)
        };
        found.map(|(key, offset)| RepeatedKey { key, offset: self.offset + offset })
    }
}

/// Iterates over the documents of a text.
struct Walk<'a, 'l> {
    text: &'a [u8],
    limits: &'l Limits,
    splitter: Splitter,
    /// The start of the text that was not split yet.
    at: usize,
    /// Documents that were found but not returned yet, by position.
    waiting: VecDeque<(usize, Range<usize>, Option<Text>)>,
    /// Why a text that looks like JSON is not JSON.
    not_json: Option<StreamError>,
    /// What follows the waiting documents.
    end: Option<Result<(), StreamError>>,
}

impl<'a> Walk<'a, '_> {
    fn new<'l>(text: &'a [u8], limits: &'l Limits) -> Walk<'a, 'l> {
        // Leading blank lines are not a document.
        let unmarked = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        let at = text.len() - unmarked.trim_ascii_start().len();
        let splitter = Splitter::new(limits.depth);
        Walk { text, limits, splitter, at, waiting: VecDeque::new(), not_json: None, end: None }
    }

    /// Returns the next document with its canonical JSON, splitting off up to `most` documents if none is waiting.
    fn next(&mut self, most: usize) -> Result<Option<(FirstDocument<'a>, Text)>, StreamError> {
        while self.waiting.is_empty() {
            match self.end.take() {
                Some(Ok(())) => return Ok(None),
                Some(Err(error)) => return Err(self.not_json.take().unwrap_or(error)),
                None => self.split(most),
            }
        }
        let Some((offset, range, json)) = self.waiting.pop_front() else { return Ok(None) };
        let text = &self.text[range];
        let first = FirstDocument { offset, text, is_json: json.is_some() };
        if let Some(json) = json {
            return Ok(Some((first, json)));
        }
        let json = yaml::to_text(text, &self.limits.yaml()).map_err(|error| {
            let fault = StreamError { offset: offset + error.offset, message: format!("yaml: {error}") };
            self.not_json.take().unwrap_or(fault)
        })?;
        Ok(Some((first, json)))
    }

    fn split(&mut self, most: usize) {
        let at = self.at;
        let batch = self.splitter.step(&self.text[at..], true, most);
        for document in &batch.documents {
            match document {
                Ok(document) => {
                    let range = at + document.start..at + document.end;
                    self.waiting.push_back((
                        range.start,
                        range,
                        batch.json(document).map(|value| Text::canonical(value, JsonLayout::Compact)),
                    ));
                }
                Err(bad) => {
                    let error = StreamError { offset: at + bad.offset, message: format!("yaml: {bad}") };
                    self.end = Some(Err(error));
                    return;
                }
            }
        }
        self.at += batch.consumed;
        let moved = |error: &json::JsonSyntaxError| {
            json_fault(&json::JsonSyntaxError { offset: at + error.offset, ..error.clone() })
        };
        match &batch.end {
            EndOfDocuments::Text => self.end = Some(Ok(())),
            EndOfDocuments::Window => self.not_json = self.not_json.take().or(batch.not_json.as_ref().map(moved)),
            EndOfDocuments::Json(error) => self.end = Some(Err(moved(error))),
            EndOfDocuments::Utf8(offset) => {
                self.end = Some(Err(StreamError { offset: at + offset, message: "invalid UTF-8".into() }));
            }
        }
    }
}

/// Finds a duplicate key in an object.
fn repeated_in_json(document: Raw<'_>) -> Option<(String, usize)> {
    let mut waiting = vec![document];
    while let Some(value) = waiting.pop() {
        let mut keys = HashSet::new();
        for (key, inner) in value.members() {
            waiting.push(inner);
            if !keys.insert(key.clone()) {
                return Some((key.into_owned(), document.offset_of(inner)));
            }
        }
        waiting.extend(value.items());
    }
    None
}

fn json_fault(error: &json::JsonSyntaxError) -> StreamError {
    StreamError { offset: error.offset, message: format!("json: offset {}: {error}", error.offset) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_yaml_may_alternate() {
        let text = b"{\"b\":1,\"a\":2}\n---\nschema: x\n---\n[1]\n";
        assert_eq!(documents(text, &Limits::default()).unwrap(), [r#"{"a":2,"b":1}"#, r#"{"schema":"x"}"#, "[1]"]);
        assert_eq!(documents(b"", &Limits::default()).unwrap(), Vec::<Text>::new());
    }

    #[test]
    fn content_that_is_neither_json_nor_yaml_is_an_error_with_its_offset() {
        let error = documents(b"{\"a\":1}{\"b\":2}{\"c\"", &Limits::default()).unwrap_err();
        assert_eq!((error.offset, error.message.as_str()), (18, "json: offset 18: unexpected end of JSON input"));
    }

    fn first_of(text: &str) -> String {
        match first(text.as_bytes(), &Limits::default()) {
            Ok(None) => "nothing".into(),
            Ok(Some((first, json))) => match first.repeated_key() {
                None => json.into_string(),
                Some(RepeatedKey { key, offset }) => format!("{json}, {key} at {offset}"),
            },
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn content_after_the_first_document_is_ignored() {
        assert_eq!(first_of("# licence\n---\na: 1\n---\nb: [\n"), r#"{"a":1}"#);
        assert_eq!(first_of("{\"b\": 1, \"a\": 2} }"), r#"{"a":2,"b":1}"#);
        assert_eq!(first_of("{b: 1}"), r#"{"b":1}"#);
        assert_eq!(first_of("# only\n---\n"), "nothing");
        assert_eq!(first_of("{\"a\": [}"), "json: offset 7: invalid character '}' looking for beginning of value");
    }

    #[test]
    fn duplicate_keys_are_found() {
        assert_eq!(first_of("a:\n- b: 1\n  c: {b: 2}\n  b: 3\n"), r#"{"a":[{"b":3,"c":{"b":2}}]}, b at 24"#);
        assert_eq!(first_of(r#"{"a":{"c":1},"b":[{"a":1,"a":2}]}"#), r#"{"a":{"c":1},"b":[{"a":2}]}, a at 29"#);
    }
}
