//! Pages that are made from the code, so that they cannot be wrong about it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use catalog::rules::{DEPENDENCIES, RULES, Rule, STRICT, WARNINGS};

use crate::workspace::Workspace;

/// Where the page is.
const PAGE: &str = "docs/rules.md";
/// Where the code is that reports the rules below.
const READER: &str = "crates/fbc/src";

/// What must hold for a file to be read at all. These rules have no table in the code: each is
/// where the reader would have to guess.
const READING: &[(&str, &str)] = &[
    ("file-readable", "every file that is not ignored can be read and is not too large"),
    ("utf-8", "a file is UTF-8 text"),
    ("json-syntax", "a file that starts with `{` is a sequence of JSON values, or YAML"),
    ("yaml-syntax", "any other file is a sequence of YAML documents that JSON can express"),
    ("limits", "blobs and their number, nesting and aliases stay within the limits"),
    ("document-is-object", "a document is an object"),
    ("envelope-types", "`schema`, `package` and `name` are strings"),
    ("keys-differ-by-more-than-case", "no two keys of a blob differ by case only"),
    ("schema-required", "a document has a `schema`"),
    ("field-types", "the fields of packages, channels, bundles and deprecations have the types they should have"),
    ("bundle-objects", "an `olm.bundle.object` holds base64, or names a file inside the catalog"),
    ("migration", "a bundle that is migrated has a CSV that `olm.csv.metadata` can be made of"),
    ("old-form-channel", "in a package without channel blobs every bundle names its channels, each once"),
    ("old-form-skips", "an `olm.skips` property of such a bundle names one bundle"),
    ("old-form-skip-range", "such a bundle has at most one `olm.skipRange`, a string"),
];

/// Writes the pages, or with `--check` fails if they are not what they should be.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<()> {
    let check = match options {
        [] => false,
        [option] if option == "--check" => true,
        _ => bail!("docs takes no option but --check"),
    };
    reading_is_complete(&workspace.root.join(READER))?;
    let page = rules();
    let path = workspace.root.join(PAGE);
    let on_disk = fs::read_to_string(&path).unwrap_or_default();
    if on_disk == page {
        return Ok(());
    }
    ensure!(!check, "{PAGE} is not up to date: run `cargo xtask docs`");
    fs::create_dir_all(path.with_file_name(""))?;
    fs::write(&path, page).with_context(|| format!("writing {PAGE}"))?;
    println!("wrote {PAGE}");
    Ok(())
}

/// Returns the page about rules.
fn rules() -> String {
    let mut page = String::from(
        "<!-- Made by `cargo xtask docs`. -->\n\n\
         # Rules\n\n\
         What `opm validate` checks. The name of a rule stands in square brackets in its messages, and is the rule's\n\
         identifier in `-o sarif` and `-o github`.\n",
    );
    table(
        &mut page,
        "Reading",
        "What must hold for files to be read. A blob that breaks one of these is left out, and checking goes on with \
         the others.",
        READING,
    );
    table(&mut page, "Meaning", "What must hold for a catalog to be used.", &named(RULES));
    table(
        &mut page,
        "Dependencies",
        "What must hold for bundles to be installed, with `--deps`. Other catalogs that clusters see are named by \
         `--with`.",
        &named(DEPENDENCIES),
    );
    table(
        &mut page,
        "Strict",
        "What the definition of the format asks for, although the existing tool accepts catalogs without it. With \
         `--strict` these are errors, with `--warnings` alone warnings.",
        &named(STRICT),
    );
    table(
        &mut page,
        "Warnings",
        "What had better hold. A catalog works without, but hardly as its author meant.",
        &named(WARNINGS),
    );
    page
}

fn table(page: &mut String, title: &str, about: &str, rows: &[(&str, &str)]) {
    let _ = write!(page, "\n## {title}\n\n{about}\n\n| rule | what must hold |\n|---|---|\n");
    for (name, about) in rows {
        let _ = writeln!(page, "| `{name}` | {} |", about.replace('|', "\\|"));
    }
}

/// Returns names and meanings; a rule that is checked in several places is one rule.
fn named(rules: &[Rule]) -> Vec<(&'static str, &'static str)> {
    let mut seen = BTreeSet::new();
    rules.iter().filter(|rule| seen.insert(rule.name)).map(|rule| (rule.name, rule.about)).collect()
}

/// Checks that the table of rules for reading names just those that the code reports.
fn reading_is_complete(reader: &Path) -> Result<()> {
    let mut text = String::new();
    let mut directories = vec![reader.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("reading {}", directory.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&fs::read_to_string(&path)?);
            }
        }
    }
    let known: BTreeSet<&str> = READING.iter().map(|(name, _)| *name).collect();
    for reported in reported(&text) {
        ensure!(known.contains(reported), "rule {reported} is reported in {READER} but not described in xtask");
    }
    for name in known {
        ensure!(text.contains(&format!("\"{name}\"")), "rule {name} is described in xtask but not found in {READER}");
    }
    Ok(())
}

/// Finds the names of rules in code: where a problem or fault is made, and by their prefix.
fn reported(code: &str) -> BTreeSet<&str> {
    let before = ["Problem::new(\"", "rule: \""].into_iter().flat_map(|start| code.split(start).skip(1));
    let made = before.filter_map(|rest| rest.split('"').next());
    made.chain(code.split('"').filter(|literal| literal.starts_with("old-form-"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rules_are_found_in_code() {
        let code = "Problem::new(\"a-b\", x); Fault { rule: \"c\", y }; report(None, \"old-form-d\", z)";
        assert_eq!(reported(code).into_iter().collect::<Vec<_>>(), ["a-b", "c", "old-form-d"]);
    }

    #[test]
    fn every_rule_is_on_the_page_once() {
        let page = rules();
        for name in RULES
            .iter()
            .chain(STRICT)
            .chain(WARNINGS)
            .map(|rule| rule.name)
            .chain(READING.iter().map(|(name, _)| *name))
        {
            assert_eq!(page.matches(&format!("\n| `{name}` |")).count(), 1, "{name}");
        }
    }
}
