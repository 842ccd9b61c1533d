//! The only door to the terminal: data goes to stdout, everything else to stderr.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

/// Writes to stdout and stderr.
pub(crate) struct Printer {
    out: BufWriter<Stdout>,
    /// Whether messages may be coloured.
    pub(crate) colour: bool,
    /// Whether data that people read may be coloured.
    pub(crate) colour_data: bool,
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
            colour_data: wanted && io::stdout().is_terminal(),
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

    /// Tells an error that ends the program.
    pub(crate) fn error(&self, text: &str) {
        self.tell(&format!("{} {text}", self.paint(Style::Error, "error:")));
    }

    /// Tells something that does not end the program.
    pub(crate) fn warning(&self, text: &str) {
        self.tell(&format!("{} {text}", self.paint(Style::Warning, "warning:")));
    }

    /// Tells that the arguments make no sense.
    pub(crate) fn usage(&self, text: &str) {
        self.tell(text.trim_end());
    }

    /// Writes a line to stderr. There is nobody to tell when that fails.
    pub(crate) fn tell(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}
