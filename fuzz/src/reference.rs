//! Image references and locations.

use image::{Location, Reference};

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Reference::parse(text) {
        Ok(reference) => {
            assert_eq!(reference.to_string(), text);
            assert!(!reference.host().contains('/') && !reference.repository().is_empty());
            assert!(!reference.repository().split('/').any(|part| part.is_empty() || part == ".." || part == "."));
            let rebuilt = match (reference.digest(), reference.tag()) {
                (Some(digest), _) => Some(reference.with_digest(*digest)),
                (None, Some(tag)) => reference.with_tag(tag),
                (None, None) => None,
            };
            let rebuilt = rebuilt.expect("a tag or a digest");
            let parsed = Reference::parse(&rebuilt.to_string()).expect("the parts form a reference");
            assert_eq!((parsed.name(), parsed.version()), (reference.name(), reference.version()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(location) = Location::parse(text) {
        let printed = location.to_string();
        assert_eq!(printed, text.strip_prefix("docker://").unwrap_or(text));
        assert_eq!(Location::parse(&printed).as_ref(), Ok(&location));
    }
}
