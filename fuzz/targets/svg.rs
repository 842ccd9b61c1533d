//! Icons: pictures by their bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use site::icon::check;

fuzz_target!(|bytes: &[u8]| {
    let judged = check(bytes);
    assert_eq!(judged, check(bytes), "the same bytes get the same verdict");
    let format = match judged {
        Ok(format) => format,
        Err(reason) => {
            assert!(!reason.is_empty());
            return;
        }
    };
    if format.extension() != "svg" {
        return;
    }
    let text = std::str::from_utf8(bytes).expect("an SVG is text");
    let lower = text.to_lowercase();
    // No element or attribute of these can be in what is passed on unchanged.
    for element in ["script", "foreignobject", "iframe", "object", "embed", "handler", "listener"] {
        for mark in [" ", ">", "/", "\n", "\t", "\r"] {
            assert!(!lower.contains(&format!("<{element}{mark}")), "{element} in {text}");
        }
    }
    assert!(!lower.contains("<!entity"), "{text}");
    assert!(!lower.contains("<?xml-stylesheet"), "{text}");
});
