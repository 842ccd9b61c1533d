//! The reason why an edit is refused.

/// The reason why an edit is refused, with advice.
///
/// A refused edit has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The reason.
    pub message: String,
    /// What to do instead.
    pub help: Option<String>,
}

impl Refusal {
    /// Creates a refusal; [`Refusal::help`] adds advice.
    pub fn new(message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), help: None }
    }

    /// Adds advice on what to do instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Refusal {
        self.help = Some(help.into());
        self
    }
}
