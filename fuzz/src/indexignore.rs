//! Ignore files: patterns, a zero byte, then paths, one per line.

use fbc::indexignore::IndexIgnore;

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |&byte| byte == 0);
    let patterns = parts.next().unwrap_or_default();
    let paths = parts.next().unwrap_or(b"a/b/c.json");
    for path in paths.split(|&byte| byte == b'\n').take(8) {
        let path: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect();
        let Some((_, directory)) = path.split_last() else { continue };
        let mut ignore = IndexIgnore::default();
        assert!(!ignore.is_ignored(&path), "nothing is ignored without patterns");
        ignore.add::<&[u8]>(&[], patterns);
        let ignored = ignore.is_ignored(&path);
        // An ignore file affects its own directory only.
        let elsewhere: [&[u8]; 2] = [b"elsewhere", b"?"];
        ignore.add(&elsewhere, b"*\n!*\n");
        let included = path.len() > 2 && path.starts_with(&elsewhere);
        assert_eq!(ignore.is_ignored(&path), ignored && !included);
        // The last pattern that matches wins.
        ignore.add(directory, b"*");
        assert!(ignore.is_ignored(&path));
        ignore.add(directory, patterns);
        ignore.is_ignored(&path);
        ignore.add(directory, b"!*");
        assert!(!ignore.is_ignored(&path));
    }
}
