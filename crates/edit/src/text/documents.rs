//! The documents of a file, by offset.

use std::borrow::Cow;
use std::ops::Range;

use fbc::Format;
use fbc::documents;
use fbc::limits::MAX_DEPTH;

use super::{Splice, lines};

/// A document of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextDocument {
    /// The start offset, as in the origin of a blob.
    pub(crate) start: usize,
    /// The start of the content: after the separator that opens a YAML file.
    pub(crate) body: usize,
    /// The end offset.
    pub(crate) end: usize,
    /// Whether it is a JSON value.
    pub(crate) json: bool,
    /// The end of the separator that follows, if any.
    separated: Option<usize>,
}

impl TextDocument {
    /// Returns the range of the content.
    pub(crate) fn range(&self) -> Range<usize> {
        self.body..self.end
    }
}

/// Finds the documents of a file in the same way as loading does; `None` if the file cannot be parsed.
pub(crate) fn find(text: &str) -> Option<Vec<TextDocument>> {
    let found = documents::of(text.as_bytes(), MAX_DEPTH).ok()?;
    let ends = found.iter().skip(1).map(|next| next.start).chain([text.len()]);
    let found = found.iter().zip(ends).map(|(document, next)| {
        let json = document.format == Format::Json;
        let separated = (!json && next > document.end).then_some(next);
        TextDocument { start: document.start, body: document.body, end: document.end, json, separated }
    });
    Some(found.collect())
}

/// Returns the text with a newline at its end, if the last document is YAML: its lines are edited as wholes.
pub(crate) fn with_last_newline(text: &str) -> Cow<'_, str> {
    let yaml = || find(text).and_then(|found| Some(!found.last()?.json)).unwrap_or_default();
    match text.ends_with('\n') || !yaml() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("{text}{}", lines::ending(text))),
    }
}

/// Converts changes of the text from [`with_last_newline`] to changes of the text itself: neither the text nor the
/// result ends with that newline.
pub(crate) fn without_last_newline(text: &str, ended: &str, mut splices: Vec<Splice>) -> Vec<Splice> {
    if text.len() == ended.len() {
        return splices;
    }
    let mut last: Option<Splice> = None;
    // Changes at the end become one change, which takes the newline before it if it has none of its own.
    while let Some(before) = splices.pop() {
        let end = last.as_ref().map_or(ended.len(), |last| last.range.start);
        let bare = last.as_ref().is_none_or(|last| !last.text.ends_with(b"\n"));
        if before.range.end <= text.len() && (before.range.end < end || !bare) {
            splices.push(before);
            break;
        }
        let rest = last.map(|last| last.text).unwrap_or_default();
        last = Some(Splice { range: before.range.start..ended.len(), text: [before.text, rest].concat() });
    }
    let Some(mut last) = last else { return splices };
    let kept = last.text.strip_suffix(b"\n").map(|kept| kept.strip_suffix(b"\r").unwrap_or(kept).to_vec());
    match kept {
        Some(kept) if last.range.start < ended.len() => last.text = kept,
        // New lines behind the last one, which has no newline of its own.
        Some(kept) => {
            last = Splice { range: text.len()..text.len(), text: [&ended.as_bytes()[text.len()..], &kept].concat() }
        }
        None => {
            let before = &text[..last.range.start.min(text.len())];
            let before = before.strip_suffix('\n').map_or(before, |it| it.strip_suffix('\r').unwrap_or(it));
            last.range.start = before.len();
        }
    }
    last.range.end = text.len();
    splices.push(last);
    splices
}

