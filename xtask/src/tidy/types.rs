//! Checks that the name of a public type means one thing in the workspace.

use std::collections::BTreeMap;

use super::Findings;

/// The names that several crates may use: each has its own errors, and a bundle is a blob or a valid part of a catalog.
const SHARED: [&str; 2] = ["Bundle", "Error"];
/// Generated code has the names of its source.
const GENERATED: &str = "/gen/";

/// The files that define each public type.
#[derive(Default)]
pub(super) struct PublicTypes {
    files: BTreeMap<String, Vec<String>>,
}

impl PublicTypes {
    /// Adds the types of a file of a library.
    pub(super) fn add(&mut self, file: &str, text: &str) {
        if !file.starts_with("crates/") || !file.contains("/src/") || file.contains(GENERATED) {
            return;
        }
        let types = text.lines().filter_map(|line| {
            let rest = line.strip_prefix("pub ")?;
            let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|kind| rest.strip_prefix(kind))?;
            rest.split(|c: char| !c.is_alphanumeric()).next()
        });
        for name in types {
            self.files.entry(name.to_owned()).or_default().push(file.to_owned());
        }
    }

    /// Reports names with several meanings.
    pub(super) fn report(&self, findings: &mut Findings) {
        let several = self.files.iter().filter(|(name, files)| files.len() > 1 && !SHARED.contains(&name.as_str()));
        for (name, files) in several {
            findings.errors.push(format!("{name} means several things: {}", files.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::errors;

    #[test]
    fn a_name_of_two_public_types_is_reported() {
        let found = errors(|findings| {
            let mut types = PublicTypes::default();
            types.add("crates/a/src/lib.rs", "pub struct Lock {\n    pub enum: u8,\n}\npub(crate) struct Own;\n");
            types.add("crates/b/src/lib.rs", "pub enum Lock<'a> {}\nstruct Own;\npub type Error = ();\n");
            types.add("crates/c/src/lib.rs", "pub struct Error;\n");
            types.add("crates/c/tests/all.rs", "pub struct Lock;\n");
            types.report(findings);
        });
        assert_eq!(found, ["Lock means several things: crates/a/src/lib.rs, crates/b/src/lib.rs"]);
    }
}
