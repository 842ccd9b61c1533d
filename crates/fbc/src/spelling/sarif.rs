//! Logs in the Static Analysis Results Interchange Format (SARIF) 2.1.0, for code hosts and editors.

use serde_json::{Map, Value, json};

use super::percent;

/// A result of a log.
pub struct SarifResult<'a> {
    /// The name of the broken rule.
    pub rule: &'a str,
    /// `error`, `warning` or `note`.
    pub level: &'static str,
    /// The message.
    pub text: String,
    /// The fix; empty if it is obvious.
    pub help: String,
    /// The file; empty if there is none.
    pub file: &'a str,
    /// The region in the file.
    pub region: Option<Value>,
    /// The logical locations.
    pub logical: Vec<Value>,
}

/// Formats a log. `about` returns the description of a rule, and its properties if it has any; `columns` is the unit of
/// columns.
pub fn log(
    results: Vec<SarifResult<'_>>,
    about: impl Fn(&str) -> (String, Option<Value>),
    columns: Option<&str>,
) -> String {
    let mut names: Vec<&str> = results.iter().map(|result| result.rule).collect();
    names.sort_unstable();
    names.dedup();
    let rule = |name: &&str| {
        let (text, properties) = about(name);
        let mut rule = json!({"id": name, "shortDescription": {"text": text}});
        if let Some(properties) = properties {
            rule["properties"] = properties;
        }
        rule
    };
    let mut run = json!({"tool": {"driver": {
        "name": "opm",
        "version": env!("CARGO_PKG_VERSION"),
        "informationUri": "https://olm.operatorframework.io",
        "rules": names.iter().map(rule).collect::<Vec<_>>(),
    }}});
    if let Some(columns) = columns {
        run["columnKind"] = columns.into();
    }
    run["results"] = results.into_iter().map(|result| result.value(&names)).collect();
    let log = json!({"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]});
    format!("{log:#}\n")
}

impl SarifResult<'_> {
    fn value(self, names: &[&str]) -> Value {
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
        let mut location = Map::new();
        if !self.file.is_empty() {
            let mut physical = json!({"artifactLocation": {"uri": percent::encode_but(self.file, b"/")}});
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
