//! `docs/limits.md` matches the code: every row is correct, and every limit has a row.

use std::fs;
use std::path::{Path, PathBuf};

/// Constants that bound our own output, buffers and fast paths, or repeat the limit of a cluster; they reject no input.
const NOT_LIMITS: &[&str] = &[
    "bundle/src/check/schema.rs MAX_FAULTS",
    "bundle/src/check/schema/fits.rs MAX_SHOWN",
    "bundle/src/check/whole_bundle.rs MAX_CONFIG_MAP_SIZE",
    "bundle/src/error.rs MAX_REASONS",
    "bundle/src/packed.rs NEAR_LIMIT",
    "bundle/src/rehearse/rehearsal.rs MAX_RESOURCES",
    "bundle/src/review/compare.rs MAX_NAMED",
    "catalog/src/draw/layout.rs MAX_LANES",
    "catalog/src/graph/order.rs MAX_NAME_LENGTH",
    "catalog/src/rules/package_name_label.rs MAX_LENGTH",
    "edit/src/diff/changes/lines.rs MAX_VALUE_LEN",
    "edit/src/diff/changes/report.rs MAX_DEPTH",
    "edit/src/diff/facts.rs MAX_RESOURCES_PER_RULE",
    "edit/src/merge.rs MAX_CONFLICTS",
    "edit/src/upgrades.rs MAX_SKIPS",
    "fbc/src/csv/metadata.rs MAX_FIELDS",
    "fbc/src/files/store.rs MEMORY_LIMIT",
    "fbc/src/files/window.rs SPARE_LIMIT",
    "fbc/src/locate.rs MAX_LINE_LEN",
    "fbc/src/similar.rs MAX_LENGTH",
    "fbc/src/yaml/fast/mod.rs MAX_DEPTH",
    "fbc/src/yaml/fast/mod.rs MAX_FLOW_DEPTH",
    "fbc/src/yaml/fast/mod.rs MAX_KEY_LEN",
    "fbc/src/yaml/text.rs MAX_SIMPLE_KEY_LEN",
    "image/src/explain.rs MAX_TAGS",
    "opm/src/dropped_fields.rs MAX_WARNINGS",
    "opm/src/report.rs MAX_PLACES",
    "opm/src/report.rs MAX_SHOWN_PER_RULE",
    "resolve/src/explain.rs MAX_NAMES",
    "resolve/src/pool/matching.rs MAX_CACHED",
    "serve/src/cache/data.rs MAX_REUSED",
    "serve/src/grpc/connection.rs MAX_CHECK_INTERVAL",
    "serve/src/load.rs MAX_DESCRIBED",
    "serve/src/buffer_pool.rs MAX_REUSED",
    "site/src/history.rs MAX_SWAPS",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> String {
    fs::read_to_string(crates().join("../docs/limits.md")).unwrap()
}

/// Returns the rows of the page: the default, what changes it, and the constant in the code.
fn rows(page: &str) -> Vec<[String; 3]> {
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.ends_with("` |")).map(cells);
    rows.map(|cells| match &cells[..] {
        [_, default, by, place] => [default.clone(), by.clone(), place.trim_matches('`').to_owned()],
        _ => panic!("a row has four cells: {cells:?}"),
    })
    .collect()
}

/// Parses a number of the page: `4 MiB`, `30 s`, `1000`.
fn page_number(text: &str) -> Option<u128> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let factor: u128 = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "ms" => 1,
        "s" => 1000,
        _ => return None,
    };
    Some(number.parse::<u128>().ok()? * factor)
}

/// Evaluates a number of the code: `4 << 20`, `1_000`, `Duration::from_secs(30)`; times in milliseconds.
fn code_number(text: &str) -> Option<u128> {
    let text = text.trim();
    let within = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
    if let Some(seconds) = within("Duration::from_secs") {
        return Some(code_number(seconds)? * 1000);
    }
    if let Some(milliseconds) = within("Duration::from_millis") {
        return code_number(milliseconds);
    }
    if let Some((left, right)) = text.split_once("<<") {
        return Some(code_number(left)? << code_number(right)?);
    }
    if let Some((left, right)) = text.split_once('*') {
        return Some(code_number(left)? * code_number(right)?);
    }
    text.replace('_', "").parse().ok()
}

