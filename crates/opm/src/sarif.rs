//! Formats problems and findings as SARIF 2.1.0 for code hosts and editors.

use bundle::{Finding, Severity};
use fbc::locate::LocatedProblem;
use serde_json::{Value, json};

/// Returns problems of a catalog as a SARIF log.
pub(crate) fn log(found: &[LocatedProblem<'_>]) -> String {
    let about = |name: &str| {
        use catalog::rules::{DEPENDENCIES, RULES, STRICT, WARNINGS};
        let mut rules = RULES.iter().chain(STRICT).chain(WARNINGS).chain(DEPENDENCIES);
        rules.find(|rule| rule.name == name).map_or_else(|| name.replace('-', " "), |rule| rule.about.to_owned())
    };
    let names = names(found.iter().map(|found| found.problem.rule));
    let rules = names.iter().map(|name| json!({"id": name, "shortDescription": {"text": about(name)}})).collect();
    let results = found.iter().map(|found| {
        let problem = found.problem;
        let scope = &problem.scope;
        let logical = [("package", &scope.package), ("channel", &scope.channel), ("bundle", &scope.bundle)].into_iter();
        let logical = logical.filter_map(|(kind, name)| name.as_ref().map(|name| json!({"name": name, "kind": kind})));
        let entry = SarifResult {
            rule: problem.rule,
            level: match problem.severity {
                fbc::ProblemSeverity::Error => "error",
                fbc::ProblemSeverity::Warning => "warning",
            },
            text: problem.message.clone(),
            help: found.help().unwrap_or_default(),
            file: found.path.as_deref().unwrap_or_default(),
            region: found.located.as_ref().map(|located| {
                let end = located.column + located.marked.len().max(1);
                json!({"startLine": located.line, "startColumn": located.column, "endColumn": end})
            }),
            logical: logical.collect(),
        };
        entry.result(&names)
    });
    document(rules, results.collect(), Some("unicodeCodePoints"))
}

/// Returns findings about bundles as a SARIF log.
pub(crate) fn findings(findings: &[Finding]) -> String {
    let danger = |severity| match severity {
        Severity::Critical => Some("9.5"),
        Severity::High => Some("8.0"),
        Severity::Medium => Some("5.0"),
        Severity::Low => Some("2.0"),
        _ => None,
    };
    let names = names(findings.iter().map(|finding| finding.id));
    let rule = |name: &&str| {
        let mut rule = json!({"id": name, "shortDescription": {"text": name.replace('-', " ")}});
        let worst = findings.iter().filter(|finding| finding.id == *name).map(|finding| finding.severity).max();
        if let Some(danger) = worst.and_then(danger) {
            rule["properties"] = json!({"security-severity": danger, "tags": ["security"]});
        }
        rule
    };
    let results = findings.iter().map(|finding| {
        let entry = SarifResult {
            rule: finding.id,
            level: level(finding.severity),
            text: crate::findings::message(finding),
            help: finding.help.clone(),
            file: &finding.file,
            region: finding.position.map(|at| json!({"startLine": at.line, "startColumn": at.column})),
            logical: Vec::new(),
        };
        entry.result(&names)
    });
    document(names.iter().map(rule).collect(), results.collect(), None)
}

/// Returns the SARIF level of a severity.
pub(crate) fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::Error | Severity::High => "error",
        Severity::Warning | Severity::Medium => "warning",
        Severity::Low | Severity::Info => "note",
    }
}

fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = all.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A result of a log.
struct SarifResult<'a> {
    rule: &'a str,
    level: &'static str,
    text: String,
    /// The fix; empty if it is obvious.
    help: String,
    /// The file; empty if there is none.
    file: &'a str,
    region: Option<Value>,
    logical: Vec<Value>,
}

impl SarifResult<'_> {
    fn result(self, names: &[&str]) -> Value {
        let mut text = self.text;
        if !self.help.is_empty() {
            text += &format!("\nhelp: {}", self.help);
        }
        let mut result = json!({
            "ruleId": self.rule,
            "ruleIndex": names.binary_search(&self.rule).ok(),
            "level": self.level,
            "message": {"text": text},
        });
        let mut location = serde_json::Map::new();
        if !self.file.is_empty() {
            let mut physical = json!({"artifactLocation": {"uri": uri(self.file)}});
            if let Some(region) = self.region {
                physical["region"] = region;
            }
            location.insert("physicalLocation".into(), physical);
        }
        if !self.logical.is_empty() {
            location.insert("logicalLocations".into(), Value::Array(self.logical));
        }
        if !location.is_empty() {
            result["locations"] = json!([location]);
        }
        result
    }
}

fn document(rules: Vec<Value>, results: Vec<Value>, columns: Option<&str>) -> String {
    let mut run = json!({"tool": {"driver": {
        "name": "opm",
        "version": env!("CARGO_PKG_VERSION"),
        "informationUri": "https://olm.operatorframework.io",
        "rules": rules,
    }}});
    if let Some(columns) = columns {
        run["columnKind"] = columns.into();
    }
    run["results"] = results.into();
    let log = json!({"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]});
    format!("{log:#}\n")
}

/// Encodes a path as a URI reference.
fn uri(path: &str) -> String {
    fbc::spelling::percent::encode_but(path, b"/")
}
