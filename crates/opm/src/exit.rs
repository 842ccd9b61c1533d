//! How the process ends.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::printer::Printer;

/// What a command gives back: nothing, or the reason to fail.
pub(crate) type Outcome = Result<(), Failure>;

/// Why a command failed. All of them but one end with exit code 1, as scripts expect.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something could not be done; the text says what and why.
    Message(String),
    /// The arguments make no sense; the text says why, with the usage.
    Usage(String),
    /// What is wrong has been reported already.
    Reported,
    /// Something could not be done, and the exit code says what: those of `grpc_health_probe`, and signals.
    Exit(u8, String),
    /// Nobody reads the output any more. That is no failure.
    ClosedPipe,
}

impl Failure {
    /// Makes a failure with a text for the user.
    pub(crate) fn message(text: impl Into<String>) -> Failure {
        Failure::Message(text.into())
    }
}

/// Says which file something went wrong with.
pub(crate) fn in_path(path: &Path, error: &io::Error) -> Failure {
    Failure::message(format!("{}: {error}", path.display()))
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            // What has a place of its own names it.
            io::ErrorKind::StorageFull if !error.to_string().contains('/') => {
                let place = std::env::temp_dir();
                Failure::Message(format!("{error}; temporary files are in {}", place.display()))
            }
            _ => Failure::Message(error.to_string()),
        }
    }
}

/// Reports what went wrong, if anything did, and returns the exit code.
pub(crate) fn end(outcome: Outcome, printer: &mut Printer) -> ExitCode {
    let outcome = outcome.and_then(|()| printer.flush().map_err(Failure::from));
    match outcome {
        Ok(()) | Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(Failure::Reported) => ExitCode::FAILURE,
        Err(Failure::Message(text)) => {
            printer.error(&text);
            ExitCode::FAILURE
        }
        Err(Failure::Exit(code, text)) => {
            printer.error(&text);
            ExitCode::from(code)
        }
        Err(Failure::Usage(text)) => {
            printer.usage(&text);
            ExitCode::FAILURE
        }
    }
}