/// Returns the value of a constant or field: the first number after its name.
fn value_of(source: &str, name: &str) -> Option<u128> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    source.match_indices(name).find_map(|(at, _)| {
        let rest = &source[at + name.len()..];
        if source[..at].ends_with(is_word) || !rest.starts_with(':') {
            return None;
        }
        let end = rest.find([';', ',', '}', '\n']).unwrap_or(rest.len());
        let set = &rest[1..end];
        code_number(set.split_once('=').map_or(set, |(_, value)| value))
    })
}

#[test]
fn every_row_matches_the_code() {
    let page = page();
    let rows = rows(&page);
    assert!(rows.len() > 40, "{} rows", rows.len());
    for [default, _, place] in rows {
        let (file, name) = place.split_once(' ').unwrap_or_else(|| panic!("{place}: no name"));
        let source = fs::read_to_string(crates().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let value = value_of(&source, name).unwrap_or_else(|| panic!("{place} is not in the code"));
        assert_eq!(Some(value), page_number(&default), "docs/limits.md says {default} for {place}");
    }
}

/// Calls `each` with every source file and its path below `crates`.
fn sources(directory: &Path, each: &mut dyn FnMut(&str, &str)) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(crates()).unwrap().display().to_string();
            each(&name, &fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_limit_has_a_row() {
    let page = page();
    let places: Vec<String> = rows(&page).into_iter().map(|[_, _, place]| place).collect();
    let mut missing = Vec::new();
    for of in fs::read_dir(crates()).unwrap().flatten().filter(|of| of.file_name() != "testkit") {
        let Ok(source) = of.path().join("src").canonicalize() else { continue };
        let source = crates().join(source.strip_prefix(crates().canonicalize().unwrap()).unwrap());
        sources(&source, &mut |file, text| {
            for variable in text.split('"').filter(|word| word.starts_with("OPM_MAX_")) {
                if !page.contains(&format!("`{variable}`")) {
                    missing.push(format!("{file} {variable}"));
                }
            }
            for flag in text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("max_")?.split_once(':'))
                .filter(|set| !set.1.contains('.'))
            {
                let flag = format!("--max-{}", flag.0.replace('_', "-"));
                if file.starts_with("opm/src/commands") && !page.contains(&format!("`{flag}`")) {
                    missing.push(format!("{file} {flag}"));
                }
            }
            for line in text.lines().take_while(|line| !line.starts_with("mod tests")) {
                let Some(rest) =
                    line.trim_start_matches("pub ").trim_start_matches("pub(crate) ").strip_prefix("const ")
                else {
                    continue;
                };
                let name = rest.split(':').next().unwrap_or_default();
                let place = format!("{file} {name}");
                let counts = name.starts_with("MAX_") || name.ends_with("_LIMIT");
                if counts && !places.contains(&place) && !NOT_LIMITS.contains(&place.as_str()) {
                    missing.push(place);
                }
            }
        });
    }
    missing.sort();
    missing.dedup();
    assert!(missing.is_empty(), "without a row in docs/limits.md: {missing:#?}");
}

#[test]
fn numbers_of_page_and_code_are_parsed() {
    assert_eq!((page_number("4 MiB"), code_number("4 << 20")), (Some(4 << 20), Some(4 << 20)));
    assert_eq!((page_number("30 s"), code_number("Duration::from_secs(30)")), (Some(30_000), Some(30_000)));
    assert_eq!(value_of("struct A { depth: usize }\nA { depth: 1_000 }", "depth"), Some(1000));
    assert_eq!((page_number("4 MB"), code_number("usize")), (None, None));
}
