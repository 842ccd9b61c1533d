//! Repository checks: dependencies between crates, what ARCHITECTURE.md names, names of types, and source text.
//!
//! One run reports all problems.

mod arrows;
mod named;
mod source;
mod types;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::workspace::Workspace;
use arrows::arrows;
use named::named;
use source::{FileKind, kind, links, source};
use types::PublicTypes;

/// The problems found.
#[derive(Default)]
struct Findings {
    errors: Vec<String>,
}

/// Runs all checks, and fails if there are problems.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<()> {
    ensure!(options.is_empty(), "tidy takes no options");
    let mut findings = Findings::default();
    let architecture = fs::read_to_string(workspace.root.join("ARCHITECTURE.md")).context("reading ARCHITECTURE.md")?;
    let ours = workspace.metadata(false)?;
    arrows(&architecture, &ours, &mut findings)?;
    let files = workspace.files()?;
    named(&architecture, &workspace.root, &files, &mut findings)?;
    let mut types = PublicTypes::default();
    for path in &files {
        let Some(kind) = kind(path) else { continue };
        let full = workspace.root.join(path);
        let text = fs::read_to_string(&full).with_context(|| format!("reading {}", path.display()))?;
        let name = path.to_string_lossy().replace('\\', "/");
        source(&name, kind, &text, &mut findings);
        if kind == FileKind::Rust {
            types.add(&name, &text);
        }
        if kind == FileKind::Markdown {
            links(&name, &full, &text, &mut findings);
        }
    }
    types.report(&mut findings);
    rule_files(&workspace.root.join("crates/catalog/src/rules"), &mut findings)?;
    for error in &findings.errors {
        println!("error: {error}");
    }
    ensure!(findings.errors.is_empty(), "{} problems found", findings.errors.len());
    Ok(())
}

/// Checks that every rule is in one of the tables, which the compiler does not.
fn rule_files(directory: &Path, findings: &mut Findings) -> Result<()> {
    let tables = fs::read_to_string(directory.join("mod.rs")).context("reading the tables of rules")?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_listed = |before: &str| tables.contains(&format!("{before}{stem}::"));
        if stem != "mod" && !is_listed("\n    ") && !is_listed("&[") {
            findings.errors.push(format!("rule {stem} is not in the tables of crates/catalog/src/rules/mod.rs"));
        }
    }
    Ok(())
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    value[name].as_array().with_context(|| format!("cargo metadata has no {name}"))
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name].as_str().with_context(|| format!("cargo metadata has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the errors of a check.
    pub(super) fn errors(check: impl FnOnce(&mut Findings)) -> Vec<String> {
        let mut findings = Findings::default();
        check(&mut findings);
        findings.errors
    }
}
