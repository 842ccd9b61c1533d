//! Image references on the command line.

use crate::images::latest;
use std::collections::BTreeMap;

use legacy::Mode;
use serde_json::Value;

/// The key of a list with the modes of packages.
pub(super) const MODES: &str = "modes";

/// Images, and the packages whose upgrade graph is not built in the mode of the command line.
pub(super) type List = (Vec<String>, BTreeMap<String, Mode>);

/// Parses a list of images: the output of `manifest`, a JSON list, or words separated by commas or whitespace.
pub(super) fn listed(text: &str) -> Result<List, String> {
    let json: Option<Value> = serde_json::from_str(text).ok();
    let list = json.as_ref().and_then(|json| json.get("bundles").unwrap_or(json).as_array());
    let Some(list) = list else {
        let words = text.split(|c: char| c == ',' || c.is_whitespace());
        return Ok((words.filter(|word| !word.is_empty()).map(str::to_owned).collect(), BTreeMap::new()));
    };
    let mut modes = BTreeMap::new();
    for (package, mode) in json.as_ref().and_then(|json| json.get(MODES)?.as_object()).into_iter().flatten() {
        modes.insert(
            package.clone(),
            Mode::parse(mode.as_str().unwrap_or_default()).map_err(|error| error.to_string())?,
        );
    }
    Ok((list.iter().filter_map(Value::as_str).map(str::to_owned).collect(), modes))
}

/// Accepts the old notation of digests: `name:sha256@digest`.
pub(super) fn seed_reference(text: &str) -> Result<String, String> {
    match text.split_once(":sha256@") {
        Some((name, digest)) if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Ok(format!("{name}@sha256:{digest}"))
        }
        Some(_) => Err(format!("{text}: invalid reference format")),
        None => Ok(latest(text)),
    }
}
