//! Errors of image operations.

use std::borrow::Cow;
use std::fmt;

use fbc::fault::{Class, Fault};

use crate::ImageReferenceError;

/// The category of an error, by what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The text is not a valid reference.
    Reference,
    /// The image does not exist, or not for the platform.
    NotFound,
    /// The registry requires other credentials.
    Unauthorized,
    /// The registry does not respond, or its response is invalid.
    Network,
    /// The registry's certificate is not trusted.
    Certificate,
    /// Content does not match its digest.
    Digest,
    /// Something exceeds a limit.
    Limit,
    /// A policy or configuration forbids it.
    Forbidden,
    /// The content is not stored, and network access is disabled.
    Offline,
    /// A file cannot be read or written.
    File,
    /// The format or feature is not supported.
    Unsupported,
}

/// Why an image operation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    text: String,
    /// The length of the original message, at the end of the text; contexts come before it.
    root: usize,
    host: Option<String>,
    hint: Option<String>,
    tries: u32,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Error {
        let text = text.into();
        Error { kind, root: text.len(), text, host: None, hint: None, tries: 1 }
    }

    pub(crate) fn file(what: impl fmt::Display, error: &std::io::Error) -> Error {
        Error::new(ErrorKind::File, format!("{what}: {error}"))
    }

    /// Adds advice on how to fix the error.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// Records the number of attempts.
    #[must_use]
    pub(crate) fn tried(mut self, tries: u32) -> Error {
        self.tries = tries;
        self
    }

    /// Records the registry that the failed request was for.
    #[must_use]
    pub(crate) fn at(mut self, host: &str) -> Error {
        self.host.get_or_insert_with(|| host.to_owned());
        self
    }

    /// Prepends the operation that failed.
    #[must_use]
    pub(crate) fn context(mut self, what: impl fmt::Display) -> Error {
        self.text = format!("{what}: {}", self.text);
        self
    }

    /// Returns the category.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns whether this is a statement about the image: its registry does not have it, or its name is invalid.
    /// All other errors are failures of this run, such as those of the network, of credentials or of a registry.
    pub fn is_missing(&self) -> bool {
        matches!(self.kind, ErrorKind::NotFound | ErrorKind::Reference)
    }

    /// Returns the cause without the operation, and with the registry: errors of many images have the same one.
    pub fn cause(&self) -> String {
        let root = &self.text[self.text.len() - self.root..];
        match &self.host {
            Some(host) if !root.contains(host.as_str()) => format!("{host}: {root}"),
            _ => root.to_owned(),
        }
    }

    /// Returns the number of attempts, including retries.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Returns advice on how to fix the error, if there is any.
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

impl Fault for Error {
    fn class(&self) -> Class {
        match self.kind {
            ErrorKind::Reference => Class::Usage,
            ErrorKind::NotFound | ErrorKind::Limit | ErrorKind::Forbidden | ErrorKind::Unsupported => Class::Refused,
            ErrorKind::Unauthorized
            | ErrorKind::Network
            | ErrorKind::Certificate
            | ErrorKind::Digest
            | ErrorKind::Offline
            | ErrorKind::File => Class::World,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        self.help().map(Cow::Borrowed)
    }
}

impl From<ImageReferenceError> for Error {
    fn from(error: ImageReferenceError) -> Error {
        Error::new(ErrorKind::Reference, error.to_string())
    }
}
