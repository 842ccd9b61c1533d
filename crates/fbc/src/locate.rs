//! Resolves positions in files to lines for display.

use std::ops::Range;

use crate::blob::Fbc;
use crate::documents::{EndOfDocuments, Splitter};
use crate::files;
use crate::json::{self, JsonPath};
use crate::limits::MAX_DEPTH;
use crate::problem::{FileId, Place, Problem, ProblemRole, ProblemSeverity, Spot};
use crate::spans::Spans;

/// A position with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The text of the line, truncated around the position if it is very long.
    pub text: String,
    /// The highlighted part of `text`, in characters.
    pub marked: Range<usize>,
}

/// Longer lines are truncated around the highlighted part.
const MAX_LINE_LEN: usize = 160;
/// The amount of text to search first for the end of a document.
const INITIAL_CHUNK: usize = 64 << 10;

/// Resolves positions in the files of a catalog; caches the last file and document.
///
/// If queried in order of position, it reads each file and parses each document once.
pub struct Locator<'a> {
    fbc: &'a Fbc,
    file: Option<(FileId, Text)>,
}

/// The text of a file, and the starts of its lines.
struct Text {
    bytes: Vec<u8>,
    lines: Vec<usize>,
    /// The start of the last resolved document, and its values.
    document: Option<(usize, Option<LocatedDocument>)>,
    /// The last position whose column was counted: the start of its line, the position, and its column.
    counted: (usize, usize, usize),
}

/// The values of a document.
struct LocatedDocument {
    /// The offset in the file that the spans are relative to.
    base: usize,
    spans: Spans,
}

impl Text {
    fn new(bytes: Vec<u8>) -> Text {
        let lines = std::iter::once(0).chain(memchr::memchr_iter(b'\n', &bytes).map(|at| at + 1)).collect();
        Text { bytes, lines, document: None, counted: (0, 0, 0) }
    }

    /// Returns the zero-based column of `at` in the line that starts at `line`.
    fn column(&mut self, line: usize, at: usize) -> usize {
        let (from, before) = match self.counted {
            (counted, from, column) if counted == line && from <= at => (from, column),
            _ => (line, 0),
        };
        crate::step_counter::steps(at - from);
        let column = before + chars(&self.bytes[from..at]);
        self.counted = (line, at, column);
        column
    }

    /// Finds a value in the document that starts at `start`, or else its nearest existing ancestor.
    fn value(&mut self, start: usize, path: &JsonPath) -> Option<Range<usize>> {
        let rest = self.bytes.get(start..)?;
        if self.document.as_ref().is_none_or(|(at, _)| *at != start) {
            crate::step_counter::steps(rest.len());
            self.document = Some((start, document(rest, start)));
        }
        let (_, document) = self.document.as_ref()?;
        let found = document.as_ref().and_then(|document| {
            let range = document.spans.find_or_ancestor(&path.0)?;
            Some(document.base + range.start..document.base + range.end)
        });
        Some(found.unwrap_or(start..start))
    }
}

