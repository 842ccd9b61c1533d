//! Failures and exit codes.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use fbc::fault::{Class, Fault};
use source::{Invalid, SourceError};

use crate::printer::{Printer, Style};
use crate::report;

/// The result of a command.
pub(crate) type Outcome = Result<(), Failure>;

/// Why a command failed. All variants but one give exit code 1, as scripts expect.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error; the text says what failed and why.
    Message(String),
    /// An error of a library.
    Fault(Box<dyn Fault>),
    /// Invalid arguments; the text says why.
    Usage(String),
    /// Arguments that the parser rejects; the text is printed as it is, with the usage.
    Unparsed(String),
    /// The problems have been reported already.
    Reported,
    /// An error with its own exit code, for `grpc_health_probe` and signals.
    Exit(u8, String),
    /// A catalog breaks rules, which are still to be reported.
    Invalid(Box<Invalid>),
    /// The reader closed the output pipe. This counts as success.
    ClosedPipe,
}

impl Failure {
    /// Creates a failure with a message.
    pub(crate) fn message(text: impl ToString) -> Failure {
        Failure::Message(text.to_string())
    }

    /// Creates a failure from an error of a library.
    pub(crate) fn fault(error: impl Fault) -> Failure {
        Failure::Fault(Box::new(error))
    }
}

/// Adds the path to an I/O error.
pub(crate) fn in_path(path: &Path, error: &io::Error) -> Failure {
    Failure::message(format!("{}: {error}", path.display()))
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            // Errors with their own path name it.
            io::ErrorKind::StorageFull if !error.to_string().contains('/') => {
                let place = std::env::temp_dir();
                Failure::Message(format!("{error}; temporary files are in {}", place.display()))
            }
            _ => Failure::Message(error.to_string()),
        }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Failure {
        match error {
            SourceError::Io(error) => error.into(),
            SourceError::Invalid(invalid) => Failure::Invalid(invalid),
            error if error.class() == Class::Usage => Failure::Usage(error.to_string()),
            error => Failure::Message(error.to_string()),
        }
    }
}

/// Reports a failure, if any, and returns the exit code.
pub(crate) fn end(outcome: Outcome, printer: &mut Printer) -> ExitCode {
    let outcome = outcome.and_then(|()| printer.flush().map_err(Failure::from));
    match outcome {
        Ok(()) | Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(Failure::Reported) => ExitCode::FAILURE,
        Err(Failure::Invalid(invalid)) => {
            report::show(printer, &report::find(&invalid.fbc, invalid.problems.errors()));
            ExitCode::FAILURE
        }
        Err(Failure::Message(text) | Failure::Usage(text)) => {
            printer.error(&text);
            ExitCode::FAILURE
        }
        Err(Failure::Fault(fault)) => {
            printer.error(&fault.to_string());
            if let Some(hint) = fault.hint() {
                printer.report(&format!("{} {hint}", printer.paint(Style::Help, "help:")));
            }
            ExitCode::FAILURE
        }
        Err(Failure::Exit(code, text)) => {
            printer.error(&text);
            ExitCode::from(code)
        }
        Err(Failure::Unparsed(text)) => {
            printer.usage(&text);
            ExitCode::FAILURE
        }
    }
}
