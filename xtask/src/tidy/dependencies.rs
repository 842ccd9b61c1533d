//! Checks that each dependency is used, comes from the registry, and is not banned by `deny.toml`.
//!
//! cargo-deny and cargo-shear check more, but take longer to install than everything here takes to run.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::{Findings, list, text};

/// The text of all Rust files of a crate: the program, and the tests and tools.
#[derive(Default)]
pub(super) struct Texts {
    program: String,
    around: String,
}

/// Collects the text of a Rust file under the directory of its crate.
pub(super) fn gather(path: &Path, content: &str, texts: &mut HashMap<String, Texts>) {
    let mut parts = path.components().map(|part| part.as_os_str().to_string_lossy());
    let Some(first) = parts.next() else { return };
    let directory =
        if first == "crates" { format!("crates/{}", parts.next().unwrap_or_default()) } else { first.into_owned() };
    let texts = texts.entry(directory).or_default();
    let place = if parts.next().is_some_and(|part| part == "src") { &mut texts.program } else { &mut texts.around };
    place.push_str(content);
}

/// Reports dependencies that no file of a crate names.
pub(super) fn unused(
    metadata: &Value,
    all: &Value,
    root: &Path,
    texts: &HashMap<String, Texts>,
    findings: &mut Findings,
) -> Result<()> {
    let libraries = libraries(all)?;
    for package in list(metadata, "packages")? {
        let manifest = Path::new(text(package, "manifest_path")?);
        let directory = manifest.parent().and_then(|directory| directory.strip_prefix(root).ok());
        let directory = directory.map(|directory| directory.to_string_lossy().replace('\\', "/")).unwrap_or_default();
        let Some(texts) = texts.get(&directory) else { continue };
        for dependency in list(package, "dependencies")? {
            let name = text(dependency, "name")?;
            let library = dependency["rename"].as_str().or_else(|| libraries.get(name).copied()).unwrap_or(name);
            let word = library.replace('-', "_");
            // Tests may use the dependencies of the program; the program needs its dependencies itself.
            let is_for_program = dependency["kind"].is_null();
            if !has_word(&texts.program, &word) && (is_for_program || !has_word(&texts.around, &word)) {
                findings.errors.push(format!("{directory}/Cargo.toml has the dependency {name}, which nothing uses"));
            }
        }
    }
    Ok(())
}

/// Returns the library name of each crate.
fn libraries(all: &Value) -> Result<HashMap<&str, &str>> {
    let is_library = |target: &&Value| {
        let mut kinds = target["kind"].as_array().into_iter().flatten();
        kinds.any(|kind| matches!(kind.as_str(), Some("lib" | "rlib" | "proc-macro")))
    };
    let mut libraries = HashMap::new();
    for package in list(all, "packages")? {
        let mut targets = package["targets"].as_array().into_iter().flatten();
        if let Some(name) = targets.find(is_library).and_then(|target| target["name"].as_str()) {
            libraries.insert(text(package, "name")?, name);
        }
    }
    Ok(libraries)
}

/// Reports banned crates and crates from other sources than the registry.
pub(super) fn banned(metadata: &Value, deny: &str, findings: &mut Findings) -> Result<()> {
    let list_of =
        |start: &str| deny.split_once(start).and_then(|(_, rest)| rest.split_once("\n]")).map(|(list, _)| list);
    let banned: Vec<&str> = list_of("\ndeny = [")
        .into_iter()
        .flat_map(|list| list.split("crate = \"").skip(1))
        .filter_map(|rest| Some(rest.split_once('"')?.0))
        .collect();
    for package in list(metadata, "packages")? {
        let (name, version) = (text(package, "name")?, text(package, "version")?);
        if banned.contains(&name) {
            findings.errors.push(format!("{name} {version} is banned by deny.toml"));
        }
        if package["source"].as_str().is_some_and(|source| !source.starts_with("registry+") && source != "registry") {
            findings.errors.push(format!("{name} {version} does not come from the registry"));
        }
    }
    Ok(())
}

fn has_word(content: &str, word: &str) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = content.as_bytes();
    content.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        !is_part(before) && !is_part(bytes.get(at + word.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::errors;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_dependency_that_nobody_names_is_reported() {
        let metadata = json!({"packages": [{"name": "a", "version": "1.0.0", "manifest_path": "/w/crates/a/Cargo.toml",
        "dependencies": [
            {"name": "serde-json", "kind": null, "rename": null}, {"name": "tonic", "kind": null, "rename": null},
            {"name": "insta", "kind": "dev", "rename": null}, {"name": "x", "kind": null, "rename": "renamed"},
            {"name": "unused", "kind": "dev", "rename": null}, {"name": "rustls-x", "kind": null, "rename": null},
        ]}]});
        let all = json!({"packages": [{"name": "rustls-x", "targets": [{"kind": ["lib"], "name": "x509"}]}]});
        let mut texts = HashMap::new();
        gather(
            Path::new("crates/a/src/lib.rs"),
            "serde_json::Value; renamed::call(); my_tonic(); x509::a();",
            &mut texts,
        );
        gather(Path::new("crates/a/tests/a.rs"), "insta::assert!(tonic::is_here());", &mut texts);
        let found = errors(|findings| unused(&metadata, &all, Path::new("/w"), &texts, findings).unwrap());
        assert_eq!(
            found,
            [
                "crates/a/Cargo.toml has the dependency tonic, which nothing uses",
                "crates/a/Cargo.toml has the dependency unused, which nothing uses",
            ]
        );
    }

    #[test]
    fn banned_crates_and_other_sources_are_reported() {
        let deny = "[bans]\ndeny = [\n    { crate = \"bad\", reason = \"why\" },\n]\n";
        let metadata = json!({"packages": [
            {"name": "bad", "version": "1.0.0", "source": "registry+x"},
            {"name": "fine", "version": "1.0.0", "source": "registry+x"},
            {"name": "forked", "version": "1.0.0", "source": "git+x"},
            {"name": "ours", "version": "1.0.0", "source": null},
        ]});
        let found = errors(|findings| banned(&metadata, deny, findings).unwrap());
        assert_eq!(found, ["bad 1.0.0 is banned by deny.toml", "forked 1.0.0 does not come from the registry"]);
    }
}
