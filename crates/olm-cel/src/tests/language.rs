//! The language, one feature per test.

use super::give;

#[test]
fn rules_see_properties_as_json() {
    give(
        "true",
        &[
            "properties.exists(p, p.type == 'sushi' && p.value == 'salmon')",
            "properties.exists(p, p.type == 'olm.package' && semver_compare(p.value.version, '1.2') > 0)",
            "properties.exists(p, p.type == 'n' && p.value.count == 3.0)",
            "properties.exists(p, p.type == 'n' && p.value.count == 3 && type(p.value.count) == double)",
            "properties.exists(p, p.type == 'n' && p.value.list == [1, 2])",
            "properties.exists(p, p.type == 'n' && p.value['null'] == null)",
            "properties[2].value.key == 'ä\\n'",
            "properties[2].value['list'][1.0] == 2",
            "properties.exists(p, p.type.matches('^su.*'))",
            "size(properties) == 3 && properties.size() == 3",
            ".properties[0].type == 'olm.package'",
            "properties.filter(p, p.type == 'sushi').size() == 1",
            "properties.all(p, has(p.type))",
        ],
    );
    give("error", &["properties[99].type == 'x'", "properties.exists(p, p.value.nothing == 1)"]);
}

#[test]
fn literals_are_parsed_in_every_form() {
    give(
        "true",
        &[
            "0x1F == 31 && 0x1fu == 31u && 007 == 7 && -0x10 == -16",
            "-9223372036854775808 < 9223372036854775807 && 18446744073709551615u > 0U",
            "1.5 == 15e-1 && .5 == 0.5 && 1e3 == 1000.0 && -.5E+1 == -5.0",
            r#"'a' == "a" && '''a''' == """a""" && '' == """""" && '''it's''' == "it's""#,
            r#"'\a\b\f\n\r\t\v\\\'\"\?\`' == "\x07\x08\x0C\x0a\x0d\x09\x0B\x5c\x27\x22\x3f\x60""#,
            r"'\u00e4\U0001F600\101\xe4' == 'ä😀Aä'",
            r"r'\n' == '\\n' && R'\' == '\\' && r'''\'' ''' == '\\\'\' '",
            r"b'ä' == b'\303\244' && size(b'\377') == 1",
            r"bytes('ä') == b'\xc3\xa4' && B'a' == b'a' && br'\x' == b'\\x'",
            "'''a\r\nb\rc''' == 'a\\nb\\nc'",
            "true && !false && null == null",
            "[1, 2,] == [1, 2] && [,] == [] && {1: 2,} == {1: 2} && {,} == {}",
            "// a comment\n true // another && false",
            "\ttrue\u{c}\r\n",
        ],
    );
}

#[test]
fn operators_have_the_precedence_of_the_language() {
    give(
        "true",
        &[
            "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 2 * 3 % 4 == 2 && 7 / 2 * 2 == 6",
            "10 - 4 - 3 == 3 && 8 / 4 / 2 == 1 && 1 - -1 == 2 && 1 -1 == 0",
            "true || true && false",
            "!(false || true && false)",
            "1 < 2 == true",
            "false == false == true && 1 + 1 in [2]",
            "!false == true && -2 + 1 == -1 && - 1 == -1",
            "!!true && --1 == 1 && !!!false && ---1 == -1",
            "false ? false : true ? true : false",
            "true ? true : false ? false : false",
            "false || true ? true : false",
            "(true ? 1 : 2) == 1 && {'a': [1]}.a[0] == 1 && -{'a': 1}.a == -1",
            "[1, 2][1] == 2 && 'a' in {'a': 1} && !(1 in [2])",
        ],
    );
}

