//! Rules in the Common Expression Language, as `olm.constraint` holds them.
//!
//! A rule sees `properties`, the list of a bundle's properties as objects of `type` and `value`, and the function
//! `semver_compare`. It must give a boolean; whatever goes wrong while it is worked out counts as false. Timestamps and
//! durations are not known here, as no property of a bundle has them.
//!
//! Rules come from strangers. They are bounded in length and depth before they are parsed, and in work before they run.

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr};
use cel::objects::{Key, Map};
use cel::{Context, IdedExpr, Program, Value};
use fbc::json::{Kind, Raw};
use fbc::version::Version;

/// Longer rules are refused.
const LONGEST: usize = 10_000;
/// Rules with more brackets in one another than this are refused.
const DEEPEST: usize = 50;
/// Rules with more operators than this are refused: each may be one step deeper into what is parsed.
const MOST_OPERATORS: usize = 500;
/// Rules that could look at more values than this for one bundle are not worked out.
const MOST_WORK: u64 = 2_000_000;

/// A rule that can be worked out.
pub struct Rule {
    program: Program,
    /// How many loops it has in one another.
    loops: u32,
    /// How many commas it has: lists it writes are not longer.
    commas: usize,
    /// How many lists it could join.
    sums: u64,
}

impl Rule {
    /// Compiles a rule.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn compile(text: &str) -> Result<Rule, String> {
        if text.len() > LONGEST {
            return Err(format!("the rule is longer than {LONGEST} bytes"));
        }
        let (depth, operators) = nesting(text);
        if depth > DEEPEST {
            return Err(format!("the rule is nested deeper than {DEEPEST}"));
        }
        if operators > MOST_OPERATORS {
            return Err(format!("the rule has more than {MOST_OPERATORS} operators"));
        }
        // The parser is a large machine made for friendly input.
        let program = guarded(|| Program::compile(text)).ok_or("the rule cannot be parsed")?;
        let program = program.map_err(|error| one_line(&error.to_string()))?;
        let mut names = vec!["properties"];
        let loops = look(program.expression(), &mut names, 0)?;
        Ok(Rule { program, loops, commas: text.matches(',').count(), sums: text.matches('+').count() as u64 + 1 })
    }

    /// Returns how many values the rule may look at for a bundle with these properties, a JSON list of objects.
    ///
    /// # Errors
    /// Fails when they are too many.
    pub fn work(&self, properties: &str) -> Result<u64, String> {
        // No list is longer than the properties are, or than the rule could write it.
        let values = (properties.matches(',').count().max(self.commas) as u64 + 1).saturating_mul(self.sums);
        match values.checked_pow(self.loops) {
            Some(work) if work <= MOST_WORK => Ok(work.max(properties.len() as u64)),
            _ => Err("the rule would take too long: it has too many loops in one another".to_owned()),
        }
    }

    /// Returns whether the rule holds for a bundle with these properties, a JSON list of objects.
    ///
    /// # Errors
    /// Fails when working it out would take too long, or something unforeseen happens.
    pub fn holds(&self, properties: &str) -> Result<bool, String> {
        self.work(properties)?;
        let Ok(raw) = Raw::parse(properties, fbc::limits::MAX_DEPTH) else { return Ok(false) };
        let mut context = Context::default();
        context.add_variable_from_value("properties", value(raw));
        context.add_function("semver_compare", compare).map_err(|error| error.to_string())?;
        match guarded(|| self.program.execute(&context)) {
            Some(Ok(Value::Bool(holds))) => Ok(holds),
            Some(_) => Ok(false),
            None => Err("the rule cannot be worked out".to_owned()),
        }
    }
}

/// Compares two versions as `semver_compare` does; what is no version is an error, hence false.
fn compare(a: Arc<String>, b: Arc<String>) -> Result<i64, cel::ExecutionError> {
    let version = |text: &str| {
        Version::parse_tolerant(text).map_err(|error| cel::ExecutionError::function_error("semver_compare", error))
    };
    Ok(version(&a)?.cmp_precedence(&version(&b)?) as i64)
}

