//! Untrusted rules: bounded, and never a panic.

use proptest::prelude::*;

use super::*;
use crate::parse::{MAX_DEPTH, MAX_OPERATORS};

#[test]
fn oversized_rules_are_rejected() {
    let deep = format!("nested deeper than {MAX_DEPTH}");
    let many = format!("more than {MAX_OPERATORS} operators");
    for (rule, why) in [
        ("x".repeat(MAX_LENGTH + 1), "longer than 10000 bytes"),
        ("(".repeat(5_000), &*deep),
        ("[".repeat(5_000), &*deep),
        ("{1:".repeat(1_000), &*deep),
        ("a.exists(b,".repeat(150), &*deep),
        ("!".repeat(5_000) + "true", &*many),
        ("-".repeat(5_000) + "1", &*many),
        ("true ? true : ".repeat(600) + "true", &*many),
        (".a".repeat(4_000), &*many),
    ] {
        let refused = CelRule::compile(&rule).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    // Each of these types is twice as large as the one before it.
    let doubled = "[1]".to_owned() + &".map(x, {x: x})".repeat(38);
    let refused = CelRule::compile(&format!("[{doubled}, {doubled}] == {doubled}[0]")).unwrap_err().to_string();
    assert!(refused.starts_with("found no matching overload for '_==_'") && refused.len() < 10_000, "{refused}");
    // Brackets and operators in strings and comments do not count.
    assert_eq!(outcome(&format!("'{0}' == '{0}' // {0}", "(+".repeat(1_000))), "true");
}

#[test]
fn rules_at_the_limits_run() {
    let most = |part: &str, of_part: usize, end: &str| part.repeat(MAX_OPERATORS / of_part - 5) + end;
    for (rule, expected) in [
        (most("1 + ", 1, "1 == 496"), "true"),
        (most("true && ", 1, "true"), "true"),
        (most("false || ", 1, "true"), "true"),
        (most("'a' + ", 1, "'b' == 'c'"), "false"),
        (most("!", 1, "true"), "false"),
        (most("-", 1, "(1) == -1"), "true"),
        (most("true == ", 1, "true"), "true"),
        (most("false ? false : ", 2, "true"), "true"),
        ("{}".to_owned() + &most(".a", 1, " == 1"), "error"),
        ("properties[0].value".to_owned() + &most("[0]", 1, " == 1"), "error"),
        ("(".repeat(MAX_DEPTH) + "true" + &")".repeat(MAX_DEPTH), "true"),
        ("[".repeat(MAX_DEPTH) + "1" + &"]".repeat(MAX_DEPTH) + " == []", "false"),
        ("[1].all(b, ".repeat(MAX_DEPTH) + "true" + &")".repeat(MAX_DEPTH), "true"),
        ("[1]".to_owned() + &".map(x, [x])".repeat(160) + " == []", "false"),
    ] {
        assert_eq!(outcome(&rule), expected, "{rule}");
    }
}

#[test]
fn rules_that_take_too_long_are_aborted() {
    let many = format!("[{}]", vec![r#"{"type":"a"}"#; 2_000].join(","));
    let long = format!(r#"[{{"type":"a","value":"{}"}}]"#, "a".repeat(1 << 20));
    let twice = |start: &str, part: &str| start.to_owned() + &part.repeat(60) + ".size() == 1";
    for (rule, properties) in [
        ("properties.all(a, properties.all(b, properties.all(c, true)))".to_owned(), &many),
        (
            "properties.all(a, properties.exists_one(b, a == b) || properties.map(c, properties) != [])".to_owned(),
            &many,
        ),
        // The other side of a condition does not hide it.
        ("properties.all(a, properties.all(b, properties.all(c, true))) || true".to_owned(), &many),
        (twice("['a']", ".map(x, x + x)"), &many),
        (twice("[[1]]", ".map(x, x + x)"), &many),
        (twice("[[1]]", ".map(x, x + x)"), &long),
        // Cheap to create, expensive to compare.
        (format!("[[1]{0}, [1]{0}].map(x, x == [1]{0}) == []", ".map(x, [x, x])".repeat(30)), &long),
        (
            "['x', 'y'].map(y, [1,2,3,4,5,6,7,8,9].exists(x, properties[0].value.matches('(a|' + y + ')*b'))) == []"
                .to_owned(),
            &long,
        ),
        ("properties[0].value.matches('(a?){500}b{500}c')".to_owned(), &long),
        (format!("([1]{}).exists(x, 'a'.matches('a' + 'b'))", " + [1]".repeat(200)), &many),
    ] {
        assert_eq!(TooLong.to_string(), "the rule takes too long: it was given up after 2000000 steps");
        assert_eq!(CelRule::compile(&rule).unwrap().run(properties), Err(TooLong), "{rule}");
    }
}

#[test]
fn only_executed_steps_are_counted() {
    let steps = |rule: &str, properties: &str| CelRule::compile(rule).unwrap().run(properties).unwrap().steps;
    let of = |count: usize| format!("[{}]", vec![r#"{"type":"a"}"#; count].join(","));
    // Reading the properties costs the least.
    assert_eq!(steps("true", &of(10)), of(10).len() as u64);
    // Nested loops count only if they run: the first element ends them.
    assert!(steps("properties.exists(a, properties.exists(b, properties.exists(c, true)))", &of(5_000)) < 100_000);
    let pairs = "properties.all(a, properties.all(b, a.type == b.type))";
    assert!((10_000..100_000).contains(&steps(pairs, &of(100))), "{}", steps(pairs, &of(100)));
}

#[test]
fn invalid_properties_satisfy_no_rule() {
    for properties in ["", "[", "{}", "1", "null"] {
        assert_eq!(
            CelRule::compile("properties.size() == 0 && [] == properties").unwrap().holds(properties),
            Ok(false)
        );
    }
    assert_eq!(CelRule::compile("properties.size() == 0").unwrap().holds("[]"), Ok(true));
}

/// Tokens of rules, and some that are not.
const WORDS: &[&str] = &[
    "properties",
    ".exists(p, ",
    ".all(p,",
    ".map(p, ",
    ".filter(q, ",
    ".exists_one(x,",
    "has(p.type)",
    "p",
    "q",
    ".type",
    ".value",
    ".size()",
    "size(",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    "&&",
    "||",
    "==",
    "!=",
    "<",
    ">=",
    " in ",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "0",
    "1",
    "-1",
    "2u",
    "1.5",
    ".5",
    "0x7f",
    "9223372036854775807",
    "'a'",
    "\"b\"",
    "b'c'",
    "r'\\'",
    "'''",
    "'",
    "\\",
    "true",
    "false",
    "null",
    "int",
    "int(",
    "dyn(",
    "string(",
    "double(",
    "bytes(",
    "type(",
    ".matches('(a|b)*')",
    ".contains(",
    "semver_compare(",
    "'1.0'",
    "//",
    "\n",
    " ",
    ".",
    "\u{e4}",
    "\u{0}",
    "in",
    "if",
];

fn runs(rule: &str) {
    match CelRule::compile(rule) {
        Ok(compiled) => {
            let first = compiled.run(PROPERTIES);
            assert!(first.as_ref().is_ok_and(|result| result.steps <= MAX_STEPS) || first.is_err());
            assert_eq!(compiled.run(PROPERTIES), first, "{rule}");
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn arbitrary_text_does_not_panic(rule in "\\PC{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        runs(&rule);
        runs(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn arbitrary_tokens_do_not_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..30)) {
        runs(&words.concat());
    }

    #[test]
    fn arbitrary_patterns_do_not_panic(pattern in r"([a-c.*+?|(){}\[\]^$\\,0-9pPdwsbBQExz:<>-]){0,20}") {
        if let Some(pattern) = pattern::Pattern::compile(&pattern) {
            let _ = (pattern.is_in("abc"), pattern.steps("abc"));
        }
    }
}
