//! What tests need of a machine, and what happens where it is missing.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A file that gets a line for every test that does nothing, for the summary of a run.
const NOTES: &str = "OPM_TEST_SKIPPED";

/// Returns whether a program that a test needs is installed. Where it is not, one line reports that the test does
/// nothing; with `CI` set the test fails, because there everything must be there.
pub fn installed(program: &str) -> bool {
    let found = find(program).is_some();
    if !found {
        missing(&format!("{program} is not installed"));
    }
    found
}

/// Returns whether Python has a module that a test needs; where it has not, as [`installed`].
pub fn python_module(module: &str) -> bool {
    let found = Command::new("python3").args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        missing(&format!("the Python module {module} is not installed"));
    }
    found
}

/// Reports that a test does nothing because something is missing that every machine of CI has; fails there.
pub fn missing(what: &str) {
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!in_ci, "{what}, and with CI set no test may do nothing");
    skipped(what);
}

/// Reports that a test does nothing on this machine, which is fine.
pub fn skipped(why: &str) {
    // A test that cannot write its note has done nothing all the same.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
    if let Some(notes) = std::env::var_os(NOTES) {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let file = OpenOptions::new().create(true).append(true).open(notes);
        let _ = file.and_then(|mut file| file.write_all(format!("{test}: {why}\n").as_bytes()));
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program").is_none());
    }
}
