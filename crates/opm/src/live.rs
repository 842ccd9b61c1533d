//! Shows the state of cluster objects: updated in place on a terminal, line by line elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::printer::{Printer, Style, sanitized};

/// Shows the progress of cluster operations on stderr.
pub(crate) struct ClusterProgress<'a> {
    printer: &'a Printer,
    /// Whether to show requests too.
    verbose: bool,
    terminal: bool,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    /// The pending objects with their states.
    states: Vec<(String, String)>,
    /// The number of terminal lines they occupy.
    lines: usize,
}

impl<'a> ClusterProgress<'a> {
    pub(crate) fn new(printer: &'a Printer, verbose: bool) -> ClusterProgress<'a> {
        ClusterProgress { printer, verbose, terminal: io::stderr().is_terminal(), shown: Mutex::default() }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints a permanent line.
    fn report(&self, text: &str) {
        let mut shown = self.shown();
        self.erase(&mut shown);
        self.printer.report(text);
        self.draw(&mut shown);
    }

    /// Erases the updated lines.
    fn erase(&self, shown: &mut Shown) {
        if shown.lines > 0 {
            // There is nowhere to report a failure.
            let _ = write!(io::stderr(), "\r\x1b[{}A\x1b[J", shown.lines);
            shown.lines = 0;
        }
    }

    fn draw(&self, shown: &mut Shown) {
        if !self.terminal || shown.states.is_empty() {
            return;
        }
        let width = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
        let mut text = String::new();
        for (object, state) in &shown.states {
            let line = format!("  {object}: {}", state.lines().next().unwrap_or_default());
            // Truncate lines: a wrapped line would occupy two.
            let line: String = sanitized(&line, false).chars().take(width.saturating_sub(1)).collect();
            text += &line;
            text.push('\n');
        }
        shown.lines = shown.states.len();
        let _ = write!(io::stderr(), "{text}");
    }
}

impl Drop for ClusterProgress<'_> {
    fn drop(&mut self) {
        let mut shown = self.shown();
        self.erase(&mut shown);
    }
}

impl cluster::Watcher for ClusterProgress<'_> {
    fn done(&self, text: &str) {
        self.report(text);
    }

    fn warn(&self, text: &str) {
        self.report(&format!("{} {text}", self.printer.paint(Style::Warning, "warning:")));
    }

    fn state(&self, object: &str, state: &str) {
        let mut shown = self.shown();
        let known = shown.states.iter().position(|(one, _)| one == object);
        match (known, state.is_empty()) {
            (None, true) => return,
            (Some(at), true) => drop(shown.states.remove(at)),
            (Some(at), false) if shown.states[at].1 == state => return,
            (Some(at), false) => state.clone_into(&mut shown.states[at].1),
            (None, false) => shown.states.push((object.to_owned(), state.to_owned())),
        }
        if self.terminal {
            self.erase(&mut shown);
            self.draw(&mut shown);
        } else if !state.is_empty() {
            self.printer.report(&format!("  {object}: {state}"));
        }
    }

    fn request(&self, what: &str) {
        if self.verbose {
            self.report(&format!("  {what}"));
        }
    }
}
