//! Splits a YAML stream into documents.
//!
//! Documents are split line by line before any YAML is parsed, as in the existing tools: a line that starts with `---`
//! is a separator, even inside a block scalar. Only whitespace or a comment may follow the dashes. The separator that
//! opens a stream, and the second of two adjacent ones, is the first line of the document after it; every other
//! separator ends the document before it. A document of blank lines or comments is a document.

/// A document of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct YamlDocument<'a> {
    /// The text, possibly with its separator as the first line.
    pub text: &'a [u8],
    /// The byte offset of the text in the stream.
    pub offset: usize,
    /// The zero-based line on which the text starts.
    pub line: usize,
}

/// A line that starts like a separator but continues differently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid Yaml document separator: {rest}")]
pub struct BadSeparator {
    /// The byte offset of the line in the stream.
    pub offset: usize,
    /// The zero-based line.
    pub line: usize,
    /// The text after the dashes.
    pub rest: String,
}

/// Iterates over the documents of `stream`, which has no byte order mark.
///
/// A bad separator is reported after the document it ends; the text between it and the next separator belongs to no
/// document.
pub fn documents(stream: &[u8]) -> Documents<'_> {
    Documents { stream, at: 0, line: 0, bad: None }
}

/// A position that splits a stream into two parts with the same documents as the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The end of the first part.
    pub(crate) end: usize,
    /// The start of the second part: after the separator between them.
    pub(crate) next: usize,
}

/// Finds the last position to split a stream that starts with `text` and continues after it.
///
/// That is a separator between two other lines: the meaning of adjacent separators depends on their neighbors.
pub(crate) fn cut(text: &[u8]) -> Option<Cut> {
    let is_separator = |at: usize| text[at..].starts_with(b"---");
    let mut end = text.len();
    while let Some(newline) = memchr::memrchr(b'\n', &text[..end]) {
        end = newline;
        let separator = newline + 1;
        if !is_separator(separator) {
            continue;
        }
        let Some(next) = memchr::memchr(b'\n', &text[separator..]).map(|at| separator + at + 1) else { continue };
        let before = memchr::memrchr(b'\n', &text[..newline]).map_or(0, |at| at + 1);
        // The next line must be complete to be known not to be a separator.
        let known = text.len() >= next + 3;
        let good = known && separated(&text[separator + 3..next]).is_empty();
        if good && !is_separator(next) && !is_separator(before) {
            return Some(Cut { end: separator, next });
        }
    }
    None
}

/// Returns the invalid text after the dashes of a separator.
fn separated(rest: &[u8]) -> String {
    let rest = String::from_utf8_lossy(rest);
    let rest = if rest.trim_start().starts_with('#') { "" } else { rest.trim() };
    rest.to_owned()
}

/// The documents of a stream, in order.
#[derive(Debug, Clone)]
pub struct Documents<'a> {
    stream: &'a [u8],
    at: usize,
    line: usize,
    bad: Option<BadSeparator>,
}

impl<'a> Iterator for Documents<'a> {
    type Item = Result<YamlDocument<'a>, BadSeparator>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(bad) = self.bad.take() {
            return Some(Err(self.skip_text_after(bad)));
        }
        let (offset, line) = (self.at, self.line);
        while let Some(separator) = self.step_to_separator() {
            let at = separator.offset;
            let document = (at > offset).then_some(YamlDocument { text: &self.stream[offset..at], offset, line });
            let bad = !separator.rest.is_empty();
            match document {
                Some(document) => {
                    self.bad = bad.then_some(separator);
                    return Some(Ok(document));
                }
                None if bad => return Some(Err(self.skip_text_after(separator))),
                None => {}
            }
        }
        let text = &self.stream[offset..];
        (!text.is_empty()).then_some(Ok(YamlDocument { text, offset, line }))
    }
}

