//! Names from a catalog as parts of URLs and file names.

use site::links::Links;
use site::names;
use site::text::{escaped, script_json, summary};

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (one, two) = text.split_once('\0').unwrap_or((&text, ""));
    let (a, b) = (names::part(one), names::part(two));
    assert_eq!(one == two, a.eq_ignore_ascii_case(&b), "{one:?} and {two:?}");
    for part in [&a, &b, &names::kind(one), &names::group(one)] {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-~".contains(&byte);
        assert!(!part.is_empty() && part.len() <= 120 && part.bytes().all(plain), "{part}");
        assert!(!part.starts_with('.') && !part.ends_with('.'), "{part}");
    }
    let link = Links::at("p/x/v/y", true).version(one, two).expect("every version has a page");
    // Resolved from the directory of the page, the link is the path of the file.
    let mut resolved = vec!["p", "x", "v"];
    for part in link.split('/') {
        match part {
            ".." => assert!(resolved.pop().is_some(), "the link leaves the site"),
            part => resolved.push(part),
        }
    }
    assert_eq!(resolved.join("/"), format!("p/{a}/v/{b}.html"));
    // Escaped text ends no attribute and no element, and has no invisible character.
    let shown = escaped(one);
    assert!(!shown.contains(['<', '>', '"', '\u{202e}', '\u{200b}', '\0']), "{shown:?}");
    let data = script_json(&serde_json::json!({one: two}));
    assert!(!data.contains(['<', '\u{2028}', '\u{2029}']), "{data}");
    let reparsed: serde_json::Value = serde_json::from_str(&data).expect("the script data is JSON");
    assert_eq!(reparsed[one], two);
    assert!(summary(one, 40).chars().count() <= 41, "{one:?}");
}
