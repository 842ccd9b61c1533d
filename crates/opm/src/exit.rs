//! Failures and exit codes; `docs/exit-codes.md` lists these.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use fbc::fault::{Class, Fault};
use source::{Invalid, SourceError};

use crate::printer::Printer;
use crate::report;

/// The result of a command.
pub(crate) type CommandResult = Result<(), Failure>;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error, with the operations that failed because of it, the outermost first.
    Fault(Vec<String>, Box<dyn Fault>),
    /// Arguments that the parser rejects; the text is printed as it is, with the usage.
    Arguments(String),
    /// The answer is no, and the report has been printed already.
    Reported,
    /// Errors that have been printed already, with their meaning.
    Printed(Class),
    /// An error with its own exit code, for `grpc_health_probe` and signals.
    Exit(u8, String),
    /// A catalog breaks rules, which are still to be reported.
    Invalid(Box<Invalid>),
    /// The failure of a command that existing tools have, too: exit code 1, whatever failed.
    Recorded(Box<Failure>),
    /// The reader closed the output pipe. This counts as success.
    ClosedPipe,
}

/// An error of the program itself.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Plain {
    class: Class,
    text: String,
    hint: Option<String>,
}

impl Fault for Plain {
    fn class(&self) -> Class {
        self.class
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        self.hint.as_deref().map(Cow::Borrowed)
    }
}

impl Failure {
    /// Creates a failure that means: the input was read, and the answer is no.
    pub(crate) fn message(text: impl ToString) -> Failure {
        Failure::new(Class::Refused, text)
    }

    /// Creates a failure that means: the command was called the wrong way.
    pub(crate) fn usage(text: impl ToString) -> Failure {
        Failure::new(Class::Usage, text)
    }

    /// Creates a failure that means: the network, the disk or the cluster failed.
    pub(crate) fn world(text: impl ToString) -> Failure {
        Failure::new(Class::World, text)
    }

    /// Creates a failure from an error of a library.
    pub(crate) fn fault(error: impl Fault) -> Failure {
        Failure::Fault(Vec::new(), Box::new(error))
    }

    /// Creates a failure with a message and its meaning.
    pub(crate) fn new(class: Class, text: impl ToString) -> Failure {
        Failure::fault(Plain { class, text: text.to_string(), hint: None })
    }

    /// Adds how to fix it.
    #[must_use]
    pub(crate) fn hint(self, hint: Option<impl ToString>) -> Failure {
        match (self, hint) {
            (Failure::Fault(context, fault), Some(hint)) => {
                let plain = Plain { class: fault.class(), text: fault.to_string(), hint: Some(hint.to_string()) };
                Failure::Fault(context, Box::new(plain))
            }
            (failure, _) => failure,
        }
    }

    /// Replaces a path in the message by the name that the user knows.
    #[must_use]
    pub(crate) fn with_name(self, path: &Path, name: &str) -> Failure {
        match self {
            Failure::Fault(context, fault) => {
                let text = fault.to_string().replace(&*path.to_string_lossy(), name);
                let hint = fault.hint().map(Cow::into_owned);
                Failure::Fault(context, Box::new(Plain { class: fault.class(), text, hint }))
            }
            other => other,
        }
    }

    /// Adds the operation that failed.
    #[must_use]
    pub(crate) fn context(self, what: impl ToString) -> Failure {
        match self {
            // Wrong arguments are not the failure of an operation.
            Failure::Fault(mut context, fault) if fault.class() != Class::Usage => {
                context.insert(0, what.to_string());
                Failure::Fault(context, fault)
            }
            Failure::Exit(code, text) => Failure::Exit(code, format!("{}: {text}", what.to_string())),
            other => other,
        }
    }

    /// Returns the message of an error; `None` if there is nothing to print, or more than a message.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Failure::Fault(context, fault) => {
                Some(context.iter().map(|what| format!("{what}: ")).chain([fault.to_string()]).collect())
            }
            Failure::Exit(_, text) => Some(text.clone()),
            Failure::Recorded(failure) => failure.text(),
            _ => None,
        }
    }

    /// Returns the error for a library that called back; the problems of a catalog are reported at once.
    pub(crate) fn into_fault(self, printer: &Printer) -> Box<dyn Fault> {
        match self {
            Failure::Fault(context, fault) if context.is_empty() => fault,
            failure => {
                if let Failure::Invalid(_) = failure {
                    failure.print(printer);
                }
                let class = if failure.code() == 3 { Class::World } else { Class::Refused };
                let text = failure.text().unwrap_or_else(|| "the catalog is not valid".to_owned());
                Box::new(Plain { class, text, hint: None })
            }
        }
    }

    fn code(&self) -> u8 {
        match self {
            Failure::ClosedPipe => 0,
            Failure::Reported | Failure::Invalid(_) => 1,
            Failure::Arguments(_) => 2,
            Failure::Printed(class) => code(*class),
            Failure::Fault(_, fault) => code(fault.class()),
            Failure::Exit(code, _) => *code,
            Failure::Recorded(failure) => match **failure {
                Failure::Exit(code, _) => code,
                Failure::ClosedPipe => 0,
                _ => 1,
            },
        }
    }

    fn print(&self, printer: &Printer) {
        match self {
            Failure::Reported | Failure::Printed(_) | Failure::ClosedPipe => {}
            Failure::Arguments(text) => printer.usage(text),
            Failure::Invalid(invalid) => {
                report::show(printer, &report::find(&invalid.fbc, invalid.problems.errors()));
            }
            Failure::Recorded(failure) => failure.print(printer),
            Failure::Fault(..) | Failure::Exit(..) => {
                printer.error(&self.text().unwrap_or_default());
                if let Failure::Fault(_, fault) = self
                    && let Some(hint) = fault.hint()
                {
                    printer.help(&hint);
                }
            }
        }
    }
}

/// Returns the exit code of commands of our own.
fn code(class: Class) -> u8 {
    match class {
        Class::Refused => 1,
        Class::Usage => 2,
        Class::World => 3,
    }
}

/// Marks the outcome of a command that existing tools have, too: its exit codes are recorded.
pub(crate) fn recorded(outcome: CommandResult) -> CommandResult {
    outcome.map_err(|failure| Failure::Recorded(Box::new(failure)))
}

/// Adds the path to an I/O error.
pub(crate) fn in_path(path: &Path, error: &io::Error) -> Failure {
    Failure::world(format!("{}: {error}", path.display()))
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            // Errors with a text of their own name the path.
            io::ErrorKind::StorageFull if error.raw_os_error().is_some() => {
                let place = std::env::temp_dir();
                Failure::world(format!("{error}; temporary files are in {}", place.display()))
            }
            _ => Failure::world(error),
        }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Failure {
        match error {
            SourceError::Io(error) => error.into(),
            SourceError::Invalid(invalid) => Failure::Invalid(invalid),
            error => Failure::fault(error),
        }
    }
}

impl From<bundle::CheckError> for Failure {
    fn from(error: bundle::CheckError) -> Failure {
        Failure::fault(error)
    }
}

/// Reports a failure, if any, and returns the exit code.
pub(crate) fn end(outcome: CommandResult, printer: &mut Printer) -> ExitCode {
    let outcome = outcome.and_then(|()| printer.flush().map_err(Failure::from));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(printer);
            ExitCode::from(failure.code())
        }
    }
}
