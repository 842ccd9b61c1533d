//! The name of an image, or of a place it is at.
#![no_main]

use image::{Location, Reference};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Reference::parse(text) {
        Ok(reference) => {
            assert_eq!(reference.to_string(), text);
            assert!(!reference.host().contains('/') && !reference.repository().is_empty());
            assert!(!reference.repository().split('/').any(|part| part.is_empty() || part == ".." || part == "."));
            let again = match (reference.digest(), reference.tag()) {
                (Some(digest), _) => Some(reference.with_digest(*digest)),
                (None, Some(tag)) => reference.with_tag(tag),
                (None, None) => None,
            };
            let again = again.expect("a tag or a digest");
            let parsed = Reference::parse(&again.to_string()).expect("parts make a reference");
            assert_eq!((parsed.name(), parsed.version()), (reference.name(), reference.version()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(location) = Location::parse(text) {
        let printed = location.to_string();
        assert_eq!(printed, text.strip_prefix("docker://").unwrap_or(text));
        assert_eq!(Location::parse(&printed).as_ref(), Ok(&location));
    }
});
