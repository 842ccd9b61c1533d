//! The rules of the house: who may use whom, licences, and what source text may hold.
//!
//! Everything that is wrong is told in one run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::licence;
use crate::workspace::Workspace;

/// Which of our crates each of our crates may use. `testkit` is for tests, where all may use it.
const ARROWS: &[(&str, &[&str])] = &[
    ("fbc", &[]),
    ("catalog", &["fbc"]),
    ("bundle", &["fbc"]),
    ("edit", &["fbc", "catalog"]),
    ("rehearse", &["fbc", "bundle"]),
    ("resolve", &["fbc", "catalog"]),
    ("schema", &["fbc", "catalog", "edit"]),
    ("review", &["fbc", "bundle", "rehearse"]),
    ("sqlite-index", &["fbc", "catalog", "bundle"]),
    ("signature", &[]),
    ("image", &["signature"]),
    ("serve", &["fbc", "catalog"]),
    ("site", &["fbc", "catalog", "edit", "resolve"]),
    ("cluster", &["fbc", "bundle"]),
    ("mirror", &["fbc", "catalog", "edit", "image"]),
    (
        "opm",
        &[
            "fbc",
            "catalog",
            "bundle",
            "edit",
            "rehearse",
            "resolve",
            "review",
            "sqlite-index",
            "image",
            "serve",
            "site",
            "cluster",
            "schema",
            "mirror",
        ],
    ),
    (TESTKIT, &[]),
    ("xtask", &["fbc", "catalog", "schema"]),
];
const TESTKIT: &str = "testkit";

/// The files that may hold what the compiler cannot check, with the reasons beside each use.
const UNCHECKED_FILES: [&str; 1] = ["crates/fbc/src/yaml/events.rs"];

/// The files of the console that may put text into pages without escaping it.
const UNESCAPED_FILES: [&str; 2] = ["crates/site/src/markdown.rs", "crates/site/src/frame.rs"];
const UNESCAPED: &str = concat!("Pre", "Escaped");

/// A file of more lines has a second noun in it that wants a file of its own.
const LONG: usize = 500;
const TOO_LONG: usize = 700;

// These are spelled in two parts so that this file may hold them.
const UNFINISHED_MACROS: [&str; 2] = [concat!("to", "do!("), concat!("unimple", "mented!(")];
const UNFINISHED_WORDS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const UNCHECKED: &str = concat!("un", "safe");

/// What was found.
#[derive(Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

/// Checks everything, and fails if something is wrong.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<()> {
    ensure!(options.is_empty(), "tidy takes no options");
    let mut findings = Findings::default();
    arrows(&workspace.metadata(false)?, &mut findings)?;
    let deny = fs::read_to_string(workspace.root.join("deny.toml")).context("reading deny.toml")?;
    licences(&workspace.metadata(true)?, &licence::allowed(&deny)?, &licence::excepted(&deny), &mut findings)?;
    for path in workspace.files()? {
        let Some(kind) = kind(&path) else { continue };
        let full = workspace.root.join(&path);
        let text = fs::read_to_string(&full).with_context(|| format!("reading {}", path.display()))?;
        let name = path.to_string_lossy().replace('\\', "/");
        source(&name, kind, &text, &mut findings);
        if kind == Kind::Markdown {
            links(&name, &full, &text, &mut findings);
        }
    }
    rule_files(&workspace.root.join("crates/catalog/src/rules"), &mut findings)?;
    for warning in &findings.warnings {
        println!("warning: {warning}");
    }
    for error in &findings.errors {
        println!("error: {error}");
    }
    ensure!(findings.errors.is_empty(), "{} things are not tidy", findings.errors.len());
    Ok(())
}

/// Compares the dependencies between our crates with the table.
fn arrows(metadata: &Value, findings: &mut Findings) -> Result<()> {
    for package in list(metadata, "packages")? {
        let name = text(package, "name")?;
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
            findings.errors.push(format!("crate {name} is not in the table of allowed arrows"));
            continue;
        };
        for dependency in list(package, "dependencies")?.iter().filter(|dependency| dependency["path"].is_string()) {
            let to = text(dependency, "name")?;
            let for_tests = dependency["kind"] == "dev" && to == TESTKIT && name != TESTKIT;
            if !for_tests && !allowed.contains(&to) {
                findings.errors.push(format!("crate {name} must not use {to}"));
            }
        }
    }
    Ok(())
}