/// Counts how deep brackets are nested, and the operators. Those in strings count, too, which only makes it stricter.
fn nesting(text: &str) -> (usize, usize) {
    let (mut depth, mut deepest, mut operators) = (0usize, 0usize, 0usize);
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        operators += usize::from(!c.is_alphanumeric() && !"_ )]},'\"".contains(c));
    }
    (deepest, operators)
}

/// Runs what may panic, and returns nothing if it does.
fn guarded<T>(run: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(run)).ok()
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// Checks that a rule names nothing unknown, and returns how many loops it has in one another.
fn look<'e>(expression: &'e IdedExpr, names: &mut Vec<&'e str>, depth: usize) -> Result<u32, String> {
    if depth > LONGEST {
        return Err("the rule is nested too deep".to_owned());
    }
    let mut most = 0;
    let mut below = |expression: &'e IdedExpr, names: &mut Vec<&'e str>| -> Result<(), String> {
        most = most.max(look(expression, names, depth + 1)?);
        Ok(())
    };
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) => {}
        Expr::Ident(name) => {
            if !names.contains(&name.as_str()) && !TYPES.contains(&name.as_str()) {
                return Err(format!("undeclared reference to '{name}'"));
            }
        }
        Expr::Call(call) => {
            if !call.func_name.starts_with(|c: char| !c.is_ascii_alphabetic())
                && !FUNCTIONS.contains(&call.func_name.as_str())
            {
                return Err(format!("undeclared reference to '{}'", call.func_name));
            }
            if let Some(target) = &call.target {
                below(target, names)?;
            }
            for argument in &call.args {
                below(argument, names)?;
            }
        }
        Expr::Comprehension(each) => {
            below(&each.iter_range, names)?;
            below(&each.accu_init, names)?;
            let known = names.len();
            names.extend([each.iter_var.as_str(), each.accu_var.as_str()]);
            names.extend(each.iter_var2.as_deref());
            let mut inner = 0;
            for part in [&each.loop_cond, &each.loop_step, &each.result] {
                inner = inner.max(look(part, names, depth + 1)?);
            }
            names.truncate(known);
            most = most.max(inner + 1);
        }
        Expr::List(list) => list.elements.iter().try_for_each(|element| below(element, names))?,
        Expr::Select(select) => below(&select.operand, names)?,
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    below(&entry.key, names)?;
                    below(&entry.value, names)?;
                }
            }
        }
        Expr::Struct(_) => return Err("messages are not known here".to_owned()),
    }
    Ok(most)
}

/// The names of types, which rules may use as values.
const TYPES: &[&str] = &["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint", "dyn"];

/// The functions of the language that rules can call here, by name.
const FUNCTIONS: &[&str] = &[
    "semver_compare",
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "has",
    "bool",
    "bytes",
    "double",
    "dyn",
    "int",
    "string",
    "type",
    "uint",
    "max",
    "min",
];

