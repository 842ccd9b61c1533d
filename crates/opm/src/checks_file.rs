//! `.opm.yaml` and `.opm-checks.yaml`: severity levels and waivers of checks.
//!
//!     checks:
//!       levels: {image-pinned: info, practice-name: off}
//!       waivers:
//!       - id: account-missing
//!         object: Deployment foo       # or file: manifests/x.yaml; without both, everywhere
//!         reason: the platform creates it
//!         until: 2030-01-01

use std::path::{Path, PathBuf};

use bundle::{Finding, Severity};
use serde_json::Value;
use spelling::calendar::{self, Date};

use crate::exit::{Failure, in_path};

const NAMES: [&str; 2] = [".opm.yaml", ".opm-checks.yaml"];
/// The limits of a configuration file.
const LIMITS: fbc::yaml::Limits = fbc::yaml::Limits { depth: 20, nodes: 10_000, bytes: 1 << 20 };

/// The checks configuration of a project.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
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
    until: String,
}

impl Configuration {
    /// Reads the given file, or the first one found in the bundle directory or its ancestors.
    pub(crate) fn find(given: Option<&Path>, bundle: Option<&Path>) -> Result<Configuration, Failure> {
        if let Some(path) = given {
            let text = std::fs::read(path).map_err(|error| in_path(path, &error))?;
            return Configuration::read(path, &text);
        }
        let Some(bundle) = bundle.and_then(|bundle| bundle.canonicalize().ok()) else {
            return Ok(Configuration::default());
        };
        for directory in bundle.ancestors() {
            for name in NAMES {
                let path = directory.join(name);
                if let Ok(text) = std::fs::read(&path) {
                    return Configuration::read(&path, &text);
                }
            }
            // Stop at the root of the repository.
            if directory.join(".git").exists() {
                break;
            }
        }
        Ok(Configuration::default())
    }

    fn read(path: &Path, text: &[u8]) -> Result<Configuration, Failure> {
        let wrong = |why: String| Failure::message(format!("{}: {why}", path.display()));
        let mut json = Vec::new();
        fbc::yaml::to_json(text, &LIMITS, &mut json).map_err(|error| wrong(error.to_string()))?;
        let root: Value = serde_json::from_slice(&json).map_err(|error| wrong(error.to_string()))?;
        let mut configuration = Configuration { path: path.to_owned(), ..Configuration::default() };
        let Some(checks) = root.get("checks").filter(|checks| !checks.is_null()) else { return Ok(configuration) };
        let known = ["levels", "waivers"];
        let checks = checks.as_object().ok_or_else(|| wrong("checks must be a mapping".into()))?;
        if let Some(other) = checks.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(wrong(format!("unknown key checks.{other}; expected levels or waivers")));
        }
        for (id, level) in checks.get("levels").and_then(Value::as_object).into_iter().flatten() {
            let level = match level {
                // YAML reads `off` as a boolean.
                Value::Bool(false) => None,
                Value::String(text) if text == "off" => None,
                Value::String(text) => {
                    let severity =
                        Severity::parse(text).ok_or_else(|| wrong(format!("unknown level {text:?} for {id}")))?;
                    Some(severity)
                }
                _ => return Err(wrong(format!("the level of {id} must be a severity"))),
            };
            configuration.levels.push((id.clone(), level));
        }
        for (at, waiver) in checks.get("waivers").and_then(Value::as_array).into_iter().flatten().enumerate() {
            let field = |name: &str| waiver.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            if field("id").is_empty() {
                return Err(wrong(format!("waiver {at} has no id")));
            }
            if field("reason").trim().is_empty() {
                return Err(wrong(format!("the waiver of {} needs a reason", field("id"))));
            }
            let until = field("until");
            if !until.is_empty() && date(&until).is_none() {
                return Err(wrong(format!(
                    "invalid date {until:?} in the waiver of {}; write it like 2030-01-31",
                    field("id")
                )));
            }
            configuration.waivers.push(Waiver { id: field("id"), object: field("object"), file: field("file"), until });
        }
        Ok(configuration)
    }

    /// Applies levels and waivers; adds a finding for each expired or unused waiver.
    pub(crate) fn apply(&self, findings: &mut Vec<Finding>) {
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
            let over = date(&waiver.until).is_some_and(|until| until < today());
            let fits = |finding: &Finding| {
                finding.id == waiver.id
                    && (waiver.object.is_empty() || finding.object == waiver.object)
                    && (waiver.file.is_empty() || finding.file.ends_with(&waiver.file))
            };
            let used = findings.iter().any(fits);
            let text = if over {
                format!("the waiver of {} ended on {}", waiver.id, waiver.until)
            } else if !used {
                format!("the waiver of {} fits nothing that is found: remove it", waiver.id)
            } else {
                findings.retain(|finding| !fits(finding));
                continue;
            };
            let file = self.path.display().to_string();
            expired.push(Finding::new("waiver", Severity::Warning, text).at(&file, 0, ""));
        }
        findings.extend(expired);
    }
}

/// Parses a date as year, month and day.
fn date(text: &str) -> Option<Date> {
    let mut parts = text.split('-').map(|part| part.parse::<u32>().ok().map(i64::from));
    let date = Date::new(parts.next()??, parts.next()??, parts.next()??);
    date.filter(|_| parts.next().is_none())
}

/// Returns today's date.
fn today() -> Date {
    calendar::parts(calendar::now()).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_parsed() {
        assert_eq!(date("2026-01-31"), Date::new(2026, 1, 31));
        assert!(date("2026-01-31") < date("2026-02-01"));
        assert_eq!(date("2026-13-01"), None);
        assert_eq!(date("soon"), None);
    }

    #[test]
    fn waivers_and_levels_are_validated() {
        let read = |text: &str| Configuration::read(Path::new("c.yaml"), text.as_bytes());
        let failure = |text: &str| match read(text) {
            Err(Failure::Message(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(failure("checks: {waivers: [{id: a}]}"), "c.yaml: the waiver of a needs a reason");
        assert_eq!(failure("checks: {levels: {a: loud}}"), "c.yaml: unknown level \"loud\" for a");
        assert_eq!(failure("checks: {waiver: []}"), "c.yaml: unknown key checks.waiver; expected levels or waivers");
        let configuration = read(
            "checks: {levels: {a: info, b: off}, waivers: [{id: c, object: x, reason: r}, {id: d, reason: r}, {id: e, reason: r, until: 2000-01-01}]}",
        )
        .unwrap();
        let found = |id, object: &str| Finding::new(id, Severity::Error, "m").about(object);
        let mut findings = vec![found("a", ""), found("b", ""), found("c", "x"), found("c", "y"), found("e", "")];
        configuration.apply(&mut findings);
        let shown: Vec<String> =
            findings.iter().map(|it| format!("{} {} {}", it.id, it.severity, it.message)).collect();
        assert_eq!(
            shown,
            [
                "a info m",
                "c error m",
                "e error m",
                "waiver warning the waiver of d fits nothing that is found: remove it",
                "waiver warning the waiver of e ended on 2000-01-01"
            ]
        );
    }
}
