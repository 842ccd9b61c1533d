//! The documents of one text, outside of any catalog: templates, standard input.

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
            if valid[at..].trim_ascii_start().is_empty() {
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

fn read_yaml(
    text: &[u8],
    start: usize,
    limits: &Limits,
    mut documents: Vec<String>,
) -> Result<Vec<String>, StreamError> {
    let rest = text[start..].trim_ascii_start();
    let start = text.len() - rest.len();
    for document in yaml::documents(&text[start..]) {
        let document = document
            .map_err(|error| StreamError { offset: start + error.offset, message: format!("yaml: {error}") })?;
        let mut out = Vec::new();
        yaml::to_json(document.text, &limits.yaml(), &mut out).map_err(|error| StreamError {
            offset: start + document.offset + error.offset,
            message: format!("yaml: {error}"),
        })?;
        documents.push(String::from_utf8_lossy(&out).into_owned());
        if documents.len() > limits.documents {
            let message = format!("more than {} documents", limits.documents);
            return Err(StreamError { offset: start + document.offset, message });
        }
    }
    Ok(documents)
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
}
