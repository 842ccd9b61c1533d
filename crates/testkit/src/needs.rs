//! Requirements of tests on the machine, and how missing ones are handled.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A file with one line per skipped test, for the summary of a run.
const NOTES: &str = "OPM_TEST_SKIPPED";

/// Returns whether a required program is installed. If not, one line reports the skipped test; with `CI` set the test
/// fails, because CI machines must have everything.
pub fn installed(program: &str) -> bool {
    let found = find(program).is_some();
    if !found {
        missing(&format!("{program} is not installed"));
    }
    found
}

/// Returns whether a required Python module is installed; otherwise like [`installed`].
pub fn python_module(module: &str) -> bool {
    let found = Command::new("python3").args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        missing(&format!("the Python module {module} is not installed"));
    }
    found
}

/// Reports a test as skipped because of a requirement that every CI machine meets; fails with `CI` set.
pub fn missing(what: &str) {
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!in_ci, "{what}, and with CI set no test may be skipped");
    skipped(what);
}

/// Reports a test as skipped on this machine, which is fine.
pub fn skipped(why: &str) {
    // A failure to write the note does not matter.
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
