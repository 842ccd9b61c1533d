//! Matches schema patterns as API servers do.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

/// The maximum size of a compiled pattern in bytes; larger patterns are not checked.
const MAX_COMPILED_SIZE: usize = 512 << 10;

/// A cache of compiled patterns; `None` for those that cannot be checked.
#[derive(Default)]
pub(super) struct Patterns(HashMap<String, Option<Regex>>);

impl Patterns {
    /// Returns whether a pattern is in the cache.
    pub(super) fn knows(&self, pattern: &str) -> bool {
        self.0.contains_key(pattern)
    }

    /// Returns whether a pattern that can be checked does not match a string.
    pub(super) fn excludes(&mut self, pattern: &str, text: &str) -> bool {
        let compiled = self.0.entry(pattern.to_owned()).or_insert_with(|| compiled(pattern));
        compiled.as_ref().is_some_and(|pattern| !pattern.is_match(text))
    }
}

fn compiled(pattern: &str) -> Option<Regex> {
    if !means_the_same(pattern) {
        return None;
    }
    RegexBuilder::new(pattern).size_limit(MAX_COMPILED_SIZE).build().ok()
}

/// Returns whether a pattern has the same meaning in Go, where character classes have no nested classes or operators.
fn means_the_same(pattern: &str) -> bool {
    let mut bytes = pattern.bytes().peekable();
    let mut inside = false;
    let mut last = 0;
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
                last = 0;
                continue;
            }
            b'[' if inside && bytes.peek() != Some(&b':') => return false,
            b'[' if inside => {
                // A named class such as [:alpha:] ends with the next bracket.
                bytes.by_ref().find(|byte| *byte == b']');
            }
            b'[' => {
                inside = true;
                bytes.next_if_eq(&b'^');
                // A leading bracket is literal.
                bytes.next_if_eq(&b']');
            }
            b']' => inside = false,
            b'&' | b'-' | b'~' if inside && last == byte => return false,
            _ => {}
        }
        last = byte;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_anywhere_and_differences_from_go_are_not_judged() {
        let mut patterns = Patterns::default();
        let mut excludes = |pattern: &str, text: &str| patterns.excludes(pattern, text);
        assert!(!excludes("b", "abc"));
        assert!(excludes("^b", "abc"));
        assert!(excludes("^[a-z]([-a-z0-9]*[a-z0-9])?$", "Foo"));
        assert!(!excludes("^[[:alpha:]]+$", "Foo"));
        assert!(excludes("^[[:alpha:]]+$", "Foo1"));
        assert!(!excludes(r"^[\[\]a-z--9]$", "X"), "an operator");
        assert!(!excludes("^[[a]$", "X"), "a class in a class");
        assert!(!excludes("^(?!x)", "x"), "no pattern here, nor in Go");
        assert!(!excludes(&format!("^{}$", r"\pL{1000}".repeat(100)), "x"), "too large");
        assert!(patterns.knows("^b") && !patterns.knows("^c"));
    }
}