impl<'a> Locator<'a> {
    /// Creates a locator for the files of `fbc`.
    pub fn new(fbc: &'a Fbc) -> Locator<'a> {
        Locator { fbc, file: None }
    }

    /// Returns whether the file that was read last is this one, and JSON.
    fn is_json(&self, file: FileId) -> bool {
        let text = self.file.as_ref().filter(|(read, _)| *read == file).map(|(_, text)| &text.bytes);
        text.is_some_and(|bytes| bytes.trim_ascii_start().starts_with(b"{"))
    }

    /// Returns whether a value is in the last document of the file that was read last, which ends within a line.
    fn is_cut_off(&self, place: &Place) -> bool {
        let Spot::Value { document, .. } = place.spot else { return false };
        let text = self.file.as_ref().filter(|(read, _)| *read == place.file).map(|(_, text)| &*text.bytes);
        let rest = text.and_then(|text| text.get(usize::try_from(document).ok()?..));
        rest.is_some_and(|rest| {
            !rest.ends_with(b"\n") && memchr::memmem::find(rest.get(4..).unwrap_or_default(), b"\n---").is_none()
        })
    }

    /// Returns the line of a position; `None` for a whole file or if the file is missing.
    pub fn locate(&mut self, place: &Place) -> Option<Located> {
        if self.file.as_ref().is_none_or(|(file, _)| *file != place.file) {
            let text = files::read(&self.fbc.full_path_of(place.file)?).ok()?;
            self.file = Some((place.file, Text::new(text)));
        }
        let (_, text) = self.file.as_mut()?;
        let range = match &place.spot {
            Spot::File => return None,
            Spot::Offset(offset) => {
                let offset = usize::try_from(*offset).ok()?.min(text.bytes.len());
                offset..offset
            }
            Spot::Value { document, path } => text.value(usize::try_from(*document).ok()?, path)?,
        };
        Some(located(text, range))
    }
}

/// Parses the document at the start of `text`, which is `start` bytes into its file.
fn document(text: &[u8], start: usize) -> Option<LocatedDocument> {
    // A document is a small part of the text that follows its start.
    let mut length = INITIAL_CHUNK;
    let mut splitter = Splitter::new(MAX_DEPTH);
    let mut at = 0;
    loop {
        let end = text.len().min(at + length);
        let batch = splitter.step(&text[at..end], end == text.len(), 1);
        if let Some(found) = batch.documents.first() {
            let found = found.as_ref().ok()?;
            let (base, spans) = match batch.json(found) {
                Some(value) => (found.body, Spans::of_json(value)),
                None => (found.start, Spans::of_yaml(batch.text(found))?),
            };
            return Some(LocatedDocument { base: start + at + base, spans });
        }
        match (&batch.end, &batch.not_json) {
            (EndOfDocuments::Window, Some(_)) => {}
            (EndOfDocuments::Window, None) => length *= 4,
            _ => return None,
        }
        at += batch.consumed;
    }
}

fn located(text: &mut Text, range: Range<usize>) -> Located {
    let start = range.start.min(text.bytes.len());
    let line = text.lines.partition_point(|line| *line <= start);
    let line_start = text.lines[line - 1];
    let line_end = text.lines.get(line).map_or(text.bytes.len(), |next| next - 1);
    let end = range.end.clamp(start, line_end);
    let column = text.column(line_start, start);
    let bytes = &text.bytes;
    // Only the part near the position is shown; the line may be the whole file.
    let short = forward(bytes, line_end, line_start, MAX_LINE_LEN) == line_end;
    let from = if short { line_start } else { back(bytes, line_start, start, MAX_LINE_LEN / 2) };
    let to = forward(bytes, line_end, from, MAX_LINE_LEN);
    let shown = String::from_utf8_lossy(&bytes[from..to]);
    let shown = shown.trim_end_matches('\r').to_owned();
    let length = shown.chars().count();
    let first = chars(&bytes[from..start]).min(length);
    let last = (first + chars(&bytes[start..end.min(to)]).max(1)).min(length.max(first + 1));
    Located { line, column: column + 1, text: shown, marked: first..last }
}

/// Counts the characters of a text.
fn chars(bytes: &[u8]) -> usize {
    String::from_utf8_lossy(bytes).chars().count()
}

/// Returns the offset `count` characters before `at`, but not before `limit`.
fn back(bytes: &[u8], limit: usize, at: usize, count: usize) -> usize {
    let is_start = |b: &u8| *b & 0b1100_0000 != 0b1000_0000;
    let starts = bytes[limit..at].iter().enumerate().rev().filter(|(_, b)| is_start(b));
    starts.map(|(offset, _)| limit + offset).nth(count.saturating_sub(1)).unwrap_or(limit)
}

/// Returns the offset `count` characters after `at`, but not after `limit`.
fn forward(bytes: &[u8], limit: usize, at: usize, count: usize) -> usize {
    let is_start = |b: &u8| *b & 0b1100_0000 != 0b1000_0000;
    let starts = bytes[at..limit].iter().enumerate().filter(|(_, b)| is_start(b));
    starts.map(|(offset, _)| at + offset).nth(count).unwrap_or(limit)
}

/// A problem with its position resolved.
pub struct LocatedProblem<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// The path of the file, as the user can open it.
    pub path: Option<String>,
    /// Its line and column.
    pub located: Option<Located>,
    /// The path and the line of the first of two duplicates.
    pub first: Option<(String, usize)>,
    /// Whether the file is JSON.
    json: bool,
    /// Whether the problem is at the end of a YAML file that ends within a line.
    cut_off: bool,
}

