//! Formats problems as SARIF 2.1.0 for code hosts and editors.

use fbc::Severity;
use serde_json::{Value, json};

use crate::report::Found;

/// Returns problems as a SARIF log.
pub(crate) fn log(found: &[Found<'_>]) -> String {
    let mut names: Vec<&str> = found.iter().map(|found| found.problem.rule).collect();
    names.sort_unstable();
    names.dedup();
    let about = |name: &str| {
        use catalog::rules::{DEPENDENCIES, RULES, STRICT, WARNINGS};
        let mut rules = RULES.iter().chain(STRICT).chain(WARNINGS).chain(DEPENDENCIES);
        rules.find(|rule| rule.name == name).map_or_else(|| name.replace('-', " "), |rule| rule.about.to_owned())
    };
    let rules: Vec<Value> =
        names.iter().map(|name| json!({"id": name, "shortDescription": {"text": about(name)}})).collect();
    let results: Vec<Value> = found.iter().map(|found| result(found, &names)).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "opm",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": "https://olm.operatorframework.io",
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

fn result(found: &Found<'_>, names: &[&str]) -> Value {
    let problem = found.problem;
    let level = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut text = problem.message.clone();
    if let Some(help) = found.help() {
        text += &format!("\nhelp: {help}");
    }
    let mut result = json!({
        "ruleId": problem.rule,
        "ruleIndex": names.iter().position(|name| *name == problem.rule),
        "level": level,
        "message": {"text": text},
    });
    let scope = &problem.scope;
    let logical: Vec<Value> = [("package", &scope.package), ("channel", &scope.channel), ("bundle", &scope.bundle)]
        .into_iter()
        .filter_map(|(kind, name)| name.as_ref().map(|name| json!({"name": name, "kind": kind})))
        .collect();
    let mut location = serde_json::Map::new();
    if let Some(path) = &found.path {
        let mut physical = json!({"artifactLocation": {"uri": uri(path)}});
        if let Some(located) = &found.located {
            physical["region"] = json!({
                "startLine": located.line,
                "startColumn": located.column,
                "endColumn": located.column + located.marked.len().max(1),
            });
        }
        location.insert("physicalLocation".into(), physical);
    }
    if !logical.is_empty() {
        location.insert("logicalLocations".into(), Value::Array(logical));
    }
    if !location.is_empty() {
        result["locations"] = json!([location]);
    }
    result
}

/// Encodes a path as a URI reference.
pub(crate) fn uri(path: &str) -> String {
    fbc::spelling::percent::encode_but(path, b"/")
}
