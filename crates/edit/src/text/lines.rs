//! Lines of a text, by offset.

/// Returns the start of the line at `at`.
pub(super) fn start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns the start of the line after `at`, or the end of the text.
pub(super) fn next(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

/// Returns the number of leading spaces of the line that starts at `start`.
pub(super) fn indent(text: &str, start: usize) -> usize {
    text[start..].len() - text[start..].trim_start_matches(' ').len()
}

/// Returns whether the line that starts at `start` contains only a comment.
pub(super) fn is_comment(text: &str, start: usize) -> bool {
    text[start..].trim_start_matches([' ', '\t']).starts_with('#')
}

/// Returns the line ending of the text.
pub(crate) fn ending(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Returns the start of the comment lines directly above `line` whose indentation satisfies `belongs`.
pub(super) fn comments_above(text: &str, line: usize, belongs: impl Fn(usize) -> bool) -> usize {
    let mut first = line;
    while first > 0 {
        let above = start(text, first - 1);
        if !is_comment(text, above) || !belongs(indent(text, above)) {
            break;
        }
        first = above;
    }
    first
}

/// Returns the end of the comment lines from `line` on whose indentation satisfies `belongs`.
pub(super) fn comments_below(text: &str, line: usize, belongs: impl Fn(usize) -> bool) -> usize {
    let mut end = line;
    while end < text.len() && is_comment(text, end) && belongs(indent(text, end)) {
        end = next(text, end);
    }
    end
}
