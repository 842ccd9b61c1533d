//! What stands around bundles in repositories of operators: versions of one operator, and package manifests.

use std::fs;
use std::path::Path;

use bundle::{Finding, Sibling, Whole};

use crate::exit::{Failure, in_path};
use crate::{findings, limits};

/// Versions of one operator; repositories have no more.
const VERSIONS: usize = 2000;
/// A package manifest has no more bytes than this.
const MANIFEST: usize = 1 << 20;

/// Checks all versions of an operator together.
pub(super) fn siblings(repo: &Path) -> Result<Vec<Finding>, Failure> {
    let limits = limits::from_env()?;
    let failed = |error: std::io::Error| in_path(repo, &error);
    let mut names = Vec::new();
    for entry in fs::read_dir(repo).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().join("manifests").is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        if names.len() > VERSIONS {
            return Err(Failure::message(format!("{} has more than {VERSIONS} versions", repo.display())));
        }
    }
    if names.is_empty() {
        return Err(Failure::message(format!("{} holds no directory of a bundle", repo.display())));
    }
    names.sort();
    let mut read: Vec<(String, Whole)> = Vec::new();
    for name in names {
        let whole = bundle::read_whole(&repo.join(&name), &limits)
            .map_err(|error| Failure::message(format!("{}: {error}", repo.join(&name).display())))?;
        read.push((name, whole));
    }
    let operator = fs::canonicalize(repo).map_err(failed)?;
    let operator = operator.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let siblings: Vec<Sibling<'_>> = read.iter().map(|(directory, whole)| Sibling { directory, whole }).collect();
    let all = bundle::check_siblings(&operator, &siblings);
    let mut found = Vec::new();
    for (directory, whole) in &read {
        let name = whole.csv().map_or("", |csv| csv.name());
        let mut of_one: Vec<Finding> = all.iter().filter(|finding| finding.bundle == name).cloned().collect();
        let root = repo.join(directory);
        findings::locate(&mut of_one, &root, Some(&root.to_string_lossy()), &limits);
        found.extend(of_one);
    }
    Ok(found)
}

/// Checks a package manifest.
pub(super) fn package_manifest(file: &Path) -> Result<Vec<Finding>, Failure> {
    let text = fs::read(file).map_err(|error| in_path(file, &error))?;
    let wrong = |error: String| {
        Failure::message(format!("could not decode contents of file {} into package: {error}", file.display()))
    };
    if text.len() > MANIFEST {
        return Err(wrong(format!("it has more than {MANIFEST} bytes")));
    }
    let mut json = Vec::new();
    let bounds = fbc::yaml::Limits { depth: 50, nodes: 100_000, bytes: MANIFEST };
    fbc::yaml::to_json(&text, &bounds, &mut json).map_err(|error| wrong(error.to_string()))?;
    let manifest = serde_json::from_slice(&json).map_err(|error| wrong(error.to_string()))?;
    Ok(bundle::check_package_manifest(&manifest, &file.to_string_lossy()))
}
