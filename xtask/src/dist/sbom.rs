//! What the program is made of: a bill of materials in CycloneDX's JSON.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Dist;
use crate::workspace::{cargo, output};

/// Writes the crates that are linked into the program, with their licences and the digests they were fetched with.
pub(super) fn write(dist: &Dist<'_>) -> Result<PathBuf> {
    let linked = linked(dist)?;
    let lock = fs::read_to_string(dist.workspace.root.join("Cargo.lock")).context("reading Cargo.lock")?;
    let metadata = dist.workspace.metadata(true)?;
    let packages = metadata["packages"].as_array().context("cargo names no packages")?;
    let mut components = Vec::new();
    for (name, version) in &linked {
        let package = packages.iter().find(|package| package["name"] == **name && package["version"] == **version);
        let package = package.with_context(|| format!("cargo does not know {name} {version}"))?;
        components.push(component(package, checksum(&lock, name, version)));
    }
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application", "bom-ref": "opm", "name": "opm", "version": dist.version,
            "licenses": [{ "expression": "Apache-2.0" }],
        } },
        "components": components,
        "dependencies": [{
            "ref": "opm",
            "dependsOn": components.iter().map(|component| &component["bom-ref"]).collect::<Vec<_>>(),
        }],
    });
    let file = dist.name(".cdx.json");
    fs::write(&file, format!("{}\n", serde_json::to_string_pretty(&bill)?))?;
    Ok(file)
}

/// Returns the names and versions of the crates in the program; what only builds it is not among them.
fn linked(dist: &Dist<'_>) -> Result<BTreeSet<(String, String)>> {
    let mut tree = cargo();
    tree.current_dir(&dist.workspace.root);
    tree.args(["tree", "--package", "opm", "--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe"]);
    tree.args(["--target", &dist.target, "--format", "{p}"]);
    let mut linked = BTreeSet::new();
    for line in output(&mut tree)?.lines() {
        let mut words = line.split(' ');
        if let (Some(name), Some(version)) = (words.next(), words.next().and_then(|word| word.strip_prefix('v'))) {
            linked.insert((name.to_owned(), version.to_owned()));
        }
    }
    linked.retain(|(name, _)| name != "opm");
    Ok(linked)
}

fn component(package: &Value, checksum: Option<&str>) -> Value {
    let (name, version) = (&package["name"], &package["version"]);
    let reference = format!("pkg:cargo/{}@{}", name.as_str().unwrap_or_default(), version.as_str().unwrap_or_default());
    let mut component = json!({
        "type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference,
        // Some write a slash between two that one may choose from.
        "licenses": [{ "expression": package["license"].as_str().unwrap_or("NOASSERTION").replace('/', " OR ") }],
    });
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

/// Finds the digest of a crate in the lock file; our own have none.
fn checksum<'a>(lock: &'a str, name: &str, version: &str) -> Option<&'a str> {
    let start = format!("name = \"{name}\"\nversion = \"{version}\"\n");
    let entry = lock.split("[[package]]\n").find(|entry| entry.starts_with(&start))?;
    let rest = entry.split("checksum = \"").nth(1)?;
    rest.split('"').next()
}
