//! Comparison with recorded results of the reference tool.
//!
//! The recordings are not part of this repository. Tests expect them in the folder that `OPM_CONFORMANCE_DIR` names,
//! by default `shared/conformance` next to the checkout; without them each test reports that it was skipped.

use std::fs;
use std::path::{Path, PathBuf};

use fbc::indexignore::IndexIgnore;
use fbc::range::VersionRange;
use fbc::release::Release;
use fbc::version::Version;
use serde_json::Value;

#[expect(clippy::print_stderr, reason = "a skipped test is reported")]
fn recordings() -> Option<PathBuf> {
    let folder = std::env::var_os("OPM_CONFORMANCE_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no recordings in {}", folder.display());
    None
}

/// Reports every row of a table for which `problem` returns a message.
#[track_caller]
fn check_rows(table: &Value, key: &str, problem: impl Fn(&Value) -> Option<String>) {
    let rows = table[key].as_array().expect("a table is a list of rows");
    assert!(!rows.is_empty());
    let problems: Vec<_> = rows.iter().filter_map(|row| Some(format!("{row}: {}", problem(row)?))).collect();
    assert!(
        problems.is_empty(),
        "{} of {} rows of {key:?} disagree:\n{}",
        problems.len(),
        rows.len(),
        problems.join("\n")
    );
}

fn table(folder: &Path, name: &str) -> Value {
    let text = fs::read(folder.join("tables").join(name)).expect("the table can be read");
    serde_json::from_slice(&text).expect("the table is JSON")
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().expect("the column holds text")
}

fn differs<T: PartialEq + std::fmt::Debug>(ours: T, theirs: T) -> Option<String> {
    (ours != theirs).then(|| format!("we say {ours:?}, recorded is {theirs:?}"))
}

#[test]
fn versions_are_parsed_as_recorded() {
    let Some(folder) = recordings() else { return };
    check_rows(&table(&folder, "semver-compare.json"), "parse", |row| {
        let print = |version: Version| version.to_string();
        let strict = Version::parse_strict(text(row, "text")).ok().map(print);
        let tolerant = Version::parse_tolerant(text(row, "text")).ok().map(print);
        differs((strict.as_deref(), tolerant.as_deref()), (row["strict"].as_str(), row["tolerant"].as_str()))
    });
}

#[test]
fn versions_compare_as_recorded() {
    let Some(folder) = recordings() else { return };
    check_rows(&table(&folder, "semver-compare.json"), "compare", |row| {
        let version = |key| Version::parse_strict(text(row, key)).expect("a version");
        let order = version("a").cmp_precedence(&version("b"));
        differs(Some(order as i64), row["result"].as_i64())
    });
}

#[test]
fn releases_compare_as_recorded() {
    let Some(folder) = recordings() else { return };
    check_rows(&table(&folder, "semver-compare.json"), "release", |row| {
        let release = |key| Release::parse(text(row, key)).expect("a release");
        differs(Some(release("a").cmp(&release("b")) as i64), row["result"].as_i64())
    });
}

#[test]
fn ranges_are_accepted_as_recorded() {
    let Some(folder) = recordings() else { return };
    check_rows(&table(&folder, "semver-range.json"), "valid", |row| {
        differs(Some(VersionRange::parse(text(row, "range")).is_ok()), row["valid"].as_bool())
    });
}

#[test]
fn ranges_match_as_recorded() {
    let Some(folder) = recordings() else { return };
    check_rows(&table(&folder, "semver-range.json"), "match", |row| {
        let range = VersionRange::parse(text(row, "range")).expect("a range");
        let version = Version::parse_strict(text(row, "version")).expect("a version");
        differs(Some(range.contains(&version)), row["match"].as_bool())
    });
}

/// Compares ignored files; in these cases every file has one blob, whose package is the path of the file.
#[test]
fn files_are_ignored_as_recorded() {
    let Some(folder) = recordings() else { return };
    let mut cases = 0;
    for case in sorted_entries(&folder.join("cases/fbc-render-catalog")) {
        let name = case.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("ignore-") {
            continue;
        }
        cases += 1;
        let mut ignore = IndexIgnore::default();
        let mut files = Vec::new();
        walk(&case.join("input"), &mut Vec::new(), &mut ignore, &mut files);
        let mut loaded: Vec<String> =
            files.iter().filter(|path| !ignore.is_ignored(path)).map(|path| path.join("/")).collect();
        loaded.sort();

        let stdout = fs::read(case.join("expected.stdout")).expect("the output can be read");
        let mut recorded: Vec<String> = serde_json::Deserializer::from_slice(&stdout)
            .into_iter::<Value>()
            .map(|blob| text(&blob.expect("the output is JSON"), "package").to_owned())
            .collect();
        recorded.sort();
        assert_eq!(loaded, recorded, "{name}");
    }
    assert!(cases > 0, "no cases found");
}

fn walk(directory: &Path, components: &mut Vec<String>, ignore: &mut IndexIgnore, files: &mut Vec<Vec<String>>) {
    for entry in sorted_entries(directory) {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if entry.is_file() && name == ".indexignore" {
            ignore.add(components, &fs::read(&entry).expect("the file can be read"));
            continue;
        }
        components.push(name);
        if entry.is_dir() {
            walk(&entry, components, ignore, files);
        } else {
            files.push(components.clone());
        }
        components.pop();
    }
}

fn sorted_entries(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(directory)
        .expect("the directory can be read")
        .map(|entry| entry.expect("the entry can be read").path())
        .collect();
    entries.sort();
    entries
}
