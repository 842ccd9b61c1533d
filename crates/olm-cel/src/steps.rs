//! Counts and limits the work of a rule.

/// The reason why an evaluation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvaluationFault {
    /// An error of the language: a missing key, a division by zero, a type mismatch.
    Wrong,
    /// The step limit is exceeded.
    TooLong,
}

/// The steps of a rule. Each value that is created or compared is one.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) used: u64,
    pub(super) limit: u64,
}

impl Steps {
    /// Counts steps in advance.
    pub(super) fn spend(&mut self, steps: u64) -> Result<(), EvaluationFault> {
        self.used = self.used.saturating_add(steps);
        if self.used > self.limit { Err(EvaluationFault::TooLong) } else { Ok(()) }
    }

    /// Counts the steps of reading or copying bytes.
    pub(super) fn read(&mut self, bytes: usize) -> Result<(), EvaluationFault> {
        self.spend(bytes as u64 / 64)
    }
}
