//! docs/guarantees.md and the tests that show its guarantees.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::env::project;

/// This file cites guarantees as examples.
const THIS: &str = "crates/opm/tests/cli/guarantees.rs";

/// The files that show each guarantee.
type Shown = BTreeMap<String, BTreeSet<String>>;

/// Returns the rows of the page.
fn page() -> Shown {
    let page = fs::read_to_string(project("docs/guarantees.md")).unwrap();
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
        let [id, _, files] = cells[..] else { return None };
        Some((id.to_owned(), files.split('`').skip(1).step_by(2).map(str::to_owned).collect()))
    });
    rows.collect()
}

/// Collects the guarantees that the names of tests and comments cite.
fn cited(directory: &Path, found: &mut Shown) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            cited(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && path != project(THIS) {
            let file = path.strip_prefix(project("crates")).unwrap().display().to_string();
            for line in fs::read_to_string(&path).unwrap().lines() {
                for id in citations(line) {
                    found.entry(id).or_default().insert(file.clone());
                }
            }
        }
    }
}

/// Returns what a line cites: `fn m12_...` and, in a comment, `M-12`.
fn citations(line: &str) -> Vec<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let named = line.split_once("fn ").and_then(|(_, name)| {
        let (start, _) = name.split_once('_')?;
        let number = start.strip_prefix(['m', 'c']).filter(|number| is_number(number))?;
        Some(format!("{}-{number}", start[..1].to_uppercase()))
    });
    let comment = line.split_once("//").map_or("", |(_, comment)| comment);
    let words = comment.split(|c: char| !c.is_alphanumeric() && c != '-');
    let cited = words.filter(|word| {
        let number = word.strip_prefix("M-").or_else(|| word.strip_prefix("C-"));
        number.is_some_and(is_number)
    });
    named.into_iter().chain(cited.map(str::to_owned)).collect()
}

#[test]
fn tests_and_guarantees_cite_each_other() {
    let mut found = Shown::new();
    cited(&project("crates"), &mut found);
    assert!(found.len() > 40, "{found:?}");
    assert_eq!(found, page());
}

#[test]
fn citations_are_names_and_comments() {
    for (line, expected) in [
        ("fn m12_a_run_is_resumed() {", &["M-12"][..]),
        ("    fn c3_a_page() {", &["C-3"]),
        ("//! M-4 and M-21: the files", &["M-4", "M-21"]),
        ("/// C-9: as M-2.", &["C-9", "M-2"]),
        ("fn matches(x: u8) {", &[]),
        ("let x = \"ec_paramgen_curve:M-256\";", &[]),
        ("// UTC-3", &[]),
    ] {
        assert_eq!(citations(line), expected, "{line}");
    }
}
