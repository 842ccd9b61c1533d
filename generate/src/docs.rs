//! Pages that are made from the code, so that they cannot be wrong about it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use catalog::rules::{DEPENDENCIES, RULES, Rule, STRICT, WARNINGS};
use schema::rules::READING;

use crate::Project;

/// Where the page is.
const PAGE: &str = "docs/rules.md";
/// Where the schemas are.
const SCHEMAS: &str = "schemas";
/// Where the pages on commands are.
const COMMANDS: &str = "docs/cli";
/// Where the code is that reports the rules below.
const READER: &str = "crates/fbc/src";

/// Writes the pages, or with `check` fails if they are not what they should be.
pub(crate) fn run(project: &Project, check: bool) -> Result<()> {
    reading_is_complete(&project.root.join(READER))?;
    place(project, PAGE, &rules(), check)?;
    for name in schema::names() {
        let schema = schema::json_schema(&name).with_context(|| format!("there is no schema {name}"))?;
        place(project, &format!("{SCHEMAS}/{name}.json"), &format!("{schema:#}\n"), check)?;
    }
    no_others(&project.root.join(SCHEMAS), check)?;
    // A test of the program compares the pages on commands.
    if check { Ok(()) } else { commands(project) }
}

/// Writes the pages on commands, which the program makes of its own arguments.
fn commands(project: &Project) -> Result<()> {
    let scratch = project.root.join("target").join("cli-pages");
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch).with_context(|| format!("making {}", scratch.display()))?;
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--bin", "opm", "--", "__reference"])
        .arg(&scratch)
        .current_dir(&project.root)
        .status()
        .context("running opm")?;
    ensure!(status.success(), "opm __reference failed");
    let mut known = BTreeSet::new();
    for entry in fs::read_dir(&scratch)? {
        let name = entry?.file_name();
        let text = fs::read_to_string(scratch.join(&name))?;
        place(project, &format!("{COMMANDS}/{}", name.to_string_lossy()), &text, false)?;
        known.insert(name);
    }
    fs::remove_dir_all(&scratch)?;
    for entry in fs::read_dir(project.root.join(COMMANDS))? {
        let entry = entry?;
        if !known.contains(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes a file, or fails if it is not what it should be.
fn place(project: &Project, file: &str, text: &str, check: bool) -> Result<()> {
    let path = project.root.join(file);
    let on_disk = fs::read_to_string(&path).unwrap_or_default();
    if on_disk == text {
        return Ok(());
    }
    ensure!(!check, "{file} is not up to date: run `cargo xtask docs`");
    fs::create_dir_all(path.with_file_name(""))?;
    fs::write(&path, text).with_context(|| format!("writing {file}"))?;
    println!("wrote {file}");
    Ok(())
}

/// Removes schemas that there are no more, or fails if there are any.
fn no_others(root: &Path, check: bool) -> Result<()> {
    let known: BTreeSet<PathBuf> = schema::names().iter().map(|name| root.join(format!("{name}.json"))).collect();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("reading {}", directory.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if !known.contains(&path) {
                ensure!(!check, "{} is no schema any more: run `cargo xtask docs`", path.display());
                fs::remove_file(&path)?;
            }
        }
    }
    Ok(())
}

/// Returns the page about rules.
fn rules() -> String {
    let mut page = String::from(
        "<!-- Made by `cargo xtask docs`. -->\n\n\
         # Rules\n\n\
         What `opm validate` checks. The name of a rule stands in square brackets in its messages, and is the rule's\n\
         identifier in `-o sarif` and `-o github`; `opm explain RULE` says why it is one, and how to fix a catalog.\n",
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
        ensure!(known.contains(reported), "rule {reported} is reported in {READER} but not described in crates/schema");
    }
    for name in known {
        ensure!(
            text.contains(&format!("\"{name}\"")),
            "rule {name} is described in crates/schema but not found in {READER}"
        );
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