/// Checks the licence of every crate that comes from elsewhere.
fn licences(metadata: &Value, allowed: &[&str], excepted: &[&str], findings: &mut Findings) -> Result<()> {
    for package in list(metadata, "packages")?.iter().filter(|package| !package["source"].is_null()) {
        let (name, version) = (text(package, "name")?, text(package, "version")?);
        match package["license"].as_str() {
            None => findings.errors.push(format!("{name} {version} does not name its licence")),
            Some(_) if excepted.contains(&name) => {}
            Some(expression) => match licence::is_satisfied(expression, allowed) {
                Ok(true) => {}
                Ok(false) => findings.errors.push(format!("{name} {version} has the licence {expression}")),
                Err(error) => findings.errors.push(format!("{name} {version}: {error:#}")),
            },
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rust,
    Markdown,
    /// Settings and scripts.
    Other,
}

/// Tells what kind of source text a file is; data such as fixtures is none.
fn kind(path: &Path) -> Option<Kind> {
    let data = ["fixtures", "examples", "fuzz/seeds", "fuzz/dictionaries"];
    if data.iter().any(|directory| path.starts_with(directory)) {
        return None;
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => Some(Kind::Rust),
        Some("md") => Some(Kind::Markdown),
        Some("toml" | "sh") => Some(Kind::Other),
        None if path.file_name().is_some_and(|name| name == "run") => Some(Kind::Other),
        _ => None,
    }
}

fn source(name: &str, kind: Kind, text: &str, findings: &mut Findings) {
    let lines = text.lines().count();
    let written = kind == Kind::Rust && !name.contains("/gen/");
    if written && lines > TOO_LONG {
        findings.errors.push(format!("{name} has {lines} lines, more than {TOO_LONG}"));
    } else if written && lines > LONG {
        findings.warnings.push(format!("{name} has {lines} lines, more than {LONG}"));
    }
    let mut shows_output = false;
    for (index, line) in text.lines().enumerate() {
        let mut report = |what: String| findings.errors.push(format!("{name}:{}: {what}", index + 1));
        if kind == Kind::Markdown && line.starts_with("```") {
            shows_output = !shows_output;
        }
        // What a program prints is shown as it prints it, and rustfmt sees to all of Rust but such text.
        if line.ends_with([' ', '\t']) && !shows_output && kind != Kind::Rust {
            report("white space at the end of the line".into());
        }
        for word in UNFINISHED_WORDS.iter().filter(|word| has_word(line, word)) {
            report(format!("{word} is for work that is not finished"));
        }
        if kind == Kind::Rust {
            if let Some(language) = doc_fence(line) {
                if !shows_output && language != "text" {
                    report("nothing runs doc tests: write a test, or a block of `text`".into());
                }
                shows_output = !shows_output;
            }
            for call in UNFINISHED_MACROS.iter().filter(|call| line.contains(**call)) {
                report(format!("{call}...) is for work that is not finished"));
            }
            let code = line.split("//").next().unwrap_or_default();
            if name.starts_with("crates/site/") && !UNESCAPED_FILES.contains(&name) && code.contains(UNESCAPED) {
                report(format!("{UNESCAPED} belongs in {}", UNESCAPED_FILES.join(" or ")));
            }
            if !UNCHECKED_FILES.contains(&name) && has_word(code, UNCHECKED) {
                report(format!("{UNCHECKED} code belongs in {}", UNCHECKED_FILES.join(" or ")));
            }
        }
    }
}

/// Returns what follows the fence that opens or closes a block in a doc comment.
fn doc_fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    comment.trim_start().strip_prefix("```")
}

/// Tells whether `line` holds `word` other than as a part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

/// Checks that the files which a page links to exist.
fn links(name: &str, full: &Path, text: &str, findings: &mut Findings) {
    let mut shows_output = false;
    for (index, line) in text.lines().enumerate() {
        shows_output ^= line.starts_with("```");
        if shows_output {
            continue;
        }
        // What stands between two backticks is no link.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for target in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:") || path.is_empty();
            if !elsewhere && !full.with_file_name("").join(path).exists() {
                findings.errors.push(format!("{name}:{}: the link to {target} leads nowhere", index + 1));
            }
        }
    }
}

