//! Checks operator repositories: all versions of an operator, and the files next to them, `ci.yaml` and
//! `release-config.yaml`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use fbc::Limits;
use fbc::yaml::YamlError;
use serde_json::{Value, json};

use super::catalogs::PIPELINES;
use super::schema::schema_faults;
use super::siblings::{Sibling, check_siblings};
use super::{CheckError, package_manifest};
use crate::file;
use crate::finding::{Finding, Severity};
use crate::loaded::locate;
use crate::pointer::{list, text};
use crate::whole::{ParsedBundle, read_whole};

/// The file of an operator, next to the directories of its versions.
const CI: &str = "ci.yaml";
/// The file of a version.
const RELEASE_CONFIG: &str = "release-config.yaml";
/// Rules that do not apply to operators with a file-based catalog, which defines the upgrades.
pub(super) const WITHOUT_CATALOG: [&str; 6] =
    ["openshift-versions", "replaces-exists", "dangling-bundle", "graph-loop", "pruned-graph", "update-graph"];
/// The channels of semver templates.
const SEMVER: [&str; 3] = ["Fast", "Candidate", "Stable"];

static CI_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let texts = json!({"type": "array", "minItems": 1, "items": {"type": "string"}});
    let names = json!({"type": "array", "minItems": 1, "uniqueItems": true, "items": {"type": "string"}});
    json!({"type": "object", "properties": {
        "updateGraph": {"type": "string", "enum": ["replaces-mode", "semver-mode"]},
        "reviewers": texts,
        "merge": {"type": "boolean"},
        "cert_project_id": {"type": "string"},
        "fbc": {"type": "object", "additionalProperties": false, "properties": {
            "enabled": {"type": "boolean"},
            "version_promotion_strategy": {"type": "string", "enum": ["never", "always", "review-needed"]},
            "catalog_mapping": {"type": "array", "items": {
                "type": "object", "required": ["template_name", "type", "catalog_names"], "properties": {
                    "template_name": {"type": "string"},
                    "catalog_names": names,
                    "type": {"type": "string", "enum": ["olm.template.basic", "olm.semver"]},
                },
            }},
        }},
    }})
});

static RELEASE_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let names = json!({"type": "array", "minItems": 1, "uniqueItems": true, "items": {"type": "string"}});
    json!({"type": "object", "additionalProperties": false, "required": ["catalog_templates"], "properties": {
        "merge": {"type": "boolean"},
        "catalog_templates": {"type": "array", "minItems": 1, "uniqueItems": true, "items": {
            "type": "object", "required": ["template_name", "channels"], "properties": {
                "template_name": {"type": "string"},
                "channels": names,
                "defaultChannel": {"type": "string"},
                "replaces": {"type": "string"},
                "skips": names,
                "skipRange": {"type": "string"},
            },
        }},
    }})
});

/// The maximum number of versions of one operator.
const MAX_VERSIONS: usize = 2000;
/// The maximum size of a package manifest or configuration file in bytes.
const MAX_SIZE: usize = 1 << 20;

/// Why a YAML file of a repository cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryFileError {
    /// It is larger than this number of bytes.
    #[error("larger than the limit of {0} bytes")]
    TooLarge(usize),
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not YAML.
    #[error(transparent)]
    Yaml(#[from] Box<YamlError>),
    /// It has a value that JSON cannot hold.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// An operator in a repository: a directory with a subdirectory per version.
#[derive(Debug, Clone, Copy)]
pub struct OperatorDirectory<'a>(pub &'a Path);

