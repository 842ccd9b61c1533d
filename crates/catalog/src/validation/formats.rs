//! Problems in the formats of code hosts and editors.

use fbc::ProblemSeverity;
use fbc::locate::LocatedProblem;
use fbc::spelling::github::Annotation;
use fbc::spelling::sarif::{self, SarifResult};
use serde_json::json;

use crate::rules::{DEPENDENCIES, RULES, SPELLING, STRICT, WARNINGS};

/// Formats problems as a SARIF log.
pub fn sarif(found: &[LocatedProblem<'_>]) -> String {
    let about = |name: &str| {
        let mut rules = RULES.iter().chain(SPELLING).chain(STRICT).chain(WARNINGS).chain(DEPENDENCIES);
        let rule = rules.find(|rule| rule.name == name);
        (rule.map_or_else(|| name.replace('-', " "), |rule| rule.about.to_owned()), None)
    };
    let results = found.iter().map(|found| {
        let problem = found.problem;
        let scope = &problem.scope;
        let logical = [("package", &scope.package), ("channel", &scope.channel), ("bundle", &scope.bundle)].into_iter();
        let logical = logical.filter_map(|(kind, name)| name.as_ref().map(|name| json!({"name": name, "kind": kind})));
        SarifResult {
            rule: problem.rule,
            level: match problem.severity {
                ProblemSeverity::Error => "error",
                ProblemSeverity::Warning => "warning",
            },
            text: problem.message.clone(),
            help: found.help().unwrap_or_default(),
            file: found.path.as_deref().unwrap_or_default(),
            region: found.located.as_ref().map(|located| {
                let end = located.column + located.marked.len().max(1);
                json!({"startLine": located.line, "startColumn": located.column, "endColumn": end})
            }),
            logical: logical.collect(),
        }
    });
    sarif::log(results.collect(), about, Some("unicodeCodePoints"))
}

/// Formats workflow commands, with which GitHub annotates the lines of problems.
pub fn github(found: &[LocatedProblem<'_>]) -> String {
    let line = |found: &LocatedProblem<'_>| {
        let help = found.help().map(|help| format!("\nhelp: {help}")).unwrap_or_default();
        let annotation = Annotation {
            level: match found.problem.severity {
                ProblemSeverity::Error => "error",
                ProblemSeverity::Warning => "warning",
            },
            file: found.path.as_deref(),
            line: found.located.as_ref().map(|located| (located.line as u64, Some(located.column as u64))),
            title: found.problem.rule,
            message: &format!("{}{help}", found.problem.message),
        };
        annotation.line()
    };
    found.iter().filter(|found| !found.is_consequence()).map(line).collect()
}
