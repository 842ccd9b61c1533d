//! Descriptions of operators on their way to a page.
#![no_main]

use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use site::markdown::{Base, render};

/// All that may reach a page.
const ELEMENTS: [&str; 27] = [
    "p",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "pre",
    "code",
    "blockquote",
    "em",
    "strong",
    "del",
    "a",
    "hr",
    "br",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "img",
    "b",
    "i",
    "kbd",
];

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let start = Instant::now();
    let html = render(&text, &Base::default()).html.into_string();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(html.len() < 1000 + 40 * text.len(), "{} bytes of {}", html.len(), text.len());
    let mut open: Vec<String> = Vec::new();
    for part in html.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("a tag ends");
        let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        assert!(ELEMENTS.contains(&name.as_str()) || matches!(name.as_str(), "sub" | "sup"), "{name} in {html}");
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()), "{html}");
            continue;
        }
        attributes(&tag[name.len()..], &html);
        if !matches!(name.as_str(), "br" | "hr" | "img") {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} stay open in {html}");
    assert!(open.len() <= 64, "{html}");
});

/// Checks that a tag has no attribute but those of the writer, with nothing in them that runs.
fn attributes(mut rest: &str, html: &str) {
    while let Some((name, behind)) = rest.split_once("=\"") {
        let name = name.trim();
        let known =
            ["id", "href", "rel", "start", "src", "alt", "class", "tabindex", "role", "aria-label", "dir", "loading"];
        assert!(known.contains(&name), "{name} in {html}");
        let (value, after) = behind.split_once('"').expect("a value ends");
        if name == "href" {
            let good = ["http://", "https://", "mailto:", "#d-"].iter().any(|start| value.starts_with(start));
            assert!(good, "{value} in {html}");
        }
        if name == "src" {
            assert!(value.starts_with("data:image/"), "{value} in {html}");
        }
        rest = after;
    }
}
