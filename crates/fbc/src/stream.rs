//! The documents of one text, outside of any catalog: templates, standard input.

use std::collections::HashSet;

use crate::json::{self, Layout, Raw, write_canonical};
use crate::limits::Limits;
use crate::yaml;

/// Why a text is no stream of documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StreamError {
    /// Where, in bytes from the start of the text.
    pub offset: usize,
    /// What is wrong.
    pub message: String,
}

/// Returns the documents of `text` as canonical JSON, whatever they are written in.
///
/// # Errors
/// Fails at the first document that cannot be read.
pub fn documents(text: &[u8], limits: &Limits) -> Result<Vec<String>, StreamError> {
    let skipped = if text.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
    let mut at = skipped;
    let mut documents = Vec::new();
    if text[at..].trim_ascii_start().first() == Some(&b'{') {
        let valid = std::str::from_utf8(text)
            .map_err(|error| StreamError { offset: error.valid_up_to(), message: "invalid UTF-8".into() })?;
        loop {
            if json::trim_start(&valid[at..]).is_empty() {
                return Ok(documents);
            }
            match json::check(valid, at, limits.depth) {
                Ok(range) => {
                    at = range.end;
                    documents.push(canonical(Raw::from_checked(&valid[range])));
                }
                // What starts as JSON may turn out to be YAML in its first two documents.
                Err(error) if documents.len() < 2 => {
                    return read_yaml(text, at, limits, documents).map_err(|_| json_fault(&error));
                }
                Err(error) => return Err(json_fault(&error)),
            }
            if documents.len() > limits.documents {
                return Err(StreamError { offset: at, message: format!("more than {} documents", limits.documents) });
            }
        }
    }
    read_yaml(text, at, limits, documents)
}

/// The first document of a text, for what is one document.
#[derive(Debug, Clone, Copy)]
pub struct First<'a> {
    /// Where it starts, in bytes from the start of the text.
    pub offset: usize,
    text: &'a [u8],
    is_json: bool,
}

/// A key that stands twice in one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// The key.
    pub key: String,
    /// Where the second one is, in bytes from the start of the text.
    pub offset: usize,
}

/// Returns the first document of `text` that holds anything, with its canonical JSON.
///
/// What follows it is not looked at.
///
/// # Errors
/// Fails when that document cannot be read.
pub fn first<'a>(text: &'a [u8], limits: &Limits) -> Result<Option<(First<'a>, String)>, StreamError> {
    let start = if text.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
    let mut fault = None;
    if text[start..].trim_ascii_start().first() == Some(&b'{') {
        let valid = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        match json::check(valid, start, limits.depth) {
            Ok(range) => {
                let first = First { offset: range.start, text: &text[range.clone()], is_json: true };
                return Ok(Some((first, canonical(Raw::from_checked(&valid[range])))));
            }
            Err(error) if error.offset >= valid.len() && valid.len() < text.len() => {
                fault = Some(StreamError { offset: valid.len(), message: "invalid UTF-8".into() });
            }
            Err(error) => fault = Some(json_fault(&error)),
        }
    }
    for document in yaml_documents(text, start, limits) {
        let (document, json) = document.map_err(|error| fault.take().unwrap_or(error))?;
        if json != "null" {
            return Ok(Some((First { offset: document.offset, text: document.text, is_json: false }, json)));
        }
    }
    Ok(None)
}

impl First<'_> {
    /// Finds a key that one of the document's objects has twice; reading lets the last one count.
    pub fn repeated_key(&self) -> Option<Repeated> {
        let found = if self.is_json {
            std::str::from_utf8(self.text).ok().and_then(|text| repeated_in_json(Raw::from_checked(text)))
        } else {
            yaml::repeated_key(self.text)
        };
        found.map(|(key, offset)| Repeated { key, offset: self.offset + offset })
    }
}

fn read_yaml(
    text: &[u8],
    start: usize,
    limits: &Limits,
    mut documents: Vec<String>,
) -> Result<Vec<String>, StreamError> {
    for document in yaml_documents(text, start, limits) {
        let (document, json) = document?;
        documents.push(json);
        if documents.len() > limits.documents {
            let message = format!("more than {} documents", limits.documents);
            return Err(StreamError { offset: document.offset, message });
        }
    }
    Ok(documents)
}

/// Walks the documents of the YAML from `start` on, each with its JSON and its place in all of `text`.
fn yaml_documents<'a, 'l>(
    text: &'a [u8],
    start: usize,
    limits: &'l Limits,
) -> impl Iterator<Item = Result<(yaml::Document<'a>, String), StreamError>> + use<'a, 'l> {
    let start = text.len() - text[start..].trim_ascii_start().len();
    yaml::documents(&text[start..]).map(move |document| {
        let mut document = document
            .map_err(|error| StreamError { offset: start + error.offset, message: format!("yaml: {error}") })?;
        document.offset += start;
        let mut out = Vec::new();
        yaml::to_json(document.text, &limits.yaml(), &mut out).map_err(|error| StreamError {
            offset: document.offset + error.offset,
            message: format!("yaml: {error}"),
        })?;
        Ok((document, String::from_utf8_lossy(&out).into_owned()))
    })
}

/// Finds a key that stands twice in one object.
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

fn canonical(raw: Raw<'_>) -> String {
    let mut out = Vec::new();
    write_canonical(raw, Layout::Compact, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn json_fault(error: &json::Error) -> StreamError {
    StreamError { offset: error.offset, message: format!("json: offset {}: {error}", error.offset) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_yaml_may_follow_each_other() {
        let text = b"{\"b\":1,\"a\":2}\n---\nschema: x\n---\n[1]\n";
        assert_eq!(documents(text, &Limits::default()).unwrap(), [r#"{"a":2,"b":1}"#, r#"{"schema":"x"}"#, "[1]"]);
        assert_eq!(documents(b"", &Limits::default()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_is_neither_is_an_error_with_its_place() {
        let error = documents(b"{\"a\":1}{\"b\":2}{\"c\"", &Limits::default()).unwrap_err();
        assert_eq!((error.offset, error.message.as_str()), (18, "json: offset 18: unexpected end of JSON input"));
    }

    fn first_of(text: &str) -> String {
        match first(text.as_bytes(), &Limits::default()) {
            Ok(None) => "nothing".into(),
            Ok(Some((first, json))) => match first.repeated_key() {
                None => json,
                Some(Repeated { key, offset }) => format!("{json}, {key} at {offset}"),
            },
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_follows_the_first_document_is_not_looked_at() {
        assert_eq!(first_of("# licence\n---\na: 1\n---\nb: [\n"), r#"{"a":1}"#);
        assert_eq!(first_of("{\"b\": 1, \"a\": 2} }"), r#"{"a":2,"b":1}"#);
        assert_eq!(first_of("{b: 1}"), r#"{"b":1}"#);
        assert_eq!(first_of("# only\n---\n"), "nothing");
        assert_eq!(first_of("{\"a\": [}"), "json: offset 7: invalid character '}' looking for beginning of value");
    }

    #[test]
    fn keys_that_stand_twice_are_told() {
        assert_eq!(first_of("a:\n- b: 1\n  c: {b: 2}\n  b: 3\n"), r#"{"a":[{"b":3,"c":{"b":2}}]}, b at 24"#);
        assert_eq!(first_of(r#"{"a":{"c":1},"b":[{"a":1,"a":2}]}"#), r#"{"a":{"c":1},"b":[{"a":2}]}, a at 29"#);
    }
}
