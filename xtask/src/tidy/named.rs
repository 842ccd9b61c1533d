//! Checks that what ARCHITECTURE.md names exists: files, directories, and items of our crates.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Findings;
use super::arrows::names;

/// Checks every name between backticks that looks like a path or like an item.
pub(super) fn named(architecture: &str, root: &Path, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let mut code: BTreeMap<String, String> = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let Some(of) = crate_of(file) else { continue };
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("reading {}", file.display()))?;
        code.entry(of).or_default().push_str(&text);
    }
    for (index, line) in architecture.lines().enumerate() {
        // Further files of a row are below the directory of one before.
        let mut before: Vec<PathBuf> = Vec::new();
        for name in names(line) {
            let exists = match kind(name) {
                Named::Path => {
                    let places = [PathBuf::new(), "crates".into()].into_iter().chain(before.iter().cloned());
                    let found = places.map(|place| place.join(name)).find(|path| root.join(path).exists());
                    let found = found.or_else(|| anywhere(name, files));
                    before.extend(
                        found
                            .iter()
                            .flat_map(|path| path.ancestors().skip(usize::from(path.extension().is_some())))
                            .map(Path::to_path_buf),
                    );
                    found.is_some()
                }
                Named::Item { of, name } => code.get(of).is_none_or(|code| has_item(code, name)),
                Named::Other => true,
            };
            if !exists {
                findings.errors.push(format!("ARCHITECTURE.md:{}: {name} does not exist", index + 1));
            }
        }
    }
    Ok(())
}

enum Named<'a> {
    Path,
    /// The last part of `crate::...::name`.
    Item {
        of: &'a str,
        name: &'a str,
    },
    Other,
}

fn kind(name: &str) -> Named<'_> {
    if name.contains([' ', '*', '(', '<', '-']) && !name.ends_with(".rs") {
        return Named::Other;
    }
    if let Some((of, rest)) = name.split_once("::") {
        return Named::Item { of, name: rest.rsplit("::").next().unwrap_or(rest) };
    }
    let is_path = name.ends_with(".rs") || name.ends_with('/') || name.starts_with("crates/");
    if is_path { Named::Path } else { Named::Other }
}

/// Returns the only file with this end, for names such as `files/members.rs` in running text.
fn anywhere(name: &str, files: &[PathBuf]) -> Option<PathBuf> {
    files
        .iter()
        .find(|file| file.ends_with(name) || file.parent().is_some_and(|parent| parent.ends_with(name)))
        .cloned()
}

fn crate_of(file: &Path) -> Option<String> {
    let mut parts = file.iter().map(|part| part.to_string_lossy());
    (parts.next()? == "crates").then(|| parts.next().map(|name| name.replace('-', "_")))?
}

fn has_item(code: &str, name: &str) -> bool {
    let declared = ["struct", "enum", "trait", "fn", "mod", "type", "const", "static"];
    declared.iter().any(|word| {
        code.match_indices(&format!("{word} {name}"))
            .any(|(at, found)| !code[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::errors;
    use super::*;

    #[test]
    fn what_does_not_exist_is_reported() {
        let directory = std::env::temp_dir().join(format!("opm-named-{}", std::process::id()));
        fs::create_dir_all(directory.join("crates/fbc/src/files")).unwrap();
        let files = ["crates/fbc/src/lib.rs", "crates/fbc/src/files/walk.rs"].map(PathBuf::from);
        fs::write(directory.join(&files[0]), "pub struct Fbc;\nimpl Fbc { pub fn load() {} }\n").unwrap();
        fs::write(directory.join(&files[1]), "").unwrap();
        let page = "`crates/fbc/src/`: `lib.rs`, `files/walk.rs`, `gone.rs`\n`files/` and `fbc::Fbc::load`, `fbc::Gone`\n\
            `serde::Value`, `opm build`, `crates/none/`";
        let found = errors(|findings| named(page, &directory, &files, findings).unwrap());
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(
            found,
            [
                "ARCHITECTURE.md:1: gone.rs does not exist",
                "ARCHITECTURE.md:2: fbc::Gone does not exist",
                "ARCHITECTURE.md:3: crates/none/ does not exist",
            ]
        );
    }
}