#[test]
fn conditions_absorb_errors_of_the_other_side() {
    let wrong = "1 / 0 == 1";
    for (rule, expected) in [
        ("false && W", "false"),
        ("W && false", "false"),
        ("true && W", "error"),
        ("W && true", "error"),
        ("W && W", "error"),
        ("true || W", "true"),
        ("W || true", "true"),
        ("false || W", "error"),
        ("W || false", "error"),
        ("W || W", "error"),
        ("!W", "error"),
        ("true ? true : W", "true"),
        ("false ? W : false", "false"),
        ("W ? true : true", "error"),
        ("dyn(1) && false", "false"),
        ("dyn('a') || true", "true"),
        ("dyn(1) && true", "error"),
        ("dyn(1) ? true : true", "error"),
        ("!dyn(1)", "error"),
        ("(W || W || true) && !(W && W && false)", "true"),
    ] {
        give(expected, &[&rule.replace('W', &format!("({wrong})"))]);
    }
}

#[test]
fn loops_absorb_errors_only_like_conditions() {
    for (rule, expected) in [
        ("[1, 2].all(x, x > 0) && [].all(x, false)", "true"),
        ("[0, 1].all(x, 1 / x > 5)", "false"),
        ("[0, 1].all(x, 1 / x == 1)", "error"),
        ("[1, 2].exists(x, x == 2) && ![].exists(x, true)", "true"),
        ("[0, 1].exists(x, 1 / x == 1)", "true"),
        ("[0, 1].exists(x, 1 / x == 5)", "error"),
        ("[1, 2].exists_one(x, x > 1) && ![1, 2].exists_one(x, x > 0) && ![].exists_one(x, true)", "true"),
        ("[1, 2].existsOne(x, x > 1)", "true"),
        ("[0, 1].exists_one(x, 1 / x == 1)", "error"),
        ("[1, 2, 3].filter(x, x != 2) == [1, 3]", "true"),
        ("[0].filter(x, 1 / x == 1) == []", "error"),
        ("[1, 2].map(x, x * x) == [1, 4]", "true"),
        ("[1, 2].map(x, x > 1, x * x) == [4]", "true"),
        ("[0, 1].map(x, x > 0, 1 / x) == [1]", "true"),
        ("[0].map(x, 1 / x) == []", "error"),
        ("{'a': 1, 'b': 2}.all(k, k in ['a', 'b']) && {'a': 1}.map(k, k) == ['a']", "true"),
        ("{1: 'a'}.exists(k, k == 1) && {'b': 1, 'a': 2}.filter(k, true).size() == 2", "true"),
        ("[1].all(x, [2].all(x, x == 2) && x == 1)", "true"),
        ("[1].all(properties, properties == 1) && [1].all(int, int == 1)", "true"),
        ("[[1, 2], [3]].map(l, l.map(x, x + 1)) == [[2, 3], [4]]", "true"),
        ("dyn(1).all(x, true)", "error"),
        ("dyn('a').exists(x, true) || true", "true"),
        ("[dyn(1)].all(x, x)", "error"),
        ("[dyn(1)].filter(x, x) == []", "error"),
    ] {
        give(expected, &[rule]);
    }
}

#[test]
fn has_tests_fields_of_maps() {
    for (rule, expected) in [
        ("has({'a': 1}.a) && !has({'a': 1}.b) && has({'a': null}.a)", "true"),
        ("has({'a': {'b': 1}}.a.b)", "true"),
        ("has({'a': {'b': 1}}.c.b)", "error"),
        // A scalar has no field, but a list expects an index.
        ("has(properties[1].value.version)", "false"),
        ("has(dyn(null).a) || has(dyn(1).a)", "false"),
        ("has(dyn([1]).a)", "error"),
    ] {
        give(expected, &[rule]);
    }
}

