//! Image references on the command line.

use serde_json::Value;

use crate::fetch::or_latest;

/// Parses a list of images: the output of `manifest`, a JSON list, or words separated by commas or whitespace.
pub(super) fn listed(text: &str) -> Vec<String> {
    let json: Option<Value> = serde_json::from_str(text).ok();
    let list = json.as_ref().and_then(|json| json.get("bundles").unwrap_or(json).as_array());
    match list {
        Some(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None => text
            .split(|c: char| c == ',' || c.is_whitespace())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect(),
    }
}

/// Accepts the old notation of digests: `name:sha256@digest`.
pub(super) fn seed_reference(text: &str) -> Result<String, String> {
    match text.split_once(":sha256@") {
        Some((name, digest)) if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Ok(format!("{name}@sha256:{digest}"))
        }
        Some(_) => Err(format!("{text}: invalid reference format")),
        None => or_latest(text),
    }
}
