//! Icons of any format.

use site::icon::check;

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let verdict = check(bytes);
    assert_eq!(verdict, check(bytes), "the same icon gets another result");
    let format = match verdict {
        Ok(format) => format,
        Err(reason) => {
            assert!(!reason.to_string().is_empty());
            return;
        }
    };
    if format.extension() != "svg" {
        return;
    }
    let text = std::str::from_utf8(bytes).expect("an SVG is text");
    let lower = text.to_lowercase();
    // An accepted SVG is passed on unchanged, so it must not contain any of these elements.
    for element in ["script", "foreignobject", "iframe", "object", "embed", "handler", "listener"] {
        for mark in [" ", ">", "/", "\n", "\t", "\r"] {
            assert!(!lower.contains(&format!("<{element}{mark}")), "{element} in {text}");
        }
    }
    assert!(!lower.contains("<!entity"), "{text}");
    assert!(!lower.contains("<?xml-stylesheet"), "{text}");
}
