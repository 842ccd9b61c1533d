//! The software bill of materials (SBOM) of a program, as CycloneDX JSON.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Dist;
use super::target::BuildTarget;
use crate::workspace::{cargo, output};

/// Writes the crates that the program contains, with their licences and the checksums from the lock file.
pub(super) fn write(dist: &Dist<'_>, target: &BuildTarget) -> Result<PathBuf> {
    let linked = linked(dist, target)?;
    let lock = fs::read_to_string(dist.workspace.root.join("Cargo.lock")).context("reading Cargo.lock")?;
    let metadata = dist.workspace.metadata(true)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut components = Vec::new();
    for (name, version) in &linked {
        let package = packages.iter().find(|package| package["name"] == **name && package["version"] == **version);
        let package = package.with_context(|| format!("cargo metadata does not list {name} {version}"))?;
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
    let file = dist.artifact(target, ".cdx.json");
    fs::write(&file, format!("{}\n", serde_json::to_string_pretty(&bill)?))?;
    Ok(file)
}

/// Returns the names and versions of the crates in the program, without those that only build scripts or macros use.
fn linked(dist: &Dist<'_>, target: &BuildTarget) -> Result<BTreeSet<(String, String)>> {
    let mut tree = cargo();
    tree.current_dir(&dist.workspace.root);
    tree.args(["tree", "--package", "opm", "--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe"]);
    tree.args(["--target", target.triple, "--format", "{p}"]);
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
        // Older crates separate alternatives with a slash.
        "licenses": [{ "expression": package["license"].as_str().unwrap_or("NOASSERTION").replace('/', " OR ") }],
    });
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

/// Returns the checksum of a crate from the lock file; crates of this workspace have none.
fn checksum<'a>(lock: &'a str, name: &str, version: &str) -> Option<&'a str> {
    let start = format!("name = \"{name}\"\nversion = \"{version}\"\n");
    let entry = lock.split("[[package]]\n").find(|entry| entry.starts_with(&start))?;
    let rest = entry.split("checksum = \"").nth(1)?;
    rest.split('"').next()
}
