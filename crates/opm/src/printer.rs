//! The only access to the terminal: data goes to stdout, everything else to stderr.

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use fbc::spelling::table::Table;
use serde::Serialize;

use crate::progress;

/// Writes to stdout and stderr.
pub(crate) struct Printer {
    out: BufWriter<StandardOutput>,
    /// Whether to colour messages.
    pub(crate) colour: bool,
    /// Whether messages go to a terminal.
    pub(crate) stderr_is_terminal: bool,
    /// Whether to colour human-readable data.
    pub(crate) colour_data: bool,
    /// The width of stdout in characters, if it is a terminal.
    pub(crate) width: Option<usize>,
}

/// The style of a part of a message.
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
            out: BufWriter::with_capacity(1 << 16, StandardOutput(io::stdout())),
            colour: wanted && io::stderr().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal(),
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

    /// Writes a report to stdout as JSON.
    pub(crate) fn json(&mut self, report: &impl Serialize) -> io::Result<()> {
        // Serialize directly: a `Value` of thousands of findings takes more memory.
        serde_json::to_writer_pretty(&mut self.out, report)?;
        self.out.write_all(b"\n")
    }

    /// Flushes stdout.
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

    /// Writes a table to stdout; on a terminal, fits it to the width and highlights the headings.
    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        let text = self.width.map_or_else(|| table.text(), |width| table.fitted(width));
        match text.split_once('\n').filter(|_| self.colour_data) {
            Some((head, rest)) => write!(self.out, "\x1b[1m{head}\x1b[0m\n{rest}"),
            None => self.out.write_all(text.as_bytes()),
        }
    }

    /// Writes a line of text to stdout, coloured if data is.
    pub(crate) fn coloured_line(&mut self, code: &str, line: &str) -> io::Result<()> {
        match self.colour_data && !code.is_empty() {
            true => writeln!(self.out, "\x1b[{code}m{line}\x1b[0m"),
            false => writeln!(self.out, "{line}"),
        }
    }

    /// Reports an error that ends the program.
    pub(crate) fn error(&self, text: &str) {
        let text = without_label(text, "Error: ");
        self.report(&format!("{} {text}", self.paint(Style::Error, "error:")));
    }

    /// Reports a problem that does not end the program.
    pub(crate) fn warning(&self, text: &str) {
        let text = without_label(text, "Warning: ");
        self.report(&format!("{} {text}", self.paint(Style::Warning, "warning:")));
    }

    /// Reports invalid arguments.
    pub(crate) fn usage(&self, text: &str) {
        self.report(text.trim_end());
    }

    /// Writes how to fix what was reported to stderr.
    pub(crate) fn help(&self, text: &str) {
        self.report(&format!("{} {text}", self.paint(Style::Help, "help:")));
    }

    /// Writes a line to stderr, and ignores failures.
    ///
    /// Messages quote untrusted text, so control characters are escaped.
    pub(crate) fn report(&self, text: &str) {
        progress::erase();
        let _ = writeln!(io::stderr().lock(), "{}", sanitized(text, self.colour));
    }
}

/// Stdout, whose errors name it: a full disk below it is not the one of temporary files.
struct StandardOutput(Stdout);

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(in_stdout)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(in_stdout)
    }
}

fn in_stdout(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("writing to standard output: {error}"))
}

/// Removes the label with which the existing tools start a message, since ours precedes it.
fn without_label<'a>(text: &'a str, label: &str) -> &'a str {
    text.strip_prefix(label).map_or(text, |rest| rest.trim_start_matches(": "))
}

/// Escapes control characters, except line breaks, tabs and, if `colour` is set, colour codes.
pub(crate) fn sanitized(text: &str, colour: bool) -> Cow<'_, str> {
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

/// Returns the length of the colour code at the start of a text; 0 if there is none.
fn colour_code(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\x1b[") else { return 0 };
    let end = parameters.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if parameters.as_bytes().get(end) == Some(&b'm') { end + 3 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_color_codes_reach_the_terminal() {
        let hostile = "\x1b[1;31merror:\x1b[0m name \"a\x1b]0;title\x07b\x1b[2Jc\rd\u{9b}e\"\n\tindented é";
        insta::assert_snapshot!(sanitized(hostile, false).escape_debug(), @r#"\\u{1b}[1;31merror:\\u{1b}[0m name \"a\\u{1b}]0;title\\u{7}b\\u{1b}[2Jc\\rd\\u{9b}e\"\n\tindented é"#);
        assert!(sanitized(hostile, true).starts_with("\x1b[1;31merror:\x1b[0m name"));
        assert_eq!(sanitized(hostile, true).matches('\x1b').count(), 2);
    }
}