impl OperatorDirectory<'_> {
    /// Checks all versions of the operator together, and the files next to them.
    ///
    /// # Errors
    /// Fails if the directory, a bundle or a file of the repository cannot be read.
    pub fn check(self, limits: &Limits) -> Result<Vec<Finding>, CheckError> {
        let repo = self.0;
        let failed = |source| CheckError::File { path: repo.to_owned(), source };
        let mut names = Vec::new();
        for name in file::entries(repo).map_err(failed)? {
            if file::is_directory(&repo.join(&name).join("manifests")) {
                names.push(name.to_string_lossy().into_owned());
            }
            if names.len() > MAX_VERSIONS {
                return Err(CheckError::TooManyVersions { repository: repo.to_owned(), limit: MAX_VERSIONS });
            }
        }
        if names.is_empty() {
            return Err(CheckError::NoVersions(repo.to_owned()));
        }
        names.sort();
        let mut read: Vec<(String, ParsedBundle)> = Vec::new();
        for name in names {
            let path = repo.join(&name);
            let whole =
                read_whole(&path, limits).map_err(|source| CheckError::Version { path, source: Box::new(source) })?;
            read.push((name, whole));
        }
        let operator = file::canonical(repo).map_err(failed)?;
        let operator = operator.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let siblings: Vec<Sibling<'_>> = read.iter().map(|(directory, whole)| Sibling { directory, whole }).collect();
        let ci = read_optional(&repo.join(CI))?;
        let mut all = check_siblings(&operator, &siblings);
        if uses_catalog(ci.as_ref()) {
            all.retain(|finding| !WITHOUT_CATALOG.contains(&finding.id));
        }
        let mut found = check_ci(ci.as_ref());
        locate(&mut found, repo, Some(&repo.to_string_lossy()), limits);
        for (directory, whole) in &read {
            let name = whole.csv().map_or("", |csv| csv.name());
            let mut of_one: Vec<Finding> = all.iter().filter(|finding| finding.bundle == name).cloned().collect();
            let root = repo.join(directory);
            if let Some(config) = read_optional(&root.join(RELEASE_CONFIG))? {
                let released = check_release_config(&config, ci.as_ref()).into_iter();
                of_one.extend(released.map(|finding| finding.of(name)));
            }
            locate(&mut of_one, &root, Some(&root.to_string_lossy()), limits);
            found.extend(of_one);
        }
        Ok(found.into_iter().map(|finding| finding.in_suites(PIPELINES)).collect())
    }

    /// Returns the catalogs of the operator in its repository, and the registries that the repository allows for bundles.
    ///
    /// # Errors
    /// Fails if the directory or the configuration of the repository cannot be read.
    pub fn catalogs_and_registries(self) -> Result<(Vec<PathBuf>, Vec<String>), CheckError> {
        let failed = |source| CheckError::File { path: self.0.to_owned(), source };
        let operator = file::canonical(self.0).map_err(failed)?;
        // REPOSITORY/operators/OPERATOR
        let (Some(name), Some(root)) = (operator.file_name(), operator.ancestors().nth(2)) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let catalogs = root.join("catalogs");
        let mut catalogs: Vec<PathBuf> = file::entries(&catalogs)
            .unwrap_or_default()
            .into_iter()
            .take(MAX_VERSIONS)
            .map(|version| catalogs.join(version).join(name))
            .filter(|catalog| file::is_directory(catalog))
            .collect();
        catalogs.sort();
        let config = read_optional(&root.join("ci/pipeline-config.yaml"))?.unwrap_or_default();
        let registries = list(&config, "/allowed_bundle_registries").iter().filter_map(Value::as_str);
        Ok((catalogs, registries.map(str::to_owned).collect()))
    }
}

/// Returns whether the operator of a bundle in a repository is maintained as a file-based catalog.
pub(super) fn is_in_catalog(bundle: &Path) -> bool {
    let ci = file::canonical(bundle).ok().and_then(|path| Some(path.parent()?.join(CI)));
    uses_catalog(ci.and_then(|path| read_optional(&path).ok().flatten()).as_ref())
}

/// Checks a package manifest.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn check_package_manifest(path: &Path) -> Result<Vec<Finding>, CheckError> {
    let manifest = read(path).map_err(|source| CheckError::PackageManifest { path: path.to_owned(), source })?;
    Ok(package_manifest::check(&manifest, &path.to_string_lossy()))
}

/// Reads a YAML file, if it exists.
fn read_optional(path: &Path) -> Result<Option<Value>, CheckError> {
    if !file::is_plain(path) {
        return Ok(None);
    }
    read(path).map(Some).map_err(|source| CheckError::RepositoryFile { path: path.to_owned(), source })
}

fn read(path: &Path) -> Result<Value, RepositoryFileError> {
    let text = file::read_up_to(path, MAX_SIZE)?;
    if text.len() > MAX_SIZE {
        return Err(RepositoryFileError::TooLarge(MAX_SIZE));
    }
    let mut json = Vec::new();
    let bounds = fbc::yaml::YamlLimits { depth: 50, nodes: 100_000, bytes: MAX_SIZE };
    fbc::yaml::to_json(&text, &bounds, &mut json).map_err(Box::new)?;
    Ok(serde_json::from_slice(&json)?)
}