impl LocatedProblem<'_> {
    /// Returns the fix, with fields in the syntax of the file.
    pub fn help(&self) -> Option<String> {
        let first = self.first.as_ref().map(|(path, line)| format!("; the first is at {path}:{line}"));
        let help = self.problem.help.as_ref()?;
        let help = if self.json { fields_as_json(help) } else { help.clone() };
        let cut_off = if self.cut_off { "; the file ends within a line: is the rest missing?" } else { "" };
        Some(help + &first.unwrap_or_default() + cut_off)
    }

    /// Returns the paths, to show them differently.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.path.iter_mut().chain(self.first.as_mut().map(|(path, _)| path))
    }

    /// Returns whether it probably vanishes with another problem.
    pub fn is_consequence(&self) -> bool {
        self.problem.role == ProblemRole::Consequence
    }

    /// Returns whether it is an error.
    pub fn is_error(&self) -> bool {
        self.problem.severity == ProblemSeverity::Error
    }
}

/// Resolves the positions of problems.
pub fn find<'a>(fbc: &Fbc, problems: impl IntoIterator<Item = &'a Problem>) -> Vec<LocatedProblem<'a>> {
    let mut locator = Locator::new(fbc);
    // Each locator is queried in order of position, which is fast.
    let mut earlier = Locator::new(fbc);
    problems
        .into_iter()
        .map(|problem| {
            let place = problem.place.as_ref();
            let path_of = |place: &Place| fbc.full_path_of(place.file).map(|path| path.display().to_string());
            let located = place.filter(|place| place.spot != Spot::File).and_then(|place| locator.locate(place));
            let first = problem.first.as_ref().and_then(|at| Some((path_of(at)?, earlier.locate(at)?.line)));
            let json = place.is_some_and(|place| locator.is_json(place.file));
            let cut_off = !json && place.is_some_and(|place| locator.is_cut_off(place));
            LocatedProblem { problem, path: place.and_then(path_of), located, first, json, cut_off }
        })
        .collect()
}

/// Writes the fields in a sentence, such as `name: foo`, as JSON.
fn fields_as_json(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(number, part)| match part.split_once(": ") {
        Some((key, value)) if number % 2 == 1 => format!("{}: {}", json::Text::string(key), json::Text::string(value)),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path;

    fn mark(text: &str, start: usize, path: &JsonPath) -> String {
        let mut text = Text::new(text.into());
        let range = text.value(start, path).unwrap();
        let located = located(&mut text, range);
        let marked: String = located.text.chars().skip(located.marked.start).take(located.marked.len()).collect();
        format!("{}:{} {marked}", located.line, located.column)
    }

    #[test]
    fn values_are_found_in_json_and_yaml() {
        let json = "{\"a\": 1}\n{\n  \"entries\": [\n    {\"name\": \"é\", \"replaces\": \"x\"}\n  ]\n}";
        assert_eq!(mark(json, 9, &path!["entries", 0, "replaces"]), "4:31 \"x\"");
        let yaml = "schema: a\n---\nentries:\n- name: foo\n  skips: [a, b]\n";
        assert_eq!(mark(yaml, 14, &path!["entries", 0, "skips", 1]), "5:14 b");
        assert_eq!(mark(yaml, 14, &path!["entries", 0, "name"]), "4:9 foo");
    }

    #[test]
    fn values_in_documents_larger_than_the_first_window_are_located() {
        let text = format!("{{\"a\": \"{}\",\n\"b\": 1}} {{}}", "é".repeat(INITIAL_CHUNK));
        assert_eq!(mark(&text, 0, &path!["b"]), "2:6 1");
    }

    #[test]
    fn a_missing_value_is_shown_by_its_parent() {
        assert_eq!(mark("{\"a\": {\"b\": 1}}", 0, &path!["a", "c"]), "1:7 {\"b\": 1}");
    }

    #[test]
    fn long_lines_are_truncated_around_the_position() {
        let line = format!("{{\"a\": \"{}\", \"b\": \"here\"}}", "x".repeat(10_000));
        let mut text = Text::new(line.into());
        let range = text.value(0, &path!["b"]).unwrap();
        let located = located(&mut text, range);
        assert_eq!((located.column, located.text.chars().count()), (10_016, 87));
        assert_eq!(&located.text[located.marked.clone()], "\"here\"");
    }
}
