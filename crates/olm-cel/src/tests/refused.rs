//! Rules that clusters reject before they run.

use super::outcome;

fn refused(rules: &[(&str, &str)]) {
    for (rule, why) in rules {
        assert_eq!(outcome(rule), format!("refused: {why}"), "{rule}");
    }
}

#[test]
fn syntax_errors() {
    refused(&[
        ("", "1:1: unexpected end of the rule"),
        ("1 +", "1:4: unexpected end of the rule"),
        ("1 ~ 2", "1:3: unexpected '~'"),
        ("true\n  && )", "2:6: unexpected \")\""),
        ("properties.exists(", "1:19: unexpected end of the rule"),
        ("'", "1:1: unterminated string"),
        ("'a\nb' == ''", "1:1: unterminated string"),
        ("\"\"\"a", "1:1: unterminated string"),
        (r"'\'", "1:1: unterminated string"),
        (r"'\q' == ''", "1:1: invalid escape in a string"),
        (r"'\ud800' == ''", "1:1: invalid escape in a string"),
        (r"'\U00110000' == ''", "1:1: invalid escape in a string"),
        (r"'\x4' == ''", "1:1: invalid escape in a string"),
        (r"'\8' == ''", "1:1: invalid escape in a string"),
        (r"b'\u0041' == b''", "1:1: invalid escape in a string"),
        ("rb'a' == b'a'", "1:3: unexpected \"'a'\""),
        ("a\u{0}b", "1:2: unexpected '\\0'"),
        ("\u{feff}", "1:1: unexpected '\\u{feff}'"),
        ("p.{", "1:3: unexpected \"{\""),
        ("properties.in == 1", "1:12: unexpected \"in\""),
        ("size(properties,) == 1", "1:17: unexpected \")\""),
        ("[1,,2] == []", "1:4: unexpected \",\""),
        ("true ? true ? true : true : true", "1:13: unexpected \"?\""),
        ("true = true", "1:6: unexpected '='"),
        ("true & true", "1:6: unexpected '&'"),
        ("true true", "1:6: unexpected \"true\""),
        ("!-(1) == 1", "1:2: unexpected \"-\""),
        ("9223372036854775808 == 1", "1:21: invalid int literal 9223372036854775808"),
        ("18446744073709551616u == 1u", "1:1: invalid uint literal 18446744073709551616u"),
        ("1e400 == 1.0", "1:1: invalid double literal 1e400"),
        ("if == 1", "1:1: reserved identifier: if"),
        ("properties.all(if, true)", "1:16: reserved identifier: if"),
        ("has(properties)", "1:16: invalid argument to has() macro"),
        ("properties.all(1, true)", "1:24: argument must be a simple name"),
        ("properties.map(p.type, true) == []", "1:30: argument must be a simple name"),
        ("x.y{z: 1}", "messages are not supported"),
        ("properties.?a == 1", "1:12: unexpected \"?\""),
    ]);
}

#[test]
fn unknown_names() {
    refused(&[
        ("nothing == 1", "undeclared reference to 'nothing'"),
        ("nothing(1)", "undeclared reference to 'nothing'"),
        ("properties.nothing()", "undeclared reference to 'nothing'"),
        ("property.exists(p, p.type == 'a')", "undeclared reference to 'property'"),
        ("properties.all(p, true) && p == 1", "undeclared reference to 'p'"),
        ("properties.all(p, q)", "undeclared reference to 'q'"),
        ("properties.all(p, true, true)", "undeclared reference to 'all'"),
        ("max(1, 2) == 2", "undeclared reference to 'max'"),
        ("contains('a', 'b')", "undeclared reference to 'contains'"),
        ("'1'.int() == 1", "undeclared reference to 'int'"),
        ("duration('1s') == duration('1s')", "undeclared reference to 'duration'"),
        ("dyn == 1", "undeclared reference to 'dyn'"),
        ("true.all(x)", "undeclared reference to 'all'"),
    ]);
}

#[test]
fn mismatched_types() {
    let overload = |name: &str, types: &str| format!("found no matching overload for '{name}' applied to '({types})'");
    for (rule, name, types) in [
        ("1 == 'a'", "_==_", "int, string"),
        ("1 == 1.0", "_==_", "int, double"),
        ("1 != null", "_!=_", "int, null"),
        ("[1] == ['a']", "_==_", "list(int), list(string)"),
        ("{'a': 1} == {1: 1}", "_==_", "map(string, int), map(int, int)"),
        ("1 < 1u", "_<_", "int, uint"),
        ("[1] < [2]", "_<_", "list(int), list(int)"),
        ("1 + 'a' == 2", "_+_", "int, string"),
        ("true - true == 1", "_-_", "bool, bool"),
        ("1.5 % 1.0 == 1.0", "_%_", "double, double"),
        ("'a' * 2 == 'aa'", "_*_", "string, int"),
        ("!1", "!_", "int"),
        ("-1u == 1u", "-_", "uint"),
        ("1 && true", "_&&_", "int, bool"),
        ("true || 'a'", "_||_", "bool, string"),
        ("1 ? true : true", "_?_:_", "int, bool, bool"),
        ("true ? true : 1", "_?_:_", "bool, bool, int"),
        ("1 in ['a']", "@in", "int, list(string)"),
        ("1 in 'a'", "@in", "int, string"),
        ("properties['a'] == 1", "_[_]", "list(map(string, dyn)), string"),
        ("properties[0u] == {}", "_[_]", "list(map(string, dyn)), uint"),
        ("properties[0][1] == 1", "_[_]", "map(string, dyn), int"),
        ("'abc'[0] == 'a'", "_[_]", "string, int"),
        ("size(1) == 1", "size", "int"),
        ("size() == 1", "size", ""),
        ("'a'.contains(1)", "contains", "string, int"),
        ("'a'.size(1) == 1", "size", "string, int"),
        ("bool(1)", "bool", "int"),
        ("int(true) == 1", "int", "bool"),
        ("string([]) == ''", "string", "list(dyn)"),
        ("type(1, 2) == int", "type", "int, int"),
        ("semver_compare('1') == 0", "semver_compare", "string"),
        ("[1].all(x, x)", "_&&_", "int"),
        ("[1].filter(x, x) == []", "_?_:_", "int"),
    ] {
        refused(&[(rule, &overload(name, types))]);
    }
    refused(&[
        ("'a'.b == 1", "type 'string' does not support field selection"),
        ("properties.type == 'a'", "type 'list(map(string, dyn))' does not support field selection"),
        ("has(properties.type)", "type 'list(map(string, dyn))' does not support field selection"),
        ("int.a == 1", "type 'type' does not support field selection"),
        (
            "1.all(x, true)",
            "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
    ]);
}

#[test]
fn results_of_other_types() {
    for rule in
        ["1", "'a'", "properties", "properties[0].value", "dyn(true)", "true ? 1 : 2", "properties.map(p, p.type)"]
    {
        refused(&[(rule, "cel expressions must have type Bool")]);
    }
}
