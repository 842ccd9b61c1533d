//! The reason why an edit is refused.

/// The reason why an edit is refused, with advice.
///
/// A refused edit has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EditRefusal {
    /// The reason.
    pub message: String,
    /// What to do instead.
    pub help: Option<String>,
}

impl EditRefusal {
    /// Creates a refusal; [`EditRefusal::help`] adds advice.
    pub fn new(message: impl Into<String>) -> EditRefusal {
        EditRefusal { message: message.into(), help: None }
    }

    /// Adds advice on what to do instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> EditRefusal {
        self.help = Some(help.into());
        self
    }
}
