//! Escapes names in drawings, so that they cannot break out of their context, control a terminal or hide text.

use std::fmt::{self, Write as _};

use fbc::spelling::html;

/// Returns the visible form of `c`: itself, or a replacement if it is invisible, reorders text or is not allowed in
/// XML.
pub fn shown(c: char) -> char {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\x7f' => '\u{2421}',
        // Control characters, direction marks and noncharacters.
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        '\u{feff}' | '\u{fdd0}'..='\u{fdef}' => char::REPLACEMENT_CHARACTER,
        c if u32::from(c) & 0xfffe == 0xfffe => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// Escapes `text` for a line of a terminal.
pub(super) fn plain(text: &str) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| text.chars().try_for_each(|c| f.write_char(shown(c))))
}

/// Escapes `text` for the content and attribute values of XML and HTML.
pub(super) fn xml(text: &str) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        text.chars().try_for_each(|c| match html::entity(c) {
            Some(entity) => f.write_str(entity),
            None => f.write_char(shown(c)),
        })
    })
}

/// Escapes `text` for a double-quoted string of the DOT language, whose labels interpret entities too.
pub(super) fn dot(text: &str) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        text.chars().try_for_each(|c| match c {
            '"' => f.write_str("\\\""),
            '\\' => f.write_str("\\\\"),
            '&' => f.write_str("&amp;"),
            c => f.write_char(shown(c)),
        })
    })
}

/// Returns the width of `text` in cells of a fixed-width font, rounded up in doubt.
pub(super) fn cells(text: &str) -> usize {
    text.chars().map(cells_of).sum()
}

fn cells_of(c: char) -> usize {
    let wide = matches!(u32::from(c), 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f000..=0x1faff | 0x20000..=0x3fffd);
    if wide { 2 } else { 1 }
}

/// Shortens `text` to `most` cells with an ellipsis in the middle, because the start and end of names distinguish them.
pub(super) fn shorten(text: &str, most: usize) -> String {
    // A long text is never measured as a whole.
    if text.len() <= most || (text.len() <= 4 * most && cells(text) <= most) {
        return text.to_owned();
    }
    let room = most.saturating_sub(1);
    let (head, tail) = (room / 2, room - room / 2);
    let start = take(text.chars(), head);
    let end: Vec<char> = take(text.chars().rev(), tail);
    start.into_iter().chain(['…']).chain(end.into_iter().rev()).collect()
}

/// Shortens a message to `most` cells and one line.
pub(super) fn summary(text: &str, most: usize) -> String {
    // The start of a long text is enough, even if much of it is white space.
    let start = &text[..text.floor_char_boundary(most.saturating_mul(8))];
    let words: Vec<&str> = start.split_whitespace().collect();
    let line = words.join(" ");
    if start.len() == text.len() && cells(&line) <= most {
        return line;
    }
    let mut cut: String = take(line.chars(), most.saturating_sub(1)).into_iter().collect();
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    cut
}

/// Takes as many characters as fit into `room` cells.
fn take(text: impl Iterator<Item = char>, room: usize) -> Vec<char> {
    let mut used = 0;
    text.take_while(|&c| {
        used += cells_of(c);
        used <= room
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a<b>\"'&\\\u{0}\u{1b}[31m\n\u{202e}\u{ffff}é日";

    #[test]
    fn xml_keeps_markup_and_forbidden_characters_out() {
        insta::assert_snapshot!(xml(HOSTILE), @r"a&lt;b&gt;&quot;&#39;&amp;\␀␛[31m␊��é日");
    }

    #[test]
    fn dot_strings_keep_quotes_backslashes_and_entities() {
        insta::assert_snapshot!(dot(HOSTILE), @r#"a<b>\"'&amp;\\␀␛[31m␊��é日"#);
    }

    #[test]
    fn control_characters_do_not_reach_terminals() {
        insta::assert_snapshot!(plain(HOSTILE), @r#"a<b>"'&\␀␛[31m␊��é日"#);
    }

    #[test]
    fn long_names_are_shortened_in_the_middle_and_long_messages_at_the_end() {
        assert_eq!(shorten("etcdoperator.v0.9.4", 11), "etcdo…0.9.4");
        assert_eq!(shorten("日本日本日本", 7), "日…本");
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(summary("use\n  the other   operator", 12), "use the oth…");
        assert_eq!(summary("use it", 12), "use it");
    }
}
