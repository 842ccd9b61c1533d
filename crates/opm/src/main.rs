//! The `opm` command.
//!
//! `cli` defines the command line, `commands` has a file for each command, `catalogs` loads the
//! catalogs that the user names, `printer`, `report` and `progress` write to the terminal, and
//! `exit` sets the exit code. Nothing else prints.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod catalogs;
mod choice;
mod cli;
mod cluster_flags;
mod commands;
mod compared;
mod database;
mod dropped_fields;
mod edits;
mod exit;
mod findings;
mod followed;
mod help;
mod images;
mod interrupt;
mod limits;
mod live;
mod log;
mod output;
mod personality;
mod picks;
mod printer;
mod progress;
mod report;
mod reports;
mod runtime;
mod suggest;
mod transfer;
mod tree;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// The stack size of worker threads. Values nest up to [`fbc::limits::MAX_DEPTH`] levels, and recursion over them uses
/// the stack.
pub(crate) const STACK_SIZE: usize = 16 << 20;

fn main() -> ExitCode {
    interrupt::start();
    let mut printer = printer::Printer::new();
    let threads = rayon::ThreadPoolBuilder::new().stack_size(STACK_SIZE).build_global();
    let outcome = match threads {
        Ok(()) => unwound(|| personality::run(&mut printer)),
        Err(error) => Err(exit::Failure::world(format!("starting threads: {error}"))),
    };
    interrupt::clean_up();
    exit::end(outcome, &mut printer)
}

/// Runs a command. A panic becomes a failure, so that temporary files are removed.
fn unwound(command: impl FnOnce() -> exit::CommandResult) -> exit::CommandResult {
    /// The exit code of Rust programs that panic.
    const PANICKED: u8 = 101;
    // The panic itself has printed its message and position.
    let failure = |_| exit::Failure::Exit(PANICKED, "internal error; this is a bug in opm, please report it".into());
    catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|panic| Err(failure(panic)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    const DIRECTORY: &str = "OPM_TEST_PANIC_DIRECTORY";

    /// A command that panics while another thread owns a temporary directory.
    #[test]
    #[ignore = "another test runs it in its own process"]
    fn command() {
        let directory = std::env::var_os(DIRECTORY).expect("the other test sets it");
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let unfinished = fbc::scratch::TempFolder::inside(directory.as_ref(), "scratch-").unwrap();
            ready.send(unfinished.path().exists()).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(60));
        });
        assert!(is_ready.recv().unwrap());
        let outcome = unwound(|| panic!("requested by the test"));
        interrupt::clean_up();
        assert!(matches!(outcome, Err(exit::Failure::Exit(101, _))), "{outcome:?}");
    }

    #[test]
    fn a_command_that_panics_removes_temporary_files() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", "tests::command", "--ignored", "--nocapture"]).env(DIRECTORY, directory.path());
        let process = process.output().unwrap();
        let stderr = String::from_utf8_lossy(&process.stderr);
        assert!(process.status.success(), "{stderr}");
        assert!(stderr.contains("requested by the test"), "{stderr}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "temporary files are left");
    }
}
