//! `.opm.yaml` and `.opm-checks.yaml`: severity levels and waivers of checks.
//!
//!     checks:
//!       levels: {image-pinned: info, practice-name: off}
//!       waivers:
//!       - id: account-missing
//!         object: Deployment foo       # or file: manifests/x.yaml; without both, everywhere
//!         reason: the platform creates it
//!         until: 2030-01-01

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fbc::spelling::calendar::Date;
use fbc::yaml::YamlError;
use serde_json::Value;

use super::CheckError;
use super::schema::json_type;
use crate::file;
use crate::finding::{Finding, Severity, Waived};
use crate::rules;

const NAMES: [&str; 2] = [".opm.yaml", ".opm-checks.yaml"];
/// The limits of a configuration file.
const LIMITS: fbc::yaml::YamlLimits = fbc::yaml::YamlLimits { depth: 20, nodes: 10_000, bytes: 1 << 20 };

/// The checks configuration of a project.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    path: PathBuf,
    /// Severities of checks by ID; `None` disables a check.
    levels: Vec<(String, Option<Severity>)>,
    waivers: Vec<Waiver>,
}

#[derive(Debug)]
struct Waiver {
    id: String,
    object: String,
    file: String,
    reason: String,
    until: String,
}

/// Why a configuration file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// It is not YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// It has a value that JSON cannot hold.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A value has the wrong type.
    #[error("{place} must be {wanted}, but is {found}")]
    Type {
        /// The value.
        place: String,
        /// The type it must have.
        wanted: &'static str,
        /// The type it has.
        found: &'static str,
    },
    /// A key is unknown.
    #[error("unknown key {place}{key}; {}", match near { Some(near) => format!("did you mean {near}?"), None => format!("expected {known}") })]
    Key {
        /// The mapping, with a dot.
        place: String,
        key: String,
        /// The known keys.
        known: String,
        /// The known key that is nearest.
        near: Option<String>,
    },
    /// A rule is unknown.
    #[error("unknown rule {id}; {}", match near { Some(near) => format!("did you mean {near}?"), None => "'opm explain' lists all rules".to_owned() })]
    Rule {
        /// The name.
        id: String,
        /// The rule whose name is nearest.
        near: Option<String>,
    },
    /// A level is not a severity.
    #[error("unknown level {level:?} for {id}")]
    Level {
        /// The rule.
        id: String,
        level: String,
    },
    /// The waiver at this index has no rule.
    #[error("waiver {0} has no id")]
    NoId(usize),
    /// The waiver of this rule has no reason.
    #[error("the waiver of {0} needs a reason")]
    NoReason(String),
    /// The date of a waiver does not exist.
    #[error("invalid date {until:?} in the waiver of {id}; write it like 2030-01-31")]
    Date {
        /// The rule.
        id: String,
        /// The date.
        until: String,
    },
}

/// Returns the members of a mapping that has known keys only; an absent one has no members.
fn members<'a>(value: &'a Value, place: &str, known: &[&str]) -> Result<Map<'a>, ConfigurationError> {
    let members = match value {
        Value::Null => return Ok(Map::new()),
        Value::Object(members) => members,
        other => return Err(wrong_type(place, "a mapping", other)),
    };
    let unknown = |key: &&String| !known.is_empty() && !known.contains(&key.as_str());
    if let Some(key) = members.keys().find(unknown) {
        let near = fbc::similar::nearest(key, known.iter().copied()).map(str::to_owned);
        let prefix = if place == ROOT { String::new() } else { format!("{place}.") };
        return Err(ConfigurationError::Key { place: prefix, key: key.clone(), known: known.join(" or "), near });
    }
    Ok(members.iter().map(|(key, value)| (key.as_str(), value)).collect())
}

type Map<'a> = BTreeMap<&'a str, &'a Value>;

/// The name of the whole file in messages.
const ROOT: &str = "the file";

fn wrong_type(place: &str, wanted: &'static str, found: &Value) -> ConfigurationError {
    ConfigurationError::Type { place: place.to_owned(), wanted, found: json_type(found) }
}

fn known_rule(id: &str) -> Result<(), ConfigurationError> {
    let all = rules::all();
    if all.iter().any(|(known, _)| *known == id) {
        return Ok(());
    }
    let near = fbc::similar::nearest(id, all.iter().map(|(known, _)| *known)).map(str::to_owned);
    Err(ConfigurationError::Rule { id: id.to_owned(), near })
}

