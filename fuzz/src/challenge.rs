//! The challenges of a registry in `WWW-Authenticate`.

use image::Challenge;

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let challenges = Challenge::parse(text);
    assert!(challenges.len() <= text.len().div_ceil(5), "more challenges than fit into the text");
    // Encoding and parsing again gives the same challenges.
    let encoded: Vec<String> = challenges.iter().map(encode).collect();
    assert_eq!(Challenge::parse(&encoded.join(", ")), challenges, "{text:?}");
}

fn encode(challenge: &Challenge) -> String {
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