/// Returns whether an operator is maintained as a file-based catalog.
fn uses_catalog(ci: Option<&Value>) -> bool {
    ci.and_then(|ci| ci.pointer("/fbc/enabled")) == Some(&Value::Bool(true))
}

fn faults(id: &'static str, file: &str, schema: &Value, value: &Value) -> Vec<Finding> {
    let Some(faults) = schema_faults(schema, value) else {
        return vec![Finding::new(id, Severity::Error, format!("{file} is too large to judge")).at(file, 0, "")];
    };
    let at = |fault: &String| {
        let (path, _) = fault.split_once(": ").unwrap_or_default();
        format!("/{path}").replace(['.', '['], "/").replace(']', "")
    };
    let finding = |fault: String| {
        let pointer = if fault.contains(": ") { at(&fault) } else { String::new() };
        Finding::new(id, Severity::Error, fault).at(file, 0, pointer)
    };
    faults.into_iter().map(finding).collect()
}

/// Checks the optional `ci.yaml` of an operator.
fn check_ci(ci: Option<&Value>) -> Vec<Finding> {
    let mut found = ci.map(|ci| faults("ci-config", CI, &CI_SCHEMA, ci)).unwrap_or_default();
    let at = |finding: Finding, pointer: &str| if ci.is_some() { finding.at(CI, 0, pointer) } else { finding };
    if uses_catalog(ci) {
        return found;
    }
    match ci.and_then(|ci| ci.get("updateGraph")) {
        None => {
            let text = "ci.yaml does not set updateGraph; the default is replaces-mode";
            found.push(at(Finding::new("update-graph", Severity::Warning, text), ""));
        }
        Some(Value::String(mode)) if matches!(&**mode, "replaces-mode" | "semver-mode") => {}
        Some(other) => {
            let text = format!("updateGraph is {other}; it must be replaces-mode or semver-mode");
            found.push(at(Finding::new("update-graph", Severity::Error, text), "/updateGraph"));
        }
    }
    let text = "the operator is not kept as a file-based catalog: fbc.enabled in ci.yaml is not true";
    found.push(at(Finding::new("fbc-used", Severity::Warning, text), "/fbc"));
    found
}

