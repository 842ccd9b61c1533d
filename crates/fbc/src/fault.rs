//! What an error means for the user: every crate answers, and the program turns the answer into an exit code.

use std::borrow::Cow;
use std::error::Error;

/// The meaning of an error for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The input was read, and the answer is no: it is invalid, missing or not allowed.
    Refused,
    /// The command was called the wrong way.
    Usage,
    /// The world failed: the network, a registry, the disk or the cluster. The same command may work later.
    World,
}

/// An error that a command can end with.
pub trait Fault: Error + Send + Sync + 'static {
    /// Returns the meaning of the error.
    fn class(&self) -> Class;

    /// Returns how to fix it, if that is known.
    fn hint(&self) -> Option<Cow<'_, str>> {
        None
    }
}
