//! Finds the documents of a text and their formats.
//!
//! Every reader of catalog text uses a [`Splitter`]: loading files in windows, locating problems, reading templates and
//! bundles, editing. It accepts the text in windows of any size and yields the documents of the whole text, so that all
//! readers agree on document boundaries.
//!
//! A text is JSON if the first character in its first 4 KiB is `{`; it is then a sequence of JSON values. If one of the
//! first two values is not valid JSON, the text is read as YAML from there on, since flow style looks the same.

use std::ops::Range;

use crate::json::{self, JsonErrorKind, LongValue, Raw};
use crate::write::Format;
use crate::yaml::{self, BadSeparator};

/// The number of bytes that decide between JSON and YAML.
const FORMAT_PREFIX: usize = 4096;
/// The byte order mark, which is ignored.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// After this many valid JSON values, the text is treated as JSON for good.
const CONFIRMING_VALUES: usize = 2;

/// A document, by its position in the text passed to [`Splitter::step`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The start offset.
    pub start: usize,
    /// The start of the content: after the separator that opens some YAML documents.
    pub body: usize,
    /// The end offset.
    pub end: usize,
    pub format: Format,
    /// The range of its entries in the list of long values.
    spans: Range<usize>,
}

impl Document {
    /// Returns the range of the content.
    pub fn range(&self) -> Range<usize> {
        self.body..self.end
    }
}

/// The reason why there are no more documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndOfDocuments {
    /// The text ended.
    Text,
    /// The text continues in the next window, or the requested number of documents was found.
    Window,
    /// The text is not valid JSON at this point.
    Json(json::JsonSyntaxError),
    /// The text is not valid UTF-8 at this offset, in the middle of JSON.
    Utf8(usize),
}

/// The documents of a window.
#[derive(Debug)]
pub struct Batch<'t> {
    /// The documents, in order; a bad separator stands for the text that it makes unreadable.
    pub documents: Vec<Result<Document, BadSeparator>>,
    /// The number of consumed bytes; the next window starts there.
    pub consumed: usize,
    /// What follows the documents.
    pub end: EndOfDocuments,
    /// Why the text is not JSON although it looks like it; further batches contain YAML.
    pub not_json: Option<json::JsonSyntaxError>,
    window: &'t [u8],
    /// The valid UTF-8 prefix of the window, for JSON.
    valid: &'t str,
    spans: Vec<LongValue>,
}

impl<'t> Batch<'t> {
    /// Returns the text of a document of this batch, including its opening separator.
    pub fn text(&self, document: &Document) -> &[u8] {
        &self.window[document.start..document.end]
    }

    /// Returns the value of a JSON document of this batch; `None` for YAML.
    pub fn json(&self, document: &Document) -> Option<Raw<'_>> {
        let spans = self.spans.get(document.spans.clone())?;
        (document.format == Format::Json).then(|| Raw::from_indexed(self.valid, document.range(), spans))
    }

    /// Returns the same value with the lifetime of the text, without the list of long values.
    pub fn lasting_json(&self, document: &Document) -> Option<Raw<'t>> {
        (document.format == Format::Json).then(|| Raw::from_checked(&self.valid[document.range()]))
    }
}

/// Finds the documents of a text, one window at a time.
#[derive(Debug, Clone)]
pub struct Splitter {
    max_depth: usize,
    state: SplitterState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SplitterState {
    Start,
    /// After the byte order mark.
    Marked,
    /// In JSON, after this many values.
    Json(usize),
    Yaml,
}

impl Splitter {
    /// Creates a splitter for a text.
    pub fn new(max_depth: usize) -> Splitter {
        Splitter { max_depth, state: SplitterState::Start }
    }

    /// Returns the format of the text, if it is known yet.
    pub fn format(&self) -> Option<Format> {
        match self.state {
            SplitterState::Start | SplitterState::Marked => None,
            SplitterState::Json(_) => Some(Format::Json),
            SplitterState::Yaml => Some(Format::Yaml),
        }
    }