#[test]
fn values_are_equal_by_value() {
    give(
        "true",
        &[
            "dyn(1) == 1u && dyn(1) == 1.0 && dyn(1u) == 1.0 && dyn(1) != 1.5 && dyn(-1) != 18446744073709551615u",
            "dyn(1) != '1' && dyn(null) != 0 && dyn([]) != {} && dyn(true) != 1 && dyn(int) != 'int'",
            "[1, 'a', null] == [1.0, 'a', null] && [1] != [1, 2] && [dyn([1])] == [[1u]]",
            "{'a': 1, 'b': [2]} == {'b': [2], 'a': 1} && {'a': 1} != {'b': 1} && {'a': dyn(1)} == {'a': 1.0}",
            "dyn({1: 'a'}) == {1u: 'a'} && {'a': 1} != {'a': 1, 'b': 2}",
            "double('NaN') != double('NaN') && !(double('NaN') == 1.0) && 0.0 == -0.0",
            "b'a' == b'a' && b'a' != b'b' && type(1) == int && type(1) != uint && true != false",
            "dyn(1) in [1.0] && 1 in dyn([2u, 1u]) && !(dyn('1') in [1]) && null in [dyn(null)]",
        ],
    );
    give("error", &["1 in dyn('a')", "[1 / 0] == [1]"]);
}

#[test]
fn values_have_an_order_within_their_type_and_numbers_among_each_other() {
    give(
        "true",
        &[
            "1 < 2 && 2 <= 2 && 3 > 2 && 3 >= 3 && !(1 > 1) && !(1 < 1)",
            "1u < 2u && 1.5 < 2.5 && 'a' < 'b' && 'a' < 'aa' && 'Z' < 'a' && b'a' < b'b' && false < true",
            "dyn(1) < 1.5 && dyn(2u) > 1.5 && dyn(-1) < 1u && dyn(1.0) <= 1 && dyn(18446744073709551615u) > 1",
        ],
    );
    give("error", &["dyn(1) < 'a'", "null < null || false", "dyn([1]) < dyn([2])", "double('NaN') < 1.0"]);
}

#[test]
fn arithmetic_rejects_overflow() {
    give(
        "true",
        &[
            "7 / 2 == 3 && -7 / 2 == -3 && 7 % 2 == 1 && -7 % 2 == -1 && 7 % -2 == 1",
            "7u / 2u == 3u && 7u % 2u == 1u && 2u * 3u - 1u + 1u == 6u",
            "1.5 + 1.5 == 3.0 && 1.0 / 0.0 == double('inf') && -1.0 / 0.0 == double('-Infinity') && -(1.5) == -1.5",
            "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab' && [1] + [2] == [1, 2] && [1] + [] == [1]",
        ],
    );
    give(
        "error",
        &[
            "1 / 0 == 1",
            "1 % 0 == 1",
            "1u / 0u == 1u",
            "1u % 0u == 1u",
            "9223372036854775807 + 1 == 0",
            "-9223372036854775808 - 1 == 0",
            "9223372036854775807 * 2 == 0",
            "-9223372036854775808 / -1 == 0",
            "-9223372036854775808 % -1 == 0",
            "-(-9223372036854775808) == 0",
            "0u - 1u == 0u",
            "18446744073709551615u + 1u == 0u",
            "18446744073709551615u * 2u == 0u",
            "dyn(1) + 1.0 == 2.0",
            "dyn(1) + 1u == 2u",
            "dyn('a') + 1 == 2",
            "dyn(1.5) % dyn(1.0) == 0.5",
            "-dyn(1u) == -1",
            "-dyn('a') == 'a'",
        ],
    );
}

#[test]
fn lists_and_maps_are_indexed_and_searched() {
    give(
        "true",
        &[
            "[1, 2][0] == 1 && [1, 2][dyn(1u)] == 2 && [1, 2][dyn(1.0)] == 2",
            "{'a': 1}['a'] == 1 && {1: 'a'}[1] == 'a' && {1u: 'a'}[1u] == 'a' && {true: 'a'}[true] == 'a'",
            "dyn({1: 'a'})[1u] == 'a' && dyn({1u: 'a'})[1.0] == 'a' && 1.0 in dyn({1: 2}) && !(dyn(1.5) in {1: 2})",
            "{'a': 1, 'a': 2}.a == 2",
        ],
    );
    give(
        "error",
        &[
            "[1][1] == 1",
            "[1][-1] == 1",
            "[1][dyn(0.5)] == 1",
            "[1][dyn('0')] == 1",
            "{'a': 1}['b'] == 1",
            "{'a': 1}.b == 1",
            "dyn({1: 2})['a'] == 2",
            "dyn('a')[0] == 'a'",
            "dyn('a').b == 'a'",
            "{1.5: 1} == {1.5: 1}",
            "{null: 1} == {null: 1}",
        ],
    );
}

