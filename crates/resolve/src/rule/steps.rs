//! How much work a rule has done, and how much it may do.

/// Why a rule gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The language calls it an error: a missing key, a division by zero, types that do not fit.
    Wrong,
    /// The rule has done as much as it may.
    TooLong,
}

/// The steps that a rule has done. Each value that is made or compared is one.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) done: u64,
    pub(super) most: u64,
}

impl Steps {
    /// Counts steps, before they are done.
    pub(super) fn take(&mut self, steps: u64) -> Result<(), Fault> {
        self.done = self.done.saturating_add(steps);
        if self.done > self.most { Err(Fault::TooLong) } else { Ok(()) }
    }

    /// Counts the steps for reading or copying bytes.
    pub(super) fn read(&mut self, bytes: usize) -> Result<(), Fault> {
        self.take(bytes as u64 / 64)
    }
}
