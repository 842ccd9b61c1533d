//! Names from a catalog as path segments and file names.

use crate::summary::digest;

/// A longer name is truncated, and a digest makes it unique.
const LONGEST: usize = 120;

/// Encodes a name as a path segment and a file name that is valid on any system.
///
/// Different names stay different, also on case-insensitive file systems.
pub fn part(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (place, byte) in name.bytes().enumerate() {
        match byte {
            b'.' if place == 0 => out.push_str("~2e"),
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => out.push(char::from(byte)),
            byte => out.push_str(&format!("~{byte:02x}")),
        }
    }
    // Windows drops a trailing dot, and reserves device names with any extension.
    if out.ends_with('.') {
        out.pop();
        out.push_str("~2e");
    }
    let stem = out.split('.').next().unwrap_or_default();
    if is_reserved(stem) || out.is_empty() {
        let rest = out.split_off(out.len().min(1));
        out = match out.bytes().next() {
            Some(first) => format!("~{first:02x}{rest}"),
            None => "~".to_owned(),
        };
    }
    if out.len() > LONGEST {
        let mut end = LONGEST - 18;
        // No escape is cut in half.
        while out.as_bytes()[end - 1] == b'~' || out.as_bytes()[end - 2] == b'~' {
            end -= 1;
        }
        out.truncate(end);
        out.push_str("~~");
        out.push_str(&digest(name.as_bytes()));
    }
    out
}

/// Encodes a kind in lower case, so that kinds that differ in case share a page.
pub fn kind(name: &str) -> String {
    part(&name.to_lowercase())
}

/// Encodes the group of a kind, which may be empty.
pub fn group(name: &str) -> String {
    if name.is_empty() { "_".to_owned() } else { part(name) }
}

fn is_reserved(stem: &str) -> bool {
    matches!(stem, "con" | "prn" | "aux" | "nul")
        || (stem.len() == 4
            && (stem.starts_with("com") || stem.starts_with("lpt"))
            && stem.ends_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-19: different names are different files, on every system.
    #[test]
    fn different_names_give_different_path_components() {
        let long = "x".repeat(300);
        let longer = format!("{long}y");
        let names = [
            "etcd", "Etcd", "ETCD", "con", "CON", "nul.v1", "com1", "..", ".", "a/b", "a~2fb", "a%2fb", "", "~", "é",
            "🦀", "a.", "a", "lpt9.x", &long, &longer,
        ];
        let parts: Vec<String> = names.iter().map(|name| part(name)).collect();
        let distinct: std::collections::BTreeSet<String> = parts.iter().map(|part| part.to_lowercase()).collect();
        assert_eq!(distinct.len(), names.len(), "{parts:?}");
        for part in &parts {
            assert!(
                part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-~".contains(&b)),
                "{part}"
            );
            assert!(part.len() <= LONGEST && !part.starts_with('.') && !part.ends_with('.') && !part.is_empty());
            assert!(!is_reserved(part.split('.').next().unwrap_or_default()), "{part}");
        }
        assert_eq!(part("etcdoperator.v0.9.4"), "etcdoperator.v0.9.4");
        assert_eq!(part("A b"), "~41~20b");
        assert_eq!(group(""), "_");
    }
}