#[test]
fn functions_inspect_values() {
    give(
        "true",
        &[
            "size('äb') == 2 && 'äb'.size() == 2 && size(b'\\xff\\xff') == 2 && [1].size() == 1 && size({1: 2}) == 1",
            "'salmon'.contains('alm') && ''.contains('') && !'a'.contains('b')",
            "'salmon'.startsWith('sal') && 'salmon'.endsWith('mon') && !'a'.startsWith('ab')",
            "'salmon'.matches('l.o') && matches('salmon', '^sal') && !'a'.matches('^$')",
            "['l.o', '^s'].all(p, 'salmon'.matches(p))",
            "type(1) == int && type(1u) == uint && type(1.0) == double && type('') == string && type(b'') == bytes",
            "type(true) == bool && type(null) == null_type && type([]) == list && type({}) == map",
            "type(int) == type && type(type(1)) == type && type(dyn(1)) == int",
            "semver_compare('1.0.0', '1.0') == 0 && semver_compare('v1.0.0-rc', '1.0.0') == -1",
            "semver_compare(2, 1.5) == 1 && semver_compare('1.0.0+a', '1.0.0+b') == 0",
        ],
    );
    give(
        "error",
        &[
            "semver_compare('x', '1.0.0') == 0",
            "semver_compare(true, '1.0.0') == 0",
            "dyn(1).size() == 1",
            "dyn(1).contains('a')",
            "dyn(1).matches('a')",
            "'a'.matches('(')",
            "'a'.matches('(' + '')",
        ],
    );
}

#[test]
fn conversions_lose_nothing_but_fractions() {
    give(
        "true",
        &[
            "int(1u) == 1 && int(1.9) == 1 && int(-1.9) == -1 && int('-5') == -5 && int('+5') == 5 && int(2) == 2",
            "uint(1) == 1u && uint(1.9) == 1u && uint('5') == 5u && uint(2u) == 2u",
            "double(1) == 1.0 && double(1u) == 1.0 && double('1.5e3') == 1500.0 && double(1.5) == 1.5",
            "string(1) == '1' && string(-1) == '-1' && string(1u) == '1' && string(true) == 'true' && string('a') == 'a'",
            "string(1.5) == '1.5' && string(1.0) == '1' && string(1e6) == '1e+06' && string(123456.0) == '123456'",
            "string(0.0001) == '0.0001' && string(0.00001) == '1e-05' && string(double('nan')) == 'NaN'",
            "string(double('inf')) == '+Inf' && string(-double('inf')) == '-Inf' && string(1.25e100) == '1.25e+100'",
            "string(b'a') == 'a' && bytes('a') == b'a' && bytes(b'a') == b'a'",
            "bool('true') && bool('1') && bool(true) && !bool('F')",
            "dyn('a') == 'a'",
        ],
    );
    give(
        "error",
        &[
            "int(9223372036854775808u) == 0",
            "int(1e19) == 0",
            "int(double('nan')) == 0",
            "int('1.5') == 1",
            "int('') == 0",
            "int(dyn(true)) == 1",
            "uint(-1) == 0u",
            "uint(-0.5) == 0u",
            "uint(1e20) == 0u",
            "uint('+1') == 1u",
            "double('x') == 1.0",
            "double('1e400') == 1.0",
            "bool('yes')",
            "bool(dyn(1))",
            "string(b'\\xff') == ''",
            "string(dyn([1])) == ''",
            "string(dyn(null)) == ''",
            "bytes(dyn(1)) == b''",
        ],
    );
}