impl Documents<'_> {
    /// Moves past the next separator line and returns it; `rest` is empty if it is valid.
    fn step_to_separator(&mut self) -> Option<BadSeparator> {
        let text = &self.stream[self.at..];
        let before =
            if text.starts_with(b"---") { Some(0) } else { memchr::memmem::find(text, b"\n---").map(|i| i + 1) };
        let Some(before) = before else {
            self.at = self.stream.len();
            return None;
        };
        let (offset, line) = (self.at + before, self.line + memchr::memchr_iter(b'\n', &text[..before]).count());
        let text = &text[before..];
        let length = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
        (self.at, self.line) = (offset + length, line + 1);
        Some(BadSeparator { offset, line, rest: separated(&text[3..length]) })
    }

    /// Skips the text after a bad separator.
    fn skip_text_after(&mut self, bad: BadSeparator) -> BadSeparator {
        if let Some(next) = self.step_to_separator() {
            self.bad = (!next.rest.is_empty()).then_some(next);
        }
        bad
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(stream: &str) -> Vec<String> {
        documents(stream.as_bytes())
            .map(|document| match document {
                Ok(document) => format!("{}: {}", document.line, String::from_utf8_lossy(document.text)),
                Err(bad) => format!("{}! {bad}", bad.line),
            })
            .collect()
    }

    #[test]
    fn a_leading_separator_opens_the_first_document() {
        assert_eq!(shown("---\na: 1\n---\nb: 2\n"), ["0: ---\na: 1\n", "3: b: 2\n"]);
        assert_eq!(shown("a: 1\n--- # next\nb: 2"), ["0: a: 1\n", "2: b: 2"]);
    }

    #[test]
    fn two_adjacent_separators_later_and_one_at_the_end_add_no_document() {
        assert_eq!(shown("a: 1\n---\n---\nb: 2\n---\n"), ["0: a: 1\n", "2: ---\nb: 2\n"]);
        assert_eq!(shown("a: 1\n---"), ["0: a: 1\n"]);
    }

    #[test]
    fn blank_lines_comments_and_lone_separators_are_documents() {
        assert_eq!(shown("---\n"), ["0: ---\n"]);
        assert_eq!(shown("---\n---\na: 1\n"), ["0: ---\n", "2: a: 1\n"]);
        assert_eq!(shown("# head\n---\na: 1\n---\n\n"), ["0: # head\n", "2: a: 1\n", "4: \n"]);
        assert_eq!(shown("  \n\n"), ["0:   \n\n"]);
        assert!(shown("").is_empty());
    }

    #[test]
    fn only_column_zero_separates_also_inside_a_block_scalar() {
        assert_eq!(shown("a: |\n  ---\n---\nb\n"), ["0: a: |\n  ---\n", "3: b\n"]);
    }

    #[test]
    fn windows_line_ends_are_line_ends() {
        assert_eq!(shown("---\r\na: 1\r\n--- \r\nb: 2\r\n"), ["0: ---\r\na: 1\r\n", "3: b: 2\r\n"]);
    }

    #[test]
    fn text_after_a_separator_is_reported_once() {
        assert_eq!(
            shown("a: 1\n--- b: 2\nc: 3\n---\nd: 4\n"),
            ["0: a: 1\n", "1! invalid Yaml document separator: b: 2", "4: d: 4\n"]
        );
        assert_eq!(shown("----\na: 1\n"), ["0! invalid Yaml document separator: -"]);
    }

    #[test]
    fn a_window_ends_before_a_lone_separator() {
        let parts =
            |text: &str| cut(text.as_bytes()).map(|cut| (text[..cut.end].to_owned(), text[cut.next..].to_owned()));
        let some = |first: &str, second: &str| Some((first.to_owned(), second.to_owned()));
        assert_eq!(parts("a: 1\n---\nb: 1\n---\nc: 1\n"), some("a: 1\n---\nb: 1\n", "c: 1\n"));
        assert_eq!(parts("a: 1\n---\nb: 1\n---\n"), some("a: 1\n", "b: 1\n---\n"));
        assert_eq!(parts("a: 1\n---\nb: 1\n---\n---\nc: 1\n"), some("a: 1\n", "b: 1\n---\n---\nc: 1\n"));
        assert_eq!(parts("a: 1\n--- x\nb: 1\n"), None);
        assert_eq!(parts("a: 1\n---\n--"), None);
        assert_eq!(parts("a: 1\nb: 2\n"), None);
        assert_eq!(parts("---\n---\na: 1\n"), None);
    }

    /// Returns the documents of a stream with their offsets, and the offsets of bad separators.
    fn found(stream: &str, base: usize) -> Vec<(usize, Option<&str>)> {
        let found = documents(stream.as_bytes());
        found
            .map(|document| match document {
                Ok(YamlDocument { text, offset, .. }) => (base + offset, Some(&stream[offset..offset + text.len()])),
                Err(bad) => (base + bad.offset, None),
            })
            .collect()
    }

    /// Reads a stream in windows, as files are read, enlarging the window if there is no position to split.
    fn found_in_windows(stream: &str, window: usize) -> Vec<(usize, Option<&str>)> {
        let (mut all, mut at, mut wanted) = (Vec::new(), 0, window);
        loop {
            let rest = &stream[at..];
            if wanted > rest.len() {
                all.extend(found(rest, at));
                return all;
            }
            match cut(&rest.as_bytes()[..wanted]) {
                None => wanted *= 2,
                Some(cut) => {
                    all.extend(found(&rest[..cut.end], at));
                    at += cut.next;
                    wanted = window;
                }
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn windows_of_any_size_give_the_documents_of_the_whole_stream(
            stream in "(---|a: 1|#|---x|--- # x|-| |\r)?(\n(---|a: 1|#|---x|--- # x|-| |\r)?){0,20}",
            window in 1usize..40,
        ) {
            proptest::prop_assert_eq!(found_in_windows(&stream, window), found(&stream, 0));
        }

        #[test]
        fn splitting_arbitrary_bytes_loses_nothing(stream in "(---|a: 1|#|---x|-| |\r)?(\n(---|a: 1|#|---x|-| |\r)?){0,8}") {
            let mut end = 0;
            for document in documents(stream.as_bytes()).flatten() {
                proptest::prop_assert!(document.offset >= end && !document.text.is_empty());
                end = document.offset + document.text.len();
                proptest::prop_assert_eq!(&stream.as_bytes()[document.offset..end], document.text);
                proptest::prop_assert_eq!(stream[..document.offset].matches('\n').count(), document.line);
            }
        }
    }
}
