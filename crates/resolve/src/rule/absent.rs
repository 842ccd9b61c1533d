//! Rules in the Common Expression Language, where the program was built without it.

/// A rule that can be worked out: there is none.
pub enum Rule {}

impl Rule {
    /// Refuses a rule.
    ///
    /// # Errors
    /// Always fails.
    pub fn compile(_: &str) -> Result<Rule, String> {
        Err("this program was built without the feature `cel`, so it cannot read rules".to_owned())
    }

    /// Returns how many values the rule may look at.
    ///
    /// # Errors
    /// There is no rule.
    pub fn work(&self, _: &str) -> Result<u64, String> {
        match *self {}
    }

    /// Returns whether the rule holds.
    ///
    /// # Errors
    /// There is no rule.
    pub fn holds(&self, _: &str) -> Result<bool, String> {
        match *self {}
    }
}
