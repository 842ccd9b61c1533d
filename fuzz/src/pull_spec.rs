//! Pull specs: an accepted one has no characters that registries reject.

use fbc::pull_spec::{self, PullSpecError};

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match pull_spec::check(text) {
        Ok(()) => {
            let known = |b: u8| b.is_ascii_alphanumeric() || b"-_.:/@[]+".contains(&b);
            assert!(text.bytes().all(known), "an invalid character is accepted");
            assert!(!text.ends_with([':', '/', '@']), "an incomplete pull spec is accepted");
            assert!(!text.contains("//") && !text.starts_with('/'), "an empty component is accepted");
            let (_, digest) = text.split_once('@').unwrap_or((text, "sha256:"));
            assert!(digest.contains(':'), "a digest without algorithm is accepted");
        }
        Err(PullSpecError::UpperCase) => {
            assert_ne!(text.to_lowercase(), text, "lower case is rejected as upper case");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
