//! Compares the dependencies between our crates with the table in ARCHITECTURE.md.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Findings, list, text};

const TESTKIT: &str = "testkit";

/// The crates that a crate may use.
#[derive(Debug, PartialEq, Eq)]
enum Allowed<'a> {
    /// Only these.
    Only(Vec<&'a str>),
    /// All of them.
    All,
}

/// Compares the dependencies between our crates with the table in `architecture`.
pub(super) fn arrows(architecture: &str, metadata: &Value, findings: &mut Findings) -> Result<()> {
    let table = table(architecture)?;
    for package in list(metadata, "packages")? {
        let name = text(package, "name")?;
        let Some(allowed) = table.get(name) else {
            findings.errors.push(format!("crate {name} is not in the code map of ARCHITECTURE.md"));
            continue;
        };
        if let Allowed::Only(names) = allowed {
            let used: Vec<&str> = list(package, "dependencies")?.iter().filter_map(|it| it["name"].as_str()).collect();
            let unused = names.iter().filter(|name| !used.contains(name));
            findings
                .errors
                .extend(unused.map(|to| format!("crate {name} does not use {to}, although ARCHITECTURE.md allows it")));
        }
        for dependency in list(package, "dependencies")?.iter().filter(|dependency| dependency["path"].is_string()) {
            let to = text(dependency, "name")?;
            let for_tests = dependency["kind"] == "dev" && to == TESTKIT && name != TESTKIT;
            let good = match allowed {
                Allowed::Only(names) => names.contains(&to),
                Allowed::All => to != TESTKIT,
            };
            if !for_tests && !good {
                findings.errors.push(format!("crate {name} must not use {to}: ARCHITECTURE.md does not say so"));
            }
        }
    }
    Ok(())
}

/// Parses the rows of the code map: a crate, its description, the crates it may use.
fn table(architecture: &str) -> Result<BTreeMap<&str, Allowed<'_>>> {
    let mut table = BTreeMap::new();
    let rows = architecture.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [of, _, may_use] = cells.as_slice() else { continue };
        let name = names(of).next().with_context(|| format!("a row of the code map names no crate: {row}"))?;
        let name = name.strip_prefix("crates/").unwrap_or(name);
        let allowed = if *may_use == "all of them" { Allowed::All } else { Allowed::Only(names(may_use).collect()) };
        table.insert(name, allowed);
    }
    ensure!(!table.is_empty(), "ARCHITECTURE.md has no code map");
    Ok(table)
}

/// Returns the names between backticks.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MAP: &str = "text\n\n| crate | is | may use |\n|---|---|---|\n\
        | `crates/fbc` | the format | nothing of ours |\n\
        | `crates/catalog` | the meaning | `fbc`, `spelling` |\n\
        | `crates/opm` | the binary | all of them |\n\
        | `crates/testkit` | helpers | only in tests |\n\n| looking for | open |\n";

    #[test]
    fn an_arrow_that_is_not_in_the_table_is_reported() {
        let metadata = json!({"packages": [
            {"name": "catalog", "dependencies": [
                {"name": "fbc", "path": "x", "kind": null},
                {"name": "bundle", "path": "x", "kind": "dev"},
                {"name": "testkit", "path": "x", "kind": "dev"},
                {"name": "serde", "kind": null},
            ]},
            {"name": "fbc", "dependencies": [{"name": "testkit", "path": "x", "kind": null}]},
            {"name": "opm", "dependencies": [{"name": "catalog", "path": "x", "kind": null}]},
            {"name": "extra", "dependencies": []},
        ]});
        let mut findings = Findings::default();
        arrows(MAP, &metadata, &mut findings).unwrap();
        assert_eq!(
            findings.errors,
            [
                "crate catalog does not use spelling, although ARCHITECTURE.md allows it",
                "crate catalog must not use bundle: ARCHITECTURE.md does not say so",
                "crate fbc must not use testkit: ARCHITECTURE.md does not say so",
                "crate extra is not in the code map of ARCHITECTURE.md",
            ]
        );
        assert!(arrows("no map", &metadata, &mut findings).is_err());
    }
}
