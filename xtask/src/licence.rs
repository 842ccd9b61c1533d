//! Whether a licence expression of a crate can be satisfied with licences we accept.

use anyhow::{Context, Result, bail, ensure};

/// Returns the accepted licences from the text of `deny.toml`.
pub(crate) fn allowed(deny: &str) -> Result<Vec<&str>> {
    let section = deny.split("\n[").find(|section| section.trim_start_matches('[').starts_with("licenses]"));
    let list = section
        .and_then(|section| section.split_once("\nallow = ["))
        .and_then(|(_, rest)| rest.split_once(']'))
        .context("deny.toml has no list of licences")?
        .0;
    let allowed: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    ensure!(!allowed.is_empty(), "deny.toml allows no licence");
    Ok(allowed)
}

/// Returns the crates that `deny.toml` makes exceptions for.
pub(crate) fn excepted(deny: &str) -> Vec<&str> {
    let list = deny.split_once("\nexceptions = [").and_then(|(_, rest)| rest.split_once("\n]")).map(|(list, _)| list);
    let crates = list.into_iter().flat_map(|list| list.split("crate = \"").skip(1));
    crates.filter_map(|rest| Some(rest.split_once('"')?.0)).collect()
}

/// Tells whether `expression` can be satisfied with `allowed` licences.
///
/// The expression is SPDX with `AND`, `OR`, `WITH` and brackets, or names separated by `/` as
/// older crates have it. An exception only adds permissions, so it needs none itself.
///
/// # Errors
/// Fails when the expression is none.
pub(crate) fn is_satisfied(expression: &str, allowed: &[&str]) -> Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut parser = Parser { words: spaced.split_whitespace().peekable(), allowed };
    let satisfied = parser.either().with_context(|| format!("licence expression \"{expression}\""))?;
    match parser.words.next() {
        None => Ok(satisfied),
        Some(word) => bail!("licence expression \"{expression}\": \"{word}\" is out of place"),
    }
}

struct Parser<'a, Words: Iterator<Item = &'a str>> {
    words: std::iter::Peekable<Words>,
    allowed: &'a [&'a str],
}

impl<'a, Words: Iterator<Item = &'a str>> Parser<'a, Words> {
    fn either(&mut self) -> Result<bool> {
        let mut satisfied = self.both()?;
        while self.words.next_if_eq(&"OR").is_some() {
            satisfied |= self.both()?;
        }
        Ok(satisfied)
    }

    fn both(&mut self) -> Result<bool> {
        let mut satisfied = self.one()?;
        while self.words.next_if_eq(&"AND").is_some() {
            satisfied &= self.one()?;
        }
        Ok(satisfied)
    }

    fn one(&mut self) -> Result<bool> {
        let satisfied = match self.words.next() {
            Some("(") => {
                let inner = self.either()?;
                ensure!(self.words.next() == Some(")"), "a bracket is not closed");
                return Ok(inner);
            }
            None | Some(")" | "AND" | "OR" | "WITH") => bail!("a licence is missing"),
            Some(name) => self.allowed.contains(&name),
        };
        if self.words.next_if_eq(&"WITH").is_some() {
            self.words.next().context("an exception is missing")?;
        }
        Ok(satisfied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_satisfied_as_spdx_says() {
        let satisfied = |expression| is_satisfied(expression, &["MIT", "Zlib", "Apache-2.0"]).ok();
        assert_eq!(satisfied("MIT"), Some(true));
        assert_eq!(satisfied("GPL-3.0-only"), Some(false));
        assert_eq!(satisfied("GPL-2.0/MIT"), Some(true));
        assert_eq!(satisfied("GPL-2.0 AND MIT OR Zlib"), Some(true));
        assert_eq!(satisfied("GPL-2.0 AND (MIT OR Zlib)"), Some(false));
        assert_eq!(satisfied("(MIT OR Apache-2.0) AND Zlib"), Some(true));
        assert_eq!(satisfied("Apache-2.0 WITH LLVM-exception"), Some(true));
        assert_eq!(satisfied("GPL-2.0 WITH Classpath-exception-2.0"), Some(false));
        for wrong in ["", "MIT OR", "(MIT", "MIT Zlib", "MIT WITH", "AND"] {
            assert_eq!(satisfied(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_list_is_taken_from_its_section() {
        let deny = "[bans]\nallow = [\"no\"]\n\n[licenses]\n# why\nallow = [\n    \"MIT\",\n    \"Zlib\",\n]\n";
        assert_eq!(allowed(deny).unwrap(), ["MIT", "Zlib"]);
        assert!(allowed("[bans]\nallow = [\"no\"]\n").is_err());
        let deny = format!(
            "{deny}exceptions = [\n    {{ crate = \"a\", allow = [\"GPL-3.0\"] }},\n    {{ crate = \"b\" }},\n]\n"
        );
        assert_eq!(excepted(&deny), ["a", "b"]);
    }
}