/// Makes a value of the language from JSON.
fn value(raw: Raw<'_>) -> Value {
    match raw.kind() {
        Kind::Null => Value::Null,
        Kind::Bool => Value::Bool(raw.as_bool().unwrap_or_default()),
        // All numbers of JSON are doubles to the original, whatever they look like.
        Kind::Number => Value::Float(raw.text().parse().unwrap_or(f64::NAN)),
        Kind::String => Value::String(Arc::new(raw.as_str().unwrap_or_default().into_owned())),
        Kind::Array => Value::List(Arc::new(raw.items().map(value).collect())),
        Kind::Object => {
            let map: HashMap<Key, Value> =
                raw.members().map(|(key, of)| (Key::String(Arc::new(key.into_owned())), value(of))).collect();
            Value::Map(Map { map: Arc::new(map) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROPERTIES: &str = r#"[{"type":"olm.package","value":{"packageName":"p","version":"1.2.3"}},
        {"type":"sushi","value":"salmon"},{"type":"n","value":{"count":3,"list":[1,2],"null":null}}]"#;

    fn holds(rule: &str) -> Result<bool, String> {
        Rule::compile(rule)?.holds(PROPERTIES)
    }

    #[test]
    fn rules_look_at_properties() {
        assert_eq!(holds("properties.exists(p, p.type == 'sushi' && p.value == 'salmon')"), Ok(true));
        assert_eq!(holds("properties.exists(p, p.type == 'sushi' && p.value == 'tuna')"), Ok(false));
        let versions = |compare: &str| {
            holds(&format!(
                "properties.exists(p, p.type == 'olm.package' && semver_compare(p.value.version, '1.2') {compare})"
            ))
        };
        assert_eq!((versions("> 0"), versions("== 0"), versions("== 1")), (Ok(true), Ok(false), Ok(true)));
        assert_eq!(holds("properties.exists(p, p.type == 'n' && p.value.count == 3.0)"), Ok(true));
        assert_eq!(holds("properties.exists(p, p.type.matches('^su.*'))"), Ok(true));
        assert_eq!(holds("size(properties) == 3"), Ok(true));
        assert_eq!(holds("properties.filter(p, p.type == 'sushi').size() == 1"), Ok(true));
        assert_eq!(holds("properties.all(p, has(p.type))"), Ok(true));
    }

    #[test]
    fn what_goes_wrong_is_false() {
        assert_eq!(holds("properties[99].type == 'x'"), Ok(false));
        assert_eq!(holds("1"), Ok(false));
        assert_eq!(holds("semver_compare('x', '1.0.0') == 0"), Ok(false));
        assert_eq!(holds("1 / 0 == 1"), Ok(false));
        assert_eq!(holds("properties.exists(p, p.value.nothing == 1)"), Ok(false));
    }

    #[test]
    fn what_is_no_rule_is_told() {
        for rule in [
            "",
            "1 +",
            "properties.exists(",
            "nothing == 1",
            "nothing(1)",
            "'",
            "a\u{0}b",
            "p.{",
            "\u{feff}",
            "x.y{z: 1}",
        ] {
            assert!(Rule::compile(rule).is_err(), "{rule:?}");
        }
    }

    #[test]
    fn hostile_rules_are_bounded() {
        for rule in [
            "(".repeat(5_000),
            "!".repeat(5_000) + "true",
            "-".repeat(5_000) + "1",
            "[".repeat(5_000),
            "true ? ".repeat(1_000) + "true" + &" : true".repeat(1_000),
            "x".repeat(LONGEST + 1),
            "{1:".repeat(1_000),
            "a.exists(b,".repeat(150),
        ] {
            assert!(Rule::compile(&rule).is_err());
        }
        // As many operators as there may be: none of these may bring the program down.
        let most = |part: &str, end: &str| part.repeat(MOST_OPERATORS / nesting(part).1 - nesting(end).1) + end;
        for rule in [
            most("1 + ", "1 == 1"),
            most("true && ", "true"),
            most("true || ", "true"),
            most("'a' + ", "'b' == 'c'"),
            most("!", "true"),
            most("-", "1 == 1"),
            most("!true == ", "true"),
            most("true ? true : ", "true"),
            "properties".to_owned() + &most(".a", " == 1"),
            "properties".to_owned() + &most("[0]", " == 1"),
            "(".repeat(DEEPEST) + "1" + &")".repeat(DEEPEST),
            "[".repeat(DEEPEST) + "1" + &"]".repeat(DEEPEST),
            "[1].all(b, ".repeat(DEEPEST) + "true" + &")".repeat(DEEPEST),
        ] {
            if let Ok(rule) = Rule::compile(&rule) {
                let _ = rule.holds(PROPERTIES);
            }
        }
        let loops = "properties.all(a, properties.all(b, properties.all(c, properties.all(d, true))))";
        let many = format!("[{}]", vec![r#"{"type":"a"}"#; 2_000].join(","));
        assert!(Rule::compile(loops).unwrap().holds(&many).unwrap_err().contains("too long"));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]
        #[test]
        fn no_text_brings_it_down(rule in r#"([ -~]|properties|\.exists\(|p\.|\(|\)|'|"|&&|==|[0-9]){0,20}"#) {
            if let Ok(rule) = Rule::compile(&rule) {
                let _ = rule.holds(PROPERTIES);
            }
        }
    }
}