    /// Returns the complete documents of a window, at most `most` of them.
    ///
    /// The window starts at the consumed offset of the previous one, and `ended` is set if the text ends with it. If
    /// nothing is consumed, the next window has to be larger.
    pub fn step<'t>(&mut self, text: &'t [u8], ended: bool, most: usize) -> Batch<'t> {
        let mut skipped = 0;
        if self.state == SplitterState::Start {
            if !ended && text.len() < BYTE_ORDER_MARK.len() {
                return Batch::empty(text);
            }
            skipped = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
            self.state = SplitterState::Marked;
        }
        if self.state == SplitterState::Marked {
            let prefix = &text[skipped..text.len().min(skipped + FORMAT_PREFIX)];
            if !ended && prefix.len() < FORMAT_PREFIX {
                return Batch { consumed: skipped, ..Batch::empty(text) };
            }
            let json = prefix.trim_ascii_start().first() == Some(&b'{');
            self.state = if json { SplitterState::Json(0) } else { SplitterState::Yaml };
        }
        match self.state {
            SplitterState::Json(values) => self.json(text, skipped, ended, most, values),
            _ => yaml(text, skipped, ended, most),
        }
    }

    fn json<'t>(&mut self, text: &'t [u8], from: usize, ended: bool, most: usize, mut values: usize) -> Batch<'t> {
        let (valid, damaged) = match std::str::from_utf8(text) {
            Ok(valid) => (valid, false),
            Err(error) => {
                // A character that is split by the end of the window is not an error.
                let damaged = error.error_len().is_some() || ended;
                (std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(), damaged)
            }
        };
        let mut batch = Batch { consumed: from, valid, ..Batch::empty(text) };
        loop {
            let rest = json::trim_start(&valid[batch.consumed..]);
            if rest.is_empty() {
                batch.consumed = valid.len();
                batch.end = match (damaged, ended) {
                    (true, _) => EndOfDocuments::Utf8(valid.len()),
                    (false, true) => EndOfDocuments::Text,
                    (false, false) => EndOfDocuments::Window,
                };
                break;
            }
            if batch.documents.len() == most {
                break;
            }
            let first_span = batch.spans.len();
            match json::check_indexed(valid, batch.consumed, self.max_depth, &mut batch.spans) {
                Ok(Range { start, end }) => {
                    let spans = first_span..batch.spans.len();
                    batch.documents.push(Ok(Document { start, body: start, end, format: Format::Json, spans }));
                    batch.consumed = end;
                    values += 1;
                }
                Err(error) => {
                    batch.spans.truncate(first_span);
                    if error.kind == JsonErrorKind::End && damaged {
                        batch.end = EndOfDocuments::Utf8(valid.len());
                    } else if error.kind == JsonErrorKind::End && !ended {
                        batch.end = EndOfDocuments::Window;
                    } else if values < CONFIRMING_VALUES {
                        let space = rest.len() - rest.trim_ascii_start().len();
                        batch.consumed = valid.len() - rest.len() + space;
                        batch.not_json = Some(error);
                        self.state = SplitterState::Yaml;
                        return batch;
                    } else {
                        batch.end = EndOfDocuments::Json(error);
                    }
                    break;
                }
            }
        }
        self.state = SplitterState::Json(values);
        batch
    }
}

fn yaml(text: &[u8], from: usize, ended: bool, most: usize) -> Batch<'_> {
    let window = &text[from..];
    let everything = yaml::Cut { end: window.len(), next: window.len() };
    let Some(cut) = (if ended { Some(everything) } else { yaml::cut(window) }) else {
        return Batch { consumed: from, ..Batch::empty(text) };
    };
    let mut batch = Batch { consumed: from + cut.next, ..Batch::empty(text) };
    let mut found = yaml::documents(&window[..cut.end]);
    for document in found.by_ref() {
        if batch.documents.len() == most {
            // The next window starts at the first remaining document.
            let at = document.as_ref().map_or_else(|bad| bad.offset, |document| document.offset);
            batch.consumed = from + at;
            return batch;
        }
        batch.documents.push(
            document
                .map(|document| {
                    let start = from + document.offset;
                    let end = start + document.text.len();
                    let opened = document.text.starts_with(b"---");
                    let line =
                        || memchr::memchr(b'\n', document.text).map_or(document.text.len(), |newline| newline + 1);
                    let body = if opened { start + line() } else { start };
                    Document { start, body, end, format: Format::Yaml, spans: 0..0 }
                })
                .map_err(|bad| BadSeparator { offset: from + bad.offset, ..bad }),
        );
    }
    batch.end = if ended { EndOfDocuments::Text } else { EndOfDocuments::Window };
    batch
}

impl<'t> Batch<'t> {
    fn empty(window: &'t [u8]) -> Batch<'t> {
        let (documents, spans) = (Vec::new(), Vec::new());
        Batch { documents, consumed: 0, end: EndOfDocuments::Window, not_json: None, window, valid: "", spans }
    }
}

/// The reason why a text cannot be split.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The text is not valid JSON at this point.
    #[error("json: {0}")]
    Json(json::JsonSyntaxError),
    /// The text is not valid UTF-8 at this offset.
    #[error("invalid UTF-8")]
    Utf8(usize),
    /// A line starts like a separator but continues differently.
    #[error("yaml: {0}")]
    Separator(BadSeparator),
}

