//! Why something with an image did not work.

use std::fmt;

use crate::ReferenceError;

/// What went wrong, by what a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The text is no reference.
    Reference,
    /// There is no such image, or none for the platform.
    NotFound,
    /// The registry wants other credentials.
    Unauthorized,
    /// The registry does not answer, or not in a way that can be understood.
    Network,
    /// The registry's certificate is not trusted.
    Certificate,
    /// Content is not what its digest says.
    Digest,
    /// Something is larger than it may be.
    Limit,
    /// A policy or a configuration forbids it.
    Forbidden,
    /// It is not stored, and the network may not be used.
    Offline,
    /// A file cannot be read or written.
    File,
    /// It is something that is not supported.
    Unsupported,
}

/// Why something with an image did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    text: String,
    hint: Option<String>,
    tries: u32,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Error {
        Error { kind, text: text.into(), hint: None, tries: 1 }
    }

    pub(crate) fn file(what: impl fmt::Display, error: &std::io::Error) -> Error {
        Error::new(ErrorKind::File, format!("{what}: {error}"))
    }

    /// Adds what can be done about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// Notes how often it was tried.
    #[must_use]
    pub(crate) fn tried(mut self, tries: u32) -> Error {
        self.tries = tries;
        self
    }

    /// Says what was being done.
    #[must_use]
    pub(crate) fn context(mut self, what: impl fmt::Display) -> Error {
        self.text = format!("{what}: {}", self.text);
        self
    }

    /// Returns what kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns how often it was tried, all retries counted.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Returns what can be done about it, if that is known.
    pub fn help(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<ReferenceError> for Error {
    fn from(error: ReferenceError) -> Error {
        Error::new(ErrorKind::Reference, error.to_string())
    }
}
