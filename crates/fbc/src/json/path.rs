//! The path from a document to a value inside it.

use std::borrow::Cow;
use std::fmt;

/// One step from a value to a nested value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// To the member of this name.
    Key(Cow<'static, str>),
    /// To the item at this index.
    Index(usize),
}

impl From<&'static str> for Step {
    fn from(key: &'static str) -> Self {
        Step::Key(key.into())
    }
}

impl From<String> for Step {
    fn from(key: String) -> Self {
        Step::Key(key.into())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Step::Index(index)
    }
}

/// The path from the root of a document to a nested value; displayed as `entries[2].name`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// Returns this path with one more step.
    pub fn then(&self, step: impl Into<Step>) -> Path {
        let mut steps = self.0.clone();
        steps.push(step.into());
        Path(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if i == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Builds a [`Path`] from keys and indices: `path!["entries", 2, "name"]`.
#[macro_export]
macro_rules! path {
    ($($step:expr),* $(,)?) => { $crate::json::Path(vec![$($crate::json::Step::from($step)),*]) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_is_printed_in_the_usual_notation() {
        assert_eq!(path!["entries", 1, "name"].to_string(), "entries[1].name");
    }
}