/// Removes documents, selected by index in `documents`, with one separator each.
///
/// Returns `None` if no document remains, so that the file must be deleted.
pub(crate) fn remove(text: &str, documents: &[TextDocument], removed: &[bool]) -> Option<Vec<Splice>> {
    if removed.iter().all(|removed| *removed) {
        return None;
    }
    let mut splices = Vec::new();
    let mut first = 0;
    while first < documents.len() {
        if !removed[first] {
            first += 1;
            continue;
        }
        let last = (first..documents.len()).take_while(|&i| removed[i]).last().unwrap_or(first);
        let start = if first == 0 { after_header(text, &documents[0]) } else { documents[first].body };
        let next = documents.get(last + 1);
        let range = match (documents[last].separated, next) {
            (Some(end), _) => start..end,
            (None, Some(next)) if first == 0 => start..next.start,
            // What separates it from the next document stays, as it does when a document is inserted.
            (None, _) => documents[first.saturating_sub(1)].end..documents[last].end,
        };
        splices.push(Splice { range, text: Vec::new() });
        first = last + 1;
    }
    Some(splices)
}

/// Returns the start of the first document after the file header: comments followed by an empty line.
fn after_header(text: &str, document: &TextDocument) -> usize {
    let mut at = document.body;
    let mut header = at;
    while !document.json && at < document.end {
        let next = lines::next(text, at);
        if text[at..next].trim().is_empty() && at > document.body {
            header = next;
        } else if !lines::is_comment(text, at) {
            break;
        }
        at = next;
    }
    header
}

/// Inserts a document after another one, in a file with this line ending.
///
/// `new` is its text without a separator, terminated by a newline.
pub(crate) fn insert(ending: &str, after: &TextDocument, new: &str) -> Splice {
    let new = new.trim_end_matches('\n').replace('\n', ending);
    let text = match after.json {
        true => format!("{ending}{new}"),
        false => format!("---{ending}{new}{ending}"),
    };
    Splice { range: after.end..after.end, text: text.into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::apply;

    fn without(text: &str, removed: &[usize]) -> String {
        let documents = find(text).unwrap();
        let flags: Vec<bool> = (0..documents.len()).map(|i| removed.contains(&i)).collect();
        let splices = remove(text, &documents, &flags).unwrap();
        String::from_utf8(apply(text.as_bytes(), &splices).unwrap()).unwrap()
    }

    fn with(text: &str, after: usize, new: &str) -> String {
        let splice = insert(lines::ending(text), &find(text).unwrap()[after], new);
        String::from_utf8(apply(text.as_bytes(), &[splice]).unwrap()).unwrap()
    }

    #[test]
    fn documents_are_removed_with_one_separator() {
        let text = "---\na: 1\n---\nb: 2\n---\nc: 3\n";
        assert_eq!(without(text, &[0]), "---\nb: 2\n---\nc: 3\n");
        assert_eq!(without(text, &[1]), "---\na: 1\n---\nc: 3\n");
        assert_eq!(without(text, &[1, 2]), "---\na: 1\n");
        assert_eq!(without(text, &[0, 2]), "---\nb: 2\n");
        assert_eq!(without("{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n", &[0, 2]), "{\"b\":2}\n");
        assert_eq!(without("{\"a\":1}\n{\"b\":2}\n\n{\"c\":3}\n", &[1]), "{\"a\":1}\n\n{\"c\":3}\n");
        assert_eq!(remove(text, &find(text).unwrap(), &[true; 3]), None);
    }

    #[test]
    fn a_comment_at_the_start_of_the_file_is_kept() {
        let text = "# of the file\n\n# of the document\na: 1\n---\nb: 2\n";
        assert_eq!(without(text, &[0]), "# of the file\n\nb: 2\n");
    }

    #[test]
    fn inserting_and_removing_restores_the_text() {
        for text in [
            "a: 1\n",
            "---\na: 1\n---\n",
            "{\"a\":1}",
            "{\"a\":1}\n",
            "a: 1\r\n",
            "a: 1\n---\nc: 3\n",
            "{\"a\":1}\n\n\n{\"b\":2}\n\n",
        ] {
            for after in 0..find(text).unwrap().len() {
                let more = with(text, after, "{\"b\": 2}\n");
                assert_eq!(find(&more).unwrap().len(), find(text).unwrap().len() + 1, "{more:?}");
                assert_eq!(without(&more, &[after + 1]), text, "{more:?}");
            }
        }
    }
}
