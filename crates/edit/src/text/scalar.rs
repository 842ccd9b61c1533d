//! Quoting of strings.

use fbc::json::Text;
use fbc::limits::MAX_DEPTH;
use fbc::yaml;

/// Formats a string as JSON.
pub(super) fn json(text: &str) -> String {
    Text::string(text).into_string()
}

/// Formats a string as single-line YAML, in the style of `old` if possible.
pub(super) fn yaml(text: &str, flow: bool, old: Option<&str>) -> String {
    let quoted = Text::string(text);
    let canonical = yaml::document(quoted.raw()).trim_end_matches('\n').to_owned();
    let quoted = quoted.into_string();
    let one_line = !text.is_empty() && !text.contains(|c: char| c.is_control());
    let breaks_flow = flow && text.contains([',', '[', ']', '{', '}']);
    match old.and_then(|old| old.chars().next()) {
        Some('"') => quoted,
        Some('\'') if one_line => single(text),
        _ if canonical == text && !breaks_flow => canonical,
        _ if one_line && !canonical.starts_with('"') => single(text),
        _ => quoted,
    }
}

/// Converts a YAML document to JSON, if it can be parsed.
pub(crate) fn document_to_json(text: &str) -> Option<Text> {
    let limits = yaml::YamlLimits { depth: MAX_DEPTH, nodes: 5_000_000, bytes: 64 << 20 };
    yaml::to_text(text.as_bytes(), &limits).ok()
}

fn single(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_spelled_like_the_one_it_replaces() {
        assert_eq!(yaml("beta", false, Some("alpha")), "beta");
        assert_eq!(yaml("beta", false, Some("\"alpha\"")), "\"beta\"");
        assert_eq!(yaml("it's", false, Some("'alpha'")), "'it''s'");
        assert_eq!(yaml("1.0", false, Some("alpha")), "\"1.0\"");
        assert_eq!(yaml(">=1.0.0 <2.0.0", false, None), "'>=1.0.0 <2.0.0'");
        assert_eq!(yaml("a, b", true, None), "'a, b'");
        assert_eq!(yaml("two\nlines", false, None), "\"two\\nlines\"");
        assert_eq!(yaml("", false, None), "\"\"");
    }
}
