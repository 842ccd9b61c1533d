//! The path from a document to a value inside it.

use std::borrow::Cow;
use std::fmt;

/// One step from a value to a nested value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PathStep {
    /// To the member of this name.
    Key(Cow<'static, str>),
    /// To the item at this index.
    Index(usize),
}

impl From<&'static str> for PathStep {
    fn from(key: &'static str) -> Self {
        PathStep::Key(key.into())
    }
}

impl From<String> for PathStep {
    fn from(key: String) -> Self {
        PathStep::Key(key.into())
    }
}

impl From<usize> for PathStep {
    fn from(index: usize) -> Self {
        PathStep::Index(index)
    }
}

/// The path from the root of a document to a nested value; displayed as `entries[2].name`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct JsonPath(pub Vec<PathStep>);

impl JsonPath {
    /// Returns this path with one more step.
    pub fn then(&self, step: impl Into<PathStep>) -> JsonPath {
        let mut steps = self.0.clone();
        steps.push(step.into());
        JsonPath(steps)
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Key(key) if i == 0 => f.write_str(key)?,
                PathStep::Key(key) => write!(f, ".{key}")?,
                PathStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Builds a [`JsonPath`] from keys and indices: `path!["entries", 2, "name"]`.
#[macro_export]
macro_rules! path {
    ($($step:expr),* $(,)?) => { $crate::json::JsonPath(vec![$($crate::json::PathStep::from($step)),*]) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_is_printed_in_the_usual_notation() {
        assert_eq!(path!["entries", 1, "name"].to_string(), "entries[1].name");
    }
}
