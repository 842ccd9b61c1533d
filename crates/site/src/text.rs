//! Foreign text on a page: escaped, and with no invisible characters.

use maud::{Escaper, Render};
use std::fmt::Write;

/// Text from a catalog. Control, bidirectional and invisible characters become visible, as in drawings.
#[derive(Debug, Clone, Copy)]
pub struct Foreign<'a>(&'a str);

/// Wraps text from a catalog for a page.
pub fn t(text: &str) -> Foreign<'_> {
    Foreign(text)
}

impl Render for Foreign<'_> {
    fn render_to(&self, out: &mut String) {
        let mut out = Escaper::new(out);
        for c in self.0.chars() {
            let _ = out.write_char(visible(c));
        }
    }
}

/// Returns foreign text escaped for markup.
pub fn escaped(text: &str) -> String {
    t(text).render().into_string()
}

/// Returns the visible form of `c`.
pub fn visible(c: char) -> char {
    match c {
        '\n' | '\t' => ' ',
        '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{ad}' | '\u{180e}' | '\u{e0000}'..='\u{e007f}' => {
            char::REPLACEMENT_CHARACTER
        }
        c => catalog::draw::shown(c),
    }
}

/// Returns the text with invisible characters made visible, for attributes that a script reads.
pub fn shown(text: &str) -> String {
    text.chars().map(visible).collect()
}

/// Shortens a text to one line of at most `most` characters.
pub fn summary(text: &str, most: usize) -> String {
    let start = &text[..text.floor_char_boundary(most.saturating_mul(8))];
    let mut line = String::new();
    let mut used = 0;
    for word in start.split_whitespace() {
        let length = word.chars().count();
        if used + length + 1 > most {
            if line.is_empty() {
                line.extend(word.chars().take(most.saturating_sub(1)));
            }
            line.push('…');
            return line;
        }
        if !line.is_empty() {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    if start.len() < text.len() {
        line.push('…');
    }
    line
}

/// Returns a number with its noun.
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// Formats a number with thousands separators.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a size for users.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{} KB", bytes.div_ceil(1000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Formats JSON for a script element: nothing in it ends the script or a line.
pub fn script_json(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_have_no_invisible_characters() {
        let shown = t("<b>\"&\u{202e}\u{0}\n").render().into_string();
        assert_eq!(shown, "&lt;b&gt;&quot;&amp;\u{fffd}\u{2400} ");
        assert_eq!(script_json(&"</script>\u{2028}"), "\"\\u003c/script>\\u2028\"");
    }

    #[test]
    fn numbers_and_summaries_are_readable() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!((size(999), size(1001), size(2_500_000)), ("999 B".into(), "2 KB".into(), "2.5 MB".into()));
        assert_eq!(summary("one  two\nthree", 9), "one two…");
        assert_eq!(summary("one", 9), "one");
        assert_eq!(summary(&"x".repeat(50), 5), "xxxx…");
    }
}
