//! From a place in the files to a line that a person can look at.

use std::fs;
use std::ops::Range;

use crate::blob::Fbc;
use crate::json::{self, ErrorKind, Path, Raw};
use crate::limits::MAX_DEPTH;
use crate::problem::{FileId, Place, Spot};
use crate::yaml;

/// A place as people name it, with the line it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The text of the line, cut around the place when it is very long.
    pub text: String,
    /// The marked part of `text`, in characters.
    pub marked: Range<usize>,
}

/// Lines longer than this are cut around the marked part.
const LONGEST_LINE: usize = 160;
/// So much text is looked at first to find the end of a document.
const FIRST_LOOK: usize = 64 << 10;

/// Finds places in the files of a catalog; keeps the file it looked at last.
pub struct Locator<'a> {
    fbc: &'a Fbc,
    file: Option<(FileId, Text)>,
}

/// A file's text, and where its lines start.
struct Text {
    bytes: Vec<u8>,
    lines: Vec<usize>,
}

impl Text {
    fn new(bytes: Vec<u8>) -> Text {
        let lines = std::iter::once(0).chain(memchr::memchr_iter(b'\n', &bytes).map(|at| at + 1)).collect();
        Text { bytes, lines }
    }
}

impl<'a> Locator<'a> {
    /// Makes a locator for the files of `fbc`.
    pub fn new(fbc: &'a Fbc) -> Locator<'a> {
        Locator { fbc, file: None }
    }

    /// Returns the line of a place; nothing when the place is a whole file or the file is gone.
    pub fn locate(&mut self, place: &Place) -> Option<Located> {
        if self.file.as_ref().is_none_or(|(file, _)| *file != place.file) {
            let text = fs::read(self.fbc.full_path_of(place.file)?).ok()?;
            self.file = Some((place.file, Text::new(text)));
        }
        let (_, text) = self.file.as_ref()?;
        let range = match &place.spot {
            Spot::File => return None,
            Spot::Offset(offset) => {
                let offset = usize::try_from(*offset).ok()?.min(text.bytes.len());
                offset..offset
            }
            Spot::Value { document, path } => value(&text.bytes, usize::try_from(*document).ok()?, path)?,
        };
        Some(located(text, range))
    }
}

/// Finds a value in the document that starts at `start`; if it is not there, what would hold it.
fn value(text: &[u8], start: usize, path: &Path) -> Option<Range<usize>> {
    let rest = text.get(start..)?;
    for length in (0..=path.0.len()).rev() {
        let steps = Path(path.0[..length].to_vec());
        let found = match rest.first() {
            Some(b'{') => in_json(rest, &steps),
            _ => None,
        };
        let found = found.or_else(|| {
            let document = yaml::documents(rest).next()?.ok()?;
            let range = yaml::locate(document.text, &steps.0)?;
            Some(range.start + document.offset..range.end + document.offset)
        });
        if let Some(range) = found {
            return Some(start + range.start..start + range.end);
        }
    }
    Some(start..start)
}

fn in_json(text: &[u8], path: &Path) -> Option<Range<usize>> {
    // A document is a small part of what follows its start.
    let mut length = FIRST_LOOK;
    loop {
        let part = &text[..length.min(text.len())];
        let valid = match std::str::from_utf8(part) {
            Ok(part) => part,
            Err(error) => std::str::from_utf8(&part[..error.valid_up_to()]).ok()?,
        };
        match json::check(valid, 0, MAX_DEPTH) {
            Ok(range) => {
                let inner = Raw::from_checked(&valid[range.clone()]).locate(path)?;
                return Some(range.start + inner.start..range.start + inner.end);
            }
            Err(error) if error.kind == ErrorKind::End && length < text.len() => length *= 4,
            Err(_) => return None,
        }
    }
}

fn located(text: &Text, range: Range<usize>) -> Located {
    let Text { bytes: text, lines } = text;
    let start = range.start.min(text.len());
    let line = lines.partition_point(|line| *line <= start);
    let line_start = lines[line - 1];
    let line_end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at);
    let end = range.end.clamp(start, line_end);
    let chars = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().count();
    let column = chars(&text[line_start..start]);
    let marked = chars(&text[start..end]).max(1);
    let shown: String = String::from_utf8_lossy(&text[line_start..line_end]).trim_end_matches('\r').to_owned();
    let (text, offset) = cut(&shown, column);
    let length = text.chars().count();
    let from = (column - offset).min(length);
    let to = (from + marked).min(length.max(from + 1));
    Located { line, column: column + 1, text, marked: from..to }
}

/// Cuts a long line around `column`; returns it and how many characters are missing in front.
fn cut(line: &str, column: usize) -> (String, usize) {
    if line.chars().nth(LONGEST_LINE).is_none() {
        return (line.to_owned(), 0);
    }
    let offset = column.saturating_sub(LONGEST_LINE / 2);
    (line.chars().skip(offset).take(LONGEST_LINE).collect(), offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path;

    fn mark(text: &str, start: usize, path: &Path) -> String {
        let located = located(&Text::new(text.into()), value(text.as_bytes(), start, path).unwrap());
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
    fn documents_larger_than_the_first_look_are_found() {
        let text = format!("{{\"a\": \"{}\",\n\"b\": 1}} {{}}", "é".repeat(FIRST_LOOK));
        assert_eq!(mark(&text, 0, &path!["b"]), "2:6 1");
    }

    #[test]
    fn what_is_missing_is_shown_by_what_would_hold_it() {
        assert_eq!(mark("{\"a\": {\"b\": 1}}", 0, &path!["a", "c"]), "1:7 {\"b\": 1}");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let line = format!("{{\"a\": \"{}\", \"b\": \"here\"}}", "x".repeat(10_000));
        let range = value(line.as_bytes(), 0, &path!["b"]).unwrap();
        let located = located(&Text::new(line.into()), range);
        assert_eq!((located.column, located.text.chars().count()), (10_016, 87));
        assert_eq!(&located.text[located.marked.clone()], "\"here\"");
    }
}