/// Checks that every rule is in one of the tables; the compiler would not miss it.
fn rule_files(directory: &Path, findings: &mut Findings) -> Result<()> {
    let tables = fs::read_to_string(directory.join("mod.rs")).context("reading the tables of rules")?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if stem != "mod" && !tables.contains(&format!("\n    {stem}::")) {
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
    use serde_json::json;

    fn errors(check: impl FnOnce(&mut Findings)) -> Vec<String> {
        let mut findings = Findings::default();
        check(&mut findings);
        findings.errors
    }

    #[test]
    fn an_arrow_that_is_not_in_the_table_is_told() {
        let metadata = json!({"packages": [
            {"name": "catalog", "dependencies": [
                {"name": "fbc", "path": "x", "kind": null},
                {"name": "bundle", "path": "x", "kind": "dev"},
                {"name": "testkit", "path": "x", "kind": "dev"},
                {"name": "serde", "kind": null},
            ]},
            {"name": "fbc", "dependencies": [{"name": "testkit", "path": "x", "kind": null}]},
            {"name": "extra", "dependencies": []},
        ]});
        let found = errors(|findings| arrows(&metadata, findings).unwrap());
        assert_eq!(
            found,
            [
                "crate catalog must not use bundle",
                "crate fbc must not use testkit",
                "crate extra is not in the table of allowed arrows",
            ]
        );
    }

    #[test]
    fn crates_without_an_accepted_licence_are_told() {
        let metadata = json!({"packages": [
            {"name": "ours", "version": "1.0.0", "source": null},
            {"name": "a", "version": "1.0.0", "source": "registry", "license": "MIT OR GPL-3.0"},
            {"name": "b", "version": "1.0.0", "source": "registry", "license": "GPL-3.0"},
            {"name": "c", "version": "1.0.0", "source": "registry", "license": null},
            {"name": "d", "version": "1.0.0", "source": "registry", "license": "GPL-3.0"},
        ]});
        let found = errors(|findings| licences(&metadata, &["MIT"], &["d"], findings).unwrap());
        assert_eq!(found, ["b 1.0.0 has the licence GPL-3.0", "c 1.0.0 does not name its licence"]);
    }

    #[test]
    fn source_text_is_finished_and_checked() {
        let [macro_, word] = [UNFINISHED_MACROS[0], UNFINISHED_WORDS[1]];
        let text =
            format!("{macro_})\n// {word}: x\n{UNCHECKED} {{}}\n// {UNCHECKED}\nuse {UNCHECKED}_x; // {word}S\n");
        let found = errors(|findings| source("a.rs", Kind::Rust, &text, findings));
        let places: Vec<&str> = found.iter().filter_map(|error| error.split(' ').next()).collect();
        assert_eq!(places, ["a.rs:1:", "a.rs:2:", "a.rs:3:"]);
        let found = errors(|findings| source(UNCHECKED_FILES[0], Kind::Rust, UNCHECKED, findings));
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn lines_end_with_what_is_seen_unless_they_show_output() {
        let found = errors(|findings| source("a.md", Kind::Markdown, "```\nx \n```\ny \n", findings));
        assert_eq!(found, ["a.md:4: white space at the end of the line"]);
    }

    #[test]
    fn long_files_are_told() {
        let mut findings = Findings::default();
        source("long.rs", Kind::Rust, &"\n".repeat(LONG + 1), &mut findings);
        source("longer.rs", Kind::Rust, &"\n".repeat(TOO_LONG + 1), &mut findings);
        assert_eq!(findings.warnings, ["long.rs has 501 lines, more than 500"]);
        assert_eq!(findings.errors, ["longer.rs has 701 lines, more than 700"]);
    }

    #[test]
    fn links_lead_to_files() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("page.md");
        let text = "[a](Cargo.toml#x) [b](src/) [c](https://x.example/y) `[d](e)`\n```\n[f](g)\n```\n[h](i.md)\n";
        let found = errors(|findings| links("page.md", &page, text, findings));
        assert_eq!(found, ["page.md:5: the link to i.md leads nowhere"]);
    }
}