/// Checks the `release-config.yaml` of a version against its schema and the `ci.yaml` of its operator.
fn check_release_config(config: &Value, ci: Option<&Value>) -> Vec<Finding> {
    let mut found = faults("release-config", RELEASE_CONFIG, &RELEASE_SCHEMA, config);
    let mut error = |pointer: String, text: String| {
        found.push(Finding::new("release-config", Severity::Error, text).at(RELEASE_CONFIG, 0, pointer));
    };
    if !uses_catalog(ci) {
        error(String::new(), "fbc.enabled in ci.yaml is not true, so that release-config.yaml has no effect".into());
        return found;
    }
    let mapping = ci.map(|ci| list(ci, "/fbc/catalog_mapping")).unwrap_or_default();
    for (at, template) in list(config, "/catalog_templates").iter().enumerate() {
        let name = text(template, "/template_name");
        match mapping.iter().find(|known| text(known, "/template_name") == name) {
            None => {
                let text = format!("template {name:?} is not in fbc.catalog_mapping of ci.yaml");
                error(format!("/catalog_templates/{at}/template_name"), text);
            }
            Some(known) if text(known, "/type") == "olm.semver" => {
                for channel in list(template, "/channels").iter().filter_map(Value::as_str) {
                    if !SEMVER.contains(&channel) {
                        let text = format!(
                            "channel {channel:?} of the semver template {name:?} is none of {}",
                            SEMVER.join(", ")
                        );
                        error(format!("/catalog_templates/{at}/channels"), text);
                    }
                }
            }
            Some(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(found: &[Finding]) -> Vec<String> {
        found.iter().map(|one| format!("{} {} {}: {}", one.severity, one.id, one.pointer, one.message)).collect()
    }

    fn ci() -> Value {
        json!({"reviewers": ["me"], "fbc": {"enabled": true, "catalog_mapping": [
            {"template_name": "semver.yaml", "type": "olm.semver", "catalog_names": ["v4.18"]},
            {"template_name": "basic.yaml", "type": "olm.template.basic", "catalog_names": ["v4.18"]},
        ]}})
    }

    #[test]
    fn only_operators_without_a_catalog_need_an_update_graph() {
        assert_eq!(ids(&check_ci(Some(&ci()))), Vec::<String>::new());
        insta::assert_snapshot!(ids(&check_ci(None)).join("\n"), @"
        warning update-graph : ci.yaml does not set updateGraph; the default is replaces-mode
        warning fbc-used : the operator is not kept as a file-based catalog: fbc.enabled in ci.yaml is not true
        ");
        let graph = |mode: &str| ids(&check_ci(Some(&json!({"updateGraph": mode})))).join("\n");
        assert!(!graph("semver-mode").contains("update-graph"));
        assert!(graph("other").contains("error update-graph /updateGraph"));
    }

    #[test]
    fn both_files_are_validated_with_their_schemas() {
        let broken =
            json!({"reviewers": [], "merge": 1, "fbc": {"enabled": true, "x": 1, "catalog_mapping": [{"type": "y"}]}});
        insta::assert_snapshot!(ids(&check_ci(Some(&broken))).join("\n"), @r#"
        error ci-config /reviewers: reviewers: has 0 items; the schema requires at least 1
        error ci-config /merge: merge: number instead of boolean
        error ci-config /fbc/x: fbc.x: is not known
        error ci-config /fbc/catalog_mapping/0/template_name: fbc.catalog_mapping[0].template_name: is required
        error ci-config /fbc/catalog_mapping/0/catalog_names: fbc.catalog_mapping[0].catalog_names: is required
        "#);
        insta::assert_snapshot!(ids(&check_release_config(&json!({"templates": []}), Some(&ci()))).join("\n"), @"
        error release-config /catalog_templates: catalog_templates: is required
        error release-config /templates: templates: is not known
        ");
    }

    #[test]
    fn files_that_the_pipelines_refuse_are_refused() {
        let check = |ci: Value| ids(&check_ci(Some(&ci))).join("\n");
        let mapping = json!([{"template_name": "a", "type": "olm.semver", "catalogs_names": ["v4.18"]}]);
        assert_eq!(
            check(json!({"fbc": {"enabled": true, "catalog_mapping": mapping}})),
            "error ci-config /fbc/catalog_mapping/0/catalog_names: fbc.catalog_mapping[0].catalog_names: is required; \
             \"catalogs_names\" is not known"
        );
        assert_eq!(
            check(json!({"updateGraph": "semver", "fbc": {"enabled": true}})),
            "error ci-config /updateGraph: updateGraph: \"semver\" is none of \"replaces-mode\", \"semver-mode\""
        );
        assert!(
            check(json!({"fbc": {"enabledd": true}})).contains("fbc.enabledd: is not known; did you mean \"enabled\"?")
        );
        let template = json!({"template_name": "basic.yaml", "channels": ["a"], "defaultChannel": "a"});
        let mut config = json!({"catalog_templates": [template]});
        assert_eq!(ids(&check_release_config(&config, Some(&ci()))), Vec::<String>::new());
        config["defaultChannel"] = json!("a");
        assert_eq!(
            ids(&check_release_config(&config, Some(&ci()))),
            ["error release-config /defaultChannel: defaultChannel: is not known"]
        );
    }

    #[test]
    fn templates_must_exist_and_semver_has_three_channels() {
        let config =
            |name: &str, channel: &str| json!({"catalog_templates": [{"template_name": name, "channels": [channel]}]});
        let report = |config: &Value, ci: Option<&Value>| ids(&check_release_config(config, ci)).join("\n");
        assert_eq!(report(&config("semver.yaml", "Fast"), Some(&ci())), "");
        assert_eq!(report(&config("basic.yaml", "alpha"), Some(&ci())), "");
        assert!(report(&config("semver.yaml", "alpha"), Some(&ci())).contains("is none of Fast, Candidate, Stable"));
        assert!(report(&config("other.yaml", "alpha"), Some(&ci())).contains("is not in fbc.catalog_mapping"));
        assert!(report(&config("basic.yaml", "alpha"), None).contains("has no effect"));
        let twice = json!({"catalog_templates": [{"template_name": "basic.yaml", "channels": ["a", "a"]}]});
        assert!(report(&twice, Some(&ci())).contains("contains an item twice"));
    }
}
