//! Descriptions of operators, rendered for a page.

use std::time::{Duration, Instant};

use site::markdown::{LinkBase, render};

/// The elements that may reach a page.
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

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let start = Instant::now();
    let html = render(&text, &LinkBase::default()).html.into_string();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(html.len() < 1000 + 40 * text.len(), "{} bytes of {}", html.len(), text.len());
    let mut open: Vec<String> = Vec::new();
    for part in html.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("a complete tag");
        let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        assert!(ELEMENTS.contains(&name.as_str()) || matches!(name.as_str(), "sub" | "sup"), "{name} in {html}");
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()), "{html}");
            continue;
        }
        check_attributes(&tag[name.len()..], &html);
        if !matches!(name.as_str(), "br" | "hr" | "img") {
            open.push(name);
            assert!(open.len() <= 64, "{html}");
        }
    }
    assert!(open.is_empty(), "{open:?} are not closed in {html}");
}

/// Checks that a tag has only attributes that the renderer writes, and no URL that runs code.
fn check_attributes(mut rest: &str, html: &str) {
    while let Some((name, after_name)) = rest.split_once("=\"") {
        let name = name.trim();
        let known =
            ["id", "href", "rel", "start", "src", "alt", "class", "tabindex", "role", "aria-label", "dir", "loading"];
        assert!(known.contains(&name), "{name} in {html}");
        let (value, after_value) = after_name.split_once('"').expect("a quoted value");
        if name == "href" {
            let good = ["http://", "https://", "mailto:", "#d-"].iter().any(|start| value.starts_with(start));
            assert!(good, "{value} in {html}");
        }
        if name == "src" {
            assert!(value.starts_with("data:image/"), "{value} in {html}");
        }
        rest = after_value;
    }
}
