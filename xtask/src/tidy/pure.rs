//! Checks code that performs no I/O: no files, network, processes or clock.

use anyhow::{Context, Result};

use super::Findings;
use super::arrows::names;

/// The words in ARCHITECTURE.md after the list of crates without I/O.
const SENTENCE: &str = "perform no I/O";

/// The only file or directory of a crate that opens files.
const FILES: [(&str, &str); 2] =
    [("crates/fbc/src/", "crates/fbc/src/files/"), ("crates/bundle/src/", "crates/bundle/src/file.rs")];

// Split, so that this file may contain them.
const IO_PATTERNS: [&str; 17] = [
    concat!("fs", "::"),
    concat!("File", "::"),
    concat!("tempfile", "::"),
    concat!("Tcp", "Stream"),
    concat!("Tcp", "Listener"),
    concat!("Udp", "Socket"),
    concat!("std::", "process"),
    concat!("Command", "::new"),
    concat!("env", "::var"),
    concat!("io::", "stdin"),
    concat!("io::", "stdout"),
    concat!("SystemTime", "::now"),
    concat!(".cano", "nicalize()"),
    concat!(".is_", "dir()"),
    concat!(".is_", "file()"),
    concat!(".sym", "link_metadata()"),
    concat!(".ex", "ists()"),
];

/// Returns the crates that ARCHITECTURE.md lists as performing no I/O.
pub(super) fn pure_crates(architecture: &str) -> Result<Vec<&str>> {
    let end = architecture.find(SENTENCE).with_context(|| format!("ARCHITECTURE.md does not say what {SENTENCE}"))?;
    let start = architecture[..end].rfind(';').map_or(0, |at| at + 1);
    Ok(names(&architecture[start..end]).collect())
}

/// Checks one source file of a crate without I/O, or outside of the only place that performs it.
pub(super) fn pure(name: &str, text: &str, crates: &[&str], findings: &mut Findings) {
    let of_pure_crate = crates.iter().any(|pure| name.starts_with(&format!("crates/{pure}/src/")));
    let beside_files = FILES.iter().any(|(code, files)| name.starts_with(code) && !name.starts_with(files));
    let only_tests = name.ends_with("/tests.rs") || name.ends_with("/testing.rs") || name.contains("/tests/");
    if only_tests || !of_pure_crate && !beside_files {
        return;
    }
    for (index, line) in text.lines().enumerate().take_while(|(_, line)| line.trim() != "#[cfg(test)]") {
        let code = line.split("//").next().unwrap_or_default();
        if let Some(word) = IO_PATTERNS.iter().find(|word| contains(code, word)) {
            findings.errors.push(format!("{name}:{}: {word} is I/O, which this code must not perform", index + 1));
        }
    }
}

/// Returns whether `code` contains `word` other than as the end of a longer one.
fn contains(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| word.starts_with('.') || !code[..at].ends_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_touches_files_is_reported() {
        let crates = pure_crates("- `fbc` knows nothing; `catalog` and\n  `site` perform no I/O.").unwrap();
        assert_eq!(crates, ["catalog", "site"]);
        let text = format!(
            "use std::{0}File;\n// {0}read\nlet dirs::{0}x;\n#[cfg(test)]\nuse std::{0}File;\n",
            IO_PATTERNS[0]
        );
        let check = |name: &str| {
            let mut findings = Findings::default();
            pure(name, &text, &crates, &mut findings);
            findings.errors.len()
        };
        assert_eq!(check("crates/catalog/src/list.rs"), 2);
        assert_eq!(check("crates/fbc/src/json/raw.rs"), 2);
        assert_eq!(check("crates/fbc/src/files/walk.rs"), 0);
        assert_eq!(check("crates/site/src/markdown/tests.rs"), 0);
        assert_eq!(check("crates/opm/src/lib.rs"), 0);
        assert!(pure_crates("nothing").is_err());
    }
}
