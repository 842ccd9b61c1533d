//! Whole catalogs: the input is split into files at each `0xff 0xff`.
//!
//! A catalog that loads without problems prints, loads and prints the same.

use std::fs;
use std::path::Path;

use catalog::Warnings;
use fbc::locate::Locator;
use fbc::{Fbc, Format, LoadOptions, ProblemSeverity};

const NAMES: [&str; 4] = ["catalog.yaml", "b.json", "sub/c.yaml", "sub/.indexignore"];

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let scratch = tempfile::tempdir().expect("scratch directory");
    let root = scratch.path().join("catalog");
    fs::create_dir_all(root.join("sub")).expect("scratch directory");
    let mut rest = bytes;
    for name in NAMES {
        let end = rest.windows(2).position(|pair| pair == b"\xff\xff").unwrap_or(rest.len());
        fs::write(root.join(name), &rest[..end]).expect("scratch file");
        rest = rest.get(end + 2..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
    }
    check(&root);
    let migrated = LoadOptions { migrate: true, keep_text: true, ..LoadOptions::default() };
    let mut fbc = Fbc::default();
    let loaded = fbc.load_dir(&root, &migrated).expect("a directory");
    if loaded.problems.is_empty() {
        print(&fbc, Format::Json);
    }

    let Some((json, yaml)) = load_and_print(&root) else { return };
    for (name, text) in [("printed.json", &json), ("printed.yaml", &yaml)] {
        let root = scratch.path().join(name);
        fs::create_dir(&root).expect("scratch directory");
        fs::write(root.join(name), text).expect("scratch file");
        let (json_again, yaml_again) = load_and_print(&root).expect("a printed catalog loads");
        assert_eq!(text_of(&json_again), text_of(&json), "JSON after {name}");
        assert_eq!(text_of(&yaml_again), text_of(&yaml), "YAML after {name}");
    }
}

/// Checks the catalog and locates all problems.
fn check(root: &Path) {
    let mut fbc = Fbc::default();
    let inspect = catalog::inspect(Warnings::On);
    let options = LoadOptions { inspect: Some(&inspect), ..LoadOptions::default() };
    let loaded = fbc.load_dir(root, &options).expect("a directory");
    let checked = catalog::check(&fbc, loaded, Warnings::On);
    let errors = checked.problems().iter().any(|problem| problem.severity == ProblemSeverity::Error);
    assert_eq!(checked.catalog.is_err(), errors, "a catalog exists exactly if there are no errors");
    let mut locator = Locator::new(&fbc);
    for problem in checked.problems() {
        assert!(!problem.rule.is_empty() && !problem.message.is_empty());
        if let Some(located) = problem.place.as_ref().and_then(|place| locator.locate(place)) {
            assert!(located.marked.start <= located.marked.end);
        }
    }
}

/// Loads a catalog and prints it as JSON and as YAML, unless it has problems.
fn load_and_print(root: &Path) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut fbc = Fbc::default();
    let options = LoadOptions { keep_text: true, ..LoadOptions::default() };
    let loaded = fbc.load_dir(root, &options).expect("a directory");
    if !loaded.problems.is_empty() {
        return None;
    }
    Some((print(&fbc, Format::Json), print(&fbc, Format::Yaml)))
}

fn print(fbc: &Fbc, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    fbc.write(&fbc.in_order(), format, &mut out).expect("writing to memory succeeds");
    out
}

fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("catalogs are text")
}
