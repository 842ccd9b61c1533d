//! What the other side has already: lists of blobs, from a set or from a registry.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use image::Digest;

/// The largest list.
const LIMIT: u64 = 256 << 20;

/// Reads a list of blobs: `blobs.txt` of a set, that of a directory with a set, or what `verify --have` wrote.
///
/// # Errors
/// Fails when it is none.
pub fn read(path: &Path) -> Result<BTreeSet<Digest>, String> {
    let path = if path.is_dir() { path.join("mirror/blobs.txt") } else { path.to_owned() };
    let named = |error: String| format!("{}: {error}", path.display());
    let about = fs::metadata(&path).map_err(|error| named(error.to_string()))?;
    if about.len() > LIMIT {
        return Err(named(format!("larger than {LIMIT} bytes")));
    }
    let text = fs::read_to_string(&path).map_err(|error| named(error.to_string()))?;
    parse(&text).map_err(named)
}

/// Reads lines of a digest, maybe with a size behind it.
///
/// # Errors
/// Fails at the first line that is something else.
pub fn parse(text: &str) -> Result<BTreeSet<Digest>, String> {
    let mut found = BTreeSet::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = || format!("line {}: expected a digest and a size, found {line:?}", number + 1);
        let mut words = line.split_ascii_whitespace();
        let digest = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
        if words.next().is_some_and(|size| size.parse::<u64>().is_err()) || words.next().is_some() {
            return Err(wrong());
        }
        found.insert(digest);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_digests_and_sizes() {
        let digest = Digest::of(b"x");
        assert_eq!(parse(&format!("{digest} 3\n\n{digest}\n")).unwrap().len(), 1);
        for bad in ["sha256:0 1", "hello", &format!("{digest} many"), &format!("{digest} 1 2")] {
            assert!(parse(bad).unwrap_err().starts_with("line 1:"), "{bad}");
        }
    }
}
