//! Operator repositories: sibling versions of an operator, its catalogs, and package manifests.

use std::fs;
use std::path::{Path, PathBuf};

use bundle::{Finding, Sibling, Whole};
use serde_json::Value;

use crate::exit::{Failure, in_path};
use crate::{findings, limits};

/// The maximum number of versions of one operator.
const MAX_VERSIONS: usize = 2000;
/// The maximum size of a package manifest or configuration file in bytes.
const MAX_MANIFEST: usize = 1 << 20;

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
        if names.len() > MAX_VERSIONS {
            return Err(Failure::message(format!("{} has more than {MAX_VERSIONS} versions", repo.display())));
        }
    }
    if names.is_empty() {
        return Err(Failure::message(format!("{} contains no bundle directory", repo.display())));
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
    let ci = read_optional(&repo.join(bundle::CI))?;
    let mut all = bundle::check_siblings(&operator, &siblings);
    if bundle::uses_catalog(ci.as_ref()) {
        all.retain(|finding| !bundle::WITHOUT_CATALOG.contains(&finding.id));
    }
    let mut found = bundle::check_ci(ci.as_ref());
    findings::locate(&mut found, repo, Some(&repo.to_string_lossy()), &limits);
    for (directory, whole) in &read {
        let name = whole.csv().map_or("", |csv| csv.name());
        let mut of_one: Vec<Finding> = all.iter().filter(|finding| finding.bundle == name).cloned().collect();
        let root = repo.join(directory);
        if let Some(config) = read_optional(&root.join(bundle::RELEASE_CONFIG))? {
            let released = bundle::check_release_config(&config, ci.as_ref()).into_iter();
            of_one.extend(released.map(|finding| finding.of(name)));
        }
        findings::locate(&mut of_one, &root, Some(&root.to_string_lossy()), &limits);
        found.extend(of_one);
    }
    Ok(found)
}

/// Returns the catalogs of an operator in its repository, and the registries that the repository allows for bundles.
pub(super) fn catalogs_and_registries(repo: &Path) -> Result<(Vec<PathBuf>, Vec<String>), Failure> {
    let operator = fs::canonicalize(repo).map_err(|error| in_path(repo, &error))?;
    // REPOSITORY/operators/OPERATOR
    let (Some(name), Some(root)) = (operator.file_name(), operator.ancestors().nth(2)) else {
        return Ok((Vec::new(), Vec::new()));
    };
    let mut catalogs: Vec<PathBuf> = Vec::new();
    for version in fs::read_dir(root.join("catalogs")).into_iter().flatten().flatten().take(MAX_VERSIONS) {
        let catalog = version.path().join(name);
        if catalog.is_dir() {
            catalogs.push(catalog);
        }
    }
    catalogs.sort();
    let config = read_optional(&root.join("ci/pipeline-config.yaml"))?.unwrap_or_default();
    let allowed = config.get("allowed_bundle_registries").and_then(Value::as_array);
    let registries = allowed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Ok((catalogs, registries.collect()))
}

/// Returns whether the operator of a bundle is maintained as a file-based catalog.
pub(super) fn uses_catalog(bundle: &Path) -> bool {
    let ci = bundle.canonicalize().ok().and_then(|path| Some(path.parent()?.join(bundle::CI)));
    let ci = ci.and_then(|path| read_optional(&path).ok().flatten());
    bundle::uses_catalog(ci.as_ref())
}

/// Reads a YAML file, if it exists.
fn read_optional(file: &Path) -> Result<Option<Value>, Failure> {
    if !file.is_file() {
        return Ok(None);
    }
    read(file).map(Some).map_err(|error| Failure::message(format!("{}: {error}", file.display())))
}

fn read(file: &Path) -> Result<Value, String> {
    let size = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > MAX_MANIFEST as u64 {
        return Err(format!("larger than the limit of {MAX_MANIFEST} bytes"));
    }
    let text = fs::read(file).map_err(|error| error.to_string())?;
    let mut json = Vec::new();
    let bounds = fbc::yaml::Limits { depth: 50, nodes: 100_000, bytes: MAX_MANIFEST };
    fbc::yaml::to_json(&text, &bounds, &mut json).map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

/// Checks a package manifest.
pub(super) fn package_manifest(file: &Path) -> Result<Vec<Finding>, Failure> {
    let manifest = read(file).map_err(|error| {
        Failure::message(format!("could not decode contents of file {} into package: {error}", file.display()))
    })?;
    Ok(bundle::check_package_manifest(&manifest, &file.to_string_lossy()))
}
