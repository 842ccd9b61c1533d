//! Lines of a text, by position.

/// Returns where the line of `at` starts.
pub(super) fn start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns where the line after that of `at` starts, or the end of the text.
pub(super) fn next(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

/// Returns how many blanks the line that starts at `start` begins with.
pub(super) fn indent(text: &str, start: usize) -> usize {
    text[start..].len() - text[start..].trim_start_matches(' ').len()
}

/// Returns whether the line that starts at `start` holds a comment alone.
pub(super) fn is_comment(text: &str, start: usize) -> bool {
    text[start..].trim_start_matches([' ', '\t']).starts_with('#')
}

/// Returns the line end that the text uses.
pub(super) fn ending(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Returns where the comment lines above the line that starts at `line` begin, as far as `belongs` says yes to
/// their indents.
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

/// Returns where the comment lines that follow at `line` end, as far as `belongs` says yes to their indents.
pub(super) fn comments_below(text: &str, line: usize, belongs: impl Fn(usize) -> bool) -> usize {
    let mut end = line;
    while end < text.len() && is_comment(text, end) && belongs(indent(text, end)) {
        end = next(text, end);
    }
    end
}