impl Configuration {
    /// Reads the given file, or the first one found in the bundle directory or its ancestors.
    pub(super) fn find(given: Option<&Path>, bundle: Option<&Path>) -> Result<Configuration, CheckError> {
        let text = |path: &Path| file::read_up_to(path, LIMITS.bytes);
        if let Some(path) = given {
            let text = text(path).map_err(|source| CheckError::File { path: path.to_owned(), source })?;
            return Configuration::read(path, &text);
        }
        let Some(bundle) = bundle.and_then(|bundle| file::canonical(bundle).ok()) else {
            return Ok(Configuration::default());
        };
        for directory in bundle.ancestors() {
            for name in NAMES {
                let path = directory.join(name);
                if let Ok(text) = text(&path) {
                    return Configuration::read(&path, &text);
                }
            }
            // Stop at the root of the repository.
            if file::exists(&directory.join(".git")) {
                break;
            }
        }
        Ok(Configuration::default())
    }

    fn read(path: &Path, text: &[u8]) -> Result<Configuration, CheckError> {
        Configuration::parse(path, text)
            .map_err(|source| CheckError::Configuration { path: path.to_owned(), source: Box::new(source) })
    }

    fn parse(path: &Path, text: &[u8]) -> Result<Configuration, ConfigurationError> {
        let mut json = Vec::new();
        fbc::yaml::to_json(text, &LIMITS, &mut json)?;
        let root: Value = serde_json::from_slice(&json)?;
        let mut configuration = Configuration { path: path.to_owned(), ..Configuration::default() };
        let root = members(&root, ROOT, &["checks"])?;
        let checks = members(root.get("checks").unwrap_or(&&Value::Null), "checks", &["levels", "waivers"])?;
        for (id, level) in members(checks.get("levels").unwrap_or(&&Value::Null), "checks.levels", &[])? {
            known_rule(id)?;
            let level = match level {
                // YAML reads `off` as a boolean.
                Value::Bool(false) => None,
                Value::String(text) if text == "off" => None,
                Value::String(text) => {
                    let unknown = || ConfigurationError::Level { id: id.to_owned(), level: text.clone() };
                    Some(Severity::parse(text).ok_or_else(unknown)?)
                }
                other => return Err(wrong_type(&format!("the level of {id}"), "a severity or off", other)),
            };
            configuration.levels.push((id.to_owned(), level));
        }
        let waivers = match checks.get("waivers") {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(waivers)) => waivers,
            Some(other) => return Err(wrong_type("checks.waivers", "a list", other)),
        };
        for (at, waiver) in waivers.iter().enumerate() {
            configuration.waivers.push(Waiver::read(at, waiver)?);
        }
        Ok(configuration)
    }

    /// Applies levels and waivers, and returns the waived findings. Adds a finding for each expired waiver, and for each
    /// unused one if `unused` are to be reported.
    pub(super) fn apply(&self, findings: &mut Vec<Finding>, today: Date, unused: bool) -> Vec<Waived> {
        let mut waived = Vec::new();
        for (id, level) in &self.levels {
            match level {
                None => findings.retain(|finding| finding.id != id),
                Some(level) => {
                    findings
                        .iter_mut()
                        .filter(|finding| finding.id == id)
                        .for_each(|finding| finding.severity = *level);
                }
            }
        }
        let mut expired = Vec::new();
        for waiver in &self.waivers {
            let over = waiver.until.parse::<Date>().is_ok_and(|until| until < today);
            let fits = |finding: &Finding| {
                finding.id == waiver.id
                    && (waiver.object.is_empty() || finding.object == waiver.object)
                    && (waiver.file.is_empty() || finding.file.ends_with(&waiver.file))
            };
            let used = findings.iter().any(fits);
            if !used && !unused {
                continue;
            }
            let text = if over {
                format!("the waiver of {} ended on {}", waiver.id, waiver.until)
            } else if !used {
                format!("the waiver of {} matches no finding: remove it", waiver.id)
            } else {
                let (gone, kept) = std::mem::take(findings).into_iter().partition(fits);
                *findings = kept;
                let reason = |finding| Waived { finding, reason: waiver.reason.clone() };
                waived.extend(Vec::into_iter(gone).map(reason));
                continue;
            };
            let file = self.path.display().to_string();
            expired.push(Finding::new("waiver", Severity::Warning, text).at(&file, 0, ""));
        }
        findings.extend(expired);
        waived
    }
}

