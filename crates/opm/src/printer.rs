//! The only door to the terminal: data goes to stdout, everything else to stderr.

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use crate::table;

/// Writes to stdout and stderr.
pub(crate) struct Printer {
    out: BufWriter<Stdout>,
    /// Whether messages may be coloured.
    pub(crate) colour: bool,
    /// Whether a person reads the messages as they come.
    pub(crate) is_read: bool,
    /// Whether data that people read may be coloured.
    pub(crate) colour_data: bool,
    /// How many characters fit into a line of data, if people read it on a terminal.
    pub(crate) width: Option<usize>,
}

/// How a part of a message looks on a terminal.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Error,
    Warning,
    Note,
    Help,
}

impl Printer {
    pub(crate) fn new() -> Printer {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Printer {
            out: BufWriter::with_capacity(1 << 16, io::stdout()),
            colour: wanted && io::stderr().is_terminal(),
            is_read: io::stderr().is_terminal(),
            colour_data: wanted && io::stdout().is_terminal(),
            width: io::stdout()
                .is_terminal()
                .then(|| terminal_size::terminal_size_of(io::stdout()).map_or(80, |(width, _)| width.0.into())),
        }
    }

    /// Returns stdout.
    pub(crate) fn data(&mut self) -> &mut (dyn Write + Send) {
        &mut self.out
    }

    /// Writes what is left to stdout.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Colours a part of a message, if messages are coloured.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match style {
            Style::Error => "1;31",
            Style::Warning => "1;33",
            Style::Note => "1;34",
            Style::Help => "1;36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Writes a table to stdout; on a terminal it fits, and its headings stand out.
    pub(crate) fn table(&mut self, headings: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
        let text = match self.width {
            Some(width) => table::fitted(headings, rows, width),
            None => table::text(headings, rows),
        };
        match text.split_once('\n').filter(|_| self.colour_data) {
            Some((head, rest)) => write!(self.out, "\x1b[1m{head}\x1b[0m\n{rest}"),
            None => self.out.write_all(text.as_bytes()),
        }
    }

    /// Writes a line of text to stdout, in a colour if data may have one.
    pub(crate) fn coloured_line(&mut self, code: &str, line: &str) -> io::Result<()> {
        match self.colour_data && !code.is_empty() {
            true => writeln!(self.out, "\x1b[{code}m{line}\x1b[0m"),
            false => writeln!(self.out, "{line}"),
        }
    }

    /// Reports an error that ends the program.
    pub(crate) fn error(&self, text: &str) {
        self.report(&format!("{} {text}", self.paint(Style::Error, "error:")));
    }

    /// Reports something that does not end the program.
    pub(crate) fn warning(&self, text: &str) {
        self.report(&format!("{} {text}", self.paint(Style::Warning, "warning:")));
    }

    /// Reports that the arguments make no sense.
    pub(crate) fn usage(&self, text: &str) {
        self.report(text.trim_end());
    }

    /// Writes a line to stderr. A failure has nowhere to go.
    ///
    /// Messages quote what others wrote, so nothing in them may move the cursor or worse.
    pub(crate) fn report(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{}", harmless(text, self.colour));
    }
}

/// Shows control characters as what they are, but for line breaks, tabs and, where they are wanted, colours.
pub(crate) fn harmless(text: &str, colour: bool) -> Cow<'_, str> {
    let control = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(control) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if colour { colour_code(rest) } else { 0 };
        if length > 0 {
            shown.push_str(&rest[..length]);
            rest = &rest[length..];
        } else if let Some(c) = rest.chars().next() {
            shown.extend(c.escape_default());
            rest = &rest[c.len_utf8()..];
        }
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Returns how long the code at the start of a text is that only sets a colour; 0 if there is none.
fn colour_code(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\x1b[") else { return 0 };
    let end = parameters.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if parameters.as_bytes().get(end) == Some(&b'm') { end + 3 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_reach_the_terminal() {
        let hostile = "\x1b[1;31merror:\x1b[0m name \"a\x1b]0;title\x07b\x1b[2Jc\rd\u{9b}e\"\n\tindented é";
        insta::assert_snapshot!(harmless(hostile, false).escape_debug(), @r#"\\u{1b}[1;31merror:\\u{1b}[0m name \"a\\u{1b}]0;title\\u{7}b\\u{1b}[2Jc\\rd\\u{9b}e\"\n\tindented é"#);
        assert!(harmless(hostile, true).starts_with("\x1b[1;31merror:\x1b[0m name"));
        assert_eq!(harmless(hostile, true).matches('\x1b').count(), 2);
    }
}