/// Returns the documents of a complete text.
///
/// # Errors
/// Fails if a part of the text belongs to no document.
pub fn of(text: &[u8], max_depth: usize) -> Result<Vec<Document>, SplitError> {
    let mut splitter = Splitter::new(max_depth);
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let batch = splitter.step(&text[at..], true, usize::MAX);
        for document in batch.documents {
            let Document { start, body, end, format, .. } =
                document.map_err(|bad| SplitError::Separator(BadSeparator { offset: at + bad.offset, ..bad }))?;
            found.push(Document { start: at + start, body: at + body, end: at + end, format, spans: 0..0 });
        }
        at += batch.consumed;
        match batch.end {
            EndOfDocuments::Window if batch.not_json.is_some() => {}
            EndOfDocuments::Text | EndOfDocuments::Window => return Ok(found),
            EndOfDocuments::Json(error) => {
                return Err(SplitError::Json(json::JsonSyntaxError {
                    offset: at - batch.consumed + error.offset,
                    ..error
                }));
            }
            EndOfDocuments::Utf8(offset) => return Err(SplitError::Utf8(at - batch.consumed + offset)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content range of a document, and its format.
    type Place = (usize, usize, Format);

    /// The documents and bad separators of a text, and its end.
    #[derive(Debug, Default, PartialEq)]
    struct Found {
        documents: Vec<(usize, Option<Place>)>,
        not_json: Option<usize>,
        end: Option<(&'static str, usize)>,
    }

    fn found(text: &[u8], window: usize, most: usize) -> Found {
        let mut splitter = Splitter::new(50);
        let mut all = Found::default();
        let (mut at, mut wanted) = (0, window);
        loop {
            let end = text.len().min(at + wanted);
            let ended = end == text.len();
            let batch = splitter.step(&text[at..end], ended, most);
            for document in &batch.documents {
                all.documents.push(match document {
                    Ok(document) => {
                        if let Some(value) = batch.json(document) {
                            assert!(Raw::parse(value.text(), 50).is_ok());
                        }
                        (at + document.start, Some((at + document.body, at + document.end, document.format)))
                    }
                    Err(bad) => (at + bad.offset, None),
                });
            }
            all.not_json = all.not_json.or(batch.not_json.as_ref().map(|error| at + error.offset));
            let stopped = match &batch.end {
                EndOfDocuments::Window => None,
                EndOfDocuments::Text => Some(("text", text.len())),
                EndOfDocuments::Json(error) => Some(("json", at + error.offset)),
                EndOfDocuments::Utf8(offset) => Some(("utf-8", at + offset)),
            };
            if stopped.is_some() {
                all.end = stopped;
                return all;
            }
            let progress = batch.consumed > 0 || batch.not_json.is_some();
            at += batch.consumed;
            wanted = if progress { window } else { wanted * 2 };
        }
    }

    #[test]
    fn json_may_turn_into_yaml_in_its_first_two_values() {
        let text = b"\xef\xbb\xbf {\"a\": 1}\n---\nb: 2\n--- # c\nc: 3\n";
        let documents = of(text, 50).unwrap();
        let parts: Vec<&str> = documents.iter().map(|it| std::str::from_utf8(&text[it.range()]).unwrap()).collect();
        assert_eq!(parts, ["{\"a\": 1}", "b: 2\n", "c: 3\n"]);
        assert_eq!(documents[1].start, 13);
        assert!(matches!(of(b"{} {} {} x", 50), Err(SplitError::Json(error)) if error.offset == 9));
        assert!(matches!(of(b"{} {\"\xff", 50), Err(SplitError::Utf8(5))));
        assert!(matches!(of(b"a: 1\n--- x\n", 50), Err(SplitError::Separator(bad)) if bad.offset == 5));
    }

    #[test]
    fn a_text_that_looks_like_json_late_is_yaml() {
        let text = format!("{}{{\"a\": 1}}\n", " ".repeat(FORMAT_PREFIX));
        assert_eq!(of(text.as_bytes(), 50).unwrap()[0].format, Format::Yaml);
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(96))]

        #[test]
        fn windows_of_any_size_give_the_documents_of_the_whole_text(
            text in "(\u{feff})?( |\n)?((\\{\\}|\\{\"a\": \"é\\\\\"\"\\}|\\{a: 1\\}|\\{|---|a: 1|#|---x|--- # x|-| |\r|é)\n?){0,24}",
            damage in proptest::option::of(0usize..60),
            window in 1usize..40,
            most in proptest::prop_oneof![1usize..4, proptest::strategy::Just(usize::MAX)],
        ) {
            let mut text = text.into_bytes();
            if let Some(at) = damage.filter(|at| *at < text.len()) {
                text[at] = 0xff;
            }
            proptest::prop_assert_eq!(found(&text, window, most), found(&text, usize::MAX / 4, usize::MAX));
        }

        #[test]
        fn long_texts_are_the_same_in_windows(
            parts in proptest::collection::vec("\\{\"[a-z]{0,9}\": \"[é-ö]{0,200}\"\\}|\n---\n|a: [a-z]{0,300}\n", 1..40),
            window in 100usize..6000,
        ) {
            let text = parts.concat().into_bytes();
            proptest::prop_assert_eq!(found(&text, window, usize::MAX), found(&text, usize::MAX / 4, usize::MAX));
        }
    }
}