impl Waiver {
    fn read(at: usize, waiver: &Value) -> Result<Waiver, ConfigurationError> {
        let place = format!("checks.waivers[{at}]");
        let fields = members(waiver, &place, &["id", "object", "file", "reason", "until"])?;
        let field = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(wrong_type(&format!("{place}.{name}"), "a string", other)),
        };
        let waiver = Waiver {
            id: field("id")?,
            object: field("object")?,
            file: field("file")?,
            reason: field("reason")?,
            until: field("until")?,
        };
        let id = waiver.id.clone();
        if id.is_empty() {
            return Err(ConfigurationError::NoId(at));
        }
        known_rule(&id)?;
        if waiver.reason.trim().is_empty() {
            return Err(ConfigurationError::NoReason(id));
        }
        if !waiver.until.is_empty() && waiver.until.parse::<Date>().is_err() {
            return Err(ConfigurationError::Date { id, until: waiver.until });
        }
        Ok(waiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waivers_and_levels_are_validated() {
        let failure = |text: &str| Configuration::parse(Path::new("c.yaml"), text.as_bytes()).unwrap_err().to_string();
        let waiver = |fields: &str| failure(&format!("checks: {{waivers: [{{id: image-pinned, {fields}}}]}}"));
        assert_eq!(waiver("object: x"), "the waiver of image-pinned needs a reason");
        assert_eq!(
            waiver("reason: r, untill: 2030-01-01"),
            "unknown key checks.waivers[0].untill; did you mean until?"
        );
        assert_eq!(waiver("reason: r, flie: x"), "unknown key checks.waivers[0].flie; did you mean file?");
        assert_eq!(waiver("reason: r, file: [x]"), "checks.waivers[0].file must be a string, but is array");
        assert_eq!(
            waiver("reason: r, until: soon"),
            "invalid date \"soon\" in the waiver of image-pinned; write it like 2030-01-31"
        );
        assert_eq!(failure("checks: {waivers: [{reason: r}]}"), "waiver 0 has no id");
        assert_eq!(
            failure("checks: {waivers: [{id: image-pined, reason: r}]}"),
            "unknown rule image-pined; did you mean image-pinned?"
        );
        assert_eq!(failure("checks: {waivers: {id: image-pinned}}"), "checks.waivers must be a list, but is object");
        assert_eq!(failure("checks: {levels: {image-pinned: loud}}"), "unknown level \"loud\" for image-pinned");
        assert_eq!(
            failure("checks: {levels: {image-pinned: 3}}"),
            "the level of image-pinned must be a severity or off, but is number"
        );
        assert_eq!(
            failure("checks: {levels: {no-such-rule: info}}"),
            "unknown rule no-such-rule; 'opm explain' lists all rules"
        );
        assert_eq!(failure("checks: {levels: [image-pinned]}"), "checks.levels must be a mapping, but is array");
        assert_eq!(failure("checks: {waiver: []}"), "unknown key checks.waiver; did you mean waivers?");
        assert_eq!(failure("check: {waivers: []}"), "unknown key check; did you mean checks?");
        assert_eq!(failure("levels: {}"), "unknown key levels; expected checks");
        assert_eq!(failure("[]"), "the file must be a mapping, but is array");
        assert!(Configuration::parse(Path::new("c.yaml"), b"").is_ok());
    }

    #[test]
    fn waivers_and_levels_are_applied() {
        let text = "checks: {levels: {image-pinned: info, practice-name: off}, waivers: [{id: csv-name, object: x, \
                    reason: r}, {id: csv-type, reason: r}, {id: csv-release, reason: r, until: 2000-01-01}]}";
        let configuration = Configuration::parse(Path::new("c.yaml"), text.as_bytes()).unwrap();
        let found = |id, object: &str| Finding::new(id, Severity::Error, "m").about(object);
        let mut findings = vec![
            found("image-pinned", ""),
            found("practice-name", ""),
            found("csv-name", "x"),
            found("csv-name", "y"),
            found("csv-release", ""),
        ];
        let waived = configuration.apply(&mut findings, Date::constant(2026, 1, 31), true);
        let shown: Vec<String> =
            findings.iter().map(|it| format!("{} {} {}", it.id, it.severity, it.message)).collect();
        assert_eq!(
            shown,
            [
                "image-pinned info m",
                "csv-name error m",
                "csv-release error m",
                "waiver warning the waiver of csv-type matches no finding: remove it",
                "waiver warning the waiver of csv-release ended on 2000-01-01"
            ]
        );
        assert_eq!(waived, [Waived { finding: found("csv-name", "x"), reason: "r".into() }]);
    }
}
