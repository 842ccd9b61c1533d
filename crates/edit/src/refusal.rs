//! Why an edit is not made.

/// The reason why an edit is not made, and the way out.
///
/// Whoever gets one has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What stands in the way.
    pub message: String,
    /// What to do instead.
    pub help: Option<String>,
}

impl Refusal {
    /// Makes a refusal; the way out is added by [`Refusal::help`].
    pub fn new(message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), help: None }
    }

    /// Says what to do instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Refusal {
        self.help = Some(help.into());
        self
    }
}
