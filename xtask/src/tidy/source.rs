//! Checks the content of source files.

use std::path::Path;

use super::Findings;

/// The files that may contain unchecked code, with a reason for each use.
const UNCHECKED_FILES: [&str; 2] = ["crates/fbc/src/yaml/events.rs", "crates/serve/src/memory.rs"];

/// The files of the console that may write unescaped text to pages.
const UNESCAPED_FILES: [&str; 2] = ["crates/site/src/markdown.rs", "crates/site/src/frame.rs"];
const UNESCAPED: &str = concat!("Pre", "Escaped");

/// The code that may create temporary files with a name: the others use `fbc::scratch`, which removes them on signals.
const NAMED_TEMPORARY: [&str; 3] = ["crates/fbc/src/scratch.rs", "crates/testkit/", "fuzz/"];

// Split, so that this file may contain them.
const UNFINISHED_MACROS: [&str; 2] = [concat!("to", "do!("), concat!("unimple", "mented!(")];
const UNFINISHED_WORDS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const UNCHECKED: &str = concat!("un", "safe");

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Rust,
    Markdown,
    /// Settings and scripts.
    Other,
}

/// Returns the kind of a source file; data such as fixtures is none.
pub(super) fn kind(path: &Path) -> Option<FileKind> {
    let data = ["fixtures", "examples", "fuzz/seeds", "fuzz/dictionaries"];
    if data.iter().any(|directory| path.starts_with(directory)) {
        return None;
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => Some(FileKind::Rust),
        Some("md") => Some(FileKind::Markdown),
        Some("toml" | "sh") => Some(FileKind::Other),
        None if path.file_name().is_some_and(|name| name == "run") => Some(FileKind::Other),
        _ => None,
    }
}

/// Checks the text of one file.
pub(super) fn source(name: &str, kind: FileKind, text: &str, findings: &mut Findings) {
    let mut shows_output = false;
    let mut tests = !name.starts_with("crates/")
        || !name.contains("/src/")
        || name.ends_with("tests.rs")
        || name.contains("/tests/")
        || NAMED_TEMPORARY.iter().any(|of| name.starts_with(of));
    for (index, line) in text.lines().enumerate() {
        let mut report = |what: String| findings.errors.push(format!("{name}:{}: {what}", index + 1));
        if kind == FileKind::Markdown && line.starts_with("```") {
            shows_output = !shows_output;
        }
        // Program output is shown verbatim, and rustfmt handles the rest of Rust.
        if line.ends_with([' ', '\t']) && !shows_output && kind != FileKind::Rust {
            report("white space at the end of the line".into());
        }
        for word in UNFINISHED_WORDS.iter().filter(|word| has_word(line, word)) {
            report(format!("{word} is for work that is not finished"));
        }
        if kind == FileKind::Rust {
            if let Some(language) = doc_fence(line) {
                if !shows_output && language != "text" {
                    report("nothing runs doc tests: write a test, or a block of `text`".into());
                }
                shows_output = !shows_output;
            }
            for call in UNFINISHED_MACROS.iter().filter(|call| line.contains(**call)) {
                report(format!("{call}...) is for work that is not finished"));
            }
            let code = line.split("//").next().unwrap_or_default();
            if name.starts_with("crates/site/") && !UNESCAPED_FILES.contains(&name) && code.contains(UNESCAPED) {
                report(format!("{UNESCAPED} belongs in {}", UNESCAPED_FILES.join(" or ")));
            }
            tests |= line.trim_start().starts_with("#[cfg(test)]");
            if !tests && code.contains("tempfile::") && !code.contains("tempfile::tempfile()") {
                report("temporary files with a name belong to `fbc::scratch`".into());
            }
            if !UNCHECKED_FILES.contains(&name) && has_word(code, UNCHECKED) {
                report(format!("{UNCHECKED} code belongs in {}", UNCHECKED_FILES.join(" or ")));
            }
        }
    }
}

/// Returns the text after the fence that opens or closes a block in a doc comment.
fn doc_fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    comment.trim_start().strip_prefix("```")
}

/// Returns whether `line` contains `word` other than as a part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

/// Checks that the files that a page links to exist.
pub(super) fn links(name: &str, full: &Path, text: &str, findings: &mut Findings) {
    let mut shows_output = false;
    for (index, line) in text.lines().enumerate() {
        shows_output ^= line.starts_with("```");
        if shows_output {
            continue;
        }
        // Text between backticks contains no links.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for target in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:") || path.is_empty();
            if !elsewhere && !full.with_file_name("").join(path).exists() {
                findings.errors.push(format!("{name}:{}: the link target {target} does not exist", index + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::errors;
    use super::*;

    #[test]
    fn source_text_is_finished_and_checked() {
        let [macro_, word] = [UNFINISHED_MACROS[0], UNFINISHED_WORDS[1]];
        let text =
            format!("{macro_})\n// {word}: x\n{UNCHECKED} {{}}\n// {UNCHECKED}\nuse {UNCHECKED}_x; // {word}S\n");
        let found = errors(|findings| source("a.rs", FileKind::Rust, &text, findings));
        let places: Vec<&str> = found.iter().filter_map(|error| error.split(' ').next()).collect();
        assert_eq!(places, ["a.rs:1:", "a.rs:2:", "a.rs:3:"]);
        let found = errors(|findings| source(UNCHECKED_FILES[0], FileKind::Rust, UNCHECKED, findings));
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn temporary_files_with_a_name_belong_to_one_crate() {
        let text = "tempfile::tempfile()?;\ntempfile::tempdir()?;\n#[cfg(test)]\nuse tempfile::TempDir;\n";
        let found = errors(|findings| source("crates/opm/src/a.rs", FileKind::Rust, text, findings));
        assert_eq!(found, ["crates/opm/src/a.rs:2: temporary files with a name belong to `fbc::scratch`"]);
        for allowed in ["crates/fbc/src/scratch.rs", "crates/opm/tests/a.rs", "crates/opm/src/a/tests.rs"] {
            let found = errors(|findings| source(allowed, FileKind::Rust, text, findings));
            assert_eq!(found, [""; 0]);
        }
    }

    #[test]
    fn lines_end_with_what_is_seen_unless_they_show_output() {
        let found = errors(|findings| source("a.md", FileKind::Markdown, "```\nx \n```\ny \n", findings));
        assert_eq!(found, ["a.md:4: white space at the end of the line"]);
    }

    #[test]
    fn links_lead_to_files() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("page.md");
        let text = "[a](Cargo.toml#x) [b](src/) [c](https://x.example/y) `[d](e)`\n```\n[f](g)\n```\n[h](i.md)\n";
        let found = errors(|findings| links("page.md", &page, text, findings));
        assert_eq!(found, ["page.md:5: the link target i.md does not exist"]);
    }
}
