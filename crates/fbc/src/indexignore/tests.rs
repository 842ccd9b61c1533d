use super::*;

fn ignored(patterns: &str, path: &str) -> bool {
    let mut ignore = IndexIgnore::default();
    ignore.add::<&str>(&[], patterns.as_bytes());
    ignore.is_ignored(&path.split('/').collect::<Vec<_>>())
}

#[track_caller]
fn check(patterns: &str, ignored_paths: &[&str], kept_paths: &[&str]) {
    for (paths, expected) in [(ignored_paths, true), (kept_paths, false)] {
        for path in paths {
            assert_eq!(ignored(patterns, path), expected, "{patterns:?} on {path:?}");
        }
    }
}

#[test]
fn the_last_matching_pattern_wins() {
    check(
        "**/*\n!*.json\n!*.yaml\n**/objects/*.json\n**/objects/*.yaml",
        &["d/objects/x.json", "objects/z.json", "d/e/f.txt"],
        &["a.json", "b.yaml", "d/a.json", ".hidden/h.json", ".dot.json"],
    );
}

#[test]
fn a_deeper_file_overrides_a_higher_one_below_its_directory_only() {
    let mut ignore = IndexIgnore::default();
    ignore.add::<&str>(&[], b"a.yaml");
    ignore.add(&["dir"], b"!a.yaml\n/x/b.yaml");
    for (path, expected) in [
        (&["a.yaml"][..], true),
        (&["dir", "a.yaml"], false),
        (&["dir", "sub", "a.yaml"], false),
        (&["other", "a.yaml"], true),
        (&["dir"], false),
        (&["dir", "x", "b.yaml"], true),
        (&["x", "b.yaml"], false),
    ] {
        assert_eq!(ignore.is_ignored(path), expected, "{path:?}");
    }
}

#[test]
fn comments_and_surrounding_blanks_are_ignored() {
    check("# a\n\n  \t\n  b  \r\n#c", &["b"], &["a", "c", "#c", "# a"]);
    check("\\#c\n\\!d", &["#c", "!d"], &["c", "d"]);
}

#[test]
fn a_trailing_slash_matches_directories_only() {
    check("d/", &["d/a", "x/d/a"], &["d", "x/d"]);
    check("/*/", &["d/a"], &["a"]);
    check("**/d/", &["d/a", "x/d/a"], &["x/d"]);
}

#[test]
fn a_name_matches_any_component() {
    check("d", &["d", "d/a", "x/d/a", "x/d"], &["da", "x/e"]);
}

#[test]
fn a_slash_anchors_a_pattern_and_everything_below_is_covered() {
    check("d/objects", &["d/objects", "d/objects/x/y"], &["x/d/objects", "d"]);
    check("/a", &["a", "a/b"], &["b/a"]);
    check("objects/*.json", &["objects/x.json"], &["d/objects/x.json"]);
}

#[test]
fn double_stars_match_directories() {
    check("d/**/a", &["d/a", "d/x/a", "d/x/y/a"], &["a", "x/d/a", "d"]);
    check("d/**", &["d/a", "d/x/y"], &["d", "x/d/a"]);
    check("**", &["a", "d/a"], &[]);
    check("*", &["a", "d/a"], &[]);
    check("**/d/x", &["d/x", "e/d/x"], &["d/d/x"]);
    check("d/a**", &[], &["d/a", "d/ab"]);
    check("a**b", &["ab", "axb"], &["a"]);
    check("/**\n**/**", &[], &["a", "d/a"]);
}

#[test]
fn classes_and_escapes_work_within_a_component() {
    check("[a-c]x", &["ax", "cx"], &["dx", "-x"]);
    check("[^a]x", &["bx", "éx"], &["ax", "x"]);
    check("[!a]x", &["!x", "ax"], &["bx"]);
    check(r"[\]\-]x", &["]x", "-x"], &["ax"]);
    check("a?c", &["abc", "aéc"], &["ac", "abbc"]);
    check(r"a\*", &["a*"], &["ab"]);
}

#[test]
fn a_malformed_pattern_matches_nothing() {
    for pattern in ["[", "[a", "[]a]", "[a-]", "[-a]", "a\\", "d/[", "[^]", "[a-b-c]"] {
        check(pattern, &[], &["[", "a", "b", "-", "d/[", "a\\", "^"]);
    }
}

#[test]
fn names_that_are_not_utf_8_match_by_bytes() {
    let mut ignore = IndexIgnore::default();
    ignore.add(&[b"\xff".as_slice()], b"a\xfe?\n*.txt");
    assert!(ignore.is_ignored(&[b"\xff".as_slice(), b"a\xfe\xfd"]));
    assert!(ignore.is_ignored(&[b"\xff".as_slice(), b"\x80.txt"]));
    assert!(!ignore.is_ignored(&[b"\xfe".as_slice(), b"\x80.txt"]));
}

#[test]
fn many_stars_do_not_multiply_the_work() {
    let pattern = "*a".repeat(200) + "b";
    assert!(!ignored(&pattern, &"a".repeat(2000)));
    assert!(ignored(&pattern, &("a".repeat(2000) + "b")));
}
