//! The semantics of rules, what clusters reject, and hostile input.

mod hostile;
mod language;
mod refused;

use super::*;

const PROPERTIES: &str = r#"[{"type":"olm.package","value":{"packageName":"p","version":"1.2.3"}},
    {"type":"sushi","value":"salmon"},{"type":"n","value":{"count":3,"list":[1,2],"null":null,"\u006bey":"\u00e4\n"}}]"#;

/// Runs a rule and returns `true`, `false`, `error` for a run-time error, or why it is rejected.
fn outcome(rule: &str) -> String {
    let rule = match CelRule::compile(rule) {
        Ok(rule) => rule,
        Err(why) => return format!("refused: {why}"),
    };
    let properties = Value::of_json(Raw::parse(PROPERTIES, 100).unwrap());
    let outcome = match Run::new(properties, MAX_STEPS).evaluate(&rule.expression) {
        Ok(Value::Bool(holds)) => holds.to_string(),
        Ok(other) => panic!("{other:?}"),
        Err(EvaluationFault::Wrong) => "error".to_owned(),
        Err(EvaluationFault::TooLong) => "too long".to_owned(),
    };
    // Any run-time error counts as false.
    assert_eq!(rule.holds(PROPERTIES).is_ok_and(|holds| holds), outcome == "true");
    outcome
}

/// Checks the results of rules.
fn give(expected: &str, rules: &[&str]) {
    for rule in rules {
        assert_eq!(outcome(rule), expected, "{rule}");
    }
}
