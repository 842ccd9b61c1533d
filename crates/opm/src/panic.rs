//! What a bug does to the process: opm reports it and removes temporary files, and a server restarts.
//!
//! The `dist` profile aborts on a panic, which makes the program a fifth smaller. Aborting would let one bad request stop a
//! server, so a server that is ready replaces itself instead: same process, same arguments, fresh memory. It answers again as
//! soon as it has opened its cache, and Kubernetes sees no restart. A panic before that ends the process, as it would come
//! again. Builds that unwind keep a panic in its task, and need none of this.

use std::os::unix::process::CommandExt;
use std::panic::PanicHookInfo;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::interrupt;
use crate::printer::Printer;

/// How long removing temporary files may take: the thread that panicked may hold the lock on their list.
const CLEAN_UP: Duration = Duration::from_secs(2);

static READY: AtomicBool = AtomicBool::new(false);

/// Prepares for panics in a program that aborts on them.
pub(crate) fn prepare() {
    if cfg!(panic = "abort") {
        std::panic::set_hook(Box::new(before_abort));
    }
}

/// Marks this process as a server that answers: from now on a panic restarts it.
pub(crate) fn restart_from_now_on() {
    READY.store(true, Ordering::Relaxed);
}

fn before_abort(panic: &PanicHookInfo<'_>) {
    let printer = Printer::new();
    let message = panic.payload_as_str().unwrap_or("no message");
    let place = panic.location().map(|place| format!(" ({place})")).unwrap_or_default();
    printer.error(&format!("internal error: {message}{place}; this is a bug in opm, please report it"));
    let (done, cleaned_up) = mpsc::channel();
    std::thread::spawn(move || {
        interrupt::clean_up();
        let _ = done.send(());
    });
    let _ = cleaned_up.recv_timeout(CLEAN_UP);
    if READY.load(Ordering::Relaxed) {
        printer.error(&format!("cannot restart: {}", restart()));
    }
}

/// Starts this program again in the same process; returns only if that fails.
fn restart() -> std::io::Error {
    let mut arguments = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).exec()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use super::*;

    const DIRECTORY: &str = "OPM_TEST_PANIC_DIRECTORY";
    const IS_READY: &str = "OPM_TEST_PANIC_IS_READY";

    /// Runs the test `server` in a separate process, and returns its starts and its stderr.
    fn starts(is_ready: &str) -> (Vec<String>, String) {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Command::new(std::env::current_exe().unwrap());
        server.args(["--exact", "panic::tests::server", "--ignored", "--nocapture"]);
        let server = server.env(DIRECTORY, directory.path()).env(IS_READY, is_ready).output().unwrap();
        assert_eq!(server.status.success(), is_ready == "yes");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "temporary files are left");
        let starts = fs::read_to_string(directory.path().join("starts")).unwrap();
        (starts.lines().map(str::to_owned).collect(), String::from_utf8(server.stderr).unwrap())
    }

    /// Panics at its first start, in the process that `starts` runs; exits without an error at its second start.
    #[test]
    #[ignore = "the other tests run it"]
    fn server() {
        let directory = std::env::var_os(DIRECTORY).expect("the other tests set it");
        let directory = Path::new(&directory);
        let mut starts = fs::OpenOptions::new().create(true).append(true).open(directory.join("starts")).unwrap();
        writeln!(starts, "{}", std::process::id()).unwrap();
        if fs::read_to_string(directory.join("starts")).unwrap().lines().count() > 1 {
            return;
        }
        std::panic::set_hook(Box::new(|panic| {
            before_abort(panic);
            std::process::abort();
        }));
        if std::env::var(IS_READY).unwrap() == "yes" {
            restart_from_now_on();
        }
        let unfinished = interrupt::Unfinished::create(directory, "scratch-").unwrap();
        assert!(unfinished.path().exists());
        panic!("requested by the test");
    }

    #[test]
    fn a_server_that_is_ready_restarts_in_the_same_process() {
        let (starts, stderr) = starts("yes");
        assert!(starts.len() == 2 && starts[0] == starts[1], "{starts:?}: {stderr}");
        assert!(stderr.contains("internal error: requested by the test (crates/opm/src/panic.rs:"), "{stderr}");
    }

    #[test]
    fn a_panic_before_the_server_is_ready_ends_the_process() {
        let (starts, stderr) = starts("no");
        assert_eq!(starts.len(), 1, "{stderr}");
    }
}
