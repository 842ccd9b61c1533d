//! What a registry asks for in `WWW-Authenticate`.
#![no_main]

use image::Challenge;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let challenges = Challenge::parse(text);
    assert!(challenges.len() <= text.len().div_ceil(5), "more than the text has room for");
    // What was read, written again, is read as the same.
    let written: Vec<String> = challenges.iter().map(write).collect();
    assert_eq!(Challenge::parse(&written.join(", ")), challenges, "{text:?}");
});

fn write(challenge: &Challenge) -> String {
    match challenge {
        Challenge::Basic => "Basic".into(),
        Challenge::Bearer { realm, service, scope } => {
            let mut parts = vec![format!("realm={}", quoted(realm))];
            parts.extend(service.iter().map(|service| format!("service={}", quoted(service))));
            parts.extend(scope.iter().map(|scope| format!("scope={}", quoted(scope))));
            format!("Bearer {}", parts.join(","))
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
